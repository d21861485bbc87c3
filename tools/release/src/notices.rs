//! The licence texts of everything that is linked into the programs: of the crates, from their sources; of Rust's standard
//! library, from the toolchain; of the C library, from `deploy/image/licenses`.
//!
//! A crate whose sources have no text is an error, unless it is among [`EXCEPTIONS`], which says why.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};

use crate::crates::{Crate, Linked};

/// A crate whose package has no licence text.
struct Exception {
    name: &'static str,
    /// Where the text is from.
    from: &'static str,
    text: &'static str,
}

const KUBE: &str = include_str!("../../../deploy/image/licenses/kube.txt");
const OF_KUBE: &str = "LICENSE of github.com/kube-rs/kube, which its packages leave out";
const SIMD: &str = include_str!("../../../deploy/image/licenses/nugine-simd.txt");
const OF_SIMD: &str =
    "LICENSE of github.com/Nugine/simd at d74c030d9dc4, the commit of the packages, which leave it out";

const EXCEPTIONS: [Exception; 7] = [
    Exception { name: "base64-simd", from: OF_SIMD, text: SIMD },
    Exception { name: "kube", from: OF_KUBE, text: KUBE },
    Exception { name: "kube-client", from: OF_KUBE, text: KUBE },
    Exception { name: "kube-core", from: OF_KUBE, text: KUBE },
    Exception { name: "kube-derive", from: OF_KUBE, text: KUBE },
    Exception { name: "kube-runtime", from: OF_KUBE, text: KUBE },
    Exception { name: "vsimd", from: OF_SIMD, text: SIMD },
];

/// What there is besides crates, whatever the machine: static programs have the C library in them.
const OTHERS: [(&str, &str); 3] = [
    ("glibc (LGPL-2.1-or-later and others)", include_str!("../../../deploy/image/licenses/glibc.txt")),
    (
        "libgcc (GPL-3.0-or-later WITH GCC-exception-3.1)",
        include_str!("../../../deploy/image/licenses/libgcc.txt"),
    ),
    (
        "The certificates of public CAs, in the image only (MPL-2.0)",
        "This is Mozilla's list, as Debian packs it (ca-certificates), unchanged and in its source form: PEM. It is under the \
         Mozilla Public License 2.0, https://www.mozilla.org/MPL/2.0/.",
    ),
];

/// How the files of licence texts are called, in small letters.
const CALLED: [&str; 5] = ["licen", "copying", "copyright", "notice", "unlicense"];
/// What is called so as well, and is none.
const SOURCES: [&str; 8] = ["c", "go", "h", "html", "js", "py", "rs", "sh"];
const RULE: &str = "================================================================================";

/// All the texts, each once, below the names of all that it is the text of.
///
/// # Errors
/// A text is missing, or an exception is none any more.
pub fn text(linked: &Linked) -> anyhow::Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for crate_ in linked.crates.values().filter(|crate_| !crate_.is_own()) {
        let name = format!("{} {} ({})", crate_.id.name, crate_.id.version, crate_.licence);
        for (file, text) in of_crate(crate_)? {
            texts.entry(text).or_default().push(format!("{name}, {file}"));
        }
    }
    let mut all = String::from(
        "Third-party notices\n\nHeadgate is under the Apache License 2.0 (LICENSE). Its programs also contain what is listed \
         here, each under its own licence. They are linked statically with the C library; whoever wants another one of it can \
         link them anew: `make image` does it, from Headgate's sources.\n",
    );
    // By the first name, so that a new version moves little.
    let mut sections: Vec<(Vec<String>, String)> =
        texts.into_iter().map(|(text, names)| (names, text)).collect();
    sections.sort();
    sections.push((
        vec!["Rust's standard library (MIT OR Apache-2.0, and others)".to_owned()],
        standard_library()?,
    ));
    sections.extend(OTHERS.map(|(name, text)| (vec![name.to_owned()], plain(text))));
    for (names, text) in sections {
        write!(all, "\n{RULE}\n{}\n{RULE}\n\n{text}\n", names.join("\n"))?;
    }
    Ok(all)
}

/// The licence texts of a crate, each with the name of its file.
fn of_crate(crate_: &Crate) -> anyhow::Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    licence_files(&crate_.folder, &mut files)?;
    files.sort();
    let exception = EXCEPTIONS.iter().find(|one| one.name == crate_.id.name);
    let (name, version, folder) = (&crate_.id.name, &crate_.id.version, crate_.folder.display());
    if let Some(Exception { from, text, .. }) = exception {
        ensure!(
            files.is_empty(),
            "{name} {version} has a licence text of its own now, in {folder}: take it off the exceptions in \
             tools/release/src/notices.rs"
        );
        return Ok(vec![((*from).to_owned(), plain(text))]);
    }
    ensure!(
        !files.is_empty(),
        "{name} {version} ({}) has no licence text in {folder}: find its text, and add it to the exceptions \
         in tools/release/src/notices.rs with where it is from",
        crate_.licence
    );
    let read = |path: &PathBuf| {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = plain(&String::from_utf8_lossy(&bytes));
        ensure!(!text.is_empty(), "{} is empty and should be a licence text", path.display());
        let below = path.strip_prefix(&crate_.folder).unwrap_or(path);
        Ok((below.display().to_string(), text))
    };
    files.iter().map(read).collect()
}

/// All files below a folder that are called as licence texts are; C sources inside a crate may have their own.
fn licence_files(folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        let extension = Path::new(&name).extension().and_then(|extension| extension.to_str());
        let is_source = extension.is_some_and(|extension| SOURCES.contains(&extension));
        if entry.file_type()?.is_dir() {
            licence_files(&entry.path(), found)?;
        } else if !is_source && CALLED.iter().any(|called| name.starts_with(called)) {
            found.push(entry.path());
        }
    }
    Ok(())
}

/// With line ends of one kind, and nothing around.
fn plain(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

/// What the toolchain says about its standard library and what is in that.
fn standard_library() -> anyhow::Result<String> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().context("cannot run rustc")?;
    ensure!(output.status.success(), "`rustc --print sysroot` ended with {}", output.status);
    let sysroot = String::from_utf8(output.stdout).context("rustc says what is no text")?;
    let page = Path::new(sysroot.trim()).join("share/doc/rust/COPYRIGHT-library.html");
    let page = fs::read_to_string(&page).with_context(|| {
        format!(
            "cannot read {}: install the toolchain with rustup, whose docs have the notices of the library",
            page.display()
        )
    })?;
    Ok(plain(&without_tags(&page)))
}

/// The text of a page of HTML.
fn without_tags(page: &str) -> String {
    let body = page.split_once("<body>").map_or(page, |(_, body)| body);
    let mut text = String::new();
    for part in body.split('<') {
        text.push_str(part.split_once('>').map_or(part, |(_, text)| text));
    }
    let entities =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    let text = entities.iter().fold(text, |text, (entity, letter)| text.replace(entity, letter));
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines() {
        // The page has many empty lines, which mean nothing.
        if !(line.trim().is_empty() && lines.last().is_none_or(|last| last.trim().is_empty())) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use clap::ValueEnum;

    use super::*;
    use crate::{
        crates::{Id, Target},
        root,
    };

    fn a_crate(name: &str, folder: &Path) -> Crate {
        Crate {
            id: Id { name: name.into(), version: "1.0.0".into() },
            licence: "MIT".into(),
            repository: None,
            checksum: Some("ab".into()),
            folder: folder.to_owned(),
            needs: [].into(),
        }
    }

    /// An empty folder of this test.
    fn folder(test: &str) -> PathBuf {
        let folder = root().join("target/release-tests").join(test);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_crate_without_a_licence_text_is_an_error_that_says_where_to_put_it() {
        let folder = folder("no-text");
        fs::write(folder.join("license.rs"), "//! No text.").unwrap();
        let error = of_crate(&a_crate("a", &folder)).unwrap_err().to_string();
        assert!(
            error.contains("a 1.0.0 (MIT) has no licence text") && error.contains("notices.rs"),
            "{error}"
        );
        fs::write(folder.join("LICENSE"), "\n").unwrap();
        let error = of_crate(&a_crate("a", &folder)).unwrap_err().to_string();
        assert!(error.contains("is empty"), "{error}");
    }

    #[test]
    fn an_exception_that_is_none_any_more_is_an_error() {
        let folder = folder("exception");
        assert_eq!(of_crate(&a_crate("vsimd", &folder)).unwrap(), [(OF_SIMD.to_owned(), plain(SIMD))]);
        fs::write(folder.join("LICENSE"), "Do what you like.").unwrap();
        let error = of_crate(&a_crate("vsimd", &folder)).unwrap_err().to_string();
        assert!(error.contains("take it off the exceptions"), "{error}");
    }

    #[test]
    fn texts_are_found_however_they_are_called_and_in_what_a_crate_brings_along() {
        let folder = folder("texts");
        fs::create_dir_all(folder.join("vendored")).unwrap();
        let files = [
            "LICENSE-Apache-2.0_WITH_LLVM-exception",
            "LICENSE.httprouter",
            "NOTICE",
            "vendored/COPYING.txt",
        ];
        for file in files {
            fs::write(folder.join(file), format!("text of {file}  \r\nend\r\n\r\n")).unwrap();
        }
        fs::write(folder.join("lib.rs"), "").unwrap();
        let found = of_crate(&a_crate("a", &folder)).unwrap();
        assert_eq!(found, files.map(|file| (file.to_owned(), format!("text of {file}\nend"))));
    }

    #[test]
    fn a_page_is_read_without_its_tags() {
        let page =
            "<head><title>no</title></head><body><p>&copy; a &amp;lt;\n\n\n<pre>b &#34;c&#34;</pre></body>";
        assert_eq!(without_tags(page), "&copy; a &lt;\n\nb \"c\"");
    }

    #[test]
    fn every_crate_that_is_linked_into_the_programs_has_its_texts() {
        let linked = Linked::find(root(), Target::value_variants()).unwrap();
        let text = text(&linked).unwrap();
        let others = linked.crates.values().filter(|crate_| !crate_.is_own());
        for crate_ in others {
            let begins = format!("\n{} {} ({}), ", crate_.id.name, crate_.id.version, crate_.licence);
            assert!(text.contains(&begins), "expected {begins:?} in the notices");
        }
        for part in [
            "Permission is hereby granted, free of charge",
            "GNU LESSER GENERAL PUBLIC LICENSE",
            "GCC RUNTIME LIBRARY EXCEPTION",
            "Copyright notices for The Rust Standard Library",
            "Copyright 2018 The kube-rs Authors.",
        ] {
            assert!(text.contains(part), "expected {part:?} in the notices");
        }
        assert!(!text.contains("\nheadgate "), "Headgate's own licence is LICENSE");
        assert_eq!(EXCEPTIONS.iter().filter(|one| !text.contains(&format!("\n{} ", one.name))).count(), 0);
    }
}
