//! Commands that are killed when the thread that started them ends, however it ends.
//!
//! By `setpriv`, which asks the kernel for that and becomes the command.

use std::{ffi::OsStr, path::Path};

/// Such a command, in a process group of its own: Ctrl-C does not reach it.
pub(crate) fn command(program: &Path) -> tokio::process::Command {
    let mut command = tokio::process::Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program).process_group(0).kill_on_drop(true);
    command
}

/// Such a command in process and mount namespaces of its own, as their first process: whatever
/// it starts ends with it.
pub(crate) fn in_own_namespaces(program: impl AsRef<OsStr>) -> tokio::process::Command {
    let mut command = command(Path::new("unshare"));
    command
        .args([
            "--pid",
            "--mount",
            "--propagation",
            "private",
            "--mount-proc",
            "--fork",
            "--kill-child",
            "--",
        ])
        .arg(program);
    command
}
