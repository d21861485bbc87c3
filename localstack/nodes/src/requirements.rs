//! What a machine needs for real nodes.
//!
//! Contains the list of programs and their Debian packages. It checks, and never installs.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

/// The folder of Debian's CNI plugins.
pub const CNI_PLUGINS: &str = "/usr/lib/cni";

/// Programs, each with its Debian package.
const PROGRAMS: [(&str, &str); 4] =
    [("runc", "runc"), ("nft", "nftables"), ("ip", "iproute2"), ("unshare", "util-linux")];

/// The environment variable that declares that this machine has everything, which CI does. Then a test fails if
/// something is missing, instead of being skipped.
pub const PROMISE: &str = "HEADGATE_REAL_NODES";

/// The CNI plugins that nodes use.
const PLUGINS: [&str; 3] = ["bridge", "host-local", "loopback"];

/// Why real nodes are impossible here.
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
        /// Their packages, separated by spaces.
        packages: String,
    },
}

/// Checks that real nodes can be started here.
///
/// # Errors What is missing, and how to install it.
pub fn check() -> Result<(), Missing> {
    if !rustix::process::geteuid().is_root() {
        return Err(Missing::Root);
    }
    check_programs(&search_path(), Path::new(CNI_PLUGINS))
}

/// For tests: whether real nodes can be started here. If not, prints that to standard error, without the capture of
/// test output.
///
/// # Errors They cannot be started, although [`PROMISE`] is set.
pub fn check_for(test: &str) -> Result<bool, Missing> {
    match check() {
        Ok(()) => Ok(true),
        Err(missing) if std::env::var_os(PROMISE).is_some() => Err(missing),
        Err(missing) => {
            // It does not matter if nobody reads the output.
            let _ = writeln!(std::io::stderr(), "NOT TESTED on real nodes: {test}: {missing}");
            Ok(false)
        }
    }
}

/// The folders to search for programs. `PATH` may lack root's folders.
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
