//! The binary as a process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// A process that does not outlive its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // The process has usually ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_process_says_where_it_listens_and_ends_well_when_told_to() {
    for signal in ["-TERM", "-INT"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_elbv2"));
        command.arg("--print-ready").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Process(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(ready["ready"], true);
        for socket in ["api", "control", "dns"] {
            assert_ne!(ready[socket].as_str().unwrap().parse::<SocketAddr>().unwrap().port(), 0);
        }
        assert!(Command::new("kill").arg(signal).arg(process.0.id().to_string()).status().unwrap().success());
        assert_eq!(process.0.wait().unwrap().code(), Some(0), "{signal}");
    }
}

#[test]
fn nodes_outside_loopback_are_refused() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_elbv2")).args(["--node-addresses", "10.0.0.0/24"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("give a loopback range"));
}
