//! Tests of the model without the other modules. Time is a number, and a set of healthy targets answers the probes.

mod health;
mod life;
mod resources;
mod routing;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::*;
use crate::behaviour::{Lag, OnDraining, Range};

const PORT: u16 = 8080;

/// A model with the time scale 1, a load balancer in three zones, one group, and a history of the events.
struct Lab {
    model: Model,
    now: Duration,
    balancer: BalancerId,
    group: GroupId,
    well: BTreeSet<SocketAddr>,
    history: Vec<(f64, Event)>,
}

impl Lab {
    fn new(kind: Kind) -> Self {
        let mut settings = Settings::slot(1, 4);
        settings.time_scale = 1.0;
        let mut model = Model::new(settings);
        let spec = NewBalancer {
            name: "edge".into(),
            kind,
            internal: false,
            dualstack: false,
            subnets: ["subnet-a", "subnet-b", "subnet-c"].map(String::from).to_vec(),
            security_groups: Vec::new(),
            tags: Tags::new(),
        };
        let balancer = model.create_balancer(spec, Duration::ZERO).unwrap();
        let group = model.create_group(group_spec("web", kind)).unwrap();
        let mut lab =
            Self { model, now: Duration::ZERO, balancer, group, well: BTreeSet::new(), history: Vec::new() };
        lab.listen(80, &[(group, 1)]);
        lab
    }

    fn network() -> Self {
        Self::new(Kind::Network)
    }

    fn application() -> Self {
        Self::new(Kind::Application)
    }

    /// Removes the delays of registrations and health changes, for tests of other properties.
    fn prompt(mut self) -> Self {
        self.tune(|lag| {
            lag.registration = Range { low: 0.0, high: 0.0 };
            lag.health_skew = Range { low: 0.0, high: 0.0 };
        });
        self
    }

    fn tune(&mut self, change: impl Fn(&mut Lag)) {
        let mut behaviour = self.model.behaviour().clone();
        change(&mut behaviour.network);
        change(&mut behaviour.application);
        self.model.set_behaviour(behaviour);
    }

    fn listen(&mut self, port: u16, forwards: &[(GroupId, u32)]) -> ListenerId {
        let kind = self.model.balancer(self.balancer).unwrap().spec.kind;
        let protocol = if kind == Kind::Network { Protocol::Tcp } else { Protocol::Http };
        let forwards: Vec<Forward> =
            forwards.iter().map(|(group, weight)| Forward { group: *group, weight: *weight }).collect();
        self.model
            .create_listener(self.balancer, port, protocol, forwards.into(), Tags::new(), self.now)
            .unwrap()
    }

    fn listener(&self) -> ListenerId {
        self.model.listeners().next().unwrap().id
    }

    fn attribute(&mut self, key: &str, value: &str) {
        let change = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        self.model.set_group_attributes(self.group, change).unwrap();
    }

    fn on_draining(&mut self, on_draining: OnDraining) {
        let settings = GroupSettings { on_draining: Some(on_draining), ..GroupSettings::default() };
        self.model.set_group_settings(self.group, settings).unwrap();
    }

    fn register(&mut self, target: &str) -> Result<(), Refusal> {
        let result = self.model.register(self.group, &[raw(target)], self.now);
        self.note();
        result
    }

    fn register_well(&mut self, target: &str) {
        self.well.insert(addr(target));
        self.register(target).unwrap();
    }

    fn deregister(&mut self, target: &str) {
        self.model.deregister(self.group, &[raw(target)], self.now).unwrap();
        self.note();
    }

    fn note(&mut self) {
        let at = self.now.as_secs_f64();
        self.history.extend(self.model.take_events().into_iter().map(|event| (at, event)));
    }

    /// Advances the time by `seconds`, and answers each probe immediately.
    fn pass(&mut self, seconds: f64) {
        let until = self.now + Duration::from_secs_f64(seconds);
        while let Some(due) = self.model.next_due().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.model.advance(self.now);
            for order in self.model.take_probes() {
                let outcome = if self.well.contains(&order.address) {
                    ProbeOutcome::Passed
                } else {
                    ProbeOutcome::Failed(Unhealthy::Status(503))
                };
                self.model.probed(&order, outcome, self.now);
            }
            self.note();
        }
        self.now = until;
        self.model.advance(until);
        self.note();
    }

    fn state(&self, target: &str) -> String {
        let key = self.model.key_of(self.group, &raw(target)).unwrap();
        let found = self.model.group(self.group).unwrap().targets().find(|target| target.key == key);
        found.map_or_else(|| "gone".to_owned(), |target| target.state.to_string())
    }

    /// Returns how many nodes send to a target.
    fn routed_by(&self, target: &str) -> usize {
        let views = self.model.snapshot();
        let nodes = &views[0].target_groups[0].nodes;
        nodes.iter().filter(|node| node.routes.contains(&addr(target))).count()
    }

    fn settled(&self) -> bool {
        self.model.snapshot()[0].settled
    }

    /// Returns the times in seconds at which nodes started (`true`) or stopped (`false`) sending to a target.
    fn routed_at(&self, wanted: &str, began: bool) -> Vec<f64> {
        let hits = self.history.iter().filter(|(_, event)| {
            matches!(event, Event::Route { target, routing, .. }
                if *target == addr(wanted) && *routing == began)
        });
        hits.map(|(at, _)| *at).collect()
    }

    /// Returns the time at which the API first showed a state of a target.
    fn shown_at(&self, wanted: &str, state: &str) -> Option<f64> {
        let hit = self.history.iter().find(
            |(_, event)| matches!(event, Event::Target { target, to, .. } if *target == addr(wanted) && *to == state),
        );
        hit.map(|(at, _)| *at)
    }
}

fn group_spec(name: &str, kind: Kind) -> NewGroup {
    let (protocol, check) = match kind {
        Kind::Network => (Protocol::Tcp, HealthCheckProtocol::Tcp),
        Kind::Application => (Protocol::Http, HealthCheckProtocol::Http),
    };
    NewGroup {
        name: name.into(),
        target_type: TargetType::Ip,
        protocol: Some(protocol),
        protocol_version: None,
        port: Some(PORT),
        vpc: Some("vpc-0a1b2c3d4e5f60718".into()),
        family: Family::Ipv4,
        health_check: HealthCheck::defaults(kind, check),
        tags: Tags::new(),
    }
}

fn addr(target: &str) -> SocketAddr {
    target.parse().unwrap_or_else(|_| SocketAddr::new(target.parse::<IpAddr>().unwrap(), PORT))
}

fn raw(target: &str) -> RawTarget {
    let port = target.parse::<SocketAddr>().ok().map(|addr| addr.port());
    RawTarget { id: target.split(':').next().unwrap().into(), port, zone: None }
}

const A: &str = "127.101.0.10";
const B: &str = "127.101.32.10";
