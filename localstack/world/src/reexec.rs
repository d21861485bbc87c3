//! Processes that cannot outlive the process that started them.
//!
//! A child is started through this program. The program requests from the kernel to be killed when its parent exits,
//! and then becomes the actual command. No child therefore remains, even after `kill -9` of the parent. The kernel
//! watches the *thread* that started the child. Only a thread that runs until the process exits may therefore start
//! children. The supervisor runs everything on its main thread.

use std::{
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::{plan::CommandLine, program};

/// The name of the hidden command that [`become_dependent`] implements.
pub const COMMAND: &str = "child";

/// Returns a command that is killed when this process exits. The command has a separate process group. Ctrl-C in a
/// terminal therefore reaches only the supervisor, which stops its children in order.
pub(crate) fn dependent(command: &CommandLine) -> tokio::process::Command {
    let mut wrapper = tokio::process::Command::new(wrapper());
    wrapper
        .arg(COMMAND)
        .arg(format!("--parent={}", std::process::id()))
        .arg("--")
        .arg(&command.program)
        .args(&command.arguments)
        .process_group(0);
    wrapper
}

/// Returns the program that has [`COMMAND`]. For a tool that builds an image, the program is the `world` next to the
/// tool.
fn wrapper() -> PathBuf {
    // A newer build may have replaced the file, so `current_exe()` is not used.
    let myself = PathBuf::from("/proc/self/exe");
    let name = std::env::current_exe().ok();
    let name = name.as_deref().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    if matches!(&*name, "world" | "world (deleted)") { myself } else { program::find().unwrap_or(myself) }
}

/// Ties this process to its parent, and becomes another program. Returns only after a failure.
pub fn become_dependent(parent: i32, program: &str, arguments: &[String]) -> io::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // The parent may have exited before the call to the kernel.
    if getppid().map(Pid::as_raw_pid) != Some(parent) {
        return io::Error::other("the process that started this one is gone");
    }
    let error = std::process::Command::new(program).args(arguments).exec();
    io::Error::new(error.kind(), format!("cannot run {program}: {error}"))
}
