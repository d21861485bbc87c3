//! What is in the programs, as a list for programs that look for known vulnerabilities: CycloneDX 1.5, as JSON.
//!
//! It has no time and no random number in it, so that the same sources give the same file.

use serde_json::{Value, json};

use crate::crates::{Crate, Id, Linked};

/// The list of what is linked, for the program of this package.
pub fn sbom(linked: &Linked, program: &str, arch: &str) -> Value {
    let is_program = |crate_: &&Crate| crate_.id.name == program && crate_.is_own();
    let root = linked.crates.values().find(is_program).map(component).map(|mut root| {
        root["type"] = "application".into();
        root["properties"] = json!([{"name": "headgate:arch", "value": arch}]);
        root
    });
    let components: Vec<Value> =
        linked.crates.values().filter(|crate_| !is_program(crate_)).map(component).collect();
    let dependencies: Vec<Value> = linked.crates.values().map(|crate_| dependency(crate_, linked)).collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": root,
            "tools": {"components": [{"type": "application", "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")}]},
        },
        "components": components,
        "dependencies": dependencies,
    })
}

fn component(crate_: &Crate) -> Value {
    let mut component = json!({
        "type": "library",
        "bom-ref": purl(&crate_.id, crate_.is_own()),
        "name": crate_.id.name,
        "version": crate_.id.version,
        "purl": purl(&crate_.id, crate_.is_own()),
        "licenses": [{"expression": crate_.licence}],
        "scope": "required",
    });
    if let Some(checksum) = &crate_.checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if let Some(repository) = &crate_.repository {
        component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    component
}

fn dependency(crate_: &Crate, linked: &Linked) -> Value {
    let needs = crate_.needs.iter().filter_map(|id| linked.crates.get(id));
    json!({
        "ref": purl(&crate_.id, crate_.is_own()),
        "dependsOn": needs.map(|needed| purl(&needed.id, needed.is_own())).collect::<Vec<_>>(),
    })
}

/// As the specification of package URLs has it for cargo: what names no other repository is of crates.io.
fn purl(id: &Id, is_own: bool) -> String {
    // A plus begins what says how a version was built.
    let version = id.version.replace('+', "%2B");
    let from = if is_own { "?download_url=file://." } else { "" };
    format!("pkg:cargo/{}@{version}{from}", id.name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use std::{collections::BTreeSet, process::Command};

    use clap::ValueEnum;

    use super::*;
    use crate::{crates::Target, root};

    #[test]
    fn the_sbom_names_every_crate_of_cargo_tree_once_with_its_version_licence_and_checksum() {
        for &target in Target::value_variants() {
            let mut command = Command::new(env!("CARGO"));
            command.args([
                "tree",
                "--locked",
                "-e",
                "normal",
                "--prefix",
                "none",
                "--target",
                target.triple(),
            ]);
            command.args(["-p", "headgate-cli", "-p", "headgate-hold"]).current_dir(root());
            let tree = String::from_utf8(command.output().unwrap().stdout).unwrap();
            let named = tree.lines().filter_map(|line| line.split_once(" v"));
            let named: BTreeSet<(&str, &str)> =
                named.map(|(name, rest)| (name, rest.split(' ').next().unwrap())).collect();
            assert!(named.len() > 200, "{}", named.len());
            let sbom = sbom(&Linked::find(root(), &[target]).unwrap(), "headgate-cli", target.name());
            let mut components = vec![&sbom["metadata"]["component"]];
            components.extend(sbom["components"].as_array().unwrap());
            let text = |component: &'_ Value, field: &str| component[field].as_str().unwrap().to_owned();
            let listed: Vec<_> =
                components.iter().map(|one| (text(one, "name"), text(one, "version"))).collect();
            let named = named.into_iter().map(|(name, version)| (name.to_owned(), version.to_owned()));
            assert_eq!(listed.len(), named.len(), "each once");
            assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), named.collect());
            for component in components {
                let licence = component["licenses"][0]["expression"].as_str().unwrap();
                let own = text(component, "name").starts_with("headgate");
                assert!(!licence.contains('/'), "{component}");
                assert_eq!(component["hashes"][0]["content"].is_string(), !own, "{component}");
            }
        }
    }

    #[test]
    fn what_each_crate_needs_is_listed() {
        let sbom = sbom(&Linked::find(root(), &[Target::Amd64]).unwrap(), "headgate-cli", "amd64");
        let all = sbom["dependencies"].as_array().unwrap();
        let listed: BTreeSet<&str> = all.iter().filter_map(|one| one["ref"].as_str()).collect();
        let needed =
            all.iter().flat_map(|one| one["dependsOn"].as_array().unwrap()).filter_map(Value::as_str);
        let programs = all.len() - needed.collect::<BTreeSet<_>>().intersection(&listed).count();
        assert_eq!(programs, 2, "everything else is needed by something");
    }

    #[test]
    fn a_purl_has_no_plus_in_its_version() {
        let id = Id { name: "a".into(), version: "1.0.0+b".into() };
        assert_eq!(purl(&id, false), "pkg:cargo/a@1.0.0%2Bb");
    }
}
