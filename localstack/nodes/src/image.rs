//! Packs a static binary as a container image, without a registry and without a build tool.
//!
//! The format is an OCI layout in a tar file. The image has one layer with the program as `/app` and other files. An
//! annotation contains the image name for containerd. The module only reads the input files and writes the tar file.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Writes the image `name` into the tar file `into`. The image runs `binary`, and contains `files`. The key of `files`
/// is the path in the image, and the value is a file on this machine, whose mode is kept. `stop_signal` stops the
/// containers; the default is SIGTERM. The name must have a domain. containerd treats a name without a domain as an
/// image of a public registry.
///
/// # Errors
/// The name has no domain or no tag, or a file cannot be read or written.
pub fn pack(
    name: &str,
    binary: &Path,
    files: &BTreeMap<String, PathBuf>,
    stop_signal: Option<&str>,
    into: &Path,
) -> Result<(), ImageError> {
    let domain = name.split_once('/').map_or("", |(domain, _)| domain);
    if !domain.contains('.') || !name.rsplit('/').next().is_some_and(|last| last.contains(':')) {
        return Err(ImageError::Name(name.to_owned()));
    }
    let at = |path: &Path| {
        let path = path.to_path_buf();
        move |source| ImageError::Io { path, source }
    };
    let mut content = vec![("app".to_owned(), fs::read(binary).map_err(at(binary))?, 0o755)];
    for (path, file) in files {
        let path = path.trim_start_matches('/').to_owned();
        // A dynamically linked program needs its loader, which must be executable.
        let mode = fs::metadata(file).map_err(at(file))?.permissions().mode() & 0o777;
        content.push((path, fs::read(file).map_err(at(file))?, mode));
    }
    let image = layout(name, stop_signal, content).map_err(at(into))?;
    fs::write(into, image).map_err(at(into))
}

/// A file with its path, contents and mode.
type Entry = (String, Vec<u8>, u32);

fn layout(name: &str, stop_signal: Option<&str>, content: Vec<Entry>) -> io::Result<Vec<u8>> {
    let layer = tar(content, &[("tmp/", 0o1777)])?;
    let mut config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": {"Entrypoint": ["/app"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
    });
    if let Some(signal) = stop_signal {
        config["config"]["StopSignal"] = signal.into();
    }
    let config = config.to_string().into_bytes();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("application/vnd.oci.image.config.v1+json", &config),
        "layers": [blob("application/vnd.oci.image.layer.v1.tar", &layer)],
    });
    let manifest = manifest.to_string().into_bytes();
    let mut entry = blob("application/vnd.oci.image.manifest.v1+json", &manifest);
    entry["annotations"] =
        json!({"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name});
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [entry],
    });
    let file =
        |content: Vec<u8>| (format!("blobs/sha256/{}", hex(&Sha256::digest(&content))), content, 0o644);
    let files = vec![
        ("oci-layout".to_owned(), json!({"imageLayoutVersion": "1.0.0"}).to_string().into_bytes(), 0o644),
        ("index.json".to_owned(), index.to_string().into_bytes(), 0o644),
        file(manifest),
        file(config),
        file(layer),
    ];
    tar(files, &[])
}

fn blob(media_type: &str, content: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": digest(content), "size": content.len()})
}

/// Returns an archive with these files and folders. The folders have the given modes.
fn tar(files: Vec<Entry>, folders: &[(&str, u32)]) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, mode) in folders {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_size(0);
        header.set_mode(*mode);
        header.set_mtime(0);
        header.set_cksum();
        archive.append_data(&mut header, path, io::empty())?;
    }
    for (path, content, mode) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_mtime(0);
        header.set_cksum();
        archive.append_data(&mut header, path, content.as_slice())?;
    }
    archive.into_inner()
}

fn digest(content: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(content)))
}

/// Formats bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Returns the name of this machine's CPU architecture in images.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The reason why an image could not be packed.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The name has no domain or no tag.
    #[error("{0:?} cannot name an image: write DOMAIN/NAME:TAG, such as headgate.local/web:1")]
    Name(String),
    /// A file could not be read or written.
    #[error("cannot use {path} for an image: {source}", path = path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(archive);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().display().to_string(), content)
        });
        entries.collect()
    }

    fn follow<'a>(files: &'a BTreeMap<String, Vec<u8>>, descriptor: &Value) -> &'a [u8] {
        let digest = descriptor["digest"].as_str().unwrap();
        let content = &files[&format!("blobs/sha256/{}", digest.strip_prefix("sha256:").unwrap())];
        assert_eq!(descriptor["size"].as_u64().unwrap(), content.len() as u64);
        content
    }

    #[test]
    fn from_the_index_one_comes_to_the_binary_and_the_files() {
        let content =
            vec![("app".to_owned(), b"ELF".to_vec(), 0o755), ("etc/x".to_owned(), b"X".to_vec(), 0o644)];
        let image = files(&layout("headgate.local/web:1", Some("SIGQUIT"), content).unwrap());
        let index: Value = serde_json::from_slice(&image["index.json"]).unwrap();
        let entry = &index["manifests"][0];
        assert_eq!(entry["annotations"]["io.containerd.image.name"], "headgate.local/web:1");
        let manifest: Value = serde_json::from_slice(follow(&image, entry)).unwrap();
        let config: Value = serde_json::from_slice(follow(&image, &manifest["config"])).unwrap();
        assert_eq!(config["config"]["Entrypoint"], json!(["/app"]));
        assert_eq!(config["config"]["StopSignal"], "SIGQUIT");
        let layer = follow(&image, &manifest["layers"][0]);
        assert_eq!(config["rootfs"]["diff_ids"][0], digest(layer));
        let layer = files(layer);
        assert_eq!((&*layer["app"], &*layer["etc/x"]), (&b"ELF"[..], &b"X"[..]));
    }

    #[test]
    fn a_name_that_would_be_looked_for_in_a_registry_is_refused() {
        for name in ["web:1", "library/web:1", "headgate.local/web"] {
            let error =
                pack(name, Path::new("/x"), &BTreeMap::new(), None, Path::new("/y")).unwrap_err().to_string();
            assert!(error.contains("DOMAIN/NAME:TAG"), "{name}: {error}");
        }
    }
}
