//! The command: exit codes and output.

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tokio::process::Command;

use crate::server::{Act, Server};

async fn load(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_load")).args(arguments).output().await.unwrap()
}

async fn load_to(server: &Server, more: &[&str]) -> Output {
    let port = server.port().to_string();
    let plain = ["--address", "127.0.0.1", "--port", &port, "--rate", "50", "--duration", "0.2"];
    load(&[&plain, more].concat()).await
}

#[tokio::test]
async fn no_loss_exits_with_0_and_prints_a_table() {
    let server = Server::acting(vec![]).await;
    let output = load_to(&server, &[]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("                           offered        ok   retried      lost"), "{text}");
    assert!(output.stderr.is_empty(), "there is no progress where nobody looks");
}

#[tokio::test]
async fn a_loss_exits_with_1_and_is_in_the_records() {
    let server = Server::acting(vec![Act::Right, Act::Status(503)]).await;
    let records =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("records-{}.jsonl", std::process::id()));
    let output = load_to(&server, &["--json", "--records", records.to_str().unwrap()]).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["offered"], &summary["lost"]), (&Value::from(10), &Value::from(1)));
    assert_eq!(summary["lost_because"]["status 503"], 1);
    let text = std::fs::read_to_string(&records).unwrap();
    std::fs::remove_file(&records).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 10);
    assert_eq!((&lines[1]["outcome"], &lines[1]["detail"]), (&"lost".into(), &"status 503".into()));
}

#[tokio::test]
async fn a_wrong_command_line_exits_with_2_and_says_why() {
    let cases: [(&[&str], &str); 6] = [
        (&["--port", "80"], "--name <NAME>|--address <IP>"),
        (&["--name", "a.example", "--port", "80"], "--dns <IP:PORT>"),
        (&["--address", "127.0.0.1", "--port", "0"], "port 0 cannot be connected to"),
        (&["--address", "127.0.0.1", "--port", "80", "--rate", "0"], "the rate is 0"),
        (&["--address", "127.0.0.1", "--port", "80", "--rate", "1e6"], "more than the 2000000"),
        (
            &["--name", "a.example", "--dns", "127.0.0.1:1", "--port", "80", "--pinned", "2"],
            "2 clients cannot be pinned, there are only 1",
        ),
    ];
    for (arguments, reason) in cases {
        let output = load(arguments).await;
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(reason), "{text}");
    }
}
