//! One replica of a world: the real engine, and what it was told.

mod checks;
mod detaching;
mod gates;
mod leaving;
mod seen;
mod unread;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    time::Duration,
};

pub use self::leaving::SKEW;
use self::{checks::BURST, gates::ToldOf, leaving::Leaving, unread::Unread};
use crate::{
    aws::Aws, cluster::Cluster, coverage::Coverage, held::Told, history::History,
    objects::everything_is_granted, oracle::Oracle, properties::beside, store::Store, words::GROUPS,
    words::Key,
};
use headgate_core::{
    Settings,
    engine::{Effect, Engine, Input, Leadership},
    ledger::{Ledger, Noted, PodMark, StoredLedger},
    model::{
        Call, Change, Failure, FailureClass, Moment, ObjectKey, RequestId, TargetGroupArn, Uid,
        gate::GateWrite,
    },
    requests::Answer,
};

/// The world around a replica, for the checks.
pub struct Around<'a> {
    pub now: Moment,
    pub aws: &'a mut Aws,
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
    /// When it has started.
    pub born: Moment,
    /// Whether it was told to lead, and has the ledgers, and since when.
    pub leads: bool,
    pub loaded: Option<Moment>,
    /// The pods of which the ledgers had targets then.
    inherited: BTreeSet<PodMark>,
    /// The request for the ledgers in flight.
    pub loading: Option<RequestId>,
    /// The request of a standby that learns of them, in this very step.
    pub learns_of_ledgers: Option<RequestId>,
    /// Until when it may call: its last renewal and the renew deadline.
    pub valid_until: Moment,
    /// Until when it does not run, or its renewals get no answer.
    pub frozen_until: Option<Moment>,
    pub cut_off_until: Option<Moment>,
    /// What reached it while it did not run.
    pub inbox: VecDeque<(Input, Moment)>,
    pub calls: BTreeMap<RequestId, Call>,
    /// Targets whose registration AWS has confirmed and whose removal was not sent since, and since when.
    confirmed: BTreeMap<Key, Moment>,
    /// Those of them that it has from a ledger only: when a pod comes to live there, it may turn out to be wanted.
    from_ledgers: BTreeSet<Key>,
    /// The pods of which a write to their gate has said that they are gone, though the watch has not said so yet.
    gone: BTreeSet<Uid>,
    /// The deleted TargetBindings that nothing keeps any more, until that could be written.
    pub released: Vec<(ObjectKey, Uid)>,
    failed: BTreeMap<TargetGroupArn, Moment>,
    /// The group whose read has been answered in this very step, and when it began.
    pub just_read: Option<(TargetGroupArn, Moment)>,
    tokens: (f64, Moment),
    /// When a removal was throttled last; and sent last, by group.
    throttled: Option<Moment>,
    removed: BTreeMap<TargetGroupArn, Moment>,
    /// When anything was bound to each group last.
    bound: BTreeMap<TargetGroupArn, Moment>,
    /// The target whose removal is overdue, and since when.
    held: Option<(Key, Moment)>,
    /// For how long it holds what is replaced as a whole, and what it was told of that.
    grace: Duration,
    told: Told,
    /// The targets that deleted TargetBindings had, and when they were deleted.
    left: BTreeMap<(ObjectKey, Uid), (Vec<Key>, Moment)>,
    /// When the last read of each group began.
    read: BTreeMap<TargetGroupArn, Moment>,
    /// The gates that are being written, and when each was written last.
    writing: BTreeMap<RequestId, GateWrite>,
    written: BTreeMap<Uid, Moment>,
    /// Gates that it has opened, for this address, and that no watch has shown so since.
    opened: BTreeMap<Uid, IpAddr>,
    /// The targets that it took out, or the ledger says were taken out, each with the mark of its pod: as long as the pod
    /// lives there with an open gate.
    took_out: BTreeMap<Key, PodMark>,
    told_of: BTreeMap<Key, ToldOf>,
    /// The gates that it has closed.
    closed: BTreeSet<Uid>,
    /// How long a gate waits for a binding.
    binding_patience: Duration,
    unread: Unread,
    leaving: Leaving,
    /// The names of the target groups that it has looked up.
    looked_up: BTreeSet<String>,
    /// Which pods had which addresses, as the ledgers say that are loaded in this step.
    ledgers_say: Vec<(IpAddr, PodMark)>,
}

impl Replica {
    /// A process that has just started.
    pub fn new(settings: Settings, life: u64, clocks_are_wrong: bool, now: Moment) -> Self {
        let (grace, binding_patience) = (settings.replacement_grace, settings.binding_patience);
        let unread = Unread::new(settings.gate_patience);
        let leaving = Leaving::new(&settings, clocks_are_wrong);
        let oracle = Oracle::new(&settings);
        let mut engine = Engine::new(settings);
        engine.step(everything_is_granted(), now);
        Self {
            oracle,
            engine,
            life,
            born: now,
            leads: false,
            loaded: None,
            inherited: BTreeSet::new(),
            loading: None,
            learns_of_ledgers: None,
            valid_until: Moment::START,
            frozen_until: None,
            cut_off_until: None,
            inbox: VecDeque::new(),
            calls: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            from_ledgers: BTreeSet::new(),
            gone: BTreeSet::new(),
            released: Vec::new(),
            failed: BTreeMap::new(),
            just_read: None,
            tokens: (BURST, now),
            throttled: None,
            removed: BTreeMap::new(),
            bound: BTreeMap::new(),
            held: None,
            grace,
            told: Told::default(),
            left: BTreeMap::new(),
            read: BTreeMap::new(),
            writing: BTreeMap::new(),
            written: BTreeMap::new(),
            opened: BTreeMap::new(),
            took_out: BTreeMap::new(),
            told_of: BTreeMap::new(),
            closed: BTreeSet::new(),
            binding_patience,
            unread,
            leaving,
            looked_up: BTreeSet::new(),
            ledgers_say: Vec::new(),
        }
    }

    pub fn runs(&self) -> bool {
        self.frozen_until.is_none()
    }

    /// Takes in what happened, in the engine and in the oracle; gives what the engine wants to be done.
    pub fn step(&mut self, input: Input, around: &Around<'_>) -> Result<Vec<Effect>, String> {
        let (aws, now) = (&*around.aws, around.now);
        self.note_places(&input, now);
        let Self { engine, oracle, .. } = self;
        if matches!(input, Input::Leadership(Leadership::Standby)) {
            oracle.stands_by();
        }
        oracle.pass(now, &|name| engine.group_named(name));
        if let Input::Binding { change, .. } = &input {
            for (key, uid, targets) in oracle.ending(change) {
                self.left.entry((key, uid)).or_insert((targets, now));
            }
        }
        oracle.told(&input, now, &|name| engine.group_named(name));
        oracle.ledgers_say(&std::mem::take(&mut self.ledgers_say), now);
        // What something else wants is no concern of a deleted TargetBinding any more, also if that lets it go in this very
        // step: it might as well have done so in the next.
        let forget_wanted = |left: &mut BTreeMap<_, (Vec<Key>, Moment)>, oracle: &Oracle| {
            for (targets, _) in left.values_mut() {
                targets.retain(|(group, target)| !oracle.wanted(group).contains(target));
            }
        };
        forget_wanted(&mut self.left, oracle);
        match &input {
            Input::Pod { change: Change::Applied(pod), .. } => {
                self.unread.told_of(std::slice::from_ref(pod));
            }
            Input::Pod { change: Change::Relisted(_, pods), .. } => self.unread.told_of(pods),
            _ => {}
        }
        let is_about_pods = matches!(input, Input::Pod { .. });
        let effects = engine.step(input, now);
        oracle.looks(now, &|name| engine.group_named(name));
        beside(self.check_departures(around))?;
        if is_about_pods {
            self.gates_shown();
        }
        self.forget_gone_groups();
        let oracle = &self.oracle;
        forget_wanted(&mut self.left, oracle);
        self.told.hears(oracle, around.history, now);
        // Also when nothing was said: the grace of a Service may have ended, and what it has taken away was let go at once.
        for arn in GROUPS.iter().filter_map(|name| aws.arn(name)) {
            self.told.wants(arn, &oracle.wanted(arn), now);
        }
        Ok(effects)
    }

    /// A call is made.
    pub fn sends(&mut self, call: &Call) {
        self.unread.sends(call);
        self.told.sends(call);
    }

    /// A call was not made because the lease is over; its engine takes it for made.
    pub fn holds_back(&mut self, call: &Call, now: Moment) {
        if let Call::Deregister { group, .. } = call {
            self.removed.insert(group.clone(), now);
        }
    }

    /// Whether it leads, and its last renewal still counts.
    pub fn may_write(&self, now: Moment) -> bool {
        self.leads && self.valid_until >= now
    }

    /// It is told to lead.
    pub fn leads(&mut self, now: Moment) {
        self.told.leads(now);
        (self.leads, self.loaded, self.loading) = (true, None, None);
    }

    /// It is told to stand by.
    pub fn stands_by(&mut self) {
        (self.leads, self.loaded) = (false, None);
        self.inherited.clear();
        self.calls.retain(|_, call| call.is_look_up());
        self.confirmed.clear();
        self.from_ledgers.clear();
        self.failed.clear();
        self.held = None;
        self.read.clear();
        self.writing.clear();
        self.opened.clear();
        self.took_out.clear();
        self.told_of.clear();
        self.closed.clear();
        self.unread.stands_by();
        self.leaving.stands_by();
    }

    /// It is given the ledgers: what they have of pods that are going is to be removed at once.
    pub fn takes_over(&mut self, ledgers: &[StoredLedger], now: Moment, aws: &Aws) {
        self.loaded = Some(now);
        for stored in ledgers {
            let (group, ledger): (_, Ledger) = stored.open().unwrap();
            let there = ledger.iter().filter(|(_, noted, _)| *noted != Noted::Removed);
            self.ledgers_say.extend(there.map(|(target, _, mark)| (target.ip, mark)));
            self.inherited.extend(ledger.iter().map(|(_, _, mark)| mark));
            for (target, noted, mark) in ledger.iter() {
                let key = (group.clone(), *target);
                if noted == Noted::Removed {
                    self.took_out.insert(key, mark);
                } else {
                    self.told_of.entry(key).or_default().is_told(mark, true);
                }
            }
        }
        self.gates_shown();
        if !self.oracle.has_seen_all() {
            return;
        }
        for stored in ledgers {
            let (group, ledger): (_, Ledger) = stored.open().unwrap();
            for (target, noted, _) in ledger.iter() {
                if noted != Noted::Removed && aws.has(&group, target) && self.oracle.is_going(target) {
                    self.confirmed.insert((group.clone(), *target), now);
                    self.from_ledgers.insert((group.clone(), *target));
                }
            }
        }
    }

    /// What an answer tells the checker; `sent`: when its call was.
    pub fn learns(&mut self, input: &Input, sent: Moment, around: &mut Around<'_>) {
        let Input::Answered { id, result } = input else { return };
        self.gate_answered(*id, result);
        // As of those that are loaded when it takes over: another leader has written meanwhile.
        if let Ok(Answer::Ledger(Some(stored))) = result
            && self.loaded.is_some()
            && let Ok((_, ledger)) = stored.open()
        {
            self.inherited.extend(ledger.iter().map(|(_, _, mark)| mark));
        }
        let is_said = !matches!(
            result,
            Err(Failure { class: FailureClass::Unavailable | FailureClass::Throttled, .. })
        );
        if let Some(Call::FindGroups { references }) = self.calls.get(id)
            && (result.is_ok() || references.len() == 1)
            && is_said
        {
            self.looked_up.extend(references.iter().map(ToString::to_string));
        }
        if let Some(call) = self.calls.get(id) {
            let removed = |key: &Key| self.calls.values().any(|call| removes(call, key));
            self.unread.ended(call, result, sent, around.now, removed);
            self.told.answered(call, result, sent, around.now);
        }
        if let Some(Call::Deregister { group, .. } | Call::ReadHealth { group }) = self.calls.get(id)
            && matches!(result, Err(Failure { class: FailureClass::Gone, .. }))
        {
            // Nothing is left in it that could be put back.
            self.took_out.retain(|(gone, _), _| gone != group);
            self.told_of.retain(|(gone, _), _| gone != group);
        }
        if let Some(Call::Deregister { group, items }) = self.calls.get(id)
            && matches!(result, Err(Failure { class: FailureClass::Refused, .. }))
        {
            let keys: Vec<Key> = items.iter().map(|item| (group.clone(), item.target)).collect();
            self.stay(&keys);
        }
        match (self.calls.remove(id), result) {
            (Some(Call::Register { group, items }), Ok(_)) => {
                let open = |key: &Key| self.calls.values().any(|call| removes(call, key));
                let keys: Vec<Key> = items.iter().map(|item| (group.clone(), item.target)).collect();
                for key in keys.into_iter().filter(|key| !open(key)) {
                    self.from_ledgers.remove(&key);
                    self.confirmed.insert(key, around.now);
                }
            }
            (Some(Call::ReadHealth { group }), Ok(_)) => {
                self.read.insert(group.clone(), sent);
                self.just_read = Some((group, sent));
            }
            (Some(call @ (Call::Register { .. } | Call::Deregister { .. })), Err(Failure { class, .. })) => {
                if *class == FailureClass::Throttled && matches!(call, Call::Deregister { .. }) {
                    self.throttled = Some(around.now);
                }
                let (Call::Register { group, .. } | Call::Deregister { group, .. }) = call else { return };
                self.failed.insert(group, around.now);
            }
            _ => {}
        }
    }
}

fn removes(call: &Call, key: &Key) -> bool {
    matches!(call, Call::Deregister { group, items } if *group == key.0 && items.iter().any(|item| item.target == key.1))
}
