//! Identifies a process, even if its PID is reused.
//!
//! The module reads /proc and kills processes, but starts no process.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// A process of this machine, identified by its PID and start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The PID.
    pub pid: i32,
    /// The start time, in clock ticks since the boot of the machine. Zero: the process had exited before its start time
    /// was read.
    pub born: u64,
}

impl Process {
    /// Returns this process.
    pub fn current() -> Self {
        Self::of(i32::try_from(std::process::id()).unwrap_or_default())
    }

    /// Returns the process that now has this PID.
    pub fn of(pid: i32) -> Self {
        Self { pid, born: look(pid).map_or(0, |look| look.born) }
    }

    /// Returns whether the process still runs or holds files and sockets. A zombie counts as exited.
    pub fn is_alive(self) -> bool {
        look(self.pid).is_some_and(|look| look.born == self.born && !look.ended)
    }

    /// Kills the process, unless it has exited.
    pub fn kill(self) {
        if let (true, Some(pid)) = (self.is_alive(), Pid::from_raw(self.pid)) {
            // The process may exit in the meantime, with the same effect.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

struct Look {
    born: u64,
    ended: bool,
}

fn look(pid: i32) -> Option<Look> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the process is in parentheses, and may contain any text. In the fields after the name, the first is
    // the state, the 18th is the number of threads, and the 20th is the start time.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let threads: u32 = fields.get(17)?.parse().ok()?;
    // The first thread of a killed process may have exited while other threads still hold the sockets.
    let ended = matches!(*fields.first()?, "Z" | "X") && threads <= 1;
    Some(Look { born: fields.get(19)?.parse().ok()?, ended })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_an_older_one_with_its_pid_is_not() {
        let me = Process::current();
        assert!(me.is_alive());
        assert!(!Process { born: me.born - 1, ..me }.is_alive());
    }

    #[test]
    fn a_process_that_ended_is_not_alive_even_before_it_is_waited_for() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::of(i32::try_from(child.id()).unwrap());
        assert!(process.is_alive());
        process.kill();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while process.is_alive() {
            assert!(std::time::Instant::now() < deadline, "the process does not die");
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!process.is_alive());
    }
}
