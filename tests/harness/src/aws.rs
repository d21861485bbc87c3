//! The AWS side of a test, through the real SDK and the stand-in's control API.

use std::collections::{BTreeMap, BTreeSet};

use aws_config::{BehaviorVersion, Region, retry::RetryConfig};
use aws_sdk_elasticloadbalancingv2::{
    Client,
    config::Credentials,
    types::{
        Action, ActionTypeEnum, IpAddressType, LoadBalancerAttribute, LoadBalancerTypeEnum, ProtocolEnum,
        TargetDescription, TargetGroupAttribute, TargetGroupIpAddressTypeEnum, TargetTypeEnum,
    },
};
use localstack_world::Facts;
use serde_json::{Value, json};

use crate::http;

/// The environment variables for the stand-in, like those of `world env`.
pub fn environment(facts: &Facts) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2".into(), facts.aws_endpoint.clone()),
        ("AWS_REGION".into(), facts.region.clone()),
        ("AWS_ACCESS_KEY_ID".into(), "test".into()),
        ("AWS_SECRET_ACCESS_KEY".into(), "test".into()),
        ("AWS_EC2_METADATA_DISABLED".into(), "true".into()),
    ])
}

/// The AWS API and the stand-in's control API.
#[derive(Clone, Debug)]
pub struct Aws {
    client: Client,
    control_address: String,
    vpc: String,
    subnets: Vec<String>,
}

/// A target group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its ARN.
    pub arn: String,
    /// The DNS name of its load balancer.
    pub dns_name: String,
    /// The port of the listener that forwards to it.
    pub listener_port: u16,
}

impl Aws {
    /// A client for AWS in the local world.
    pub async fn new(facts: &Facts) -> Self {
        let config = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new(facts.region.clone()))
            .endpoint_url(&facts.aws_endpoint)
            .credentials_provider(Credentials::new("test", "test", None, None, "the local world takes any"))
            // A busy machine must not fail a test.
            .retry_config(RetryConfig::standard().with_max_attempts(10))
            .load()
            .await;
        Self {
            client: Client::new(&config),
            control_address: authority(&facts.elbv2_control),
            vpc: facts.vpc.clone(),
            subnets: facts.zones.iter().map(|zone| zone.subnet_id.clone()).collect(),
        }
    }

    /// The SDK's client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A TCP target group behind a new Network Load Balancer in all zones.
    pub async fn nlb_group(&self, name: &str, listener_port: u16) -> Group {
        let (balancer, dns_name) = self.nlb(name).await;
        let arn = self.create_ip_group(name, 8080).await;
        self.listen(&balancer, listener_port, &arn).await;
        Group { name: name.into(), arn, dns_name, listener_port }
    }

    /// A TCP target group for IPv6 addresses behind a new Network Load Balancer, whose clients use IPv4.
    pub async fn ipv6_nlb_group(&self, name: &str, listener_port: u16) -> Group {
        let create = self.client.create_load_balancer().name(name).r#type(LoadBalancerTypeEnum::Network);
        let create = create.ip_address_type(IpAddressType::Dualstack).set_subnets(Some(self.subnets.clone()));
        let created = create.send().await.unwrap();
        let balancer = &created.load_balancers()[0];
        let arn = self.ipv6_group(name).await;
        self.listen(balancer.load_balancer_arn().unwrap(), listener_port, &arn).await;
        let dns_name = balancer.dns_name().unwrap().into();
        Group { name: name.into(), arn, dns_name, listener_port }
    }

    /// A Network Load Balancer in all zones. Returns its ARN and DNS name.
    pub async fn nlb(&self, name: &str) -> (String, String) {
        self.balancer(name, LoadBalancerTypeEnum::Network).await
    }

    /// A Network Load Balancer in the first `zones` zones. Returns its ARN and DNS name.
    pub async fn nlb_in(&self, name: &str, zones: usize) -> (String, String) {
        self.balancer_in(name, LoadBalancerTypeEnum::Network, zones).await
    }

    /// A load balancer in all zones. Returns its ARN and DNS name.
    pub async fn balancer(&self, name: &str, kind: LoadBalancerTypeEnum) -> (String, String) {
        self.balancer_in(name, kind, self.subnets.len()).await
    }

    async fn balancer_in(&self, name: &str, kind: LoadBalancerTypeEnum, zones: usize) -> (String, String) {
        let created = self
            .client
            .create_load_balancer()
            .name(name)
            .r#type(kind)
            .set_subnets(Some(self.subnets[..zones].to_vec()))
            .send()
            .await
            .unwrap();
        let balancer = &created.load_balancers()[0];
        (balancer.load_balancer_arn().unwrap().into(), balancer.dns_name().unwrap().into())
    }

    /// A TCP listener that forwards to a target group.
    pub async fn listen(&self, balancer: &str, port: u16, group: &str) {
        self.listen_as(balancer, ProtocolEnum::Tcp, port, group).await;
    }

    /// A listener that forwards to a target group. The protocol must match the kind of load balancer.
    pub async fn listen_as(&self, balancer: &str, protocol: ProtocolEnum, port: u16, group: &str) {
        let forward = Action::builder().r#type(ActionTypeEnum::Forward).target_group_arn(group).build();
        let listener = self.client.create_listener().load_balancer_arn(balancer).port(port.into());
        listener.protocol(protocol).default_actions(forward).send().await.unwrap();
    }

    /// A TCP target group of type `ip`.
    pub async fn create_ip_group(&self, name: &str, port: u16) -> String {
        self.create_ip_group_as(name, ProtocolEnum::Tcp, port).await
    }

    /// A target group of type `ip` with a protocol.
    pub async fn create_ip_group_as(&self, name: &str, protocol: ProtocolEnum, port: u16) -> String {
        let create = self.client.create_target_group().name(name).target_type(TargetTypeEnum::Ip);
        let create = create.protocol(protocol).port(port.into()).vpc_id(&self.vpc);
        let created = create.send().await.unwrap();
        created.target_groups()[0].target_group_arn().unwrap().into()
    }

    /// Sets an attribute of a target group.
    pub async fn set_attribute(&self, group: &str, key: &str, value: &str) {
        let attribute = TargetGroupAttribute::builder().key(key).value(value).build();
        let modify = self.client.modify_target_group_attributes().target_group_arn(group);
        modify.attributes(attribute).send().await.unwrap();
    }

    /// Allows zonal shifts of this load balancer.
    pub async fn allow_zonal_shifts(&self, name: &str) {
        let found = self.client.describe_load_balancers().names(name).send().await.unwrap();
        let arn = found.load_balancers()[0].load_balancer_arn().unwrap();
        let on = LoadBalancerAttribute::builder().key("zonal_shift.config.enabled").value("true").build();
        let modify = self.client.modify_load_balancer_attributes().load_balancer_arn(arn);
        modify.attributes(on).send().await.unwrap();
    }

    /// A target group with port 8080 that no load balancer uses.
    pub async fn bare_group(
        &self,
        name: &str,
        target_type: TargetTypeEnum,
        protocol: ProtocolEnum,
    ) -> String {
        let create = self.client.create_target_group().name(name).target_type(target_type.clone());
        let create = match target_type {
            TargetTypeEnum::Lambda => create,
            _ => create.protocol(protocol).port(8080).vpc_id(&self.vpc),
        };
        let created = create.send().await.unwrap();
        created.target_groups()[0].target_group_arn().unwrap().into()
    }

    /// A target group for IPv6 addresses.
    pub async fn ipv6_group(&self, name: &str) -> String {
        let create = self.client.create_target_group().name(name).target_type(TargetTypeEnum::Ip);
        let create = create.protocol(ProtocolEnum::Tcp).port(8080).vpc_id(&self.vpc);
        let created = create.ip_address_type(TargetGroupIpAddressTypeEnum::Ipv6).send().await.unwrap();
        created.target_groups()[0].target_group_arn().unwrap().into()
    }

    /// The targets of a group as `ip:port`, each with its state.
    pub async fn targets(&self, arn: &str) -> BTreeMap<String, String> {
        let answer = self.client.describe_target_health().target_group_arn(arn).send().await.unwrap();
        let all = answer.target_health_descriptions().iter().map(|description| {
            let target = description.target().unwrap();
            let state = description.target_health().unwrap().state().unwrap();
            (format!("{}:{}", target.id().unwrap(), target.port().unwrap()), state.as_str().to_owned())
        });
        all.collect()
    }

    /// The targets of a group that are not draining.
    pub async fn registered(&self, arn: &str) -> BTreeSet<String> {
        let targets = self.targets(arn).await;
        targets.into_iter().filter(|(_, state)| state != "draining").map(|(target, _)| target).collect()
    }

    /// The calls of an action for this group, in the order of arrival: the targets of each as `ip:port`, and its
    /// arrival in microseconds since 1970.
    pub async fn calls(&self, action: &str, group: &str) -> Vec<(Vec<String>, u64)> {
        // A call is recorded in the trace when it is answered, after its effect.
        let trace = self.control("GET", "/trace?since=0&settled=true", None).await;
        let entries = trace["entries"].as_array().unwrap();
        let of = |entry: &&Value| {
            entry["kind"] == "call" && entry["action"] == action && entry["target_group"] == group
        };
        entries
            .iter()
            .filter(of)
            .map(|entry| {
                let targets = entry["targets"].as_array().unwrap().iter();
                let targets = targets.map(|target| target.as_str().unwrap().to_owned()).collect();
                (targets, micros(&entry["arrived"]))
            })
            .collect()
    }

    /// When targets of this group changed to a state: `ip:port` and microseconds since 1970, in order.
    pub async fn turned(&self, group: &str, state: &str) -> Vec<(String, u64)> {
        let trace = self.control("GET", "/trace?since=0", None).await;
        let entries = trace["entries"].as_array().unwrap().iter();
        let turned = entries.filter(|entry| {
            entry["kind"] == "target" && entry["target_group"] == group && entry["to"] == state
        });
        turned.map(|entry| (entry["target"].as_str().unwrap().to_owned(), micros(&entry["at"]))).collect()
    }

    /// Registers a target `IP:PORT`, like another writer.
    pub async fn register_by_hand(&self, arn: &str, target: &str) {
        let (ip, port) = target.rsplit_once(':').unwrap();
        let target = TargetDescription::builder().id(ip).port(port.parse().unwrap()).build();
        self.client.register_targets().target_group_arn(arn).targets(target).send().await.unwrap();
    }

    /// Deregisters a target `IP:PORT`, like another writer.
    pub async fn deregister_by_hand(&self, arn: &str, target: &str) {
        let (ip, port) = target.rsplit_once(':').unwrap();
        let target = TargetDescription::builder().id(ip).port(port.parse().unwrap()).build();
        self.client.deregister_targets().target_group_arn(arn).targets(target).send().await.unwrap();
    }

    /// Makes the AWS API answer or refuse connections. The data plane continues in both cases.
    pub async fn set_available(&self, available: bool) {
        self.control("PATCH", "/settings", Some(&json!({ "api_available": available }))).await;
    }

    /// Whether all changes of a load balancer have arrived: each of its nodes acts on the state that the API shows.
    pub async fn is_settled(&self, load_balancer: &str) -> bool {
        let balancers = self.control("GET", "/load-balancers", None).await;
        let ours = balancers.as_array().into_iter().flatten().find(|one| one["name"] == load_balancer);
        ours.is_some_and(|one| one["settled"] == true)
    }

    /// Sends a request to the stand-in's control API.
    pub async fn control(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        http::json(method, &self.control_address, path, body).await
    }
}

/// The `host:port` of an address, which may be a URL.
pub fn authority(address: &str) -> String {
    address.trim_start_matches("http://").trim_end_matches('/').to_owned()
}

fn micros(time: &Value) -> u64 {
    let time = time.as_str().expect("a time in RFC 3339");
    let time: k8s_openapi::jiff::Timestamp = time.parse().unwrap();
    u64::try_from(time.as_microsecond()).unwrap()
}
