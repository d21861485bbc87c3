//! All state of one target group.

use std::{collections::BTreeMap, time::Duration};

use super::{allowed::Allowed, observation::Observation, pace::Pace};
use crate::{
    backoff::Backoff,
    ledger::StoredLedger,
    model::rates::MAX_TARGETS_PER_CALL,
    model::{
        BindingKey, CallItem, Cause, Failure, FailureClass, Health, HealthState, Moment, ObjectKey, Owner,
        Reason, RequestId, Target, TargetGroupArn, ZoneName, health::NeverHealthy,
        target_group::GroupSettings, time::Window, transition::TargetStep, troubles::Troubles,
    },
    targets::registration::{Registrations, STALE, Sight},
    view::{EndingView, GroupView, ZoneView},
};

/// While a pod waits for another pod of its zone to become healthy, the group is read this often, for [`CLOSELY`].
const READ_CLOSELY: Duration = Duration::from_millis(500);
const CLOSELY: Duration = Duration::from_secs(3);
/// While a readiness gate waits for the next read, the group is read this often. Most of the time from healthy to ready
/// is spent waiting for that read.
const READ_FOR_GATES: Duration = Duration::from_secs(1);
/// A zone with a healthy target remains in the view this long, even if the target is no longer healthy.
const SERVED_LATELY: Duration = Duration::from_secs(3600);
/// Delay of the read after a register or deregister call has ended.
const READ_AFTER_CHANGE: Duration = Duration::from_secs(1);

/// One target group: its registrations, reads and problems. Each kind of call has its own backoff.
#[derive(Clone, Debug)]
pub struct Group {
    pub(super) registrations: Registrations,
    pub(super) observation: Observation,
    pub(super) removals: Backoff,
    pub(super) additions: Backoff,
    pub(super) reads: Backoff,
    pub(super) troubles: Troubles,
    pub(super) allowed: Allowed,
    /// AWS reports that the group does not exist.
    pub(super) gone: bool,
    /// When the last registration was sent.
    added: Option<Moment>,
    /// How long registrations wait to be sent in one call.
    window: Window,
    /// When this leader took the group over with its ledger, until a read has shown its targets.
    inherited: Option<Moment>,
    /// The end of the time in which the group is read every [`READ_CLOSELY`].
    closely_until: Moment,
    pace: Pace,
    /// When a healthy target was last seen in each zone.
    served: BTreeMap<ZoneName, Moment>,
}

impl Group {
    pub(super) fn new(settings: &GroupSettings, seed: u64) -> Self {
        let backoff =
            |first, cap| Backoff::new(Duration::from_millis(first), Duration::from_millis(cap), seed);
        Self {
            registrations: Registrations::new(settings, seed),
            observation: Observation::default(),
            removals: backoff(100, 2_000),
            additions: backoff(250, 10_000),
            reads: backoff(500, 10_000),
            troubles: Troubles::default(),
            allowed: Allowed::new(settings.read_only),
            gone: false,
            added: None,
            window: settings.add_window,
            inherited: None,
            closely_until: Moment::START,
            served: BTreeMap::new(),
            pace: Pace::default(),
        }
    }

    /// The targets of the group: what Headgate sent to AWS, what it must send, and the ledger.
    pub const fn registrations(&self) -> &Registrations {
        &self.registrations
    }

    pub const fn registrations_mut(&mut self) -> &mut Registrations {
        &mut self.registrations
    }

    pub const fn observation(&self) -> &Observation {
        &self.observation
    }

    pub const fn troubles(&self) -> &Troubles {
        &self.troubles
    }

    /// Whether AWS reports that the group does not exist.
    pub const fn is_missing(&self) -> bool {
        self.gone
    }

    /// The foreign targets in the last read: somebody else registered them.
    pub fn foreign_targets(&self) -> impl Iterator<Item = Target> {
        let states = self.observation.states().iter();
        let there = states.filter(|(_, health)| health.state != HealthState::Draining);
        there.map(|(target, _)| *target).filter(|target| !self.registrations.knows(target))
    }

    /// Takes the group over with this ledger, if there is one. Reads the group now, and again when a read cannot be
    /// older than the takeover. Returns the term that has written the ledger, if that term is later than this one.
    pub fn take_over(&mut self, stored: Option<&StoredLedger>, now: Moment) -> Option<u64> {
        let read = self.registrations.read_ledger(stored, now);
        if read.is_ok() {
            self.inherited = Some(now);
            self.observation.await_within(now, Duration::ZERO);
            self.pace.changed(now);
        }
        let (later, error) = read.map_or_else(|error| (None, Some(error)), |later| (later, None));
        self.ledger_trouble(error.map(|error| (Reason::LedgerUnreadable, error.to_string())));
        later
    }

    /// Advances the time. Returns whether held deregistrations are due now.
    pub(super) fn pass(&mut self, now: Moment) -> bool {
        self.registrations.pass(now);
        self.registrations.hold(self.gone, now)
    }

    /// What the last read shows of a target from the ledger. A read that began before the ledger was read does not
    /// count. A missing target counts only when no late call can register it any more, so that it needs no call.
    pub fn sight(&self, target: &Target) -> Option<Sight> {
        let read = self.observation.last_read()?;
        let since = self.registrations.orphan_since(target)?;
        match self.observation.state(target) {
            None | Some(HealthState::Draining) => {
                (!self.registrations.is_to_go(target)).then_some(Sight::Missing)
            }
            Some(state) => (read >= since).then_some(Sight::There(state)),
        }
    }

    /// Cause time of the oldest pending deregistration, if it may be sent now.
    pub(super) fn removal(&self, now: Moment) -> Option<Moment> {
        self.registrations.oldest_removal().filter(|_| self.removals.is_over(now))
    }

    /// Cause time of the oldest pending registration, if it may be sent now.
    pub(super) fn addition(&self, now: Moment) -> Option<Moment> {
        let oldest = self.registrations.oldest_addition()?;
        (self.addition_opens(oldest) <= now).then_some(oldest)
    }

    /// Cause time of the oldest registration that AWS has rejected or will probably reject, if it may be retried now.
    pub(super) fn retry(&self, now: Moment) -> Option<Moment> {
        let (oldest, _) = self.registrations.oldest_retry()?;
        self.next_retry().is_some_and(|due| due <= now).then_some(oldest)
    }

    /// When something is due in the group if nothing else changes.
    pub(super) fn next_due(&self, now: Moment) -> Option<Moment> {
        // While a gate is being closed, each step checks its pod.
        let puts_back = self.registrations.put_backs().next().map(|_| Moment::START);
        let rest =
            [self.next_removal(), self.next_addition(), self.next_retry(), self.next_read(), puts_back];
        rest.into_iter().chain([self.next_without_token(now)]).flatten().min()
    }

    /// When something is due in the group that needs no token.
    pub(super) fn next_without_token(&self, now: Moment) -> Option<Moment> {
        let ledger = self.next_ledger(now).filter(|_| !self.is_read_only());
        ledger.into_iter().chain(self.registrations.held_until()).min()
    }

    /// When the next read is due. `None`: a read is in flight.
    pub fn next_read(&self) -> Option<Moment> {
        self.observation.due().map(|due| due.max(self.reads.until()))
    }

    /// When the next read is due that somebody waits for.
    pub fn next_awaited_read(&self) -> Option<Moment> {
        self.observation.awaited().map(|due| due.max(self.reads.until()))
    }

    /// When a waiting deregistration may be sent, after its backoff or retry time.
    pub fn next_removal(&self) -> Option<Moment> {
        let due = self.registrations.oldest_removal().map(|_| self.removals.until());
        let later = self.registrations.next_removal().map(|until| until.max(self.removals.until()));
        due.or(later)
    }

    /// When a waiting registration may be sent, after its backoff or retry time.
    pub fn next_addition(&self) -> Option<Moment> {
        let oldest = self.registrations.oldest_addition();
        let addition = oldest.map(|oldest| self.addition_opens(oldest));
        addition.into_iter().chain(self.registrations.next_take_up()).min()
    }

    /// When Headgate may retry a registration that AWS has rejected or will probably reject.
    pub(super) fn next_retry(&self) -> Option<Moment> {
        let (oldest, refused) = self.registrations.oldest_retry()?;
        Some(if refused { self.additions.until() } else { self.addition_opens(oldest) })
    }

    /// When a batch of registrations may be sent: after the backoff, and when no further registration has joined for a
    /// moment. `oldest`: the cause time of its oldest entry. If no batch was sent lately, it may be sent immediately.
    fn addition_opens(&self, oldest: Moment) -> Moment {
        let newest = self.registrations.newest_addition().unwrap_or(oldest);
        self.window_closes(oldest, newest).max(self.additions.until())
    }

    /// When a batch is complete. `oldest` and `newest`: the cause times of its oldest and newest entry.
    fn window_closes(&self, oldest: Moment, newest: Moment) -> Moment {
        let alone = self.added.is_none_or(|added| added + self.window.most <= oldest);
        if alone { oldest } else { (newest + self.window.idle).min(oldest + self.window.most) }
    }

    /// When the ledger must be read or written. One write records a whole batch of registrations; a later registration
    /// needs another write.
    pub fn next_ledger(&self, now: Moment) -> Option<Moment> {
        let urgent = self.registrations.unnoted().map(|(oldest, newest)| self.window_closes(oldest, newest));
        self.registrations.next_ledger(urgent, now)
    }

    /// Starts a registration call now and returns its targets.
    pub fn start_addition(&mut self, id: RequestId, now: Moment) -> Vec<CallItem> {
        self.added = Some(now);
        self.registrations.start_addition(id, MAX_TARGETS_PER_CALL)
    }

    pub fn start_read(&mut self, now: Moment) {
        self.observation.start(now);
    }

    /// A readiness gate waits for the next read. If nothing has changed for minutes, the group is read at the normal
    /// rate.
    pub fn await_read(&mut self, now: Moment) {
        if self.pace.is_fresh(now) {
            self.observation.await_within(now, READ_FOR_GATES);
        }
    }

    /// A readiness gate waits for a target to become healthy at an unknown time.
    pub fn expect(&mut self, now: Moment) {
        match self.pace.while_expected(now) {
            (wait, true) => self.observation.await_within(now, wait),
            (wait, false) => self.observation.within(now, wait),
        }
    }

    /// Something has changed whose effect a read may show. The group is read soon, and then less and less often.
    pub fn stir(&mut self, now: Moment) {
        self.pace.changed(now);
        self.observation.within(now, self.pace.while_amiss(now));
    }

    /// Somebody waits for a target to become healthy.
    pub fn look_closely(&mut self, now: Moment) {
        self.closely_until = now + CLOSELY;
        self.observation.await_within(now, READ_CLOSELY);
    }

    /// A register or deregister call has ended: reads the group soon.
    pub(super) fn changed(&mut self, now: Moment) {
        self.pace.changed(now);
        self.observation.await_within(now, READ_AFTER_CHANGE);
    }

    /// Handles the end of a `RegisterTargets`.
    pub fn registered(&mut self, id: RequestId, items: &[CallItem], failure: Option<&Failure>, now: Moment) {
        let class = failure.map(|failure| failure.class);
        self.registrations.registered(id, items, class, now);
        // A rejected target must not delay the other targets. A full group must not delay those that fit.
        match class {
            None | Some(FailureClass::Refused | FailureClass::Full) => self.additions.succeeded(),
            Some(_) => self.additions.failed(now),
        }
        self.changed(now);
    }

    /// Handles the end of a `DeregisterTargets`. Returns whether AWS accepted it. A group that does not exist has no
    /// targets.
    pub fn deregistered(
        &mut self,
        id: RequestId,
        items: &[CallItem],
        failure: Option<&Failure>,
        now: Moment,
    ) -> bool {
        let class = failure.map(|failure| failure.class);
        self.registrations.deregistered(id, items, class, now);
        if class == Some(FailureClass::Gone) {
            self.is_gone();
        }
        match class {
            // A rejected target must not delay the other targets of the group.
            None | Some(FailureClass::Gone | FailureClass::Refused) => self.removals.succeeded(),
            Some(_) => self.removals.failed(now),
        }
        self.changed(now);
        matches!(class, None | Some(FailureClass::Gone))
    }

    /// Handles a failed read.
    pub fn unread(&mut self, failure: &Failure, now: Moment) {
        self.observation.failed();
        self.registrations.unread(now);
        self.reads.failed(now);
        if failure.class == FailureClass::Gone {
            self.is_gone();
        }
    }

    fn is_gone(&mut self) {
        self.registrations.group_is_gone();
        self.gone = true;
    }

    /// Handles the end of a read. The next read is due after `rarely` if nothing is under way. Returns how long each target took to become healthy that this read is the first to
    /// show as healthy, whether the problems have changed, and the steps of targets that have, or had, a pod.
    pub fn observed(
        &mut self,
        states: Vec<(Target, Health)>,
        rarely: Duration,
        now: Moment,
    ) -> (Vec<Duration>, bool, Vec<(Target, Owner, TargetStep)>) {
        let is_first = self.observation.last_read().is_none();
        let wrong = |group: &Self| (group.registrations.contested() > 0, group.troubles.zone());
        let before = wrong(self);
        let shown = self.observation.read(states.into_iter().collect());
        // The states in the first read may be old.
        let steps = if is_first { Vec::new() } else { self.steps_since(&shown) };
        let healthy = self.observation.states().values().filter(|health| health.state.is_healthy());
        self.served.extend(healthy.filter_map(|health| Some((health.zone?, now))));
        self.served.retain(|_, seen| now.since(*seen) < SERVED_LATELY);
        self.gone = false;
        self.reads.succeeded();
        let mut grown = Vec::new();
        if let Some(began) = self.observation.last_read() {
            let states = self.observation.states();
            if self.registrations.observed(states, began, now) {
                self.pace.taken(now);
            }
            grown = self.registrations.grown_healthy(now);
        }
        self.note_zones(now);
        let read = self.observation.last_read();
        self.inherited.take_if(|since| read.is_some_and(|began| began.since(*since) >= STALE));
        self.read_again(&shown, rarely, now);
        (grown, wrong(self) != before, steps)
    }

    /// The differences between the last read and the read before (`shown`), for targets that have, or had, a pod.
    fn steps_since(&self, shown: &BTreeMap<Target, Health>) -> Vec<(Target, Owner, TargetStep)> {
        let states = self.observation.states();
        let there = states.iter().map(|(target, health)| (target, Some(*health)));
        let gone = shown.keys().filter(|target| !states.contains_key(target)).map(|target| (target, None));
        let step = |(target, now): (&Target, Option<Health>)| {
            let before = shown.get(target).map(|health| health.state);
            let owner = self.registrations.whose(target).filter(|_| before != now.map(|now| now.state))?;
            Some((*target, owner.clone(), TargetStep::Shown(before, now)))
        };
        there.chain(gone).filter_map(step).collect()
    }

    /// Schedules the next read after a read has ended. `shown`: the result of the read before.
    fn read_again(&mut self, shown: &BTreeMap<Target, Health>, rarely: Duration, now: Moment) {
        let (mut is_new, mut is_amiss) = (false, self.registrations.waits_for_read());
        for target in self.registrations.wanted() {
            let state = self.observation.state(target);
            is_new |= state == Some(HealthState::Initial);
            is_amiss |= !state.is_some_and(HealthState::is_healthy);
            if state != shown.get(target).map(|health| health.state) {
                self.pace.changed(now);
            }
        }
        let waits = [
            is_new.then(|| self.pace.while_new(now)),
            is_amiss.then(|| self.pace.while_amiss(now)),
            self.pace.while_contested(now),
            self.inherited.map(|_| STALE),
            self.registrations.next_look(now),
        ];
        self.observation.again_in(now, waits.into_iter().flatten().fold(rarely, Duration::min));
        if now < self.closely_until {
            self.observation.await_within(now, READ_CLOSELY);
        }
        // A new leader must find out soon whether AWS has the targets of the ledger.
        if self.registrations.waits_for_read() && self.pace.is_fresh(now) {
            self.observation.await_within(now, READ_AFTER_CHANGE);
        }
    }

    /// The targets in the last read that have been registered for `long` and were never healthy. Each is returned once.
    pub fn find_never_healthy(
        &mut self,
        long: Duration,
        was_healthy: impl Fn(&Owner) -> bool,
        now: Moment,
    ) -> Vec<NeverHealthy> {
        self.registrations.find_never_healthy(self.observation.states(), long, was_healthy, now)
    }

    /// The targets of a binding that are being deregistered.
    pub fn ending(&self, binding: &BindingKey) -> Vec<EndingView> {
        let view = |(target, pod, cause, registered): (&Target, &ObjectKey, Cause, bool)| {
            let state = self.observation.state(target);
            let there = registered || state.is_some();
            let (pod, reason) = (pod.clone(), cause.reason());
            there.then_some(EndingView { target: *target, pod, reason, registered, state })
        };
        self.registrations.ending(binding).filter_map(view).collect()
    }

    /// The view of the group. `zone_of`: the zone of a pod according to its Node.
    pub fn view(
        &self,
        group: &TargetGroupArn,
        zone_of: impl Fn(&ObjectKey) -> Option<ZoneName>,
    ) -> GroupView {
        let lately = self.served.keys().map(|zone| (Some(*zone), ZoneView::default()));
        let mut zones: BTreeMap<Option<ZoneName>, ZoneView> = lately.collect();
        for Health { state, zone, .. } in self.observation.states().values() {
            *zones.entry(*zone).or_default().states.entry(*state).or_insert(0) += 1;
        }
        for (target, owner) in self.registrations.wanted_by() {
            let seen = self.observation.health(target);
            let zone = seen.and_then(|health| health.zone).or_else(|| zone_of(&owner.pod));
            let zone = zones.entry(zone).or_default();
            zone.wanted += 1;
            zone.serving += usize::from(seen.is_some_and(|health| health.state == HealthState::Healthy));
        }
        GroupView {
            group: group.clone(),
            zones,
            foreign: self.foreign_targets().count(),
            suspects: self.troubles.suspects.len(),
            contested: self.registrations.contested(),
            never_healthy: self.registrations.never_healthy(),
            paused: self.registrations.paused(),
            unplaced: self.troubles.unplaced,
            held: self.registrations.held().count(),
            held_until: self.registrations.held_until(),
            last_read: self.observation.last_read(),
            oldest_removal: self.registrations.oldest_untaken_removal(),
        }
    }
}
