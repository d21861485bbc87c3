//! A `.tar.gz` that is the same, byte for byte, whenever it is made from the same files.

use std::{fs, path::Path};

use anyhow::Context;
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// A file of an archive: its name there, and whether it is a program.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Its name in the archive.
    pub name: &'a str,
    /// Where it is.
    pub path: &'a Path,
    /// Whether it may be run.
    pub is_program: bool,
}

/// The archive of these files: of nobody, and of no time.
///
/// # Errors
/// A file cannot be read.
pub fn archive(files: &[File<'_>]) -> anyhow::Result<Vec<u8>> {
    // Without a time and a name in it.
    let mut archive = Builder::new(GzBuilder::new().write(Vec::new(), Compression::best()));
    for File { name, path, is_program } in files {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_size(bytes.len().try_into().context("a file is too large")?);
        header.set_mode(if *is_program { 0o755 } else { 0o644 });
        for set in [Header::set_uid, Header::set_gid, Header::set_mtime] {
            set(&mut header, 0);
        }
        archive.append_data(&mut header, name, &bytes[..]).with_context(|| format!("cannot pack {name}"))?;
    }
    Ok(archive.into_inner()?.finish()?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{
        io::Read,
        time::{Duration, SystemTime},
    };

    use flate2::read::GzDecoder;

    use super::*;
    use crate::root;

    #[test]
    fn the_same_files_make_the_same_archive_whenever_they_were_written_and_programs_can_be_run() {
        let folder = root().join("target/release-tests/archive");
        fs::create_dir_all(&folder).unwrap();
        let (program, text) = (folder.join("program"), folder.join("text"));
        let files = [
            File { name: "headgate", path: &program, is_program: true },
            File { name: "LICENSE", path: &text, is_program: false },
        ];
        let made = [0, 1000].map(|seconds| {
            for file in &files {
                fs::write(file.path, file.name).unwrap();
                let file = fs::File::options().write(true).open(file.path).unwrap();
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
            }
            archive(&files).unwrap()
        });
        assert_eq!(made[0], made[1]);
        let mut read = tar::Archive::new(GzDecoder::new(&made[0][..]));
        let found: Vec<(String, u32, String)> = read
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                (entry.path().unwrap().display().to_string(), entry.header().mode().unwrap(), text)
            })
            .collect();
        let wanted = [("headgate", 0o755, "headgate"), ("LICENSE", 0o644, "LICENSE")];
        assert_eq!(found, wanted.map(|(name, mode, text)| (name.to_owned(), mode, text.to_owned())));
    }
}
