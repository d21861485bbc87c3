//! The states of a target: unused, initial, healthy or unhealthy, draining, deleted.
//!
//! A target is a key (address, port) in a target group. Each registration has its own number, and each message to a
//! node contains this number. A late message about an earlier registration of the same key therefore changes nothing.
//! Nodes learn of a registration and of a deregistration after individual delays, but the API answers immediately. The
//! purpose of the stand-in is to simulate the gap between the API and the nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::admission::key_of;
use super::health::Seen;
use super::routing::Attachment;
use super::target::{State, TargetKey, Unhealthy, Unused, Zone};
use super::timers::{Due, Seat};
use super::{BalancerId, Cut, GroupId, Kind, Model, RawTarget, Refusal, Shown, TargetGroup, attributes};
use crate::behaviour::{Batches, OnDraining, OnReuse};
use crate::trace::Event;

/// A registered or draining target of a group.
#[derive(Debug)]
pub struct Target {
    pub key: TargetKey,
    pub zone: Zone,
    /// The state that the API shows.
    pub state: State,
    /// The number of the current registration.
    pub(super) registration: u64,
    /// The knowledge of each node, in the order of the nodes. Empty if no load balancer uses the group.
    pub(super) seen: Vec<Seen>,
    /// The latest decision about the health of the target. The field `decision` contains the number of the decision.
    pub(super) verdict: Option<bool>,
    pub(super) decision: u64,
    /// The number of the latest decision that the API shows.
    pub(super) shown: u64,
    /// The reason why the latest probe failed.
    pub(super) failure: Unhealthy,
}

impl Model {
    /// Registers targets. An invalid target rejects the whole call. A target that is already registered does not
    /// change.
    pub fn register(&mut self, id: GroupId, raw: &[RawTarget], now: Duration) -> Result<(), Refusal> {
        let group = self.group(id)?;
        if raw.is_empty() {
            return Err(Refusal::validation("A target must be specified"));
        }
        let mut admitted = BTreeMap::new();
        let mut refused = Ok(());
        for target in raw {
            let fits = |(key, zone)| self.check_quotas(group, &admitted, key, &zone).map(|()| (key, zone));
            match self.admit(group, target).and_then(|found| welcome(group, found)) {
                Ok(Some(found)) => match fits(found) {
                    Ok((key, zone)) => drop(admitted.insert(key, zone)),
                    Err(refusal) => refused = refused.and(Err(refusal)),
                },
                Ok(None) => {}
                Err(refusal) => refused = refused.and(Err(refusal)),
            }
        }
        if refused.is_ok() || self.batches(group) == Batches::Partial {
            for (key, zone) in admitted {
                self.begin(id, key, zone, now);
            }
        }
        refused
    }

    fn batches(&self, group: &TargetGroup) -> Batches {
        group.settings.batches.unwrap_or(self.behaviour.batches)
    }

    /// Begins a registration and notifies the nodes.
    fn begin(&mut self, id: GroupId, key: TargetKey, zone: Zone, now: Duration) {
        let registration = self.serial();
        let Some(group) = self.groups.get(&id) else { return };
        let range = self.lag_of(group).registration;
        let nodes = group.attachment.as_ref().map_or(0, |attachment| attachment.nodes.len());
        let state = if self.node_at(key.ip).is_some() {
            State::Unused(Unused::IpUnusable)
        } else {
            state_at_begin(group, &zone)
        };
        if state == State::Registering {
            for node in 0..nodes {
                let at = now + self.draw_scaled(range);
                self.timers.add(at, Due::Learn(Seat { group: id, target: key, registration, node }));
            }
        }
        let at = self.timers.now();
        let Some(group) = self.groups.get_mut(&id) else { return };
        let before = group.remember(key, at);
        let target = group.targets.entry(key).or_insert_with(|| Target {
            key,
            zone: zone.clone(),
            state,
            registration,
            seen: Vec::new(),
            verdict: None,
            decision: 0,
            shown: 0,
            failure: Unhealthy::Failed,
        });
        // After a repeated registration, the nodes keep their knowledge until they learn of the new registration.
        target.seen.resize_with(nodes, Seen::default);
        target.zone = zone;
        target.registration = registration;
        target.verdict = None;
        target.state = state;
        self.events.extend(transition(group, key, before, Some(state)));
    }

    /// Deregisters targets. An invalid target rejects the whole call. As in AWS, unknown targets cause no error.
    pub fn deregister(&mut self, id: GroupId, raw: &[RawTarget], now: Duration) -> Result<(), Refusal> {
        let group = self.group(id)?;
        if raw.is_empty() {
            return Err(Refusal::validation("A target must be specified"));
        }
        let mut keys = Vec::with_capacity(raw.len());
        let mut refused = Ok(());
        for target in raw {
            match key_of(group, target) {
                Ok(key) => keys.push(key),
                Err(refusal) => refused = refused.and(Err(refusal)),
            }
        }
        if refused.is_ok() || self.batches(group) == Batches::Partial {
            for key in keys {
                self.end(id, key, now);
            }
        }
        refused
    }

    /// Ends a registration and notifies the nodes.
    fn end(&mut self, id: GroupId, key: TargetKey, now: Duration) {
        let Some(group) = self.groups.get(&id) else { return };
        let Some(target) = group.targets.get(&key) else { return };
        let (state, registration, nodes) = (target.state, target.registration, target.seen.len());
        match state {
            State::Draining => return,
            State::Unused(_) => return self.remove(id, key),
            _ => {}
        }
        let range = self.lag_of(group).deregistration;
        let mut longest = self.behaviour.scaled(group.deregistration_delay());
        for node in 0..nodes {
            let delay = self.draw_scaled(range);
            longest = longest.max(delay);
            let seat = Seat { group: id, target: key, registration, node };
            self.timers.add(now + delay, Due::Forget(seat));
        }
        self.timers.add(now + longest, Due::Expire { group: id, target: key, registration });
        self.set_state(id, key, State::Draining);
    }

    pub(super) fn expire(&mut self, id: GroupId, key: TargetKey, registration: u64) {
        let current = self.groups.get(&id).and_then(|group| group.targets.get(&key));
        if current.is_some_and(|t| t.registration == registration && t.state == State::Draining) {
            self.end_flows(id, key, registration);
            self.remove(id, key);
        }
    }

    /// Closes open flows at the end of the deregistration delay. A Network Load Balancer closes the flows only if an
    /// attribute requires it.
    fn end_flows(&mut self, id: GroupId, key: TargetKey, registration: u64) {
        let Some(group) = self.groups.get(&id) else { return };
        if group.kind() == Kind::Application || group.is_on(attributes::TERMINATION) {
            self.cuts.push(Cut { group: id, target: key.into(), node: None, up_to: registration });
        }
    }

    fn remove(&mut self, id: GroupId, key: TargetKey) {
        let at = self.timers.now();
        let Some(group) = self.groups.get_mut(&id) else { return };
        let before = group.remember(key, at);
        self.events.extend(transition(group, key, before, None));
        // At this point, each node knows that the registration is over. The loop ensures that no routing table contains
        // the target.
        let nodes = group.targets.get(&key).map_or(0, |target| target.seen.len());
        for node in 0..nodes {
            if let Some(seen) = self.seen_mut(id, key, node) {
                seen.registration = None;
            }
            self.reroute(id, key, node);
        }
        if let Some(group) = self.groups.get_mut(&id) {
            group.targets.remove(&key);
        }
    }

    /// Applies a registration at a node. The node begins to probe the target.
    pub(super) fn learn(&mut self, seat: Seat, now: Duration) {
        let Some(target) = self.groups.get_mut(&seat.group).and_then(|g| g.targets.get_mut(&seat.target))
        else {
            return;
        };
        if target.registration != seat.registration {
            return;
        }
        let first = target.state == State::Registering;
        let Some(seen) = target.seen.get_mut(seat.node) else { return };
        // The message about the deregistration can arrive before the message about the registration.
        if seen.forgotten >= seat.registration {
            return;
        }
        *seen = Seen::learned(seat.registration, seen.forgotten);
        if self.groups.get(&seat.group).is_some_and(|group| group.on_reuse() == OnReuse::Reset) {
            let up_to = seat.registration.saturating_sub(1);
            let target = seat.target.into();
            self.cuts.push(Cut { group: seat.group, target, node: Some(seat.node), up_to });
        }
        if first {
            self.set_state(seat.group, seat.target, State::Checking);
        }
        self.reroute(seat.group, seat.target, seat.node);
        self.timers.add(now, Due::Probe(seat));
    }

    /// Applies a deregistration at a node. The node stops sending.
    pub(super) fn forget(&mut self, seat: Seat) {
        let Some(seen) = self.seen_mut(seat.group, seat.target, seat.node) else { return };
        seen.forgotten = seen.forgotten.max(seat.registration);
        if seen.registration.is_some_and(|known| known <= seat.registration) {
            seen.registration = None;
            self.reroute(seat.group, seat.target, seat.node);
        }
    }

    /// Attaches a target group to a load balancer. The nodes begin to learn of the registrations.
    pub(super) fn attach(&mut self, id: GroupId, balancer: BalancerId, now: Duration) {
        let Some(nodes) = self.balancers.get(&balancer).map(|balancer| balancer.nodes.clone()) else {
            return;
        };
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.attachment = Some(Attachment::new(balancer, &nodes));
        let targets: Vec<(TargetKey, Zone)> = group
            .targets
            .values()
            .filter(|target| target.state != State::Draining)
            .map(|target| (target.key, target.zone.clone()))
            .collect();
        self.refresh_cross_zone(id);
        self.refresh_least(id);
        for (key, zone) in targets {
            self.begin(id, key, zone, now);
        }
    }

    /// Detaches a target group from its load balancer. The nodes stop sending immediately, and pending messages become
    /// void.
    pub(super) fn detach(&mut self, id: GroupId) {
        self.clear_views(id);
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.attachment = None;
        let keys: Vec<TargetKey> = group.targets.keys().copied().collect();
        for key in keys {
            let registration = self.serial();
            let Some(target) = self.groups.get_mut(&id).and_then(|g| g.targets.get_mut(&key)) else {
                continue;
            };
            target.seen.clear();
            if target.state != State::Draining {
                target.registration = registration;
                target.verdict = None;
                self.set_state(id, key, State::Unused(Unused::NoListener));
            }
        }
    }

    pub(super) fn set_state(&mut self, id: GroupId, key: TargetKey, state: State) {
        let at = self.timers.now();
        let Some(group) = self.groups.get_mut(&id) else { return };
        let before = group.remember(key, at);
        let Some(target) = group.targets.get_mut(&key) else { return };
        target.state = state;
        self.events.extend(transition(group, key, before, Some(state)));
    }

    pub(super) fn seen_mut(&mut self, id: GroupId, key: TargetKey, node: usize) -> Option<&mut Seen> {
        self.groups.get_mut(&id)?.targets.get_mut(&key)?.seen.get_mut(node)
    }

    /// Returns the key of a target in a call.
    pub fn key_of(&self, id: GroupId, raw: &RawTarget) -> Result<TargetKey, Refusal> {
        key_of(self.group(id)?, raw)
    }
}

impl TargetGroup {
    /// Stores the state that the API shows for a target before the state changes. Returns the stored state.
    fn remember(&mut self, key: TargetKey, now: Duration) -> Option<State> {
        let shown = self.targets.get(&key).map(|t| Shown { state: t.state, zone: t.zone.clone() });
        let state = shown.as_ref().map(|shown| shown.state);
        self.past.note(now, key, shown);
        state
    }
}

/// Returns a target to register. `None`: the target is already registered.
fn welcome(
    group: &TargetGroup,
    (key, zone): (TargetKey, Zone),
) -> Result<Option<(TargetKey, Zone)>, Refusal> {
    let draining = group.targets.get(&key).is_some_and(|target| target.state == State::Draining);
    match group.on_draining() {
        OnDraining::Reject if draining => Err(Refusal::validation(format!(
            "The IP address '{}' with port '{}' cannot be registered until its deregistration is complete",
            key.ip, key.port
        ))),
        OnDraining::Ignore if draining => Ok(None),
        _ if draining || !group.targets.contains_key(&key) => Ok(Some((key, zone))),
        _ => Ok(None),
    }
}

fn state_at_begin(group: &TargetGroup, zone: &Zone) -> State {
    match &group.attachment {
        None => State::Unused(Unused::NoListener),
        Some(attachment) if attachment.nodes.iter().any(|node| zone.covers(&node.zone)) => State::Registering,
        Some(_) => State::Unused(Unused::ZoneNotEnabled),
    }
}

/// Returns the trace entry for a change of state. `None` as a state means "not registered".
fn transition(group: &TargetGroup, key: TargetKey, from: Option<State>, to: Option<State>) -> Option<Event> {
    (from != to).then(|| Event::Target {
        target_group: group.spec.name.clone(),
        target: key.into(),
        from: from.map_or("unused", State::name),
        to: to.map_or("unused", State::name),
        reason: to.map_or(Some("Target.NotRegistered"), State::reason),
    })
}
