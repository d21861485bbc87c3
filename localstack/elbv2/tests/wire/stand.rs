//! A stand-in for one test, in-process, with an SDK client and a client of the control API.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig};
use aws_sdk_elasticloadbalancingv2::Client;
use aws_sdk_elasticloadbalancingv2::config::{Credentials, SharedCredentialsProvider};
use aws_sdk_elasticloadbalancingv2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_elasticloadbalancingv2::operation::create_listener::CreateListenerError;
use aws_sdk_elasticloadbalancingv2::types::{
    Action, ActionTypeEnum, LoadBalancerTypeEnum, ProtocolEnum, TargetDescription, TargetGroupAttribute,
    TargetTypeEnum,
};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use localstack_elbv2::{Running, Settings, Subnet, Vpc, serve};
use serde_json::{Value, json};

/// How long a test waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub type Http = legacy::Client<HttpConnector, Full<Bytes>>;

pub struct Stand {
    pub aws: Client,
    pub http: Http,
    pub running: Running,
    second: u8,
    _claim: TcpListener,
}

/// The two kinds of load balancer, with names for a test's resources.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Network,
    Application,
}

impl Stand {
    /// One AWS second lasts 10 ms.
    pub async fn new() -> Self {
        Self::with(|_| ()).await
    }

    pub async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let (second, claim) = claim_range();
        let net = |text: String| text.parse().unwrap();
        let mut settings = Settings {
            time_scale: 0.01,
            vpc: Vpc { id: "vpc-1".into(), cidr: net(format!("127.{second}.0.0/16")) },
            subnets: ["a", "b", "c"]
                .iter()
                .enumerate()
                .map(|(n, zone)| Subnet {
                    id: format!("subnet-{zone}"),
                    zone: format!("us-east-1{zone}"),
                    cidr: net(format!("127.{second}.{}.0/19", n * 32)),
                    cidr_v6: None,
                })
                .collect(),
            node_addresses: net(format!("127.{second}.224.0/19")),
            ..Settings::default()
        };
        change(&mut settings);
        let running = serve(settings).await.unwrap();
        Self {
            aws: client(running.addresses().api, "test"),
            http: legacy::Client::builder(TokioExecutor::new()).build_http(),
            running,
            second,
            _claim: claim,
        }
    }

    /// Pod number `n` of zone 0, 1 or 2.
    pub fn ip(&self, zone: u8, n: u8) -> IpAddr {
        IpAddr::from([127, self.second, zone * 32, n])
    }

    pub async fn balancer(&self, name: &str, kind: Kind) -> String {
        let kind = match kind {
            Kind::Network => LoadBalancerTypeEnum::Network,
            Kind::Application => LoadBalancerTypeEnum::Application,
        };
        let created = self
            .aws
            .create_load_balancer()
            .name(name)
            .r#type(kind)
            .set_subnets(Some(["subnet-a", "subnet-b", "subnet-c"].map(String::from).to_vec()))
            .send()
            .await
            .unwrap();
        created.load_balancers()[0].load_balancer_arn().unwrap().to_owned()
    }

    /// A group of `ip` targets with fast health checks. Those of an ALB use the path `/health`.
    pub async fn group(&self, name: &str, kind: Kind) -> String {
        let builder = self
            .aws
            .create_target_group()
            .name(name)
            .target_type(TargetTypeEnum::Ip)
            .vpc_id("vpc-1")
            .port(8080)
            .health_check_interval_seconds(5)
            .health_check_timeout_seconds(2)
            .healthy_threshold_count(2)
            .unhealthy_threshold_count(2);
        let builder = match kind {
            Kind::Network => builder.protocol(ProtocolEnum::Tcp),
            Kind::Application => builder.protocol(ProtocolEnum::Http).health_check_path("/health"),
        };
        let created = builder.send().await.unwrap();
        created.target_groups()[0].target_group_arn().unwrap().to_owned()
    }

    pub async fn try_listen(
        &self,
        balancer: &str,
        kind: Kind,
        port: u16,
        group: &str,
    ) -> Result<String, SdkError<CreateListenerError>> {
        let protocol = match kind {
            Kind::Network => ProtocolEnum::Tcp,
            Kind::Application => ProtocolEnum::Http,
        };
        let created = self
            .aws
            .create_listener()
            .load_balancer_arn(balancer)
            .protocol(protocol)
            .port(port.into())
            .default_actions(forward(group))
            .send()
            .await?;
        Ok(created.listeners()[0].listener_arn().unwrap().to_owned())
    }

    pub async fn listen(&self, balancer: &str, kind: Kind, port: u16, group: &str) -> String {
        self.try_listen(balancer, kind, port, group).await.unwrap()
    }

    /// A load balancer `edge` that forwards port 8000 to a group `web`: the ARNs of both.
    pub async fn edge(&self, kind: Kind) -> (String, String) {
        let balancer = self.balancer("edge", kind).await;
        let group = self.group("web", kind).await;
        self.listen(&balancer, kind, 8000, &group).await;
        (balancer, group)
    }

    pub async fn register(&self, group: &str, targets: &[SocketAddr]) {
        let targets = targets.iter().map(describe).collect();
        self.aws.register_targets().target_group_arn(group).set_targets(Some(targets)).send().await.unwrap();
    }

    pub async fn deregister(&self, group: &str, targets: &[SocketAddr]) {
        let targets = targets.iter().map(describe).collect();
        self.aws
            .deregister_targets()
            .target_group_arn(group)
            .set_targets(Some(targets))
            .send()
            .await
            .unwrap();
    }

    /// State and reason of a target, queried by its name.
    pub async fn health(&self, group: &str, target: SocketAddr) -> String {
        let answer = self
            .aws
            .describe_target_health()
            .target_group_arn(group)
            .targets(describe(&target))
            .send()
            .await
            .unwrap();
        let health = answer.target_health_descriptions()[0].target_health().unwrap().clone();
        match health.reason() {
            Some(reason) => format!("{}/{}", health.state().unwrap().as_str(), reason.as_str()),
            None => health.state().unwrap().as_str().to_owned(),
        }
    }

    /// Addresses and ports that DescribeTargetHealth lists.
    pub async fn listed(&self, group: &str) -> Vec<SocketAddr> {
        let answer = self.aws.describe_target_health().target_group_arn(group).send().await.unwrap();
        let listed = answer.target_health_descriptions().iter().map(|description| {
            let target = description.target().unwrap();
            let port = u16::try_from(target.port().unwrap()).unwrap();
            SocketAddr::new(target.id().unwrap().parse().unwrap(), port)
        });
        listed.collect()
    }

    pub async fn until_health(&self, group: &str, target: SocketAddr, wanted: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let health = self.health(group, target).await;
            if health == wanted {
                return;
            }
            assert!(Instant::now() < deadline, "{target} is {health}, not {wanted}");
            turn().await;
        }
    }

    /// Waits until every node's routing table matches the API.
    pub async fn until_settled(&self) {
        self.until("every node has settled", async |stand| {
            let balancers = stand.control("GET", "/load-balancers", None).await;
            balancers.as_array().unwrap().iter().all(|balancer| balancer["settled"] == true)
        })
        .await;
    }

    pub async fn until(&self, what: &str, condition: impl AsyncFn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !condition(self).await {
            assert!(Instant::now() < deadline, "waited in vain until {what}");
            turn().await;
        }
    }

    pub async fn group_attribute(&self, group: &str, key: &str, value: &str) {
        let attribute = TargetGroupAttribute::builder().key(key).value(value).build();
        self.aws
            .modify_target_group_attributes()
            .target_group_arn(group)
            .attributes(attribute)
            .send()
            .await
            .unwrap();
    }

    /// A call of the control API that must succeed.
    pub async fn control(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let (status, value) = self.try_control(method, path, body).await;
        assert_eq!(status, 200, "{method} {path}: {value}");
        value
    }

    pub async fn try_control(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).unwrap())
            .uri(format!("http://{}{path}", self.running.addresses().control))
            .header("content-type", "application/json")
            .body(Full::from(body.map(|body| body.to_string()).unwrap_or_default()))
            .unwrap();
        let response = self.http.request(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// A call of the AWS API as plain HTTP: status and body.
    pub async fn raw(&self, form: &str, authorization: Option<&str>) -> (u16, String) {
        let mut request = Request::post(format!("http://{}/", self.running.addresses().api))
            .header("content-type", "application/x-www-form-urlencoded");
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        let response = self.http.request(request.body(Full::from(form.to_owned())).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A change of the settings that must succeed.
    pub async fn set(&self, settings: Value) -> Value {
        self.control("PATCH", "/settings", Some(settings)).await
    }

    /// A client with another access key.
    pub fn client_with_key(&self, key: &str) -> Client {
        client(self.running.addresses().api, key)
    }

    /// All trace entries of a kind.
    pub async fn trace(&self, kind: &str) -> Vec<Value> {
        let page = self.control("GET", "/trace?since=0", None).await;
        assert_eq!(page["dropped"], 0);
        let entries = page["entries"].as_array().unwrap();
        entries.iter().filter(|entry| entry["kind"] == kind).cloned().collect()
    }

    /// Addresses of the nodes of the first load balancer, in the order of the zones.
    pub async fn nodes(&self) -> Vec<IpAddr> {
        let balancers = self.control("GET", "/load-balancers", None).await;
        let nodes = balancers[0]["nodes"].as_array().unwrap();
        nodes.iter().map(|node| node["address"].as_str().unwrap().parse().unwrap()).collect()
    }

    /// Makes registration and health known at once, for tests of something else.
    pub async fn prompt(&self) {
        let lag = json!({"registration": [0, 0], "health_skew": [0, 0]});
        self.control("PATCH", "/settings", Some(json!({"network": lag, "application": lag}))).await;
    }
}

fn client(api: SocketAddr, key: &str) -> Client {
    let credentials =
        Credentials::builder().access_key_id(key).secret_access_key("test").provider_name("test").build();
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(format!("http://{api}"))
        .retry_config(RetryConfig::disabled())
        .build();
    Client::new(&config)
}

/// The message of a rejected call.
pub fn message<T: std::fmt::Debug, E: ProvideErrorMetadata + std::fmt::Debug>(
    result: Result<T, SdkError<E>>,
) -> String {
    result.unwrap_err().message().unwrap_or("none").to_owned()
}

pub fn forward(group: &str) -> Action {
    Action::builder().r#type(ActionTypeEnum::Forward).target_group_arn(group).build()
}

pub fn describe(target: &SocketAddr) -> TargetDescription {
    TargetDescription::builder().id(target.ip().to_string()).port(target.port().into()).build()
}

/// The code of a rejected call.
pub fn code<T: std::fmt::Debug, E: ProvideErrorMetadata + std::fmt::Debug>(
    result: Result<T, SdkError<E>>,
) -> String {
    result.unwrap_err().code().unwrap_or("none").to_owned()
}

/// One interval of waiting for a condition.
pub async fn turn() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// A /16 of loopback that no other test on this machine uses until the listener is dropped.
fn claim_range() -> (u8, TcpListener) {
    let first = u8::try_from(std::process::id() % 90).unwrap();
    let candidates = (0..90_u8).map(|n| 2 + (first + n) % 90);
    let claim = |second: u8| {
        let address = SocketAddr::from(([127, second, 255, 254], 29_999));
        TcpListener::bind(address).ok().map(|listener| (second, listener))
    };
    candidates.into_iter().find_map(claim).expect("a free loopback range")
}
