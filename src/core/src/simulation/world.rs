//! One world: what happens next.

mod ending;

use std::{collections::VecDeque, net::IpAddr, time::Duration};

use crate::{
    engine::Effect,
    input::{Call, Input, Leadership},
    ledger::Ledger,
    simulation::{
        aws::{Aws, GROUPS, Open},
        cluster::{Cluster, REPLICAS, Watches},
        coverage::Coverage,
        replica::{Around, History, Replica},
        say::{describe, describe_call},
        store::{Request, Store},
    },
    target::Target,
    time::Moment,
};

/// The times of the lease.
const LEASE: Duration = Duration::from_secs(15);
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
const KEPT_STEPS: usize = 40;

/// Who sent something: a replica, in one of its lives.
pub type Sender = (usize, u64);

/// A world.
pub struct World {
    pub rng: fastrand::Rng,
    pub coverage: Coverage,
    now: Moment,
    seed: u64,
    replicas: [Replica; REPLICAS],
    lives: u64,
    /// Who holds the lease, and when it runs out.
    lease: Option<(usize, Moment)>,
    cluster: Cluster,
    aws: Aws,
    store: Store,
    history: History,
    faults: bool,
    steps: VecDeque<String>,
    keep_all: bool,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let replica = |at: usize| Replica::new(seed.wrapping_add(at as u64), at as u64, Moment::START);
        Self {
            rng: fastrand::Rng::with_seed(seed),
            coverage: Coverage::default(),
            now: Moment::START,
            seed,
            replicas: std::array::from_fn(replica),
            lives: REPLICAS as u64,
            lease: None,
            cluster: Cluster::new(),
            aws: Aws::new(),
            store: Store::default(),
            history: History::default(),
            faults: true,
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

    fn saw(&mut self, event: &'static str) {
        self.coverage.saw(event);
        self.note(|| event.to_owned());
    }

    fn something_happens(&mut self) -> Result<(), String> {
        let replica = self.rng.usize(0..REPLICAS);
        match self.rng.u16(0..1000) {
            0..=239 => {
                let millis = match self.rng.u8(0..20) {
                    0 => self.rng.u64(1_000..10_000),
                    1..=4 => self.rng.u64(100..1_000),
                    _ => self.rng.u64(0..50),
                };
                return self.pass(Duration::from_millis(millis));
            }
            240..=439 => {
                if let Some(event) = self.cluster.change(&mut self.rng) {
                    self.saw(event);
                }
            }
            440..=609 => return self.deliver_pod(replica),
            610..=659 => return self.deliver_service(replica),
            660..=859 => return self.end_call(),
            860..=929 => return self.end_ledger_request(),
            930..=937 => {
                self.saw("event: watch cut");
                let Watches { pods, services } = &mut self.cluster.watches[replica];
                if self.rng.bool() {
                    pods.cut();
                } else {
                    services.cut();
                }
            }
            938..=957 | 984..=999 => self.relist(replica),
            958..=967 => {
                if let Some(event) = self.aws.other_hands(&mut self.rng, self.now) {
                    self.saw(event);
                }
            }
            968 => {
                let event = self.aws.remake(&mut self.rng);
                self.saw(event);
            }
            969..=971 => self.aws.change_quota(&mut self.rng),
            972..=979 => {
                let left: Vec<IpAddr> =
                    GROUPS.iter().flat_map(|name| self.aws.ours(name)).map(|target| target.ip).collect();
                if let Some(event) = self.cluster.elsewhere(&mut self.rng, &left) {
                    self.saw(event);
                }
            }
            980 => self.crash(replica),
            981 => {
                let until = self.now + Duration::from_millis(self.rng.u64(100..40_000));
                self.replicas[replica].frozen_until = Some(until);
                self.saw("replica: paused");
            }
            982 => {
                let until = self.now + Duration::from_millis(self.rng.u64(100..30_000));
                self.replicas[replica].cut_off_until = Some(until);
                self.saw("replica: its renewals get no answer");
            }
            983 => return self.release(),
            _ => {}
        }
        Ok(())
    }

    fn pass(&mut self, time: Duration) -> Result<(), String> {
        self.now = self.now + time;
        let cluster = &self.cluster;
        let answers = |target: &Target| {
            let ip = &target.ip;
            let last = if let IpAddr::V4(ip) = ip { ip.octets()[3] } else { 0 };
            // Some pods do not listen on that port.
            let deaf = target.port == 8081 && last % 2 == 0;
            last >= 100 || (!deaf && cluster.lives_at(ip)) || cluster.elsewhere.contains(ip)
        };
        self.aws.pass(self.now, answers, &mut self.coverage);
        self.store.pass(self.now, &mut self.coverage);
        while self.aws.overdue(self.now) {
            self.end_call()?;
        }
        for replica in 0..REPLICAS {
            self.wake(replica)?;
        }
        self.renew()?;
        for replica in 0..REPLICAS {
            let it = &mut self.replicas[replica];
            if it.runs() && it.engine.next_wakeup(self.now).is_some_and(|due| due <= self.now) {
                self.step(replica, Input::Tick)?;
            }
        }
        Ok(())
    }

    /// A pause is over: what came meanwhile is taken in first, and only then does it look at its lease.
    fn wake(&mut self, replica: usize) -> Result<(), String> {
        let now = self.now;
        let over = |until: &mut Moment| *until <= now;
        self.replicas[replica].cut_off_until.take_if(over);
        if self.replicas[replica].frozen_until.take_if(over).is_some() {
            self.note(|| format!("[{replica}] goes on"));
            while let Some((input, sent)) = self.replicas[replica].inbox.pop_front() {
                let sender = (replica, self.replicas[replica].life);
                self.answer(sender, input, sent)?;
            }
        }
        Ok(())
    }

    /// The lease is renewed, runs out, and is taken.
    fn renew(&mut self) -> Result<(), String> {
        for replica in 0..REPLICAS {
            let it = &mut self.replicas[replica];
            let renews = it.runs() && it.cut_off_until.is_none() && it.leads && it.valid_until >= self.now;
            if let Some((holder, expires)) = &mut self.lease
                && *holder == replica
                && renews
            {
                *expires = self.now + LEASE;
                it.valid_until = self.now + RENEW_DEADLINE;
            }
            let lapsed = it.leads && it.runs() && it.valid_until < self.now;
            // It may notice late; until then it makes no call.
            if lapsed && (self.rng.bool() || !self.faults) {
                self.saw("replica: deposed");
                self.stand_by(replica)?;
            }
        }
        if self.lease.is_none_or(|(_, expires)| expires <= self.now)
            && (self.rng.u8(0..3) > 0 || !self.faults)
        {
            let candidate = self.rng.usize(0..REPLICAS);
            let it = &mut self.replicas[candidate];
            if it.runs() && it.cut_off_until.is_none() && !it.leads {
                self.lease = Some((candidate, self.now + LEASE));
                it.valid_until = self.now + RENEW_DEADLINE;
                it.leads(self.now);
                self.saw("replica: elected");
                self.step(candidate, Input::Leadership(Leadership::Leading))?;
            }
        }
        Ok(())
    }

    fn stand_by(&mut self, replica: usize) -> Result<(), String> {
        self.replicas[replica].stands_by();
        self.step(replica, Input::Leadership(Leadership::Standby))
    }

    /// The leader gives the lease up.
    fn release(&mut self) -> Result<(), String> {
        let Some((holder, _)) = self.lease else { return Ok(()) };
        let it = &self.replicas[holder];
        if !it.runs() || !it.leads || it.valid_until < self.now {
            return Ok(());
        }
        self.saw("replica: gives the lease up");
        // Some get on with their last words before, some do not.
        if self.rng.bool() {
            self.step(holder, Input::Leadership(Leadership::Leaving))?;
        }
        self.lease = None;
        self.stand_by(holder)
    }

    /// A process ends, and another one takes its place.
    fn crash(&mut self, replica: usize) {
        self.saw("replica: crashed");
        let sender = (replica, self.replicas[replica].life);
        self.aws.sender_died(sender, &mut self.rng, self.now);
        self.store.sender_died(sender, &mut self.rng, self.now);
        self.lives += 1;
        let seed = self.seed.wrapping_add(self.lives << 32);
        self.replicas[replica] = Replica::new(seed, self.lives, self.now);
        self.cluster.watches[replica] = Watches::new();
    }

    fn relist(&mut self, replica: usize) {
        let (pods, services) = (self.cluster.pods.values(), self.cluster.services.values());
        let watches = &mut self.cluster.watches[replica];
        let cut = watches.pods.cut || watches.services.cut;
        if watches.pods.cut {
            watches.pods.relist(pods.cloned().collect());
        }
        if watches.services.cut {
            watches.services.relist(services.cloned().collect());
        }
        if cut {
            self.coverage.saw("event: relist");
        }
    }

    fn deliver_pod(&mut self, replica: usize) -> Result<(), String> {
        if !self.replicas[replica].runs() {
            return Ok(());
        }
        let unsaid = &mut self.cluster.watches[replica].pods.unsaid;
        let Some(change) = unsaid.pop_front() else { return Ok(()) };
        if !unsaid.is_empty() {
            self.coverage.saw("event: delivered late");
        }
        let times = if self.rng.u8(0..20) == 0 { 2 } else { 1 };
        for time in 0..times {
            if time == 1 {
                self.coverage.saw("event: delivered twice");
            }
            let it = &mut self.replicas[replica];
            it.oracle.told_of_pods(&change);
            it.listed.0 |= matches!(change, crate::input::Change::Relisted(..));
            self.step(replica, Input::Pod { change: change.clone(), seen: self.now })?;
        }
        Ok(())
    }

    fn deliver_service(&mut self, replica: usize) -> Result<(), String> {
        if !self.replicas[replica].runs() {
            return Ok(());
        }
        let Some(change) = self.cluster.watches[replica].services.unsaid.pop_front() else { return Ok(()) };
        if let crate::input::Change::Relisted(scope, _) = &change {
            // Nobody has written a TargetBinding.
            let change = crate::input::Change::Relisted(scope.clone(), Vec::new());
            self.step(replica, Input::Binding { change, seen: self.now })?;
        }
        let it = &mut self.replicas[replica];
        it.oracle.told_of_services(&change, |name| it.engine.knows_group(name));
        it.listed.1 |= matches!(change, crate::input::Change::Relisted(..));
        self.step(replica, Input::Service { change, seen: self.now })
    }

    fn end_call(&mut self) -> Result<(), String> {
        let ended = self.aws.end_one(&mut self.rng, self.faults, self.now, &mut self.coverage);
        let Some((open, result)) = ended else { return Ok(()) };
        if let (Call::Register { group, items }, Ok(_)) = (&open.call, &result) {
            self.history.taken.extend(items.iter().map(|item| (group.clone(), item.target)));
        }
        let input = Input::Answered { id: open.id, result };
        self.answer(open.sender, input, open.sent)
    }

    fn end_ledger_request(&mut self) -> Result<(), String> {
        let ended = self.store.end_one(&mut self.rng, self.faults, self.now, &mut self.coverage);
        let Some((sender, input)) = ended else { return Ok(()) };
        self.answer(sender, input, self.now)
    }

    /// An answer reaches the one who asked, if it still lives.
    fn answer(&mut self, (replica, life): Sender, input: Input, sent: Moment) -> Result<(), String> {
        let it = &mut self.replicas[replica];
        if it.life != life {
            return Ok(());
        }
        if !it.runs() {
            it.inbox.push_back((input, sent));
            return Ok(());
        }
        let mut around = Around {
            now: self.now,
            aws: &self.aws,
            store: &self.store,
            cluster: &self.cluster,
            history: &mut self.history,
            coverage: &mut self.coverage,
        };
        it.learns(&input, sent, &mut around);
        let held = self.step(replica, input);
        self.replicas[replica].just_read = None;
        held
    }

    fn step(&mut self, replica: usize, input: Input) -> Result<(), String> {
        self.note(|| format!("[{replica}] {}", describe(&input)));
        let it = &mut self.replicas[replica];
        if let Input::LedgersLoaded { id, result: Ok(ledgers) } = &input
            && it.leads
            && !it.loaded
            && it.loading == Some(*id)
        {
            it.takes_over(ledgers, &self.aws);
        }
        let told = matches!(input, Input::Pod { .. } | Input::Service { .. });
        let effects = it.engine.step(input, self.now);
        it.looks(told, &self.aws, self.now);
        let sender = (replica, it.life);
        for effect in effects {
            self.carry_out(sender, effect)?;
        }
        let mut around = Around {
            now: self.now,
            aws: &self.aws,
            store: &self.store,
            cluster: &self.cluster,
            history: &mut self.history,
            coverage: &mut self.coverage,
        };
        let it = &mut self.replicas[replica];
        it.check_step(&mut around).map_err(|broken| format!("[{replica}] {broken}"))
    }

    fn carry_out(&mut self, sender: Sender, effect: Effect) -> Result<(), String> {
        let replica = sender.0;
        let it = &mut self.replicas[replica];
        let authority = it.leads && it.valid_until >= self.now;
        let request = match effect {
            Effect::Call { id, call, .. } => {
                self.note(|| format!("[{replica}]   → {}", describe_call(&call)));
                // The program looks at its lease right before each call.
                let it = &mut self.replicas[replica];
                if it.leads && !authority && !matches!(call, Call::FindGroup { .. }) {
                    it.holds_back(&call, self.now);
                    self.coverage.saw("replica: a call held back after the lease");
                    return Ok(());
                }
                let mut around = Around {
                    now: self.now,
                    aws: &self.aws,
                    store: &self.store,
                    cluster: &self.cluster,
                    history: &mut self.history,
                    coverage: &mut self.coverage,
                };
                it.check_call(&call, &mut around).map_err(|broken| format!("[{replica}] {broken}"))?;
                self.coverage.saw(match call {
                    Call::Register { .. } => "effect: Register",
                    Call::Deregister { .. } => "effect: Deregister",
                    Call::ReadHealth { .. } => "effect: ReadHealth",
                    Call::FindGroup { .. } => "effect: FindGroup",
                });
                it.calls.insert(id, call.clone());
                self.aws.open.push(Open { id, sender, sent: self.now, call });
                return Ok(());
            }
            Effect::Notice(notice) => {
                if !it.leads {
                    return Err(format!("[{replica}] a standby says: {}", notice.note));
                }
                self.coverage.saw("effect: Notice");
                self.coverage.reason(notice.reason);
                return Ok(());
            }
            Effect::Binding(view) => {
                self.coverage.saw("effect: view");
                let group = view.key.group;
                for target in view.targets.iter().filter(|target| target.registered) {
                    if !self.history.taken.contains(&(group.clone(), target.target)) {
                        let target = target.target;
                        let name = group.name();
                        return Err(format!(
                            "{target} counts as registered in {name}, and AWS never took it"
                        ));
                    }
                }
                return Ok(());
            }
            Effect::LoadLedgers { id } => {
                it.loading = Some(id);
                (id, "effect: LoadLedgers", Request::LoadAll)
            }
            Effect::LoadLedger { id, group } => (id, "effect: LoadLedger", Request::Load(group)),
            Effect::WriteLedger { id, base, ledger } => {
                // Whoever reads an intention cannot know whether the call was made.
                for (target, ..) in Ledger::unpack(&ledger).unwrap().iter() {
                    self.history.ever.insert((ledger.group.clone(), *target));
                }
                (id, "effect: WriteLedger", Request::Write(base, ledger))
            }
            Effect::DropLedger { id, group, base } => (id, "effect: DropLedger", Request::Drop(group, base)),
            _ => {
                self.coverage.saw("effect: view");
                return Ok(());
            }
        };
        let (id, name, request) = request;
        self.coverage.saw(name);
        self.note(|| format!("[{replica}]   → {request:?}"));
        if !authority {
            if !self.replicas[replica].leads {
                return Err(format!("[{replica}] {name} by a replica that does not lead"));
            }
            return Ok(());
        }
        self.store.open.push((id, sender, request));
        Ok(())
    }
}
