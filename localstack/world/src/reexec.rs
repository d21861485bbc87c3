//! Processes that cannot outlive the one that started them.
//!
//! A child is started through this same program. The program asks the kernel to kill it when its parent ends, and then
//! becomes the wanted command. So even after `kill -9` of the parent, no child remains. The kernel watches the *thread*
//! that started the child. So only a thread that ends with the process may start children (the supervisor runs everything
//! on its main thread).

use std::{
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::{plan::CommandLine, program};

/// The name of the hidden command that [`become_dependent`] implements.
pub const COMMAND: &str = "child";

/// A command that is killed when this process ends. It has a separate process group, so Ctrl-C in a terminal only
/// reaches the supervisor, which stops its children in order.
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

/// The program that has [`COMMAND`]: this one, or, for a tool that builds an image, the `world` next to it.
fn wrapper() -> PathBuf {
    // Not current_exe(), because a newer build may have replaced the file.
    let myself = PathBuf::from("/proc/self/exe");
    let name = std::env::current_exe().ok();
    let name = name.as_deref().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    if matches!(&*name, "world" | "world (deleted)") { myself } else { program::find().unwrap_or(myself) }
}

/// Ties this process to its parent, and becomes another program. Returns only on failure.
pub fn become_dependent(parent: i32, program: &str, arguments: &[String]) -> io::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // The parent may have ended before the call to the kernel.
    if getppid().map(Pid::as_raw_pid) != Some(parent) {
        return io::Error::other("the process that started this one is gone");
    }
    let error = std::process::Command::new(program).args(arguments).exec();
    io::Error::new(error.kind(), format!("cannot run {program}: {error}"))
}
