//! Tests of a process with real sockets, from the view of a client.

use super::*;
use crate::container::http::{Get, GetError};
use crate::container::probe::{Kind, Probe};
use crate::container::server::Readiness;
use crate::network::network;
use crate::object::ContainerSpec;
use crate::span::Span;
use hyper::StatusCode;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);

/// A process on its own address, so that no two tests use the same port.
struct Bench {
    process: Process,
    reports: mpsc::Receiver<ContainerEvent>,
    at: SocketAddr,
    readiness: Arc<Readiness>,
}

fn address() -> Ipv4Addr {
    network().hosts().next().unwrap()
}

fn spawn(ip: Ipv4Addr, ports: Vec<u16>) -> Bench {
    spawn_with(ip, ports, Conduct::default())
}

fn spawn_with(ip: Ipv4Addr, ports: Vec<u16>, conduct: Conduct) -> Bench {
    let (sender, reports) = mpsc::channel(2);
    let readiness = Arc::<Readiness>::default();
    let identity = Identity {
        name: "web-0".into(),
        uid: "u-1".into(),
        ip,
        readiness_paths: vec![(18080, "/ready".into())],
        readiness: Arc::clone(&readiness),
        served: Arc::default(),
        received: AtomicU64::new(0),
        conduct,
        hanging: Arc::default(),
    };
    let at = SocketAddr::new(ip.into(), 18080);
    Bench { process: Process::spawn(Arc::new(identity), ports, sender), reports, at, readiness }
}

impl Bench {
    async fn started() -> Self {
        Self::behaving(Conduct::default()).await
    }

    async fn behaving(conduct: Conduct) -> Self {
        let mut bench = spawn_with(address(), vec![18080], conduct);
        assert_eq!(bench.report().await, ContainerEvent::Started);
        bench
    }

    async fn report(&mut self) -> ContainerEvent {
        timeout(LIMIT, self.reports.recv()).await.expect("a report in time").expect("a report")
    }

    async fn exit_code(&mut self) -> i32 {
        match self.report().await {
            ContainerEvent::Exited { code, .. } => code,
            other => panic!("{other:?} instead of an exit"),
        }
    }

    async fn get(&self, path: &str) -> Result<StatusCode, GetError> {
        Get { to: self.at, path: path.into(), headers: Vec::new() }.send(LIMIT).await
    }

    /// Opens a connection and sends a text without reading the answer.
    async fn connect(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.at).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }
}

/// Reads until the end of one answer or the end of the connection.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut part = [0; 1024];
    while !text.ends_with('}') {
        match timeout(LIMIT, stream.read(&mut part)).await.expect("an answer in time") {
            Ok(0) | Err(_) => break,
            Ok(length) => text.push_str(std::str::from_utf8(&part[..length]).unwrap()),
        }
    }
    text
}

const SLOW: &str = "GET /slow?delay-ms=300 HTTP/1.1\r\nhost: x\r\n\r\n";
const FAST: &str = "GET /a HTTP/1.1\r\nhost: x\r\n\r\n";

/// Waits until the server has read all earlier requests: a later exchange on another connection is complete.
async fn after_others(bench: &Bench) {
    bench.get("/").await.unwrap();
    bench.get("/").await.unwrap();
}

#[tokio::test]
async fn an_answer_names_the_pod_and_the_connection_is_kept() {
    let bench = Bench::started().await;
    let mut stream = bench.connect(FAST).await;
    let text = answer(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("x-pod: web-0\r\n"), "{text}");
    let body: serde_json::Value = serde_json::from_str(text.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let ip = bench.at.ip();
    let expected = serde_json::json!({"pod": "web-0", "uid": "u-1", "ip": ip, "port": 18080, "path": "/a"});
    assert_eq!(body, expected);
    stream.write_all(FAST.as_bytes()).await.unwrap();
    assert!(answer(&mut stream).await.contains("200 OK"));
}

#[tokio::test]
async fn only_the_readiness_path_answers_503_while_not_ready() {
    let bench = Bench::started().await;
    bench.readiness.set(false);
    assert_eq!(bench.get("/ready").await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(bench.get("/").await.unwrap(), StatusCode::OK);
    bench.readiness.set(true);
    assert_eq!(bench.get("/ready").await.unwrap(), StatusCode::OK);
}

#[tokio::test]
async fn sigterm_closes_listener_and_idle_connections_and_lets_answers_finish() {
    let mut bench = Bench::started().await;
    let mut idle = bench.connect(FAST).await;
    answer(&mut idle).await;
    let mut in_flight = bench.connect(SLOW).await;
    after_others(&bench).await;
    bench.process.terminate();
    assert_eq!(timeout(LIMIT, idle.read(&mut [0; 1])).await.unwrap().unwrap_or(0), 0, "closed");
    assert!(matches!(bench.get("/").await, Err(GetError::Connect(..))), "nobody listens");
    let text = answer(&mut in_flight).await;
    assert!(text.contains("200 OK") && text.contains("connection: close"), "{text}");
    assert_eq!(bench.exit_code().await, 0);
}

#[tokio::test]
async fn sigkill_drops_answers_where_they_are() {
    let mut bench = Bench::started().await;
    let mut in_flight = bench.connect(&SLOW.replace("300", "60000")).await;
    after_others(&bench).await;
    bench.process.terminate();
    bench.process.kill();
    assert_eq!(bench.exit_code().await, 137);
    assert_eq!(answer(&mut in_flight).await, "");
}

#[tokio::test]
async fn a_process_can_exit_by_itself_and_its_port_is_free_again() {
    let mut bench = Bench::started().await;
    bench.process.exit(3);
    assert_eq!(bench.exit_code().await, 3);
    assert!(bench.get("/").await.is_err());
    let mut again = spawn(
        match bench.at.ip() {
            IpAddr::V4(ip) => ip,
            IpAddr::V6(_) => panic!(),
        },
        vec![18080],
    );
    assert_eq!(again.report().await, ContainerEvent::Started);
}

#[tokio::test]
async fn a_port_in_use_ends_the_process_with_1_and_says_which_one() {
    let mut first = Bench::started().await;
    let IpAddr::V4(ip) = first.at.ip() else { panic!("not IPv4") };
    let mut second = spawn(ip, vec![18080]);
    let ContainerEvent::Exited { code: 1, message: Some(message) } = second.report().await else {
        panic!("the second process must end with 1");
    };
    assert!(message.contains(":18080"), "{message}");
    first.process.terminate();
    assert_eq!(first.exit_code().await, 0);
}

#[tokio::test]
async fn a_container_without_ports_runs_until_sigterm() {
    let mut bench = spawn(address(), vec![]);
    assert_eq!(bench.report().await, ContainerEvent::Started);
    bench.process.terminate();
    assert_eq!(bench.exit_code().await, 0);
}

#[tokio::test]
async fn a_draining_process_goes_on_and_asks_each_client_to_go_elsewhere() {
    let drain = OnSigterm::Drain(Duration::from_mins(10));
    let mut bench = Bench::behaving(Conduct { on_sigterm: drain, ..Conduct::default() }).await;
    let mut kept = bench.connect(FAST).await;
    assert!(!answer(&mut kept).await.contains("connection: close"));
    bench.process.terminate();
    let deadline = tokio::time::Instant::now() + LIMIT;
    loop {
        assert!(tokio::time::Instant::now() < deadline, "no client is asked to go");
        let mut new = bench.connect(FAST).await;
        let text = answer(&mut new).await;
        assert!(text.contains("200 OK"), "still accepting: {text}");
        if text.contains("connection: close") {
            break;
        }
    }
    kept.write_all(FAST.as_bytes()).await.unwrap();
    assert!(answer(&mut kept).await.contains("connection: close"), "a kept connection too");
    bench.process.kill();
    assert_eq!(bench.exit_code().await, 137);
}

#[tokio::test]
async fn a_drained_process_exits_with_the_code_it_was_given() {
    let on_sigterm = OnSigterm::Drain(Duration::from_millis(50));
    let mut bench =
        Bench::behaving(Conduct { on_sigterm, sigterm_exit_code: 143, ..Conduct::default() }).await;
    let idle = bench.connect(FAST).await;
    bench.process.terminate();
    assert_eq!(bench.exit_code().await, 143);
    drop(idle);
    assert!(bench.get("/").await.is_err());
}

#[tokio::test]
async fn a_process_that_ignores_sigterm_serves_until_sigkill() {
    let ignores = Conduct { on_sigterm: OnSigterm::Ignore, ..Conduct::default() };
    let mut bench = Bench::behaving(ignores).await;
    bench.process.terminate();
    after_others(&bench).await;
    assert_eq!(bench.get("/").await.unwrap(), StatusCode::OK);
    bench.process.kill();
    assert_eq!(bench.exit_code().await, 137);
}

#[tokio::test]
async fn a_hanging_process_accepts_and_answers_once_it_is_healed() {
    let bench = Bench::started().await;
    bench.process.hang(true);
    let mut stream = bench.connect(FAST).await;
    let silent = bench.get("/");
    assert!(timeout(Duration::from_millis(100), silent).await.is_err(), "no answer");
    bench.process.hang(false);
    assert!(answer(&mut stream).await.contains("200 OK"), "what was waiting is answered");
    assert_eq!(bench.get("/").await.unwrap(), StatusCode::OK);
}

#[tokio::test]
async fn a_slow_starter_runs_before_it_listens() {
    let start_delay = Duration::from_millis(300);
    let bench = Bench::behaving(Conduct { start_delay, ..Conduct::default() }).await;
    assert!(matches!(bench.get("/").await, Err(GetError::Connect(..))), "nobody listens yet");
    let deadline = tokio::time::Instant::now() + LIMIT;
    while bench.get("/").await.is_err() {
        assert!(tokio::time::Instant::now() < deadline, "its ports never open");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_slow_starter_that_is_stopped_first_never_listens() {
    let start_delay = Duration::from_mins(10);
    let mut bench = Bench::behaving(Conduct { start_delay, ..Conduct::default() }).await;
    bench.process.terminate();
    assert_eq!(bench.exit_code().await, 0);
}

#[tokio::test]
async fn a_process_with_an_end_of_its_own_ends_by_itself() {
    let ends = Some((Duration::from_millis(20), 137));
    let mut bench = Bench::behaving(Conduct { ends, ..Conduct::default() }).await;
    assert_eq!(bench.exit_code().await, 137);
    assert!(bench.get("/").await.is_err());
}

#[tokio::test]
async fn an_answer_takes_at_least_the_request_delay() {
    let request_delay = Span::parse("40ms-60ms").unwrap();
    let bench = Bench::behaving(Conduct { request_delay, ..Conduct::default() }).await;
    let before = tokio::time::Instant::now();
    bench.get("/").await.unwrap();
    assert!(before.elapsed() >= Duration::from_millis(40));
}

#[tokio::test]
async fn a_liveness_probe_gives_a_hanging_process_up() {
    let bench = Bench::started().await;
    let IpAddr::V4(ip) = bench.at.ip() else { panic!("not IPv4") };
    let spec: ContainerSpec = serde_json::from_value(serde_json::json!({"name": "app", "livenessProbe":
        {"httpGet": {"port": 18080}, "periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 1}}))
    .unwrap();
    let (sender, mut verdicts) = mpsc::channel(1);
    let probe = Probe::of(Kind::Liveness, &spec, ip).unwrap();
    let task = tokio::spawn(probe.run(Arc::clone(&bench.readiness), sender));
    bench.process.hang(true);
    assert_eq!(timeout(LIMIT, verdicts.recv()).await.unwrap(), Some(false));
    timeout(LIMIT, task).await.expect("it has nothing more to say").unwrap();
}

#[tokio::test]
async fn a_readiness_probe_follows_what_the_server_answers() {
    let bench = Bench::started().await;
    let IpAddr::V4(ip) = bench.at.ip() else { panic!("not IPv4") };
    let spec: ContainerSpec = serde_json::from_value(serde_json::json!({"name": "app", "readinessProbe":
        {"httpGet": {"port": 18080, "path": "/ready"}, "periodSeconds": 1, "failureThreshold": 1}}))
    .unwrap();
    let (sender, mut changes) = mpsc::channel(1);
    let probe = Probe::of(Kind::Readiness, &spec, ip).unwrap();
    let task = tokio::spawn(probe.run(Arc::clone(&bench.readiness), sender));
    assert_eq!(timeout(LIMIT, changes.recv()).await.unwrap(), Some(true));
    bench.readiness.set(false);
    assert_eq!(timeout(LIMIT, changes.recv()).await.unwrap(), Some(false));
    task.abort();
}
