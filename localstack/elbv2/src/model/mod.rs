//! The load balancers, target groups and targets, and the knowledge of each node.
//!
//! The module is pure state: no I/O, no clock, no async. Time is a [`Duration`] since the start, and a parameter of
//! each call. Randomness comes from a seeded generator, so the same seed and calls give the same history. Queues
//! contain work for other modules: probes to run ([`Model::take_probes`]) and events for the trace
//! ([`Model::take_events`]). Timers contain future changes. The owner of the model must call [`Model::advance`] no
//! later than [`Model::next_due`].
//!
//! A rejected call changes nothing.

mod action;
mod admission;
mod attributes;
mod balancer;
mod group;
mod health;
mod health_check;
mod least;
mod life;
mod listener;
mod names;
mod past;
mod quotas;
mod refusal;
mod routing;
mod rule;
mod shift;
mod snapshot;
mod target;
#[cfg(test)]
mod tests;
mod timers;
mod words;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub use action::{Action, FixedResponse, Forward, Redirect};
pub use admission::RawTarget;
pub use balancer::{LoadBalancer, NewBalancer, Node};
pub use group::{GroupSettings, NewGroup, TargetGroup};
pub use health::{Check, ProbeOrder, ProbeOutcome};
pub use health_check::{HealthCheck, HealthCheckChange, HealthCheckPort, HealthCheckProtocol};
pub use life::Target;
pub use listener::Listener;
pub use names::{Arn, ArnKind};
pub use past::Shown;
pub use refusal::Refusal;
pub use routing::{Choice, Route};
pub use rule::{Condition, NewRule, RequestFacts, Rule};
pub use target::{State, TargetKey, Unhealthy};
pub use words::{Family, Protocol, TargetType};

use crate::behaviour::{Behaviour, Range};
pub use crate::kind::Kind;
use crate::settings::Settings;
use crate::trace::Event;
use timers::{Due, Timers};

/// Identifies a load balancer for the lifetime of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BalancerId(u64);

/// Identifies a target group for the lifetime of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(u64);

/// Identifies a listener for the lifetime of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(u64);

/// Identifies a rule for the lifetime of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(u64);

impl RuleId {
    /// Returns a number that increases with each creation.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl BalancerId {
    /// Returns a number that increases with each creation.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl GroupId {
    /// Returns a number that increases with each creation.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl ListenerId {
    /// Returns a number that increases with each creation.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// Flows that a node must close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The target group of the flows.
    pub group: GroupId,
    /// The target of the flows.
    pub target: SocketAddr,
    /// The index of the node. `None`: all nodes.
    pub node: Option<usize>,
    /// The latest registration whose flows must be closed.
    pub up_to: u64,
}

/// Tags of a resource.
pub type Tags = BTreeMap<String, String>;

/// The whole state of the stand-in.
#[derive(Debug)]
pub struct Model {
    settings: Settings,
    behaviour: Behaviour,
    rng: StdRng,
    /// A separate generator, so that traffic does not change the random values of targets.
    traffic: StdRng,
    balancers: BTreeMap<BalancerId, LoadBalancer>,
    groups: BTreeMap<GroupId, TargetGroup>,
    listeners: BTreeMap<ListenerId, Listener>,
    timers: Timers,
    probes: VecDeque<ProbeOrder>,
    events: Vec<Event>,
    cuts: Vec<Cut>,
    /// The counter for identifiers, registrations and decisions. The counter never decreases, so a late answer from
    /// before a reset matches nothing.
    serial: u64,
    next_node: u32,
}

impl Model {
    /// Creates an empty account.
    pub fn new(settings: Settings) -> Self {
        let mut behaviour = Behaviour::new(settings.time_scale);
        if let Some(profile) = settings.profile {
            profile.apply(&mut behaviour);
        }
        Self {
            rng: StdRng::seed_from_u64(settings.seed),
            traffic: StdRng::seed_from_u64(settings.seed ^ u64::MAX),
            behaviour,
            balancers: BTreeMap::new(),
            groups: BTreeMap::new(),
            listeners: BTreeMap::new(),
            timers: Timers::default(),
            probes: VecDeque::new(),
            events: Vec::new(),
            cuts: Vec::new(),
            serial: 0,
            next_node: 0,
            settings,
        }
    }

    /// Deletes all resources, and resets the behavior and the random generators.
    pub fn reset(&mut self) {
        let serial = self.serial;
        *self = Self::new(self.settings.clone());
        self.serial = serial;
    }

    /// Returns the settings at the start.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the current behavior.
    pub fn behaviour(&self) -> &Behaviour {
        &self.behaviour
    }

    /// Changes the behavior for values that are drawn later. Running timers do not change.
    pub fn set_behaviour(&mut self, behaviour: Behaviour) {
        self.behaviour = behaviour;
    }

    /// Returns the current behavior and the settings. The caller can update the counters of faults.
    pub fn behaviour_mut(&mut self) -> (&mut Behaviour, &Settings) {
        (&mut self.behaviour, &self.settings)
    }

    /// Returns the time of the next due call of [`Self::advance`].
    pub fn next_due(&self) -> Option<Duration> {
        self.timers.next_due()
    }

    /// Applies all changes that are due at `now`, in order.
    pub fn advance(&mut self, now: Duration) {
        while let Some(due) = self.timers.pop(now) {
            match due {
                Due::Activate(balancer) => self.activate(balancer),
                Due::Learn(seat) => self.learn(seat, now),
                Due::Forget(seat) => self.forget(seat),
                Due::Show { group, target, decision, healthy } => {
                    self.show(group, target, decision, healthy);
                }
                Due::Adopt { seat, decision, healthy } => self.adopt(seat, decision, healthy),
                Due::Probe(seat) => self.order_probe(seat),
                Due::EndUnhealthyDraining { group, target, decision } => {
                    self.end_unhealthy_draining(group, target, decision);
                }
                Due::Expire { group, target, registration } => self.expire(group, target, registration),
            }
        }
    }

    /// Returns the probes to run now. The caller must pass each result to [`Self::probed`].
    pub fn take_probes(&mut self) -> VecDeque<ProbeOrder> {
        std::mem::take(&mut self.probes)
    }

    /// Returns whether a probe must be run.
    pub fn has_probes(&self) -> bool {
        !self.probes.is_empty()
    }

    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Returns the flows to close now.
    pub fn take_cuts(&mut self) -> Vec<Cut> {
        std::mem::take(&mut self.cuts)
    }

    /// Draws hexadecimal digits for identifiers. `len` must be at most 32.
    pub fn hex(&mut self, len: usize) -> String {
        let mut digits = format!("{:032x}", self.rng.random::<u128>());
        digits.truncate(len);
        digits
    }

    /// Draws a value from a range.
    pub fn draw(&mut self, range: Range) -> f64 {
        range.at(self.rng.random::<f64>())
    }

    fn draw_for_traffic(&mut self) -> u64 {
        self.traffic.random()
    }

    fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn draw_scaled(&mut self, range: Range) -> Duration {
        let seconds = self.draw(range);
        self.behaviour.scaled(seconds)
    }

    /// Returns an identifier without a group, for tests that only compare identifiers.
    #[cfg(test)]
    pub fn some_group_id(&mut self) -> GroupId {
        GroupId(self.serial())
    }
}
