//! Builders of objects for the tests of the core.

use std::net::{IpAddr, Ipv4Addr};

use crate::model::{
    GateFacts, Hold, IpFamily, Labels, LeastHealthy, LeavingFacts, NamedPort, ObjectKey, PodFacts, Protocol,
    Readiness, ServiceFacts, ServicePort, Target, TargetGroupArn, TargetGroupFacts, TargetPort, TargetType,
    Texts, Uid,
    gate::Shown,
    limits::{Excess, Limit, POD_LABELS},
    pod::{Ending, PassedOver},
};

/// The namespace of all test objects.
pub const NAMESPACE: &str = "shop";

/// Builds a running pod of the app `web` at 10.0.0.`last`.
#[derive(Clone)]
pub struct PodBuilder(PodFacts);

pub fn pod(name: &str, uid: &str) -> PodBuilder {
    PodBuilder(PodFacts {
        key: ObjectKey::new(NAMESPACE, name),
        uid: Uid::new(uid),
        labels: Labels::from_iter([("app", "web")]),
        created: 0,
        terminating: false,
        finished: false,
        stopped: false,
        has_sandbox: true,
        host_network: false,
        readiness: Readiness::default(),
        gate: None,
        owner: None,
        hold: None,
        node: None,
        passed_over: PassedOver::default(),
        is_evicted: false,
        ending: Ending { grace: 30, ..Ending::default() },
        leaving: None,
        left_over: None,
        ips: Vec::new(),
        ports: [].into(),
        beyond: [].into(),
    })
}

impl PodBuilder {
    pub fn of(mut self, namespace: &str) -> Self {
        self.0.key = ObjectKey::new(namespace, &*self.0.key.name);
        self
    }
    pub fn at(mut self, last: u8) -> Self {
        self.0.ips = vec![ip(last)];
        self
    }
    pub fn at_v6(mut self) -> Self {
        self.0.ips = vec!["fd00::1".parse().unwrap()];
        self
    }
    pub fn labelled(mut self, app: &str) -> Self {
        self.0.labels = Labels::from_iter([("app", app)]);
        self
    }
    pub fn port(mut self, name: &str, port: u16) -> Self {
        let port = NamedPort { name: name.into(), port, protocol: Protocol::Tcp };
        self.0.ports = self.0.ports.iter().cloned().chain([port]).collect();
        self
    }
    pub fn created(mut self, at: i64) -> Self {
        self.0.created = at;
        self
    }
    pub fn host_network(mut self) -> Self {
        self.0.host_network = true;
        self
    }
    pub fn containers_ready(mut self) -> Self {
        self.0.readiness = Readiness { containers: true, gates: false };
        self
    }
    pub fn ready(mut self) -> Self {
        self.0.readiness = Readiness { containers: true, gates: true };
        self
    }
    /// Gives the pod Headgate's readiness gate in this state.
    pub fn gated(mut self, shown: Shown) -> Self {
        self.0.gate = Some(Box::new(GateFacts { shown, ..GateFacts::default() }));
        self
    }
    /// Opens the readiness gate with the reason that the health of its targets was unreadable.
    pub fn unread(mut self) -> Self {
        self.0.gate.get_or_insert_default().unread = true;
        self
    }
    pub fn expecting(mut self, bindings: &str) -> Self {
        self.0.gate.get_or_insert_default().expected = Some(bindings.into());
        self
    }
    pub fn on(mut self, node: &str) -> Self {
        self.0.node = Some(node.into());
        self
    }
    /// Makes the pod belong to a DaemonSet, whose pods drain tools skip.
    pub fn of_daemon_set(mut self) -> Self {
        self.0.passed_over.by_all = true;
        self
    }
    pub fn passed_over(mut self, by: PassedOver) -> Self {
        self.0.passed_over = by;
        self
    }
    pub fn evicted(mut self) -> Self {
        (self.0.is_evicted, self.0.terminating) = (true, true);
        self
    }
    /// Gives every container a `preStop` sleep of `sleeps` seconds, and the pod a grace period of `grace` seconds.
    pub fn sleeping(mut self, sleeps: u32, grace: u32) -> Self {
        (self.0.ending.sleeps, self.0.ending.grace) = (sleeps, grace);
        self
    }
    pub fn leaving(mut self, leaving: LeavingFacts) -> Self {
        self.0.leaving = Some(Box::new(leaving));
        self
    }
    pub fn terminating(mut self) -> Self {
        self.0.terminating = true;
        self
    }
    /// Makes the pod terminating, with no running container.
    pub fn stopped(mut self) -> Self {
        (self.0.terminating, self.0.stopped) = (true, true);
        self
    }
    /// Records in the status that the pod's sandbox no longer exists.
    pub fn without_sandbox(mut self) -> Self {
        self.0.has_sandbox = false;
        self
    }
    /// Adds an annotation to the pod that requests this hold.
    pub fn held(mut self, hold: Hold) -> Self {
        self.0.hold = Some(hold);
        self
    }
    /// Marks the labels as unread because they exceed their limit.
    pub fn without_labels(mut self) -> Self {
        self.0.labels = Labels::default();
        self.0.beyond = [Excess { limit: &POD_LABELS, found: POD_LABELS.most + 1 }].into();
        self
    }
    pub fn finished(mut self) -> Self {
        self.0.finished = true;
        self
    }
    pub fn build(self) -> PodFacts {
        self.0
    }
}

pub fn ip(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

pub fn target(last: u8, port: u16) -> Target {
    Target::new(ip(last), port)
}

/// Builds a Service that selects the app `web`.
#[derive(Clone)]
pub struct ServiceBuilder(ServiceFacts);

pub fn service(name: &str) -> ServiceBuilder {
    ServiceBuilder(ServiceFacts {
        key: ObjectKey::new(NAMESPACE, name),
        uid: Uid::new(format!("svc-{name}")),
        target_groups: None,
        policy: Texts::default(),
        selector: Labels::from_iter([("app", "web")]),
        is_external: false,
        ports: Vec::new(),
        beyond: [].into(),
    })
}

impl ServiceBuilder {
    pub fn of(mut self, namespace: &str) -> Self {
        self.0.key = ObjectKey::new(namespace, &*self.0.key.name);
        self
    }
    pub fn external(mut self) -> Self {
        self.0.is_external = true;
        self
    }
    pub fn annotated(mut self, value: &str) -> Self {
        self.0.target_groups = Some(value.into());
        self
    }
    pub fn with(mut self, annotation: &str, value: &str) -> Self {
        self.0.policy.set(annotation, value);
        self
    }
    pub fn selector(mut self, pairs: &[(&str, &str)]) -> Self {
        self.0.selector = pairs.iter().copied().collect();
        self
    }
    /// Marks a part of the Service as unread because it exceeds this limit.
    pub fn beyond(mut self, limit: &'static Limit) -> Self {
        self.0.beyond = [Excess { limit, found: limit.most + 1 }].into();
        self
    }
    pub fn port(self, name: &str, port: u16) -> Self {
        self.with_port(name, port, TargetPort::Number(port), Protocol::Tcp)
    }
    pub fn port_to(self, name: &str, port: u16, target: u16) -> Self {
        self.with_port(name, port, TargetPort::Number(target), Protocol::Tcp)
    }
    pub fn port_named(self, name: &str, port: u16, target: &str) -> Self {
        self.with_port(name, port, TargetPort::Name(target.into()), Protocol::Tcp)
    }
    pub fn udp_port(self, name: &str, port: u16) -> Self {
        self.with_port(name, port, TargetPort::Number(port), Protocol::Udp)
    }
    fn with_port(mut self, name: &str, port: u16, target_port: TargetPort, protocol: Protocol) -> Self {
        self.0.ports.push(ServicePort { name: name.into(), port, target_port, protocol });
        self
    }
    pub fn build(self) -> ServiceFacts {
        self.0
    }
}

pub fn arn(name: &str) -> TargetGroupArn {
    TargetGroupArn::parse(&format!(
        "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/{name}/0123456789abcdef"
    ))
    .unwrap()
}

/// A TCP target group for IPv4 addresses.
pub fn group(name: &str) -> TargetGroupFacts {
    TargetGroupFacts {
        arn: arn(name),
        target_type: TargetType::Ip,
        protocol: "TCP".into(),
        ip_family: IpFamily::V4,
        least_healthy: Some(LeastHealthy::DEFAULT),
    }
}
