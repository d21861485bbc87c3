//! What tells one state from another: times become how long ago they were, as far as a rule looks back; versions become whether
//! they are the present one.

use std::hash::{DefaultHasher, Hash, Hasher};

use headgate_core::{
    Target,
    ledger::{LedgerVersion, PodMark},
    model::HealthState,
    model::Moment,
    targets::claims::{Claim, Claims, Draining, State, Way},
};

use super::{
    leader::Leader,
    parts::{self, moment},
    shapes::{BOUND, STALE},
    world::World,
};

/// The number of a state.
pub type Fingerprint = u64;

impl World {
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hasher = DefaultHasher::new();
        let to = &mut hasher;
        (&self.aws, &self.pods, self.zombie, &self.late_calls, self.is_settled, self.was_paused, self.left)
            .hash(to);
        for group in 0..self.shape.groups() {
            let ledger = &self.ledgers[group];
            let content = ledger.content.as_ref().map(|(_, content)| content);
            content.map(|content| self.term - content.term).hash(to);
            content.map(|content| claims(&content.claims)).hash(to);
        }
        let mut late_writes: Vec<_> = self
            .late_writes
            .iter()
            .map(|(group, write)| {
                let is_new = self.term == write.content.term;
                (*group, self.base(*group, write.version.as_ref()), claims(&write.content.claims), is_new)
            })
            .collect();
        late_writes.sort();
        late_writes.hash(to);
        for leader in &self.leaders {
            leader.is_some().hash(to);
            if let Some(leader) = leader {
                self.put_leader(leader, to);
            }
        }
        hasher.finish()
    }

    fn put_leader(&self, leader: &Leader, to: &mut DefaultHasher) {
        (leader.granted, leader.moved, leader.settled.since(moment(self.now)), self.term - leader.term)
            .hash(to);
        leader.seen.map(|pod| pod.seen()).hash(to);
        for call in &leader.calls {
            call.map(|call| (call.way == Way::In, call.pod, call.is_applied)).hash(to);
        }
        leader
            .reading
            .map(|reading| (reading.shown, (self.now - reading.began).min(BOUND + STALE + 2)))
            .hash(to);
        for (group, targets) in leader.groups.iter().enumerate() {
            let ledger = targets.ledger();
            (ledger.is_ready(), targets.reads().is_unreadable(), self.base(group, ledger.version())).hash(to);
            ledger.last_written().map(|content| claims(&content.claims)).hash(to);
            let write = leader.writes[group].as_ref();
            let write =
                write.map(|write| (self.base(group, write.version.as_ref()), claims(&write.content.claims)));
            write.hash(to);
            for target in (0..self.shape.targets).filter(|target| self.shape.group(*target) == group) {
                let at = parts::target(self.shape, target);
                // What was seen of a target matters when it is claimed. Until AWS has accepted its removal that is long ago.
                let is_unknown = match targets.state(&at) {
                    None | Some(State::Absent { .. } | State::Claiming { before: None, .. }) => true,
                    Some(State::Draining(draining)) => draining.accepted().is_none(),
                    Some(_) => false,
                };
                if is_unknown {
                    let (first, other) = targets.reads().times(&at);
                    let age =
                        |began: Moment| moment(self.now).since(began).as_secs().min(u64::from(STALE) + 2);
                    // While a read shows it, it is not claimed as if nothing had been there.
                    let other = other.filter(|_| targets.reads().health(&at).is_none());
                    (targets.reads().health(&at).is_some(), first.map(age), other.map(age)).hash(to);
                } else {
                    targets
                        .reads()
                        .health(&at)
                        .is_some_and(|health| health != HealthState::Draining)
                        .hash(to);
                }
                self.put_state(targets.state(&at), to);
            }
        }
    }

    fn put_state(&self, state: Option<&State>, to: &mut DefaultHasher) {
        let longest = self.shape.notice + STALE + 2;
        let now = moment(self.now);
        let ago = |moment: &Moment, most: u32| now.since(*moment).as_secs().min(most.into());
        let draining = |draining: &Draining| {
            let accepted = draining.accepted().as_ref().map(|accepted| ago(accepted, BOUND + STALE + 2));
            (draining.pod(), accepted, draining.looked(), draining.by_absence())
        };
        let Some(state) = state else { return 0_u8.hash(to) };
        match state {
            State::Absent { since } => (1_u8, ago(since, 2)).hash(to),
            State::Claiming { pod, before, past } => {
                (2_u8, pod, before.as_ref().map(draining), past).hash(to);
            }
            State::Registering { pod, before, past, .. } => {
                (3_u8, pod, before.as_ref().map(draining), past).hash(to);
            }
            State::Registered { pod, since, health, past, late } => {
                (4_u8, pod, ago(since, longest), health.map(|health| health as u8), past).hash(to);
                late.as_ref().map(|late| late.since(now).as_secs()).hash(to);
            }
            State::Deregistering { pod, .. } => (5_u8, pod).hash(to),
            State::Draining(is) => (6_u8, draining(is)).hash(to),
            State::Unsettled { pod, until, from, call, early, gave_up, adds } => {
                let left = |moment: &Moment| moment.since(now).as_secs();
                (7_u8, pod, left(until), left(from), ago(from, STALE + 2)).hash(to);
                (call.is_some(), early.as_ref().map(|(way, sent)| (*way == Way::In, ago(sent, STALE + 2))))
                    .hash(to);
                (gave_up.as_ref().map(|(_, until)| left(until)), adds).hash(to);
            }
        }
    }

    /// Whether a version is the present one; `None`: there is none.
    fn base(&self, group: usize, version: Option<&LedgerVersion>) -> Option<bool> {
        let now = self.ledgers[group].content.as_ref().map(|(version, _)| version);
        version.map(|version| Some(version) == now)
    }
}

fn claims(claims: &Claims) -> Vec<(Target, PodMark)> {
    let one = |(target, claim): (&Target, &Claim)| (*target, claim.pod);
    claims.iter().map(one).collect()
}
