//! The cgroups of nodes. The kernel removes all other parts of a machine with the machine's processes.
//!
//! The module creates and removes the folders in `/sys/fs/cgroup` that have the prefix of this local cluster. A removal
//! also waits until the processes of the node have exited. The module supports both versions of cgroups, but only
//! version 1 is tested.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

const ROOT: &str = "/sys/fs/cgroup";
/// The timeout for the exit of killed processes. Killed processes need much less time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Creates the cgroup of a node, `/NAME`, in every hierarchy, and moves this process into the cgroup.
///
/// # Errors
/// The process is not root, or the system has no cgroups.
pub fn create(name: &str) -> io::Result<()> {
    for hierarchy in hierarchies(Path::new(ROOT))? {
        let folder = hierarchy.join(name);
        // A machine that was switched off may have left cgroups.
        remove_tree(&folder)?;
        fs::create_dir_all(&folder)?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            // In version 1, the file is empty in a new cgroup, and no process can join a cgroup with an empty file.
            if folder.join(file).exists() && hierarchy.join(file).exists() {
                fs::write(folder.join(file), fs::read_to_string(hierarchy.join(file))?.trim())?;
            }
        }
    }
    // One hierarchy is enough to detect the exit of all processes. The kubelet manages all other hierarchies.
    for hierarchy in [Path::new(ROOT).join("pids"), PathBuf::from(ROOT)] {
        let system = hierarchy.join(name).join("system");
        if hierarchy.join(name).is_dir() {
            fs::create_dir_all(&system)?;
            return fs::write(system.join("cgroup.procs"), "0");
        }
    }
    Ok(())
}

/// Removes all cgroups with this prefix after their processes have exited. Succeeds if there are no such cgroups.
///
/// # Errors
/// Processes still run after 10 s, or the system rejects the removal.
pub fn remove_all(prefix: &str) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    for hierarchy in hierarchies(Path::new(ROOT))? {
        for folder in folders(&hierarchy)? {
            if folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)) {
                while let Err(error) = remove_tree(&folder) {
                    if Instant::now() > deadline {
                        return Err(error);
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
    }
    Ok(())
}

/// Returns the folders for new cgroups: one per controller in version 1, or one in version 2.
fn hierarchies(root: &Path) -> io::Result<Vec<PathBuf>> {
    if root.join("cgroup.controllers").exists() {
        return Ok(vec![root.to_path_buf()]);
    }
    let mut found: Vec<PathBuf> =
        folders(root)?.into_iter().filter(|folder| folder.join("cgroup.procs").exists()).collect();
    // `cpu` can be a link to `cpu,cpuacct`, so both names can refer to the same folder.
    found.sort();
    Ok(found)
}

fn folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    Ok(found)
}

/// Removes a cgroup and its children, innermost first.
fn remove_tree(folder: &Path) -> io::Result<()> {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let inner = match folders(folder) {
        Err(error) if gone(&error) => return Ok(()),
        inner => inner?,
    };
    for inner in inner {
        remove_tree(&inner)?;
    }
    match fs::remove_dir(folder) {
        Err(error) if !gone(&error) => Err(error),
        _ => Ok(()),
    }
}
