//! The files of a release, in a folder: for each processor an archive and an SBOM, and for all of them the licence texts, the
//! checksums, and the manifest for krew.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context, ensure};
use clap::ValueEnum;
use sha2::{Digest, Sha256};

use crate::{
    archive::{self, File},
    crates::{Linked, Target},
    krew, notices, root, sbom,
};

/// The version of the programs.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The folder of the programs that were built for a processor.
#[derive(Clone, Debug)]
pub struct Built {
    target: Target,
    folder: PathBuf,
}

impl FromStr for Built {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (arch, folder) = text.split_once('=').ok_or("expected ARCH=FOLDER, e.g. amd64=target/image")?;
        let target = Target::from_str(arch, false).map_err(|_| {
            format!("{arch:?} is no processor that there is a release for: expected amd64 or arm64")
        })?;
        Ok(Self { target, folder: folder.into() })
    }
}

/// Writes them to a folder, which is made anew, and says which.
///
/// # Errors
/// A program is not there or of another processor, or a file cannot be written.
pub fn write(out: &Path, downloads: &str, built: &[Built]) -> anyhow::Result<Vec<PathBuf>> {
    for Built { target, folder } in built {
        check_program(*target, &folder.join("headgate"))?;
    }
    let template = root().join("deploy/krew/headgate.yaml");
    let template =
        fs::read_to_string(&template).with_context(|| format!("cannot read {}", template.display()))?;
    if out.exists() {
        fs::remove_dir_all(out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let mut written = Vec::new();
    let mut keep = |name: &str, bytes: &[u8]| {
        let path = out.join(name);
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        written.push(path.clone());
        anyhow::Ok(path)
    };
    let targets: Vec<Target> = built.iter().map(|built| built.target).collect();
    let texts = keep("THIRD-PARTY-NOTICES.txt", notices::text(&Linked::find(root(), &targets)?)?.as_bytes())?;
    let licence = root().join("LICENSE");
    let (mut checksums, mut sums) = (BTreeMap::new(), String::new());
    for Built { target, folder } in built {
        let name = format!("headgate-{VERSION}-linux-{}", target.name());
        let program = folder.join("headgate");
        let packed = archive::archive(&[
            File { name: "headgate", path: &program, is_program: true },
            File { name: "LICENSE", path: &licence, is_program: false },
            File { name: "THIRD-PARTY-NOTICES.txt", path: &texts, is_program: false },
        ])?;
        let sum = hex(&Sha256::digest(&packed));
        writeln!(sums, "{sum}  {name}.tar.gz")?;
        keep(&format!("{name}.tar.gz"), &packed)?;
        let list = sbom::sbom(&Linked::find(root(), &[*target])?, "headgate", target.name());
        let list = serde_json::to_string_pretty(&list)? + "\n";
        writeln!(sums, "{}  {name}.cdx.json", hex(&Sha256::digest(&list)))?;
        keep(&format!("{name}.cdx.json"), list.as_bytes())?;
        checksums.insert(*target, sum);
    }
    keep("SHA256SUMS", sums.as_bytes())?;
    let manifest = krew::manifest(&template, VERSION, downloads, &checksums)?;
    // As the file of a plugin has to be called.
    keep("headgate.yaml", manifest.as_bytes())?;
    Ok(written)
}

/// Looks into the header of a program: an archive with a program of another processor would be worse than none.
fn check_program(target: Target, path: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    // The machine of an ELF file, of which the lowest byte comes first.
    let machine = match target {
        Target::Amd64 => 62,
        Target::Arm64 => 183,
    };
    let found = bytes.get(18..20).map(|at| u16::from_le_bytes([at[0], at[1]]));
    ensure!(
        bytes.starts_with(b"\x7fELF") && found == Some(machine),
        "{} is no program for {}: expected what tools/release/build.sh has built for it",
        path.display(),
        target.name()
    );
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A folder with what looks like a program for a processor.
    fn built(test: &str, target: Target, machine: u8) -> Built {
        let folder = root().join("target/release-tests").join(test).join(target.name());
        fs::create_dir_all(&folder).unwrap();
        let mut program = b"\x7fELF\x02\x01\x01".to_vec();
        program.resize(18, 0);
        program.extend([machine, 0]);
        fs::write(folder.join("headgate"), program).unwrap();
        Built { target, folder }
    }

    #[test]
    fn a_release_has_archives_whose_checksums_are_in_the_manifest_for_krew() {
        let built = [built("files", Target::Amd64, 62), built("files", Target::Arm64, 183)];
        let out = root().join("target/release-tests/files/out");
        let written = write(&out, "https://x.io/downloads", &built).unwrap();
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        let names: Vec<String> = written.iter().map(name).collect();
        let wanted = [
            "THIRD-PARTY-NOTICES.txt",
            "headgate-VERSION-linux-amd64.tar.gz",
            "headgate-VERSION-linux-amd64.cdx.json",
            "headgate-VERSION-linux-arm64.tar.gz",
            "headgate-VERSION-linux-arm64.cdx.json",
            "SHA256SUMS",
            "headgate.yaml",
        ];
        assert_eq!(names, wanted.map(|name| name.replace("VERSION", VERSION)));
        // As coreutils see it, which share nothing with this.
        let mut checked = std::process::Command::new("sha256sum");
        checked.args(["--check", "--strict", "--quiet", "SHA256SUMS"]).current_dir(&out);
        assert!(checked.status().unwrap().success());
        let sums = fs::read_to_string(out.join("SHA256SUMS")).unwrap();
        let manifest = fs::read_to_string(out.join("headgate.yaml")).unwrap();
        for line in sums.lines().filter(|line| line.ends_with(".tar.gz")) {
            let (sum, name) = line.split_once("  ").unwrap();
            let (_, platform) =
                manifest.split_once(&format!("uri: https://x.io/downloads/{name}\n")).unwrap();
            assert!(platform.trim_start().starts_with(&format!("sha256: {sum}\n")), "{manifest}");
        }
    }

    #[test]
    fn a_program_of_another_processor_is_refused_before_anything_is_written() {
        let built = [built("refused", Target::Arm64, 62)];
        let out = root().join("target/release-tests/refused/out");
        let error = write(&out, "https://x.io", &built).unwrap_err().to_string();
        assert!(error.contains("is no program for arm64") && !out.exists(), "{error}");
    }

    #[test]
    fn what_was_built_is_given_with_its_processor() {
        assert_eq!("arm64=a/b".parse::<Built>().unwrap().folder, Path::new("a/b"));
        for (text, said) in [("a/b", "expected ARCH=FOLDER"), ("mips=a", "expected amd64 or arm64")] {
            let error = text.parse::<Built>().unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
