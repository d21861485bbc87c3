//! Target health: the results of each node's probes, the resulting decision, and the times at which the nodes and the
//! API act on the decision.
//!
//! Every node probes every target that the node knows, and forms an opinion from the thresholds. When all nodes have
//! learned of the target, the majority decides. The decision reaches the API and each node at different times (the
//! health skew). A node may therefore send to a target that the API shows as unhealthy, or skip a target that the API
//! shows as healthy.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::target::{State, TargetKey, Unhealthy};
use super::timers::{Due, Seat};
use super::{Cut, GroupId, HealthCheck, HealthCheckProtocol, Kind, Model, TargetGroup, attributes};

/// The knowledge of one node about a target.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The registration that the node routes to. `None`: the node has learned of no registration, or has learned that
    /// the registration is over.
    pub registration: Option<u64>,
    /// The latest registration that the node knows to be over.
    pub forgotten: u64,
    /// The health that the node acts on. `None`: undecided.
    pub health: Option<bool>,
    /// The number of the decision that set this health.
    pub decision: u64,
    /// The opinion from the node's own probes. `None`: undecided.
    opinion: Option<bool>,
    passed: u32,
    failed: u32,
}

impl Seen {
    /// Returns the state of a node that has just learned of a registration.
    pub fn learned(registration: u64, forgotten: u64) -> Self {
        Self { registration: Some(registration), forgotten, ..Self::default() }
    }

    fn count(&mut self, passed: bool, to_pass: u32, to_fail: u32) {
        if passed {
            (self.passed, self.failed) = (self.passed.saturating_add(1), 0);
            if self.passed >= to_pass {
                self.opinion = Some(true);
            }
        } else {
            (self.passed, self.failed) = (0, self.failed.saturating_add(1));
            if self.failed >= to_fail {
                self.opinion = Some(false);
            }
        }
    }
}

/// The method of a probe.
#[derive(Debug, Clone, PartialEq)]
pub enum Check {
    /// Connect over TCP.
    Tcp,
    /// Send a GET request. The status must match.
    Http(HealthCheck),
}

/// A probe to run now.
#[derive(Debug, Clone)]
pub struct ProbeOrder {
    seat: Seat,
    /// The address of the node, which is the source of the probe.
    pub source: IpAddr,
    /// The address to probe.
    pub address: SocketAddr,
    /// The method of the probe.
    pub check: Check,
    /// The timeout of the probe in real time.
    pub timeout: Duration,
    due: Duration,
}

/// The result of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// The target passed the probe.
    Passed,
    /// The target failed the probe.
    Failed(Unhealthy),
}

impl Model {
    /// Adds a probe to the queue.
    pub(super) fn order_probe(&mut self, seat: Seat) {
        let Some(group) = self.groups.get(&seat.group) else { return };
        let Some(target) = group.targets.get(&seat.target) else { return };
        if target.seen.get(seat.node).and_then(|seen| seen.registration) != Some(seat.registration) {
            return;
        }
        let Some(source) = group.attachment.as_ref().and_then(|a| a.nodes.get(seat.node)).map(|n| n.address)
        else {
            return;
        };
        let check = &group.spec.health_check;
        self.probes.push_back(ProbeOrder {
            seat,
            source,
            address: SocketAddr::new(seat.target.ip, check.port.resolve(seat.target.port)),
            check: match check.protocol {
                HealthCheckProtocol::Tcp => Check::Tcp,
                HealthCheckProtocol::Http => Check::Http(check.clone()),
            },
            timeout: self.behaviour.time_out(f64::from(check.timeout)),
            due: self.timers.now(),
        });
    }

    /// Applies the result of a probe. Outdated results change nothing.
    pub fn probed(&mut self, order: &ProbeOrder, outcome: ProbeOutcome, now: Duration) {
        let seat = order.seat;
        let Some(group) = self.groups.get_mut(&seat.group) else { return };
        let kind = group.kind();
        let check = &group.spec.health_check;
        let (healthy, unhealthy) = (check.healthy_threshold, check.unhealthy_threshold);
        let Some(target) = group.targets.get_mut(&seat.target) else { return };
        let Some(seen) = target.seen.get_mut(seat.node) else { return };
        if seen.registration != Some(seat.registration) {
            return;
        }
        // Behind an Application Load Balancer, a new target is in service after one successful probe, for any
        // threshold.
        let to_pass = if kind == Kind::Application && seen.opinion.is_none() { 1 } else { healthy };
        seen.count(outcome == ProbeOutcome::Passed, to_pass, unhealthy);
        if let ProbeOutcome::Failed(why) = outcome {
            // A Network Load Balancer reports no details of a failed probe.
            target.failure = if kind == Kind::Network { Unhealthy::Failed } else { why };
        }
        let interval = self.groups.get(&seat.group).map(|group| self.interval_of(group)).unwrap_or_default();
        self.timers.add(now.max(order.due + interval), Due::Probe(seat));
        self.decide(seat.group, seat.target, now);
    }

    /// Makes a new decision if the majority of the nodes disagrees with the last decision.
    fn decide(&mut self, id: GroupId, key: TargetKey, now: Duration) {
        let Some(group) = self.groups.get(&id) else { return };
        let Some(target) = group.targets.get(&key) else { return };
        let registration = target.registration;
        let undelivered =
            |seen: &Seen| seen.registration != Some(registration) && seen.forgotten < registration;
        if target.seen.iter().any(undelivered) {
            return;
        }
        let opinions: Vec<Option<bool>> = target
            .seen
            .iter()
            .filter(|seen| seen.registration == Some(registration))
            .map(|seen| seen.opinion)
            .collect();
        let majority =
            |opinion| opinions.iter().filter(|own| **own == Some(opinion)).count() * 2 > opinions.len();
        let verdict = match (majority(true), majority(false)) {
            (true, _) => true,
            (_, true) => false,
            _ => return,
        };
        if target.verdict == Some(verdict) {
            return;
        }
        let nodes = target.seen.len();
        let lag = self.lag_of(group);
        let skew = lag.health_skew;
        let skews: Vec<f64> = (0..nodes).map(|_| self.draw(skew)).collect();
        // The first to act on the decision acts now: the API, or the node with the lowest negative skew.
        let lead = skews.iter().fold(0.0_f64, |lead, skew| lead.min(*skew));
        let decision = self.serial();
        let shown_at = now + self.behaviour.scaled(-lead);
        self.timers.add(shown_at, Due::Show { group: id, target: key, decision, healthy: verdict });
        for (node, skew) in skews.into_iter().enumerate() {
            let seat = Seat { group: id, target: key, registration, node };
            let late = if verdict { 0.0 } else { self.draw(lag.unhealthy) };
            let at = now + self.behaviour.scaled(skew - lead + late);
            self.timers.add(at, Due::Adopt { seat, decision, healthy: verdict });
        }
        if let Some(target) = self.groups.get_mut(&id).and_then(|group| group.targets.get_mut(&key)) {
            target.verdict = Some(verdict);
            target.decision = decision;
        }
    }

    /// Shows a decision in the API, unless the API already shows a later decision or the target is draining.
    pub(super) fn show(&mut self, id: GroupId, key: TargetKey, decision: u64, healthy: bool) {
        let Some(target) = self.groups.get_mut(&id).and_then(|group| group.targets.get_mut(&key)) else {
            return;
        };
        // Numbers increase across registrations. A decision about an earlier registration therefore has a lower number
        // than this registration.
        if decision <= target.shown || decision <= target.registration {
            return;
        }
        target.shown = decision;
        let (before, failure) = (target.state, target.failure);
        let interval = self.groups.get(&id).and_then(TargetGroup::unhealthy_draining);
        let state = match interval {
            _ if healthy => State::Healthy,
            Some(seconds) if before == State::Healthy => {
                let ends = self.timers.now() + self.behaviour.scaled(seconds);
                self.timers.add(ends, Due::EndUnhealthyDraining { group: id, target: key, decision });
                State::UnhealthyDraining(failure)
            }
            _ => State::Unhealthy(failure),
        };
        if !matches!(before, State::Unused(_) | State::Draining) {
            self.set_state(id, key, state);
        }
    }

    /// Ends the draining of an unhealthy target in the API, unless the state of the target has changed in the meantime.
    pub(super) fn end_unhealthy_draining(&mut self, id: GroupId, key: TargetKey, decision: u64) {
        let Some(target) = self.groups.get(&id).and_then(|group| group.targets.get(&key)) else { return };
        if let State::UnhealthyDraining(why) = target.state
            && target.shown == decision
        {
            self.set_state(id, key, State::Unhealthy(why));
        }
    }

    /// Applies a decision at a node, unless the node has already applied a later decision.
    pub(super) fn adopt(&mut self, seat: Seat, decision: u64, healthy: bool) {
        let Some(seen) = self.seen_mut(seat.group, seat.target, seat.node) else { return };
        if seen.registration != Some(seat.registration) || decision <= seen.decision {
            return;
        }
        seen.decision = decision;
        let before = seen.health.replace(healthy);
        self.reroute(seat.group, seat.target, seat.node);
        if before == Some(true) && !healthy {
            self.reset_flows(seat);
        }
    }

    /// Resets the flows of a target that a node of a Network Load Balancer considers unhealthy. The flows continue if
    /// an attribute forbids the reset, or if the node fails open.
    fn reset_flows(&mut self, seat: Seat) {
        let Some(group) = self.groups.get(&seat.group) else { return };
        let view = group.attachment.as_ref().and_then(|attachment| attachment.nodes.get(seat.node));
        let fails_open = view.is_none_or(super::routing::NodeView::fails_open);
        if group.is_on(attributes::UNHEALTHY_TERMINATION) && !fails_open {
            let (group, target) = (seat.group, seat.target.into());
            self.cuts.push(Cut { group, target, node: Some(seat.node), up_to: seat.registration });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opinion_changes_only_after_as_many_results_in_a_row_as_the_threshold() {
        let mut seen = Seen::default();
        for passed in [true, true, false, true, true] {
            seen.count(passed, 3, 2);
        }
        assert_eq!(seen.opinion, None);
        seen.count(true, 3, 2);
        assert_eq!(seen.opinion, Some(true));
        seen.count(false, 3, 2);
        assert_eq!(seen.opinion, Some(true));
        seen.count(false, 3, 2);
        assert_eq!(seen.opinion, Some(false));
    }
}
