//! The requirements of real nodes on a machine.
//!
//! The module contains the list of programs and their Debian packages. The module checks the requirements, but never
//! installs packages.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

/// The folder of Debian's CNI plugins.
pub const CNI_PLUGINS: &str = "/usr/lib/cni";

/// The required programs, each with its Debian package.
const PROGRAMS: [(&str, &str); 4] =
    [("runc", "runc"), ("nft", "nftables"), ("ip", "iproute2"), ("unshare", "util-linux")];

/// The environment variable which declares that this machine meets all requirements. CI sets this variable. With the
/// variable, a test fails instead of being skipped if a requirement is missing.
pub const PROMISE: &str = "HEADGATE_REAL_NODES";

/// The CNI plugins that nodes use.
const PLUGINS: [&str; 3] = ["bridge", "host-local", "loopback"];

/// The reason why real nodes cannot be started on this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// The process is not root.
    #[error(
        "real nodes need root: namespaces, mounts and cgroups are made; run it as root, or use simulated nodes"
    )]
    Root,
    /// Packages are missing.
    #[error(
        "real nodes need {programs}, which this machine lacks: apt-get install --no-install-recommends {packages}"
    )]
    Packages {
        /// The missing programs, separated by commas.
        programs: String,
        /// The packages of the missing programs, separated by spaces.
        packages: String,
    },
}

/// Checks whether real nodes can be started on this machine.
///
/// # Errors
/// A requirement is missing. The error explains how to install the requirement.
pub fn check() -> Result<(), Missing> {
    if !rustix::process::geteuid().is_root() {
        return Err(Missing::Root);
    }
    check_programs(&search_path(), Path::new(CNI_PLUGINS))
}

/// Returns whether a test can start real nodes on this machine. If a requirement is missing, prints the reason to
/// standard error, without the capture of test output.
///
/// # Errors
/// A requirement is missing although [`PROMISE`] is set.
pub fn check_for(test: &str) -> Result<bool, Missing> {
    match check() {
        Ok(()) => Ok(true),
        Err(missing) if std::env::var_os(PROMISE).is_some() => Err(missing),
        Err(missing) => {
            // A failed write does not affect the test.
            let _ = writeln!(std::io::stderr(), "NOT TESTED on real nodes: {test}: {missing}");
            Ok(false)
        }
    }
}

/// Returns the folders to search for programs. `PATH` may lack root's folders.
fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/bin".into(), "/sbin".into()]).collect()
}

fn check_programs(path: &[PathBuf], plugins: &Path) -> Result<(), Missing> {
    let (mut programs, mut packages) = (Vec::new(), Vec::new());
    let found = |program: &str| path.iter().any(|folder| folder.join(program).is_file());
    let absent = PROGRAMS.into_iter().filter(|(program, _)| !found(program));
    let plugins = PLUGINS.into_iter().filter(|plugin| !plugins.join(plugin).is_file());
    for (program, package) in absent.chain(plugins.map(|plugin| (plugin, "containernetworking-plugins"))) {
        programs.push(program);
        if !packages.contains(&package) {
            packages.push(package);
        }
    }
    if programs.is_empty() {
        return Ok(());
    }
    Err(Missing::Packages { programs: programs.join(", "), packages: packages.join(" ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_machine_is_told_every_package_once() {
        let missing = check_programs(&[], Path::new("/nowhere")).unwrap_err().to_string();
        let packages = "runc nftables iproute2 util-linux containernetworking-plugins";
        assert!(missing.ends_with(packages), "{missing}");
        assert!(missing.contains("runc, nft, ip, unshare"), "{missing}");
    }

    #[test]
    fn who_is_not_root_is_told_what_to_do() {
        let text = Missing::Root.to_string();
        assert!(text.contains("as root") && text.contains("simulated"), "{text}");
    }
}
