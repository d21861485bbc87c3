//! Objects of Kubernetes and AWS for single cases.

use headgate_core::{
    Input, Moment,
    model::{
        IpFamily, Labels, LeastHealthy, ObjectKey, PodFacts, Protocol, Readiness, ServiceFacts, ServicePort,
        TargetGroupArn, TargetGroupFacts, TargetPort, TargetType, Texts, Uid,
        grant::{GrantFacts, GroupPattern},
        pod::{Ending, PassedOver},
    },
};

use crate::words::{NAMESPACE, ip};

/// A TCP target group for IPv4 addresses.
pub fn group() -> TargetGroupFacts {
    let arn = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/blue/0123456789abcdef";
    let arn = TargetGroupArn::parse(arn).unwrap();
    TargetGroupFacts {
        arn,
        target_type: TargetType::Ip,
        protocol: "TCP".into(),
        ip_family: IpFamily::V4,
        least_healthy: Some(LeastHealthy::DEFAULT),
    }
}

/// The namespace of everything here may bind every target group, and have targets of others removed.
pub fn everything_is_granted() -> Input {
    let grant = GrantFacts {
        name: "everything".into(),
        groups: vec![GroupPattern::parse("*").unwrap()],
        namespaces: [NAMESPACE.into()].into(),
        exclusive: true,
    };
    Input::Grants { all: vec![grant], seen: Moment::START }
}

/// Of this app, at 10.0.0.`last`.
pub fn pod(app: &str, last: u8) -> PodFacts {
    PodFacts {
        key: ObjectKey::new(NAMESPACE, format!("pod-{last}")),
        uid: Uid::new(format!("uid-{last}")),
        labels: Labels::from_iter([("app", app)]),
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
        ips: vec![ip(last)],
        ports: [].into(),
        beyond: [].into(),
    }
}

/// Selects the app of its name, and names the target group.
pub fn service(name: &str) -> ServiceFacts {
    let port = ServicePort {
        name: "http".into(),
        port: 80,
        target_port: TargetPort::Number(80),
        protocol: Protocol::Tcp,
    };
    ServiceFacts {
        key: ObjectKey::new(NAMESPACE, name),
        uid: Uid::new(format!("svc-{name}")),
        target_groups: Some("http=blue".into()),
        policy: Texts::default(),
        selector: Labels::from_iter([("app", name)]),
        is_external: false,
        ports: vec![port],
        beyond: [].into(),
    }
}
