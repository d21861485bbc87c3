//! Tests of the routes, from the view of a client.

use super::*;
use crate::node::state::Switch;
use crate::object::Pod;
use crate::pod::registry::{Command, Entry, Shown};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Sends a request, and returns the status code and the body of the answer.
async fn ask(controls: &Controls, method: &str, path: &str, body: &str) -> (u16, Value) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let at = listener.local_addr().unwrap();
    let server = tokio::spawn(axum::serve(listener, routes(controls.clone())).into_future());
    let mut stream = TcpStream::connect(at).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    server.abort();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
}

fn one_pod() -> (Controls, mpsc::Receiver<Command>) {
    let pod = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u-1"},
        "spec": {"nodeName": "n1", "containers": [{"name": "app", "ports": [{"containerPort": 80}]}]}});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let (commands, obeyed) = mpsc::channel(1);
    let registry = Arc::<Registry>::default();
    registry.add(Arc::new(Entry::new(&pod, commands)));
    let switches = [("n1".to_owned(), Switch::default())].into();
    let pool = Arc::new(Mutex::new(IpPool::new("127.9.0.0/24".parse().unwrap(), Duration::from_secs(30))));
    (Controls { registry, switches, pools: vec![pool] }, obeyed)
}

#[tokio::test]
async fn a_pod_is_listed_and_told_to_be_unready_and_to_finish() {
    let (controls, mut obeyed) = one_pod();
    let told = ask(&controls, "POST", "/pods/shop/web/ready", r#"{"ready":false}"#).await;
    assert_eq!(told, (200, json!({"uid": "u-1", "ready": false})));
    let listed = json!([{"namespace": "shop", "name": "web", "uid": "u-1", "node": "n1", "ip": null,
        "ports": [80], "phase": "preparing", "ready": false, "hanging": false,
        "requests": 0, "warnings": []}]);
    assert_eq!(ask(&controls, "GET", "/pods", "").await, (200, listed));
    let finish = r#"{"exit_code":3}"#;
    assert_eq!(ask(&controls, "POST", "/pods/shop/web/finish", finish).await.0, 202);
    assert_eq!(ask(&controls, "POST", "/pods/shop/web/finish", finish).await.0, 409, "one at a time");
    assert_eq!(obeyed.recv().await, Some(Command::Finish { exit_code: 3 }));
}

#[tokio::test]
async fn an_unknown_pod_is_404_with_its_name() {
    let (controls, _obeyed) = one_pod();
    let (code, body) = ask(&controls, "POST", "/pods/shop/other/ready", r#"{"ready":true}"#).await;
    assert_eq!(code, 404);
    assert!(body["error"].as_str().unwrap().contains("shop/other"), "{body}");
}

#[tokio::test]
async fn each_wish_for_a_pod_reaches_its_task() {
    let (controls, mut obeyed) = one_pod();
    let wishes = [
        ("crash", "", Command::Crash { container: None }),
        ("crash", r#"{"container":"app"}"#, Command::Crash { container: Some("app".into()) }),
        ("hang", r#"{"hanging":true}"#, Command::Hang(true)),
        ("sandbox", "", Command::LoseSandbox),
        ("pressure-evict", "", Command::Evict { grace: None }),
        ("pressure-evict", r#"{"grace_seconds":9}"#, Command::Evict { grace: Some(Duration::from_secs(9)) }),
    ];
    for (wish, body, command) in wishes {
        let (code, answer) = ask(&controls, "POST", &format!("/pods/shop/web/{wish}"), body).await;
        assert_eq!((code, &answer["uid"]), (202, &json!("u-1")), "{wish}");
        assert_eq!(obeyed.recv().await, Some(command));
    }
    let (code, answer) = ask(&controls, "POST", "/pods/shop/web/crash", r#"{"container":"db"}"#).await;
    assert!(code == 404 && answer["error"].as_str().unwrap().contains("it has app"), "{code} {answer}");
}

#[tokio::test]
async fn a_pod_that_is_lost_with_its_node_takes_no_commands() {
    let (controls, _obeyed) = one_pod();
    let entry = controls.registry.find("shop", "web").unwrap();
    entry.show(Shown { ip: None, stage: "lost", hanging: false });
    assert_eq!(ask(&controls, "POST", "/pods/shop/web/crash", "").await.0, 409);
}

#[tokio::test]
async fn a_node_is_lost_and_restored_and_says_so() {
    let (controls, _obeyed) = one_pod();
    let lost = json!({"node": "n1", "power": "off"});
    assert_eq!(ask(&controls, "POST", "/nodes/n1/lose", "").await, (202, lost));
    assert_eq!(ask(&controls, "POST", "/nodes/n1/restart-kubelet", "").await.0, 409);
    assert_eq!(ask(&controls, "POST", "/nodes/n1/restore", "").await.0, 202);
    let pressed = ask(&controls, "POST", "/nodes/n1/restart-kubelet", r#"{"memory_pressure":true}"#).await;
    assert_eq!(pressed.0, 202);
    let listed = json!({"n1": {"power": "on", "memory_pressure": true}});
    assert_eq!(ask(&controls, "GET", "/nodes", "").await, (200, listed));
    assert_eq!(ask(&controls, "POST", "/nodes/n1/shutdown", r#"{"seconds":20}"#).await.0, 202);
    let (code, answer) = ask(&controls, "POST", "/nodes/n2/lose", "").await;
    assert!(code == 404 && answer["error"].as_str().unwrap().contains("n2"), "{code} {answer}");
}

#[tokio::test]
async fn settings_change_only_what_they_name_and_refuse_nonsense() {
    let (controls, _obeyed) = one_pod();
    let eager = ask(&controls, "POST", "/settings", r#"{"ip_reuse":"eager"}"#).await;
    assert_eq!(eager, (200, json!({"ip_cool_down_seconds": 30.0, "ip_reuse": "eager"})));
    ask(&controls, "POST", "/settings", r#"{"ip_cool_down_seconds":0}"#).await;
    let both = json!({"ip_cool_down_seconds": 0.0, "ip_reuse": "eager"});
    assert_eq!(ask(&controls, "GET", "/settings", "").await, (200, both));
    assert_eq!(ask(&controls, "POST", "/settings", r#"{"ip_cool_down_seconds":-1}"#).await.0, 422);
    assert_eq!(ask(&controls, "POST", "/settings", r#"{"ip_reuse":"never"}"#).await.0, 422);
}
