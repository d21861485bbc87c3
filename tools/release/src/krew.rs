//! The manifest by which krew installs `kubectl headgate`: `deploy/krew/headgate.yaml`, in which only what is known when a
//! release is made is left open.

use std::collections::BTreeMap;

use anyhow::ensure;

use crate::crates::Target;

/// The manifest of this version, whose archives are found there and have these checksums.
///
/// # Errors
/// A checksum is missing, or the template leaves open what nobody fills in.
pub fn manifest(
    template: &str,
    version: &str,
    downloads: &str,
    checksums: &BTreeMap<Target, String>,
) -> anyhow::Result<String> {
    ensure!(
        downloads.starts_with("https://") || downloads.starts_with("http://"),
        "{downloads:?} is no address of a folder; expected one such as https://example.com/headgate/v{version}"
    );
    let mut manifest = String::new();
    // What is said above the manifest is about the template.
    for line in template.lines().skip_while(|line| line.starts_with('#')) {
        manifest.push_str(line);
        manifest.push('\n');
    }
    let mut values =
        vec![("$DOWNLOADS".to_owned(), downloads.trim_end_matches('/')), ("$VERSION".to_owned(), version)];
    for (target, checksum) in checksums {
        values.push((format!("$SHA256_{}", target.name().to_uppercase()), checksum));
    }
    for (word, value) in values {
        ensure!(
            manifest.contains(&word),
            "deploy/krew/headgate.yaml has no {word}: expected each to be used"
        );
        manifest = manifest.replace(&word, value);
    }
    let open = manifest.lines().find(|line| line.contains('$'));
    ensure!(
        open.is_none(),
        "the manifest for krew still has {:?}: expected an archive for each of its platforms",
        open.unwrap_or_default().trim()
    );
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;
    use crate::root;

    fn template() -> String {
        std::fs::read_to_string(root().join("deploy/krew/headgate.yaml")).unwrap()
    }

    fn checksums(targets: &[Target]) -> BTreeMap<Target, String> {
        targets.iter().map(|target| (*target, format!("{}-sum", target.name()))).collect()
    }

    #[test]
    fn the_manifest_names_each_archive_with_its_checksum() {
        let made = manifest(&template(), "1.2.3", "https://x.io/v1.2.3/", &checksums(&Target::ALL)).unwrap();
        let read: Value = serde_saphyr::from_str(&made).unwrap();
        assert_eq!(read["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2");
        assert_eq!((&read["kind"], &read["metadata"]["name"]), (&json!("Plugin"), &json!("headgate")));
        assert_eq!(read["spec"]["version"], "v1.2.3");
        for field in ["homepage", "shortDescription", "description"] {
            assert!(read["spec"][field].is_string(), "{field}");
        }
        let platforms = read["spec"]["platforms"].as_array().unwrap();
        assert_eq!(platforms.len(), Target::ALL.len());
        for target in Target::ALL {
            let arch = target.name();
            let selected = json!({"matchLabels": {"os": "linux", "arch": arch}});
            let platform = platforms.iter().find(|one| one["selector"] == selected).unwrap();
            assert_eq!(platform["uri"], format!("https://x.io/v1.2.3/headgate-1.2.3-linux-{arch}.tar.gz"));
            assert_eq!(platform["sha256"], format!("{arch}-sum"));
            assert_eq!(platform["bin"], "headgate");
        }
    }

    #[test]
    fn a_platform_without_its_archive_is_an_error() {
        let error = manifest(&template(), "1.2.3", "https://x.io", &checksums(&[Target::Amd64])).unwrap_err();
        assert!(error.to_string().contains("sha256: $SHA256_ARM64"), "{error}");
    }

    #[test]
    fn where_the_archives_are_must_be_an_address() {
        let error = manifest(&template(), "1.2.3", "v1.2.3", &checksums(&Target::ALL)).unwrap_err();
        assert!(error.to_string().contains("expected one such as https://"), "{error}");
    }
}
