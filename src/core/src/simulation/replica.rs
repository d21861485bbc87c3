//! One replica of a world: the real engine, what it was told, and what must hold of each of its steps.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use crate::{
    engine::{Engine, Settings},
    input::{Call, CallId, CallItem, ErrorClass, Failure, Input, Scope},
    ledger::{Ledger, Noted, PodMark, StoredLedger},
    object::Uid,
    reason::Reason,
    simulation::{
        aws::{Aws, GROUPS, STALE},
        cluster::Cluster,
        coverage::Coverage,
        held::Told,
        oracle::Oracle,
        store::Store,
    },
    target::Target,
    target_group::TargetGroupArn,
    time::Moment,
};

/// AWS's limit for Register and Deregister, which the engine must keep.
const PER_SECOND: f64 = 4.0;
const BURST: f64 = 20.0;
/// A group whose removal has failed may wait this long before the next try (its backoff, and jitter of the same).
const BACKOFF: Duration = Duration::from_secs(5);
/// With so many tokens a removal waits for no other: more than its engine keeps for all groups there are.
const PLENTY: f64 = 13.0;
/// Removals of one group wait for each other while it was called this short ago.
const ACTIVE: Duration = Duration::from_secs(2);
/// While tokens are few, removals wait for each other no longer than this.
const LONGEST_HOLD: Duration = Duration::from_secs(4);
/// After AWS has throttled, the engine is slow for so long.
const RECOVERY: Duration = Duration::from_secs(60);

/// For how long a replica holds what is replaced as a whole; some do not.
const GRACES: [Duration; 4] =
    [Duration::from_secs(5), Duration::from_secs(20), Duration::from_secs(60), Duration::ZERO];

/// A target of a group.
pub type Key = (TargetGroupArn, Target);

/// What all replicas of a world have done together.
#[derive(Debug, Default)]
pub struct History {
    /// Every target that an engine has ever registered, or noted that it would.
    pub ever: BTreeSet<Key>,
    /// Every target whose registration AWS has ever confirmed.
    pub taken: BTreeSet<Key>,
    /// For which pod each target was registered last.
    pub registered_for: BTreeMap<Key, Uid>,
}

/// The world around a replica, for the checks.
pub struct Around<'a> {
    pub now: Moment,
    pub aws: &'a Aws,
    pub store: &'a Store,
    pub cluster: &'a Cluster,
    pub history: &'a mut History,
    pub coverage: &'a mut Coverage,
}

/// A replica.
pub struct Replica {
    pub engine: Engine,
    pub oracle: Oracle,
    /// Which life of the process this is.
    pub life: u64,
    /// What the watches have listed.
    pub listed: (bool, bool),
    /// Whether it was told to lead, and has the ledgers.
    pub leads: bool,
    pub loaded: bool,
    /// The request for the ledgers in flight.
    pub loading: Option<CallId>,
    /// Until when it may call: its last renewal and the renew deadline.
    pub valid_until: Moment,
    /// Until when it does not run, or its renewals get no answer.
    pub frozen_until: Option<Moment>,
    pub cut_off_until: Option<Moment>,
    /// What reached it while it did not run.
    pub inbox: VecDeque<(Input, Moment)>,
    pub calls: BTreeMap<CallId, Call>,
    /// Targets whose registration AWS has confirmed and whose removal was not sent since.
    confirmed: BTreeSet<Key>,
    failed: BTreeMap<TargetGroupArn, Moment>,
    /// The group whose read has been answered in this very step, and when it began.
    pub just_read: Option<(TargetGroupArn, Moment)>,
    tokens: (f64, Moment),
    /// When a removal was throttled last; and sent last, by group.
    throttled: Option<Moment>,
    removed: BTreeMap<TargetGroupArn, Moment>,
    /// The target whose removal is overdue, and since when.
    held: Option<(Key, Moment)>,
    /// For how long it holds what is replaced as a whole, and what it was told of that.
    grace: Duration,
    told: Told,
}

impl Replica {
    /// A process that has just started.
    pub fn new(seed: u64, life: u64, now: Moment) -> Self {
        let settings = Settings {
            region: "us-east-1".into(),
            scopes: vec![Scope::Cluster],
            seed,
            service_grace: Duration::ZERO,
            relist_patience: Duration::ZERO,
            replacement_grace: GRACES[usize::try_from(seed % 4).unwrap_or_default()],
            ..Settings::default()
        };
        let grace = settings.replacement_grace;
        Self {
            engine: Engine::new(settings),
            oracle: Oracle::default(),
            life,
            listed: (false, false),
            leads: false,
            loaded: false,
            loading: None,
            valid_until: Moment::START,
            frozen_until: None,
            cut_off_until: None,
            inbox: VecDeque::new(),
            calls: BTreeMap::new(),
            confirmed: BTreeSet::new(),
            failed: BTreeMap::new(),
            just_read: None,
            tokens: (BURST, now),
            throttled: None,
            removed: BTreeMap::new(),
            held: None,
            grace,
            told: Told::default(),
        }
    }

    pub fn runs(&self) -> bool {
        self.frozen_until.is_none()
    }

    /// It is told to lead.
    pub fn leads(&mut self, now: Moment) {
        self.told.leads(now);
        (self.leads, self.loaded, self.loading) = (true, false, None);
    }

    /// It is told to stand by.
    pub fn stands_by(&mut self) {
        (self.leads, self.loaded) = (false, false);
        self.calls.retain(|_, call| matches!(call, Call::FindGroup { .. }));
        self.confirmed.clear();
        self.failed.clear();
        self.held = None;
    }

    /// It is given the ledgers: what they have of pods that are going is to be removed at once.
    pub fn takes_over(&mut self, ledgers: &[StoredLedger], aws: &Aws) {
        self.loaded = true;
        if self.listed != (true, true) {
            return;
        }
        for stored in ledgers {
            let (group, ledger): (_, Ledger) = stored.open().unwrap();
            for (target, noted, _) in ledger.iter() {
                if noted != Noted::Removed && aws.has(&group, target) && self.oracle.is_going(target) {
                    self.confirmed.insert((group.clone(), *target));
                }
            }
        }
    }

    /// What an answer tells the checker; `sent`: when its call was.
    pub fn learns(&mut self, input: &Input, sent: Moment, around: &mut Around<'_>) {
        let Input::Answered { id, result } = input else { return };
        if let Some(call) = self.calls.get(id) {
            self.told.answered(call, result, sent, around.now);
        }
        match (self.calls.remove(id), result) {
            (Some(Call::Register { group, items }), Ok(_)) => {
                let open = |key: &Key| self.calls.values().any(|call| removes(call, key));
                let keys: Vec<Key> = items.iter().map(|item| (group.clone(), item.target)).collect();
                self.confirmed.extend(keys.into_iter().filter(|key| !open(key)));
            }
            (Some(Call::ReadHealth { group }), Ok(_)) => self.just_read = Some((group, sent)),
            (Some(call @ (Call::Register { .. } | Call::Deregister { .. })), Err(Failure { class, .. })) => {
                if *class == ErrorClass::Throttled && matches!(call, Call::Deregister { .. }) {
                    self.throttled = Some(around.now);
                }
                let (Call::Register { group, .. } | Call::Deregister { group, .. }) = call else { return };
                self.failed.insert(group, around.now);
            }
            _ => {}
        }
    }

    /// A call was not made because the lease is over; its engine takes it for made.
    pub fn holds_back(&mut self, call: &Call, now: Moment) {
        if let Call::Deregister { group, .. } = call {
            self.removed.insert(group.clone(), now);
        }
    }

    /// The engine has taken something in; `told`: from a watch.
    pub fn looks(&mut self, told: bool, aws: &Aws, now: Moment) {
        self.oracle.looks(|name| self.engine.knows_group(name));
        for name in GROUPS.iter().filter(|_| told) {
            if let Some(arn) = aws.arn(name) {
                self.told.wants(arn, &self.oracle.wanted(name), now);
            }
        }
    }

    /// A step is over.
    pub fn check_step(&mut self, around: &mut Around<'_>) -> Result<(), String> {
        // What others took out is not ours to take out at once, should a late call bring it back.
        self.confirmed.retain(|(group, target)| around.aws.has(group, target));
        if let Some(group) = self.engine.overslept(around.now) {
            return Err(format!("{} sleeps, and something is due in it", group.name()));
        }
        self.check_removals_are_prompt(around)?;
        if around.aws.strangers_are_untouched() {
            Ok(())
        } else {
            Err("a stranger's target was removed".into())
        }
    }

    pub fn check_call(&mut self, call: &Call, around: &mut Around<'_>) -> Result<(), String> {
        if matches!(call, Call::FindGroup { .. }) {
            return Ok(());
        }
        if !self.leads {
            return Err(format!("{} by a replica that does not lead", call.action()));
        }
        if self.listed != (true, true) {
            return Err(format!("{} before every watch has listed", call.action()));
        }
        if !self.loaded {
            return Err(format!("{} before the ledgers are loaded", call.action()));
        }
        let (Call::Register { group, items } | Call::Deregister { group, items }) = call else {
            return Ok(());
        };
        let gained = around.now.since(self.tokens.1).as_secs_f64() * PER_SECOND;
        self.tokens = ((self.tokens.0 + gained).min(BURST) - 1.0, around.now);
        if self.tokens.0 < -1e-6 {
            return Err("more calls than AWS's limit allows".into());
        }
        if items.is_empty() || items.len() > 100 {
            return Err(format!("a call with {} targets", items.len()));
        }
        items.iter().try_for_each(|item| {
            around.coverage.reason(item.reason);
            match call {
                Call::Register { .. } => self.check_registration(group, item, around),
                _ => self.check_removal(group, item, around),
            }
        })
    }

    fn check_registration(
        &mut self,
        group: &TargetGroupArn,
        item: &CallItem,
        around: &mut Around<'_>,
    ) -> Result<(), String> {
        let key = (group.clone(), item.target);
        if let Some(racing) = self.calls.values().find(|call| removes(call, &key)) {
            return Err(format!("{} is registered while {} is in flight", item.target, racing.action()));
        }
        if let Some((waits, target)) = self.overdue(around) {
            return Err(format!("a registration goes before the removal of {target} from {}", waits.name()));
        }
        let last = self.oracle.last_to_get(&item.target, &item.pod);
        if last.is_none_or(|last| last.uid != item.uid) {
            let owner = last.map(|pod| pod.uid.clone());
            return Err(format!("{} is registered for {}, and is {owner:?}'s", item.target, item.uid));
        }
        around.history.registered_for.insert(key, item.uid.clone());
        if !around.store.says(group, &item.target, PodMark::of(&item.uid)) {
            return Err(format!("{} is registered in {} and not in the ledger", item.target, group.name()));
        }
        if item.reason == Reason::TargetMissing
            && let Some((_, began)) = self.just_read.as_ref().filter(|(read, _)| read == group)
            && item.since == around.now
            && around.aws.has_since(group, &item.target).is_some_and(|since| since + STALE < *began)
        {
            return Err(format!("{} is said to be missing in {}, and never was", item.target, group.name()));
        }
        Ok(())
    }

    fn check_removal(
        &mut self,
        group: &TargetGroupArn,
        item: &CallItem,
        around: &mut Around<'_>,
    ) -> Result<(), String> {
        let (key, aws) = ((group.clone(), item.target), around.aws);
        let name = group.name();
        let known = self.engine.knows_group(name) && aws.arn(name) == Some(group);
        if known && self.oracle.wanted(name).contains(&item.target) {
            return Err(format!("{} of a living pod is removed from {name}", item.target));
        }
        if !around.history.ever.contains(&key) {
            return Err(format!("{} is removed from {name} and was never registered", item.target));
        }
        let read = self.just_read.as_ref().filter(|(read, _)| read == group && item.since == around.now);
        if item.reason == Reason::TargetReappeared
            && let Some((_, began)) = read
            && !aws.had(group, &item.target, *began - STALE)
        {
            return Err(format!("{} is said to be back in {name}, and is not", item.target));
        }
        if item.reason == Reason::StaleTarget && item.since == around.now {
            if !self.oracle.is_gone(&item.target) && self.oracle.is_in_doubt() {
                return Err(format!("{} of a pod that may be wanted is removed from {name}", item.target));
            }
            let healthy = aws.healthy_since(group, &item.target);
            if let (Some(since), Some((_, began))) = (healthy, read)
                && since + STALE < *began
                && !self.oracle.is_held(&item.target)
                && around.cluster.elsewhere.contains(&item.target.ip)
            {
                return Err(format!("{} of another cluster is removed from {name}", item.target));
            }
        }
        if known {
            self.told.check_removal(group, item, &self.oracle, around.history, self.grace, around.now)?;
        }
        self.confirmed.remove(&key);
        self.removed.insert(group.clone(), around.now);
        Ok(())
    }

    /// A target whose pod is gone is removed in the very step that says so, unless the backoff of its own group stands
    /// in the way, or AWS's limit: while tokens are few, or the group was called just now, removals may wait a moment
    /// for each other.
    fn check_removals_are_prompt(&mut self, around: &Around<'_>) -> Result<(), String> {
        let slow = self.throttled.is_some_and(|throttled| around.now.since(throttled) < RECOVERY);
        let may = self.loaded && self.valid_until >= around.now;
        let ready = self.listed == (true, true) && may && !slow;
        let overdue = if ready { self.overdue(around).cloned() } else { None };
        let Some(key) = overdue else {
            self.held = None;
            return Ok(());
        };
        let since = match &self.held {
            Some((held, since)) if *held == key => *since,
            _ => around.now,
        };
        self.held = Some((key.clone(), since));
        let gained = around.now.since(self.tokens.1).as_secs_f64() * PER_SECOND;
        let tokens = (self.tokens.0 + gained).min(BURST);
        let called = self.removed.get(&key.0).is_some_and(|sent| around.now.since(*sent) < ACTIVE);
        let at_once = tokens >= PLENTY && !called;
        if at_once || (tokens >= 1.0 && around.now.since(since) > LONGEST_HOLD) {
            return Err(format!("{} of {} is not removed, and its pod is gone", key.1, key.0.name()));
        }
        Ok(())
    }

    /// A target that is there, whose pod is gone, and whose removal has no reason to wait but for AWS's limit.
    fn overdue(&self, around: &Around<'_>) -> Option<&Key> {
        self.confirmed.iter().find(|(group, target)| {
            let failed = self.failed.get(group);
            let backing_off = failed.is_some_and(|failed| around.now.since(*failed) < BACKOFF);
            !backing_off && around.aws.has(group, target) && self.oracle.is_gone(target)
        })
    }
}

fn removes(call: &Call, key: &Key) -> bool {
    matches!(call, Call::Deregister { group, items } if *group == key.0 && items.iter().any(|item| item.target == key.1))
}
