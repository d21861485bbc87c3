//! One replica of a world: the real engine, and what the program around it keeps.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use crate::objects::everything_is_granted;
use headgate_core::{
    Settings,
    engine::{Effect, Engine, Input},
    model::{Call, Failure, FailureClass, Moment, ObjectKey, RequestId, Uid, WallTime},
};

/// The clocks of the replicas differ by less than this, where they are not wrong.
pub const SKEW: Duration = Duration::from_secs(2);
/// What a leader writes is seen so long after that.
const SHOWN: Duration = Duration::from_secs(2);

/// A replica.
pub struct Replica {
    pub engine: Engine,
    /// Which life of the process this is.
    pub life: u64,
    /// When it has started.
    pub born: Moment,
    /// Whether it was told to lead, and has the ledgers, and since when.
    pub leads: bool,
    pub loaded: Option<Moment>,
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
    /// The deleted TargetBindings that nothing keeps any more, until that could be written.
    pub released: Vec<(ObjectKey, Uid)>,
    /// The target groups that it has looked up.
    looked_up: BTreeSet<String>,
    /// How long an eviction waits for a decision.
    patience: Duration,
    /// What its clock would have shown when the world began.
    pub started: WallTime,
}

impl Replica {
    /// A process that has just started.
    pub fn new(settings: Settings, life: u64, now: Moment) -> Self {
        let (patience, started) = (settings.leaving.patience, settings.started);
        let mut engine = Engine::new(settings);
        engine.step(everything_is_granted(), now);
        Self {
            engine,
            life,
            born: now,
            leads: false,
            loaded: None,
            loading: None,
            learns_of_ledgers: None,
            valid_until: Moment::START,
            frozen_until: None,
            cut_off_until: None,
            inbox: VecDeque::new(),
            calls: BTreeMap::new(),
            released: Vec::new(),
            looked_up: BTreeSet::new(),
            patience,
            started,
        }
    }

    pub const fn runs(&self) -> bool {
        self.frozen_until.is_none()
    }

    /// Takes in what happened; gives what the engine wants to be done.
    pub fn step(&mut self, input: Input, now: Moment) -> Vec<Effect> {
        if let Input::Clock(wall) = input {
            self.started = wall - now.elapsed();
        }
        self.engine.step(input, now)
    }

    /// Whether it leads, and its last renewal still counts.
    pub fn may_write(&self, now: Moment) -> bool {
        self.leads && self.valid_until >= now
    }

    /// Since when it leads and knows everything.
    pub fn acts_since(&self) -> Option<Moment> {
        self.loaded.filter(|_| self.leads && self.engine.is_synced())
    }

    /// Whether it has led for long enough to have decided on every eviction.
    pub fn has_had_its_say(&self, now: Moment) -> bool {
        let silent = self.patience + SHOWN;
        self.may_write(now) && self.loaded.is_some_and(|loaded| now.since(loaded) >= silent)
    }

    /// Whether every watch has listed, and it has heard of no target group yet.
    pub fn is_cold(&self) -> bool {
        self.runs() && self.engine.is_synced() && self.looked_up.is_empty()
    }

    /// It is told to lead.
    pub const fn leads(&mut self) {
        (self.leads, self.loaded, self.loading) = (true, None, None);
    }

    /// It is told to stand by.
    pub fn stands_by(&mut self) {
        (self.leads, self.loaded) = (false, None);
        self.calls.retain(|_, call| call.is_look_up());
    }

    /// An answer arrives.
    pub fn learns(&mut self, input: &Input) {
        let Input::Answered { id, result } = input else { return };
        let is_said = !matches!(
            result,
            Err(Failure { class: FailureClass::Unavailable | FailureClass::Throttled, .. })
        );
        if let Some(Call::FindGroups { references }) = self.calls.remove(id)
            && (result.is_ok() || references.len() == 1)
            && is_said
        {
            self.looked_up.extend(references.iter().map(ToString::to_string));
        }
    }
}
