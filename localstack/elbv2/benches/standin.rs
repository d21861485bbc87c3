//! Measures the capacity of the stand-in on this machine. Load generator and targets run on the same cores. The
//! measures: new connections per second through a Network Load Balancer, requests per second over kept-alive
//! connections through an Application Load Balancer, and the share of a core for probing 1,000 targets.
//!
//! Prints a table and writes `target/bench/standin.json`. Run by `make bench-standin`.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a measurement fails by panicking")]

use std::convert::Infallible;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig};
use aws_sdk_elasticloadbalancingv2::Client;
use aws_sdk_elasticloadbalancingv2::config::{Credentials, SharedCredentialsProvider};
use aws_sdk_elasticloadbalancingv2::types::{
    Action, ActionTypeEnum, LoadBalancerTypeEnum, ProtocolEnum, TargetDescription, TargetHealthStateEnum,
    TargetTypeEnum,
};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const CLIENTS: usize = 32;
const WARM_UP: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(5);
const PROBING: Duration = Duration::from_secs(20);
const TARGETS: u16 = 1000;

/// The stand-in as a process with its own address range. The drop of this value ends it.
struct Program {
    child: Child,
    aws: Client,
    control: String,
}

impl Drop for Program {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start() -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_elbv2"));
    command.args(["--time-scale", "1", "--profile", "instant", "--print-ready"]);
    command.args(["--vpc", "vpc-1=127.99.0.0/16", "--node-addresses", "127.99.224.0/19"]);
    command.args(["--subnet", "subnet-a=us-east-1a=127.99.0.0/19"]);
    command.args(["--subnet", "subnet-b=us-east-1b=127.99.32.0/19"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    let credentials = Credentials::builder()
        .access_key_id("bench")
        .secret_access_key("bench")
        .provider_name("bench")
        .build();
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(format!("http://{}", ready["api"].as_str().unwrap()))
        .retry_config(RetryConfig::disabled())
        .build();
    Program { child, aws: Client::new(&config), control: ready["control"].as_str().unwrap().to_owned() }
}

impl Program {
    /// Creates a load balancer with one target group and returns the group's ARN.
    async fn balancer(&self, name: &str, kind: LoadBalancerTypeEnum, protocol: ProtocolEnum) -> String {
        let aws = &self.aws;
        let call = aws.create_load_balancer().name(name).r#type(kind).subnets("subnet-a").subnets("subnet-b");
        let balancer = call.send().await.unwrap();
        let balancer = balancer.load_balancers()[0].load_balancer_arn().unwrap();
        let call =
            aws.create_target_group().name(name).target_type(TargetTypeEnum::Ip).vpc_id("vpc-1").port(8080);
        let call =
            call.protocol(protocol.clone()).health_check_interval_seconds(5).health_check_timeout_seconds(5);
        let call = call
            .healthy_threshold_count(2)
            .health_check_port("8080")
            .health_check_protocol(ProtocolEnum::Tcp);
        let call = if protocol == ProtocolEnum::Http {
            call.health_check_protocol(ProtocolEnum::Http)
        } else {
            call
        };
        let group = call.send().await.unwrap();
        let group = group.target_groups()[0].target_group_arn().unwrap().to_owned();
        let action = Action::builder().r#type(ActionTypeEnum::Forward).target_group_arn(&group).build();
        let call = aws.create_listener().load_balancer_arn(balancer).protocol(protocol).port(8000);
        call.default_actions(action).send().await.unwrap();
        group
    }

    async fn register(&self, group: &str, targets: impl Iterator<Item = SocketAddr>) {
        let targets: Vec<TargetDescription> = targets
            .map(|at| TargetDescription::builder().id(at.ip().to_string()).port(at.port().into()).build())
            .collect();
        let count = targets.len();
        self.aws.register_targets().target_group_arn(group).set_targets(Some(targets)).send().await.unwrap();
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let health = self.aws.describe_target_health().target_group_arn(group).send().await.unwrap();
            let healthy = health.target_health_descriptions().iter().filter(|described| {
                described.target_health().and_then(|health| health.state())
                    == Some(&TargetHealthStateEnum::Healthy)
            });
            if healthy.count() == count {
                return;
            }
            assert!(Instant::now() < deadline, "not all targets became healthy");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The node of the first zone of a load balancer.
    async fn node(&self, name: &str) -> SocketAddr {
        let mut stream = TcpStream::connect(&self.control).await.unwrap();
        let request = "GET /load-balancers HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let balancers: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        let found = balancers.as_array().unwrap().iter().find(|balancer| balancer["name"] == name).unwrap();
        let address: IpAddr = found["nodes"][0]["address"].as_str().unwrap().parse().unwrap();
        SocketAddr::new(address, 8000)
    }

    /// Processor time that the process has used.
    fn used(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: u64 = [11, 12].iter().map(|field| fields[*field].parse::<u64>().unwrap()).sum();
        // The kernel reports ticks of 10 ms to programs, for any kernel timer frequency.
        Duration::from_millis(ticks * 10)
    }
}

/// The total rate per second of `CLIENTS` clients, after a warm-up.
async fn rate<F: Future<Output = ()> + Send + 'static>(client: impl Fn(Arc<AtomicU64>) -> F) -> f64 {
    let done = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..CLIENTS).map(|_| tokio::spawn(client(Arc::clone(&done)))).collect();
    tokio::time::sleep(WARM_UP).await;
    let (before, begun) = (done.load(Ordering::Relaxed), Instant::now());
    tokio::time::sleep(MEASURED).await;
    let counted = done.load(Ordering::Relaxed) - before;
    let seconds = begun.elapsed().as_secs_f64();
    for client in clients {
        client.abort();
    }
    f64::from(u32::try_from(counted).unwrap()) / seconds
}

/// A target that sends one byte to each client and then waits until the client closes the connection.
async fn say_hello(at: SocketAddr) {
    let listener = TcpListener::bind(at).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.write_all(b"x").await;
                let _ = stream.read(&mut [0; 1]).await;
            });
        }
    });
}

async fn serve(at: SocketAddr) {
    let listener = TcpListener::bind(at).await.unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(|_: Request<Incoming>| async {
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hello"))))
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
}

async fn connections(program: &Program) -> f64 {
    let target = SocketAddr::from(([127, 99, 0, 10], 8080));
    say_hello(target).await;
    let group = program.balancer("connections", LoadBalancerTypeEnum::Network, ProtocolEnum::Tcp).await;
    program.register(&group, [target].into_iter()).await;
    let node = program.node("connections").await;
    rate(move |done| async move {
        loop {
            let mut stream = TcpStream::connect(node).await.unwrap();
            stream.read_u8().await.unwrap();
            done.fetch_add(1, Ordering::Relaxed);
            // Without this, the machine runs out of ports within seconds.
            stream.set_zero_linger().unwrap();
        }
    })
    .await
}

async fn requests(program: &Program) -> f64 {
    let target = SocketAddr::from(([127, 99, 0, 11], 8080));
    serve(target).await;
    let group = program.balancer("requests", LoadBalancerTypeEnum::Application, ProtocolEnum::Http).await;
    program.register(&group, [target].into_iter()).await;
    let node = program.node("requests").await;
    rate(move |done| async move {
        let stream = TcpStream::connect(node).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        loop {
            let request = Request::get("/").header("host", "bench").body(Empty::<Bytes>::new()).unwrap();
            let response = sender.send_request(request).await.unwrap();
            assert_eq!(response.status().as_u16(), 200);
            response.into_body().collect().await.unwrap();
            done.fetch_add(1, Ordering::Relaxed);
        }
    })
    .await
}

/// The share of a core for 1,000 targets, each probed every 5 seconds by both nodes.
async fn probing() -> (f64, u64) {
    let program = start();
    let probes = Arc::new(AtomicU64::new(0));
    let (counted, counting) = (Arc::clone(&probes), Arc::new(AtomicBool::new(false)));
    let count = Arc::clone(&counting);
    let listener = TcpListener::bind("127.99.0.12:8080").await.unwrap();
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(u64::from(count.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
    });
    let group = program.balancer("probing", LoadBalancerTypeEnum::Network, ProtocolEnum::Tcp).await;
    let address = IpAddr::from([127, 99, 0, 12]);
    program.register(&group, (0..TARGETS).map(|n| SocketAddr::new(address, 10_000 + n))).await;
    counting.store(true, Ordering::Relaxed);
    let (used, begun) = (program.used(), Instant::now());
    tokio::time::sleep(PROBING).await;
    let share = program.used().saturating_sub(used).as_secs_f64() / begun.elapsed().as_secs_f64();
    (share, probes.load(Ordering::Relaxed) / PROBING.as_secs())
}

#[tokio::main]
async fn main() {
    let program = start();
    let connections = connections(&program).await;
    let requests = requests(&program).await;
    drop(program);
    let (share, probes) = probing().await;
    let round = |number: f64| (number * 10.0).round() / 10.0;
    let rows = [
        ("new connections per second, network", round(connections), connections >= 3000.0, "at least 3000"),
        ("requests per second, application", round(requests), requests >= 10_000.0, "at least 10000"),
        ("% of a core to probe 1000 targets every 5 s", round(share * 100.0), share < 0.15, "below 15"),
    ];
    println!("{:<46}{:>10}  {:<16}met", "", "measured", "wanted");
    for (what, measured, met, wanted) in rows {
        println!("{what:<46}{measured:>10}  {wanted:<16}{}", if met { "yes" } else { "no" });
    }
    println!("{probes} probes per second");
    let result = json!({
        "network_connections_per_second": round(connections),
        "application_requests_per_second": round(requests),
        "probing_core_percent": round(share * 100.0),
        "probes_per_second": probes,
        "clients": CLIENTS,
        "optimised": !cfg!(debug_assertions),
    });
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("standin.json"), format!("{result:#}\n")).unwrap();
}
