//! Commands that the kernel kills when the thread that started them exits.
//!
//! The commands are started through `setpriv`, which sets the kill signal in the kernel and then becomes the command.

use std::{ffi::OsStr, path::Path};

/// Returns a command in a separate process group, so that Ctrl-C does not reach the command.
pub(crate) fn command(program: &Path) -> tokio::process::Command {
    let mut command = tokio::process::Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program).process_group(0).kill_on_drop(true);
    command
}

/// Returns a command that is the first process of new process and mount namespaces. When the command exits, the kernel
/// kills all processes that it started.
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
