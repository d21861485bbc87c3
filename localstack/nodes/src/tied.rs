//! Commands that are killed when the thread that started them ends in any way.
//!
//! They are started through `setpriv`, which requests that from the kernel and then becomes the command.

use std::{ffi::OsStr, path::Path};

/// Such a command in a separate process group, so that Ctrl-C does not reach it.
pub(crate) fn command(program: &Path) -> tokio::process::Command {
    let mut command = tokio::process::Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program).process_group(0).kill_on_drop(true);
    command
}

/// Such a command as the first process of new process and mount namespaces: all processes that it starts end with it.
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
