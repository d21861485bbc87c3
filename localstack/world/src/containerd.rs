//! containerd for real nodes, built from its Go module. Image volumes need version 2.1 or later, and Debian 12 has an
//! older version.
//!
//! The module defines the names of containerd's programs. `go.mod` defines the version.

use std::{
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::compile::{Build, CompileError};

/// The server, the shim for a pod's containers, and the program that imports images.
const PROGRAMS: [&str; 3] = ["containerd", "containerd-shim-runc-v2", "ctr"];

const SOURCES: [(&str, &str); 2] = [
    ("go.mod", include_str!("../../nodes/containerd/go.mod")),
    ("go.sum", include_str!("../../nodes/containerd/go.sum")),
];

/// Returns the folder with containerd's programs. Builds the programs first if necessary.
pub(crate) async fn find(builds: &Path, report: &dyn Fn(&str)) -> Result<PathBuf, CompileError> {
    build().folder(builds, report).await
}

/// Links containerd's programs into a folder.
pub(crate) fn link_into(built: &Path, folder: &Path) -> io::Result<()> {
    PROGRAMS.iter().try_for_each(|program| symlink(built.join(program), folder.join(program)))
}

fn build() -> Build {
    // The build omits parts that need a C compiler or unused file systems.
    let fixed = [
        "build",
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        "-s -w",
        "-tags",
        "no_btrfs,no_devmapper,no_zfs,no_aufs",
        "-o",
        "../",
    ];
    let packages =
        PROGRAMS.iter().map(|program| format!("github.com/containerd/containerd/v2/cmd/{program}"));
    Build {
        what: format!("containerd {}", version()),
        estimate: "about two minutes on two cores",
        packages: None,
        label: format!("containerd-{}", version()),
        sources: &SOURCES,
        arguments: fixed.iter().map(|&argument| argument.to_owned()).chain(packages).collect(),
    }
}

/// Returns the version in `go.mod`.
fn version() -> &'static str {
    let line = |line: &'static str| line.trim().strip_prefix("github.com/containerd/containerd/v2 ");
    let version = SOURCES[0].1.lines().find_map(line);
    version.and_then(|rest| rest.split_whitespace().next()).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_version_has_image_volumes() {
        let mut numbers =
            version().trim_start_matches('v').split('.').map(|part| part.parse::<u32>().unwrap());
        let version = (numbers.next().unwrap(), numbers.next().unwrap());
        assert!(version >= (2, 1), "{version:?}");
    }
}
