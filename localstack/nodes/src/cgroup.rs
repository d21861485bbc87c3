//! The cgroups of nodes: the only part of a machine that the kernel does not remove with its processes.
//!
//! Manages the folders below `/sys/fs/cgroup` with this local world's prefix. It creates and removes them for a node.
//! Removing also waits until the node's processes have ended. It supports both versions of cgroups, but only version 1
//! has been tested.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

const ROOT: &str = "/sys/fs/cgroup";
/// Much longer than killed processes need to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Creates the cgroup of a node, `/NAME`, in every hierarchy, and moves this process into it.
///
/// # Errors If the process is not root, or there are no cgroups.
pub fn create(name: &str) -> io::Result<()> {
    for hierarchy in hierarchies(Path::new(ROOT))? {
        let folder = hierarchy.join(name);
        // First remove what a machine that was switched off has left.
        remove_tree(&folder)?;
        fs::create_dir_all(&folder)?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            // This file is empty in a new cgroup of version 1, and then no process can join it.
            if folder.join(file).exists() && hierarchy.join(file).exists() {
                fs::write(folder.join(file), fs::read_to_string(hierarchy.join(file))?.trim())?;
            }
        }
    }
    // One hierarchy shows when all processes have ended. The kubelet manages the others.
    for hierarchy in [Path::new(ROOT).join("pids"), PathBuf::from(ROOT)] {
        let system = hierarchy.join(name).join("system");
        if hierarchy.join(name).is_dir() {
            fs::create_dir_all(&system)?;
            return fs::write(system.join("cgroup.procs"), "0");
        }
    }
    Ok(())
}

/// Removes all cgroups with this prefix, after their processes have ended. Succeeds if there are none.
///
/// # Errors If processes still run after 10 s, or the system rejects the removal.
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

/// The folders for new cgroups: one for each controller of version 1, or the one of version 2.
fn hierarchies(root: &Path) -> io::Result<Vec<PathBuf>> {
    if root.join("cgroup.controllers").exists() {
        return Ok(vec![root.to_path_buf()]);
    }
    let mut found: Vec<PathBuf> =
        folders(root)?.into_iter().filter(|folder| folder.join("cgroup.procs").exists()).collect();
    // `cpu` may be a link to `cpu,cpuacct`. Then both give the same folder.
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
