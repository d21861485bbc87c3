//! A state of the world: what may happen next, and what follows.

mod carrying;

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use headgate_core::{
    Engine, Input,
    engine::Leadership,
    ledger::PackedLedger,
    model::{
        Change, Moment, ObjectKey, PodFacts, Scope, Target, Uid,
        eviction::{Request as Eviction, Ruling},
        leaving::{Annotations, Mark},
    },
    requests::Request,
};

use super::{
    aws::Aws,
    bounds::{Bounds, REST},
    fingerprint::{Fingerprint, LASTS, Scribe, print, whole},
    oracle::{self, Truth},
    parts::{Choice, Fate, Late, Pod, REPLICAS, Replica, print_request, read},
    words::{BEGINNING, pod, service, settings, target},
};

/// A Lease that nobody renews runs out after this time.
const LEASE: Duration = Duration::from_secs(2);
/// Whoever would like to lead tries to so often.
const TRIED_AGAIN: Duration = Duration::from_secs(1);
/// Whoever drains a node asks again after this time.
const ASKS_AGAIN: Duration = Duration::from_secs(5);
/// The second pod answers so long after it got its address.
const STARTS_IN: Duration = Duration::from_secs(8);
/// The leader has led for so long when the first pod comes: no call from before it can land any more.
const RESTS: Duration = Duration::from_secs(20);
/// Users who have not acted soon act when all has been at rest so often.
const RESTED: u8 = 1;

/// The numbers of the replicas.
pub type Numbers = [Fingerprint; REPLICAS];

/// How much has gone wrong, or may.
#[derive(Clone, Copy, Debug, Default)]
struct Troubles {
    faults: u8,
    crashes: u8,
    deposals: u8,
}

/// What users have done.
#[derive(Clone, Copy, Debug, Default)]
struct Script {
    begun: bool,
    reused: bool,
    /// When whoever drains asks next.
    asks: Option<Moment>,
    /// How often time has jumped since they did something, and how often in a row from one rest to the next one.
    dawdled: u8,
    rested: u8,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct World {
    now: Moment,
    replicas: [Replica; REPLICAS],
    aws: Aws,
    late: Vec<Late>,
    /// The ledger and its version, and how many there have been.
    ledger: Option<(u64, PackedLedger)>,
    versions: u64,
    pods: BTreeMap<ObjectKey, Pod>,
    /// When the Lease can be had; `None`: somebody has it.
    lease: Option<Moment>,
    /// How often it was taken.
    terms: u64,
    bounds: Bounds,
    /// What has gone wrong.
    troubles: Troubles,
    script: Script,
    /// What happens, if anybody wants to know.
    heard: Option<String>,
    /// As they were when its own number was asked for last.
    pub numbers: Numbers,
}

impl World {
    /// Both replicas have started, the first one leads and has been at rest for a while; the first pod gets its address.
    pub fn new(bounds: Bounds) -> Result<Self, String> {
        let now = Moment::after_start(BEGINNING);
        let replica = || Replica {
            engine: Arc::new(Engine::new(settings())),
            leads: false,
            unsaid: VecDeque::new(),
            told: BTreeMap::new(),
            flights: Vec::new(),
        };
        let mut world = Self {
            now,
            replicas: [replica(), replica()],
            aws: Aws::new(),
            late: Vec::new(),
            ledger: None,
            versions: 0,
            pods: BTreeMap::new(),
            lease: Some(now),
            terms: 0,
            bounds,
            troubles: Troubles::default(),
            script: Script::default(),
            heard: None,
            numbers: Numbers::default(),
        };
        for replica in 0..REPLICAS {
            world.starts(replica)?;
        }
        world.elected(0)?;
        while world.now < now + RESTS {
            // Of all that may happen the first one: nothing goes wrong yet.
            let is_due = |choice: &Choice| matches!(choice, Choice::Event(_) | Choice::Ends(..));
            match world.choices().into_iter().find(is_due) {
                Some(choice) => world.take(choice)?,
                None => world.time_passes()?,
            }
        }
        world.script = Script::default();
        world.appears(pod("a"), world.now);
        Ok(world)
    }

    /// Whether the last jump of time was from one rest to the next one.
    pub const fn has_rested(&self) -> bool {
        self.script.rested > 0
    }

    pub fn seconds(&self) -> f64 {
        self.now.elapsed().saturating_sub(BEGINNING).as_secs_f64()
    }

    /// From now on what happens is noted.
    pub fn listen(&mut self) {
        self.heard = Some(String::new());
    }

    pub fn heard(&mut self) -> String {
        self.heard.take().unwrap_or_default()
    }

    /// A number for all that matters. The replicas are alike, so it does not matter which is which.
    pub fn fingerprint(&mut self, before: Option<&Self>, scribe: &mut Scribe) -> Fingerprint {
        let (now, version) = (self.now, self.version());
        let same = before.filter(|before| (before.now, before.version()) == (now, version));
        for (at, replica) in self.replicas.iter().enumerate() {
            let is_known = same.is_some_and(|before| replica.is_still(&before.replicas[at]));
            if !is_known {
                self.numbers[at] = scribe.number(now, version, |to| replica.print(to));
            }
        }
        let mut numbers = self.numbers;
        numbers.sort_unstable();
        scribe.number(now, version, |to| {
            print(to, &numbers)?;
            self.print(to)
        })
    }

    /// The version of the ledger that is stored.
    fn version(&self) -> u64 {
        self.ledger.as_ref().map_or(0, |(version, _)| *version)
    }

    fn print(&self, to: &mut Scribe) -> fmt::Result {
        let Self { aws, late, ledger, pods, lease, script, .. } = self;
        print(to, &(lease, self.left(), script, pods))?;
        print(to, &ledger.as_ref().map(|(_, packed)| read(packed)))?;
        for Late { request, until, lost } in late {
            print(to, &(until, lost))?;
            print_request(to, request)?;
        }
        aws.print(to, self.now)
    }

    /// All that may happen next.
    ///
    /// What reaches a standby matters when it is elected, when it is asked, and when time goes on. So it comes as late as
    /// it can: that it came before anything else would make no difference.
    pub fn choices(&self) -> Vec<Choice> {
        let left = self.left();
        let is_free = self.lease.is_some_and(|free| free <= self.now);
        let is_asked = self.script.asks.is_some_and(|asks| asks <= self.now);
        let (mut choices, mut standby) = (Vec::new(), Vec::new());
        for (at, replica) in self.replicas.iter().enumerate() {
            let to = if replica.leads || is_free || is_asked { &mut choices } else { &mut standby };
            to.extend((!replica.unsaid.is_empty()).then_some(Choice::Event(at)));
            for (nth, flight) in replica.flights.iter().enumerate() {
                let end = |fate| Choice::Ends(at, nth, fate);
                to.push(end(Fate::Done));
                if left.faults > 0 {
                    to.extend(self.fates(&flight.request).iter().copied().map(end));
                }
            }
        }
        if is_free {
            choices.extend((0..REPLICAS).filter(|at| !self.replicas[*at].leads).map(Choice::Elected));
        }
        if is_asked {
            choices.extend((0..REPLICAS).map(Choice::Asks));
        }
        if choices.is_empty() {
            choices = standby;
        }
        for (nth, late) in self.late.iter().enumerate() {
            choices.push(Choice::Lands(nth));
            choices.extend((late.lost == Some(self.now)).then_some(Choice::Vanishes(nth)));
        }
        // Whatever else may happen, time goes on only when nothing of this is left.
        let is_quiet = choices.iter().all(|choice| matches!(choice, Choice::Lands(_) | Choice::Vanishes(_)))
            && self.late.iter().all(|late| late.until > self.now);
        // Of a standby that starts anew nothing is lost, and one that has led and starts anew is one.
        let leader = self.replicas.iter().position(|replica| replica.leads);
        choices.extend(leader.filter(|_| left.crashes > 0).map(Choice::Crash));
        choices.extend(leader.filter(|_| left.deposals > 0).map(Choice::Deposed));
        choices.extend(is_quiet.then_some(Choice::Time));
        if self.script.dawdled <= self.bounds.dawdles || self.script.rested >= RESTED {
            choices.extend(self.users());
        }
        choices
    }

    /// What may yet go wrong.
    fn left(&self) -> Troubles {
        let Self { bounds, troubles: spent, .. } = self;
        let all = bounds.troubles - (spent.faults + spent.crashes + spent.deposals);
        Troubles {
            faults: all.min(bounds.faults - spent.faults),
            crashes: all.min(bounds.crashes - spent.crashes),
            deposals: all.min(bounds.deposals - spent.deposals),
        }
    }

    /// How a request may go wrong.
    fn fates(&self, request: &Request) -> &'static [Fate] {
        use headgate_core::{Call, ledger::LedgerRequest};
        match request {
            Request::Call(Call::Register { .. } | Call::Deregister { .. }) => {
                &[Fate::Unanswered, Fate::Lost, Fate::Late, Fate::Refused, Fate::Throttled]
            }
            Request::Call(Call::ReadHealth { .. }) if self.aws.is_in_doubt(self.now) => {
                &[Fate::Lost, Fate::Stale]
            }
            Request::Call(Call::ReadHealth { .. }) => &[Fate::Lost],
            Request::Ledger(LedgerRequest::Write(..)) => &[Fate::Unanswered, Fate::Lost],
            _ => &[],
        }
    }

    /// What users may do next.
    fn users(&self) -> Vec<Choice> {
        if !self.script.begun {
            return vec![if self.bounds.is_evicted { Choice::Drain } else { Choice::Delete }];
        }
        let ends = self.pods.get(&pod("a").key).is_none_or(|first| first.facts.terminating);
        let mut choices = Vec::new();
        if ends {
            let is_there = self.pods.contains_key(&pod("a").key) && !self.bounds.one_by_one;
            choices.extend(is_there.then_some(Choice::Gone));
            choices.extend((!self.script.reused).then_some(Choice::Reuse));
        }
        choices
    }

    /// Lets something happen; says what is wrong, if anything is.
    pub fn take(&mut self, choice: Choice) -> Result<(), String> {
        if !choice.is_calm() {
            self.script.rested = 0;
        }
        match choice {
            Choice::Begin => {}
            Choice::Time => self.time_passes()?,
            Choice::Event(replica) => {
                if let Some(change) = self.replicas[replica].unsaid.pop_front() {
                    self.step(replica, Input::Pod { change, seen: self.now })?;
                }
            }
            Choice::Ends(replica, nth, fate) => {
                self.troubles.faults += u8::from(fate != Fate::Done);
                self.ends(replica, nth, fate)?;
            }
            Choice::Lands(nth) => {
                let late = self.late.remove(nth);
                let _ = self.do_it(&late.request, true, false);
            }
            Choice::Vanishes(nth) => _ = self.late.remove(nth),
            Choice::Elected(replica) => self.elected(replica)?,
            // One that leads no more sends nothing more: all that is left of its term is what it has sent, which is done late.
            Choice::Deposed(replica) => {
                self.troubles.deposals += 1;
                self.lease = Some(self.now + TRIED_AGAIN);
                self.sender_is_lost(replica);
                self.replicas[replica].leads = false;
                self.step(replica, Input::Leadership(Leadership::Standby))?;
            }
            Choice::Crash(replica) => {
                self.troubles.crashes += 1;
                self.sender_is_lost(replica);
                if self.replicas[replica].leads {
                    self.lease = Some(self.now + LEASE);
                }
                self.starts(replica)?;
            }
            Choice::Drain => {
                self.script = Script { begun: true, asks: Some(self.now), ..Script::default() };
            }
            Choice::Asks(replica) => self.asks(replica)?,
            Choice::Delete => {
                self.script = Script { begun: true, ..Script::default() };
                self.first_pod_ends();
            }
            Choice::Gone => {
                self.script.dawdled = 0;
                self.first_pod_is_gone();
            }
            Choice::Reuse => {
                (self.script.reused, self.script.dawdled) = (true, 0);
                if self.bounds.one_by_one {
                    self.first_pod_is_gone();
                }
                self.appears(pod("b"), self.now + STARTS_IN);
            }
        }
        Ok(())
    }

    fn elected(&mut self, replica: usize) -> Result<(), String> {
        self.lease = None;
        self.replicas[replica].leads = true;
        self.terms += 1;
        self.step(replica, Input::Leadership(Leadership::Leading { term: self.terms, is_settled: false }))
    }

    /// A process starts: it lists everything.
    fn starts(&mut self, replica: usize) -> Result<(), String> {
        let (seen, scope) = (self.now, Scope::Cluster);
        let pods: Vec<PodFacts> = self.pods.values().map(|pod| pod.facts.clone()).collect();
        let it = &mut self.replicas[replica];
        it.engine = Arc::new(Engine::new(settings()));
        it.leads = false;
        it.unsaid.clear();
        it.told.clear();
        let services = Change::Relisted(scope.clone(), vec![service()]);
        self.step(replica, Input::Service { change: services, seen })?;
        self.step(replica, Input::Binding { change: Change::Relisted(scope.clone(), Vec::new()), seen })?;
        self.step(replica, Input::Pod { change: Change::Relisted(scope, pods), seen })
    }

    /// A watch says this from now on.
    fn say(&mut self, change: &Change<PodFacts>) {
        self.replicas.iter_mut().for_each(|replica| replica.unsaid.push_back(change.clone()));
    }

    /// Somebody has changed a pod.
    fn change_pod(&mut self, key: &ObjectKey, uid: &Uid, change: impl FnOnce(&mut PodFacts)) -> bool {
        let Some(pod) = self.pods.get_mut(key).filter(|pod| pod.facts.uid == *uid) else { return false };
        let before = pod.facts.clone();
        change(&mut pod.facts);
        if pod.facts != before {
            let facts = pod.facts.clone();
            self.say(&Change::Applied(facts));
        }
        true
    }

    /// Something is written on a pod about its leaving.
    fn write_mark(&mut self, key: &ObjectKey, uid: &Uid, mark: Mark) -> bool {
        let Some(pod) = self.pods.get_mut(key).filter(|pod| pod.facts.uid == *uid) else { return false };
        pod.annotations.write(mark);
        let (leaving, left_over) = (pod.annotations.facts().map(Box::new), pod.annotations.left_over());
        self.change_pod(key, uid, |pod| (pod.leaving, pod.left_over) = (leaving, left_over))
    }

    /// What is, for the oracle.
    fn truth(&self) -> Truth<'_> {
        let Self { now, aws, pods, .. } = self;
        Truth {
            now: *now,
            aws,
            ledger: self.ledger.as_ref().map(|(_, packed)| packed),
            pods,
            is_asked: self.script.asks.is_some(),
        }
    }

    /// A pod gets its address, and answers from then on.
    fn appears(&mut self, facts: PodFacts, answers_from: Moment) {
        let it = Pod { facts: facts.clone(), annotations: Annotations::default(), answers_from };
        self.pods.insert(facts.key.clone(), it);
        self.say(&Change::Applied(facts));
        self.aws.voice_changed(&target(), self.now);
    }

    fn first_pod_is_gone(&mut self) {
        if let Some(gone) = self.pods.remove(&pod("a").key) {
            self.say(&Change::Deleted(gone.facts));
        }
    }

    fn first_pod_ends(&mut self) {
        let first = pod("a");
        self.script.asks = None;
        self.change_pod(&first.key, &first.uid, |pod| pod.terminating = true);
        self.aws.voice_changed(&target(), self.now);
    }

    /// The eviction of the first pod is asked for.
    fn asks(&mut self, replica: usize) -> Result<(), String> {
        let (first, now) = (pod("a"), self.now);
        let request = Eviction { uid: Some(first.uid.clone()), ..Eviction::default() };
        let ruling = self.replicas[replica].engine.may_evict(&first.key, &request, now).with_node(false);
        self.note(|| format!(" [{replica}] {ruling:?}"));
        match ruling {
            Ruling::Wait { mark, .. } => {
                if let Some(mark) = mark {
                    self.write_mark(&first.key, &first.uid, mark);
                }
                self.script.asks = Some(now + ASKS_AGAIN);
            }
            Ruling::AskNode { node, .. } => return Err(format!("{node} is still to be read")),
            Ruling::Pass(reason) | Ruling::Regardless(reason, _) => {
                oracle::may_go(&self.truth(), &self.replicas[replica], reason)?;
                self.first_pod_ends();
            }
        }
        Ok(())
    }

    /// Time jumps to the next instant at which anything is due.
    fn time_passes(&mut self) -> Result<(), String> {
        let before = self.now;
        let wakes = |replica: &mut Replica| Arc::make_mut(&mut replica.engine).next_wakeup(before);
        let wakeups = self.replicas.each_mut().map(wakes);
        let late = self.late.iter().map(|late| late.until);
        let others =
            [self.script.asks, self.lease].into_iter().flatten().chain(self.aws.deadlines()).chain(late);
        let next = others.filter(|at| *at > before).chain(wakeups.into_iter().flatten()).min();
        let Some(next) = next.filter(|next| *next > before) else {
            return Err(format!("time stands still: {wakeups:?}"));
        };
        let next = Moment::after_start(whole(next.elapsed()));
        self.now = next;
        if next.since(before) >= REST {
            oracle::at_rest(&self.truth())?;
            self.script.rested = (self.script.rested + 1).min(RESTED);
        } else {
            self.script.rested = 0;
        }
        if self.now.elapsed() > BEGINNING + LASTS {
            return Err(format!("it lasts longer than {LASTS:?}: the fingerprint is wrong then"));
        }
        if !self.users().is_empty() {
            self.script.dawdled = (self.script.dawdled + 1).min(self.bounds.dawdles + 1);
        }
        let Self { aws, pods, now, .. } = self;
        let pods = &*pods;
        let voice = |target: &Target| {
            let here = pods.values().find(|pod| !pod.facts.terminating && pod.facts.ips.contains(&target.ip));
            here.map(|pod| (&pod.facts.uid, pod.answers_from))
        };
        aws.pass(*now, &voice);
        for (replica, wakeup) in wakeups.into_iter().enumerate() {
            if wakeup.is_some_and(|at| at <= next) {
                self.step(replica, Input::Tick)?;
            }
        }
        Ok(())
    }
}
