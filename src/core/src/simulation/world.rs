//! One world: what happens next, and what must hold after every step.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use crate::{
    engine::{Effect, Engine, Settings},
    input::{Answer, Call, CallId, CallItem, ErrorClass, Failure, Input, Scope},
    reason::Reason,
    simulation::{
        aws::{Aws, GROUPS, Open},
        cluster::Cluster,
        coverage::Coverage,
        oracle::Oracle,
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
/// After the faults have stopped, everything must be right within this time.
const QUIET: Duration = Duration::from_secs(240);
/// With so many tokens a removal waits for no other: more than its engine keeps for all groups there are.
const PLENTY: f64 = 13.0;
/// Removals of one group wait for each other while it was called this short ago.
const ACTIVE: Duration = Duration::from_secs(2);
/// While tokens are few, removals wait for each other no longer than this.
const LONGEST_HOLD: Duration = Duration::from_secs(4);
/// After AWS has throttled, the engine is slow for so long.
const RECOVERY: Duration = Duration::from_secs(60);
const KEPT_STEPS: usize = 40;

type Key = (TargetGroupArn, Target);

/// A world.
pub struct World {
    pub rng: fastrand::Rng,
    pub coverage: Coverage,
    now: Moment,
    engine: Engine,
    cluster: Cluster,
    aws: Aws,
    oracle: Oracle,
    faults: bool,
    listed: (bool, bool),
    /// Targets whose registration AWS has confirmed and whose removal was not sent since.
    confirmed: BTreeSet<Key>,
    /// Every target that was ever registered by the engine.
    ever: BTreeSet<Key>,
    /// Every target whose registration AWS has ever confirmed.
    taken: BTreeSet<Key>,
    calls: BTreeMap<CallId, Call>,
    failed: BTreeMap<TargetGroupArn, Moment>,
    /// The group whose read has been answered in this very step.
    just_read: Option<TargetGroupArn>,
    tokens: (f64, Moment),
    /// When a removal was throttled last; and sent last, by group.
    throttled: Option<Moment>,
    removed: BTreeMap<TargetGroupArn, Moment>,
    /// The target whose removal is overdue, and since when.
    held: Option<(Key, Moment)>,
    steps: VecDeque<String>,
    keep_all: bool,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let settings = Settings {
            region: "us-east-1".into(),
            scopes: vec![Scope::Cluster],
            seed,
            service_grace: Duration::ZERO,
            relist_patience: Duration::ZERO,
            ..Settings::default()
        };
        Self {
            rng: fastrand::Rng::with_seed(seed),
            coverage: Coverage::default(),
            now: Moment::START,
            engine: Engine::new(settings),
            cluster: Cluster::new(),
            aws: Aws::new(),
            oracle: Oracle::default(),
            faults: true,
            listed: (false, false),
            confirmed: BTreeSet::new(),
            ever: BTreeSet::new(),
            taken: BTreeSet::new(),
            calls: BTreeMap::new(),
            failed: BTreeMap::new(),
            just_read: None,
            tokens: (BURST, Moment::START),
            throttled: None,
            removed: BTreeMap::new(),
            held: None,
            steps: VecDeque::new(),
            keep_all: std::env::var_os("HEADGATE_SIM_SEED").is_some(),
        }
    }

    /// Runs so many steps, then lets the faults stop and checks where it ends.
    pub fn run(&mut self, steps: u64) -> Result<(), String> {
        for _ in 0..steps {
            self.something_happens()?;
        }
        self.end()
    }

    pub fn last_steps(&self) -> String {
        let skip = self.steps.len().saturating_sub(KEPT_STEPS);
        let steps: Vec<String> = self.steps.iter().skip(skip).map(|step| format!("    {step}")).collect();
        steps.join("\n")
    }

    pub fn all_steps(&self) -> String {
        let steps: Vec<String> = self.steps.iter().cloned().collect();
        steps.join("\n")
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if self.steps.len() >= KEPT_STEPS && !self.keep_all {
            self.steps.pop_front();
        }
        let at = self.now.elapsed().as_secs_f64();
        self.steps.push_back(format!("{at:10.3} {}", what()));
    }

    fn something_happens(&mut self) -> Result<(), String> {
        match self.rng.u8(0..100) {
            0..=24 => {
                let millis = match self.rng.u8(0..20) {
                    0 => self.rng.u64(1_000..10_000),
                    1..=4 => self.rng.u64(100..1_000),
                    _ => self.rng.u64(0..50),
                };
                self.pass(Duration::from_millis(millis))
            }
            25..=49 => {
                if let Some(event) = self.cluster.change(&mut self.rng) {
                    self.coverage.saw(event);
                    self.note(|| event.to_owned());
                }
                Ok(())
            }
            50..=64 => self.deliver_pod(),
            65..=69 => self.deliver_service(),
            70..=94 => self.end_call(),
            95 => {
                self.coverage.saw("event: watch cut");
                self.note(|| "watch cut".to_owned());
                if self.rng.bool() {
                    self.cluster.pod_watch.cut();
                } else {
                    self.cluster.service_watch.cut();
                }
                Ok(())
            }
            96..=97 => {
                self.relist();
                Ok(())
            }
            98 => {
                if let Some(event) = self.aws.other_hands(&mut self.rng, self.now) {
                    self.coverage.saw(event);
                    self.note(|| event.to_owned());
                }
                Ok(())
            }
            _ if self.rng.u8(0..10) == 0 => {
                let event = self.aws.remake(&mut self.rng);
                self.coverage.saw(event);
                self.note(|| event.to_owned());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn pass(&mut self, time: Duration) -> Result<(), String> {
        self.now = self.now + time;
        self.aws.pass(self.now, &mut self.coverage);
        if self.engine.next_wakeup(self.now).is_some_and(|due| due <= self.now) {
            return self.step(Input::Tick);
        }
        Ok(())
    }

    fn relist(&mut self) {
        let (pods, services) = (self.cluster.pod_watch.cut, self.cluster.service_watch.cut);
        if pods {
            let all = self.cluster.pods.values().cloned().collect();
            self.cluster.pod_watch.relist(all);
        }
        if services {
            let all = self.cluster.services.values().cloned().collect();
            self.cluster.service_watch.relist(all);
        }
        if pods || services {
            self.coverage.saw("event: relist");
        }
    }

    fn deliver_pod(&mut self) -> Result<(), String> {
        let Some(change) = self.cluster.pod_watch.unsaid.pop_front() else { return Ok(()) };
        if !self.cluster.pod_watch.unsaid.is_empty() {
            self.coverage.saw("event: delivered late");
        }
        let times = if self.rng.u8(0..20) == 0 { 2 } else { 1 };
        for time in 0..times {
            if time == 1 {
                self.coverage.saw("event: delivered twice");
            }
            self.oracle.told_of_pods(&change);
            self.listed.0 |= matches!(change, crate::input::Change::Relisted(..));
            self.step(Input::Pod { change: change.clone(), seen: self.now })?;
        }
        Ok(())
    }

    fn deliver_service(&mut self) -> Result<(), String> {
        let Some(change) = self.cluster.service_watch.unsaid.pop_front() else { return Ok(()) };
        self.oracle.told_of_services(&change, |name| self.engine.knows_group(name));
        self.listed.1 |= matches!(change, crate::input::Change::Relisted(..));
        if let crate::input::Change::Relisted(scope, _) = &change {
            // Nobody has written a TargetBinding.
            let change = crate::input::Change::Relisted(scope.clone(), Vec::new());
            self.step(Input::Binding { change, seen: self.now })?;
        }
        self.step(Input::Service { change, seen: self.now })
    }

    fn end_call(&mut self) -> Result<(), String> {
        let ended = self.aws.end_one(&mut self.rng, self.faults, self.now, &mut self.coverage);
        let Some((id, result)) = ended else { return Ok(()) };
        self.learn(id, &result);
        let held = self.step(Input::Answered { id, result });
        self.just_read = None;
        held
    }

    /// What an answer tells the checker.
    fn learn(&mut self, id: CallId, result: &Result<Answer, Failure>) {
        match (self.calls.remove(&id), result) {
            (Some(Call::Register { group, items }), Ok(_)) => {
                let open = |key: &Key| self.calls.values().any(|call| removes(call, key));
                let keys: Vec<Key> = items.iter().map(|item| (group.clone(), item.target)).collect();
                self.taken.extend(keys.iter().cloned());
                self.confirmed.extend(keys.into_iter().filter(|key| !open(key)));
            }
            (Some(Call::ReadHealth { group }), Ok(_)) => self.just_read = Some(group),
            (Some(call @ (Call::Register { .. } | Call::Deregister { .. })), Err(failure)) => {
                if failure.class == ErrorClass::Throttled && matches!(call, Call::Deregister { .. }) {
                    self.throttled = Some(self.now);
                }
                let (Call::Register { group, .. } | Call::Deregister { group, .. }) = call else { return };
                self.failed.insert(group, self.now);
            }
            _ => {}
        }
    }

    fn step(&mut self, input: Input) -> Result<(), String> {
        self.note(|| describe(&input));
        let effects = self.engine.step(input, self.now);
        for effect in effects {
            match effect {
                Effect::Call { id, call } => {
                    self.note(|| format!("  → {}", describe_call(&call)));
                    self.check_call(&call)?;
                    self.coverage.saw(match call {
                        Call::Register { .. } => "effect: Register",
                        Call::Deregister { .. } => "effect: Deregister",
                        Call::ReadHealth { .. } => "effect: ReadHealth",
                        Call::FindGroup { .. } => "effect: FindGroup",
                    });
                    self.calls.insert(id, call.clone());
                    self.aws.open.push(Open { id, call });
                }
                Effect::Notice(notice) => {
                    self.coverage.saw("effect: Notice");
                    self.coverage.reason(notice.reason);
                }
                Effect::Binding(view) => {
                    self.coverage.saw("effect: view");
                    let group = view.key.group;
                    for target in view.targets.iter().filter(|target| target.registered) {
                        if !self.taken.contains(&(group.clone(), target.target)) {
                            let target = target.target;
                            return Err(format!(
                                "{target} counts as registered in {}, and AWS never took it",
                                group.name()
                            ));
                        }
                    }
                }
                _ => self.coverage.saw("effect: view"),
            }
        }
        // What others took out is not ours to take out at once, should a late call bring it back.
        let aws = &self.aws;
        self.confirmed.retain(|(group, target)| aws.has(group, target));
        self.check_removals_are_prompt()?;
        if self.aws.strangers_are_untouched() {
            Ok(())
        } else {
            Err("a stranger's target was removed".into())
        }
    }

    fn check_call(&mut self, call: &Call) -> Result<(), String> {
        if self.listed != (true, true) {
            return Err(format!("{} before every watch has listed", call.action()));
        }
        let (Call::Register { group, items } | Call::Deregister { group, items }) = call else {
            return Ok(());
        };
        let gained = self.now.since(self.tokens.1).as_secs_f64() * PER_SECOND;
        self.tokens = ((self.tokens.0 + gained).min(BURST) - 1.0, self.now);
        if self.tokens.0 < -1e-6 {
            return Err("more calls than AWS's limit allows".into());
        }
        if items.is_empty() || items.len() > 100 {
            return Err(format!("a call with {} targets", items.len()));
        }
        items.iter().try_for_each(|item| {
            self.coverage.reason(item.reason);
            match call {
                Call::Register { .. } => self.check_registration(group, item),
                _ => self.check_removal(group, item),
            }
        })
    }

    fn check_registration(&mut self, group: &TargetGroupArn, item: &CallItem) -> Result<(), String> {
        let key = (group.clone(), item.target);
        if let Some(racing) = self.calls.values().find(|call| removes(call, &key)) {
            return Err(format!("{} is registered while {} is in flight", item.target, racing.action()));
        }
        if let Some((waits, target)) = self.overdue() {
            return Err(format!("a registration goes before the removal of {target} from {}", waits.name()));
        }
        let last = self.oracle.last_to_get(&item.target, &item.pod);
        if last.is_none_or(|last| last.uid != item.uid) {
            let owner = last.map(|pod| pod.uid.clone());
            return Err(format!("{} is registered for {}, and is {owner:?}'s", item.target, item.uid));
        }
        self.ever.insert(key);
        Ok(())
    }

    fn check_removal(&mut self, group: &TargetGroupArn, item: &CallItem) -> Result<(), String> {
        let key = (group.clone(), item.target);
        if self.aws.arn(group.name()) == Some(group)
            && self.oracle.wanted(group.name()).contains(&item.target)
        {
            return Err(format!("{} of a living pod is removed from {}", item.target, group.name()));
        }
        if !self.ever.contains(&key) {
            return Err(format!("{} is removed from {} and was never registered", item.target, group.name()));
        }
        let fresh = self.just_read.as_ref() == Some(group) && item.since == self.now;
        if item.reason == Reason::TargetReappeared && fresh && !self.aws.has(group, &item.target) {
            return Err(format!("{} is said to be back in {}, and is not", item.target, group.name()));
        }
        self.confirmed.remove(&key);
        self.removed.insert(group.clone(), self.now);
        Ok(())
    }

    /// A target whose pod is gone is removed in the very step that says so, unless the backoff of its own group stands
    /// in the way, or AWS's limit: while tokens are few, or the group was called just now, removals may wait a moment
    /// for each other.
    fn check_removals_are_prompt(&mut self) -> Result<(), String> {
        let slow = self.throttled.is_some_and(|throttled| self.now.since(throttled) < RECOVERY);
        let overdue = if self.listed == (true, true) && !slow { self.overdue().cloned() } else { None };
        let Some(key) = overdue else {
            self.held = None;
            return Ok(());
        };
        let since = match &self.held {
            Some((held, since)) if *held == key => *since,
            _ => self.now,
        };
        self.held = Some((key.clone(), since));
        let gained = self.now.since(self.tokens.1).as_secs_f64() * PER_SECOND;
        let tokens = (self.tokens.0 + gained).min(BURST);
        let called = self.removed.get(&key.0).is_some_and(|sent| self.now.since(*sent) < ACTIVE);
        let at_once = tokens >= PLENTY && !called;
        if at_once || (tokens >= 1.0 && self.now.since(since) > LONGEST_HOLD) {
            return Err(format!("{} of {} is not removed, and its pod is gone", key.1, key.0.name()));
        }
        Ok(())
    }

    /// A target that is there, whose pod is gone, and whose removal has no reason to wait but for AWS's limit.
    fn overdue(&self) -> Option<&Key> {
        self.confirmed.iter().find(|(group, target)| {
            let backing_off = self.failed.get(group).is_some_and(|failed| self.now.since(*failed) < BACKOFF);
            !backing_off && self.aws.has(group, target) && self.oracle.is_gone(target)
        })
    }

    /// The faults stop; then everything must come right.
    fn end(&mut self) -> Result<(), String> {
        self.faults = false;
        self.aws.mend();
        self.cluster.correct_annotations();
        self.cluster.pod_watch.cut();
        self.cluster.service_watch.cut();
        self.relist();
        self.note(|| "the faults stop".to_owned());
        while !self.cluster.pod_watch.unsaid.is_empty() || !self.cluster.service_watch.unsaid.is_empty() {
            self.deliver_service()?;
            self.deliver_pod()?;
        }
        let until = self.now + QUIET;
        while self.now < until {
            while !self.aws.open.is_empty() {
                self.end_call()?;
            }
            let due = self.engine.next_wakeup(self.now).unwrap_or(until);
            self.pass(due.since(self.now).clamp(Duration::from_millis(1), Duration::from_secs(30)))?;
        }
        for name in GROUPS {
            let (wanted, ours) = (self.oracle.wanted(name), self.aws.ours(name));
            if wanted != ours {
                return Err(format!("at the end {name} has {ours:?} and should have {wanted:?}"));
            }
        }
        Ok(())
    }
}

fn removes(call: &Call, key: &Key) -> bool {
    matches!(call, Call::Deregister { group, items } if *group == key.0 && items.iter().any(|item| item.target == key.1))
}

fn describe_call(call: &Call) -> String {
    match call {
        Call::Register { group, items } | Call::Deregister { group, items } => {
            let items: Vec<String> = items
                .iter()
                .map(|item| format!("{} (pod {}, {})", item.target, item.uid, item.reason))
                .collect();
            format!("{} {} {}", call.action(), group.name(), items.join(" "))
        }
        Call::ReadHealth { group } => format!("{} {}", call.action(), group.name()),
        Call::FindGroup { reference } => format!("{} {reference}", call.action()),
    }
}

fn describe(input: &Input) -> String {
    use crate::input::Change;
    match input {
        Input::Pod { change: Change::Applied(pod), .. } => format!(
            "pod {} {} ips {:?}{}{}",
            pod.key.name,
            pod.uid,
            pod.ips,
            if pod.terminating { " terminating" } else { "" },
            if pod.finished { " finished" } else { "" }
        ),
        Input::Pod { change: Change::Deleted(pod), .. } => {
            format!("pod {} {} DELETED", pod.key.name, pod.uid)
        }
        Input::Pod { change: Change::Relisted(_, all), .. } => format!("pods relisted: {}", all.len()),
        Input::Binding { .. } => "bindings relisted: 0".to_owned(),
        Input::Service { change: Change::Applied(service), .. } => {
            format!(
                "service {} {:?} {:?}",
                service.key.name, service.target_groups, service.ports[0].target_port
            )
        }
        Input::Service { change: Change::Deleted(service), .. } => {
            format!("service {} DELETED", service.key.name)
        }
        Input::Service { change: Change::Relisted(_, all), .. } => {
            format!("services relisted: {}", all.len())
        }
        Input::Namespace { .. } => "namespace".to_owned(),
        Input::Answered { id, result } => {
            let how =
                result.as_ref().map_or_else(|failure| format!("{:?}", failure.class), |_| "ok".to_owned());
            format!("call {} ended: {how}", id.0)
        }
        Input::Leadership(leadership) => format!("{leadership:?}"),
        Input::LedgersLoaded { .. } => "ledgers loaded".to_owned(),
        Input::LedgerLoaded { .. } => "ledger loaded".to_owned(),
        Input::LedgerWritten { .. } => "ledger written".to_owned(),
        Input::LedgerDropped { .. } => "ledger dropped".to_owned(),
        Input::Tick => "tick".to_owned(),
    }
}
