//! Tests that a world that cannot start reports the reason and stops itself.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use crate::support::{Bench, text};

const WITHOUT: &str = "--without=elbv2,kubelet";

/// A folder of programs. Only `etcd` does something: it prints an error and ends.
fn broken_assets(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for program in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"] {
        let path = folder.join(program);
        fs::write(&path, "#!/bin/sh\necho the disk is made of cheese\nexit 7\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_component_that_does_not_come_up_is_named_with_its_last_words_and_its_log() {
    let bench = Bench::new();
    let assets = bench.cache().join("assets");
    broken_assets(&assets);
    let up = bench.world(&["up", WITHOUT]).env("KUBEBUILDER_ASSETS", &assets).output().unwrap();
    assert_eq!(up.status.code(), Some(1));
    let said = text(&up);
    assert!(said.contains("error: etcd did not come up"), "{said}");
    assert!(said.contains("the disk is made of cheese"), "{said}");
    let log = bench.cache().join("failed/default/etcd.log");
    assert!(said.contains(log.to_str().unwrap()), "{said}");
    assert!(fs::read_to_string(log).unwrap().contains("cheese"));
    assert!(!bench.world_folder("default").exists());
}

#[test]
fn assets_without_all_programs_are_refused_before_anything_starts() {
    let bench = Bench::new();
    let assets = bench.cache().join("assets");
    broken_assets(&assets);
    fs::remove_file(assets.join("kube-scheduler")).unwrap();
    let up = bench.world(&["up", WITHOUT]).env("KUBEBUILDER_ASSETS", &assets).output().unwrap();
    assert_eq!(up.status.code(), Some(1));
    assert!(text(&up).contains("has no kube-scheduler"), "{}", text(&up));
    assert!(!bench.world_folder("default").exists());
}
