use std::convert::Infallible;

use http_body_util::Full;
use hyper::body::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Notify,
    task::JoinHandle,
};

use super::*;
use crate::{
    metrics::{Format, Level},
    runtime::{clock::Clock, views::Views},
};

const LIMITS: Limits = Limits {
    of_an_address: 1000,
    connections: 4,
    handshake: Duration::from_secs(60),
    header: Duration::from_secs(60),
    request: Duration::from_secs(60),
    idle: Duration::from_secs(60),
};

/// A server with two paths. A request for `/good` is valid. A request for `/slow` signals `begun`, and is answered
/// after `go`.
struct Stage {
    address: SocketAddr,
    metrics: Arc<Metrics>,
    begun: Arc<Notify>,
    go: Arc<Notify>,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

impl Stage {
    async fn new(limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Arc::new(Metrics::new(Arc::new(Views::default()), Clock::start(), Level::Debug));
        let listening = Server { name: "test", limits, metrics: metrics.clone(), clock: Clock::start() };
        let (begun, go, stop) = (Arc::new(Notify::new()), Arc::new(Notify::new()), CancellationToken::new());
        let (begins, waits) = (begun.clone(), go.clone());
        let service = move |connection: Connection| {
            let (begun, go) = (begins.clone(), waits.clone());
            service_fn(move |request: Request<Incoming>| {
                let (begun, go, connection) = (begun.clone(), go.clone(), connection.clone());
                async move {
                    match request.uri().path() {
                        "/good" => connection.trust(),
                        "/slow" => {
                            begun.notify_one();
                            go.notified().await;
                        }
                        _ => {}
                    }
                    Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("answer")))
                }
            })
        };
        let serving = listening.serve(listener, None, service, stop.clone());
        let served = tokio::spawn(serving);
        Self { address, metrics, begun, go, stop, served }
    }

    async fn connect(&self, says: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(says.as_bytes()).await.unwrap();
        stream
    }

    fn closed(&self, reason: &str) -> bool {
        let page = self.metrics.page(Format::Prometheus).unwrap();
        let row = format!("headgate_connections_closed_total{{server=\"test\",reason=\"{reason}\"}} ");
        page.lines().any(|line| line.starts_with(&row))
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n")
}

/// Reads from the stream until the answer is complete.
async fn answer(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    while !said.ends_with(b"answer") {
        let read = stream.read_buf(&mut said).await.unwrap();
        assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&said));
    }
    String::from_utf8(said).unwrap()
}

/// Reads from the stream until the server closes the connection.
async fn hung_up(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
}

#[tokio::test]
async fn a_crowd_neither_ends_a_connection_that_has_proven_itself_nor_keeps_a_new_one_out() {
    let stage = Stage::new(LIMITS).await;
    let mut ours = stage.connect(&get("/good")).await;
    answer(&mut ours).await;
    let mut crowd = Vec::new();
    for _ in 0..40 {
        crowd.push(stage.connect("GET / HTTP/1.1\r\nHo").await);
    }
    let mut new = stage.connect(&get("/good")).await;
    answer(&mut new).await;
    for stream in &mut crowd[..30] {
        hung_up(stream).await;
    }
    ours.write_all(get("/good").as_bytes()).await.unwrap();
    answer(&mut ours).await;
    assert!(stage.closed("crowd") && !stage.closed("header"));
}

#[tokio::test]
async fn half_a_header_has_a_time_of_its_own_and_idling_another() {
    let stage = Stage::new(Limits { header: Duration::ZERO, ..LIMITS }).await;
    let mut idle = stage.connect(&get("/any")).await;
    answer(&mut idle).await;
    let mut half = stage.connect("GET / HTTP/1.1\r\nHo").await;
    hung_up(&mut half).await;
    assert!(stage.closed("header") && !stage.closed("idle"));
    idle.write_all(get("/any").as_bytes()).await.unwrap();
    answer(&mut idle).await;
}

#[tokio::test]
async fn a_header_without_end_is_refused_and_not_kept() {
    let stage = Stage::new(LIMITS).await;
    let mut stream = stage.connect("GET / HTTP/1.1\r\n").await;
    let long = format!("X-Long: {}\r\n", "x".repeat(1000));
    while stream.write_all(long.as_bytes()).await.is_ok() {}
}

#[tokio::test]
async fn a_request_that_is_under_way_is_answered_before_the_end_and_an_idle_connection_closed() {
    let stage = Stage::new(LIMITS).await;
    let mut idle = stage.connect(&get("/good")).await;
    answer(&mut idle).await;
    let mut slow = stage.connect(&(get("/good") + &get("/slow"))).await;
    answer(&mut slow).await;
    stage.begun.notified().await;
    stage.stop.cancel();
    hung_up(&mut idle).await;
    stage.go.notify_one();
    answer(&mut slow).await;
    stage.served.await.unwrap();
}
