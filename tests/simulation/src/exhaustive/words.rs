//! What there is in the small world, and what it is called.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use headgate_core::{
    Settings,
    model::{
        Bounds, GateFacts, Labels, Moment, ObjectKey, PodFacts, Protocol, Readiness, Scope, ServiceFacts,
        ServicePort, Target, TargetGroupArn, TargetPort, Texts, Uid, WallTime,
        eviction::Limits as LeavingLimits,
        gate::Shown,
        pod::{Ending, PassedOver},
        rates::{Limit, Limits},
        time::Window,
    },
};

const NAMESPACE: &str = "shop";
/// For how long the load balancer goes on sending to what was taken out.
pub const BOUND: Duration = Duration::from_secs(6);
/// A call may be applied this long after it was sent, whatever became of its sender: less than the engine allows for.
pub const LATEST: Duration = Duration::from_secs(4);
/// The engine allows for this.
const LATE: Duration = Duration::from_secs(6);
/// Times begin so long after the engine's own beginning of time: that is long ago.
pub const BEGINNING: Duration = Duration::from_secs(1_000);
const STARTED: Duration = Duration::from_secs(1_800_000_000);

/// The engine's settings: the times are short, so that few instants are to be told apart; calls never wait for a token.
pub fn settings() -> Settings {
    let plenty = Limit { per_second: 1e6, burst: 1e6 };
    let second = Duration::from_secs;
    Settings {
        scopes: vec![Scope::Cluster],
        limits: Limits { changes: plenty, reads: plenty },
        late: LATE,
        replacement_grace: Duration::ZERO,
        relist_patience: Duration::ZERO,
        bounds: Bounds { application: BOUND, network: BOUND },
        leaving: LeavingLimits { patience: second(15), given_up_after: second(20) },
        never_healthy_after: second(1_000_000),
        add_window: Window { idle: Duration::ZERO, most: Duration::ZERO },
        started: WallTime::since_1970(STARTED),
        ..Settings::default()
    }
}

/// The time on the wall clock.
pub fn wall(now: Moment) -> WallTime {
    WallTime::since_1970(STARTED) + now.elapsed()
}

pub fn group() -> TargetGroupArn {
    let arn = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/blue/0123456789abcdef";
    TargetGroupArn::parse(arn).expect("an ARN")
}

fn ip(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

/// The target that both pods are, one after the other.
pub fn target() -> Target {
    Target::new(ip(1), 80)
}

/// The target that somebody else has put there.
pub fn stranger() -> Target {
    Target::new(ip(200), 80)
}

/// The Service, which names the target group.
pub fn service() -> ServiceFacts {
    let port = ServicePort {
        name: "http".into(),
        port: 80,
        target_port: TargetPort::Number(80),
        protocol: Protocol::Tcp,
    };
    ServiceFacts {
        key: ObjectKey::new(NAMESPACE, "web"),
        uid: Uid::new("svc"),
        target_groups: Some("http=blue".into()),
        policy: Texts::default(),
        selector: Labels::from_iter([("app", "web")]),
        is_external: false,
        ports: vec![port],
        beyond: [].into(),
    }
}

/// A pod at the address that both have, with a readiness gate that is closed.
pub fn pod(name: &str) -> PodFacts {
    PodFacts {
        key: ObjectKey::new(NAMESPACE, name),
        uid: Uid::new(format!("uid-{name}")),
        labels: Labels::from_iter([("app", "web")]),
        created: 0,
        terminating: false,
        finished: false,
        stopped: false,
        has_sandbox: true,
        host_network: false,
        readiness: Readiness { containers: true, gates: true },
        gate: Some(Box::new(GateFacts { shown: Shown::Closed, ..GateFacts::default() })),
        owner: None,
        hold: None,
        node: None,
        passed_over: PassedOver::default(),
        is_evicted: false,
        ending: Ending { grace: 30, ..Ending::default() },
        leaving: None,
        left_over: None,
        ips: vec![target().ip],
        ports: [].into(),
        beyond: [].into(),
    }
}
