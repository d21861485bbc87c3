//! The engine alone, of which a case of its own is played.

use std::time::Duration;

use headgate_core::{
    Answer, Call, Cause, Change, Effect, Engine, Failure, FailureClass, Input, Leadership, Moment, Request,
    RequestId, Scope, Settings,
    ledger::{LedgerRequest, LedgerVersion, PackedLedger, PodMark, StoredLedger, object_name},
    model::claims::{Claim, Content},
    model::{
        Health, IpFamily, LeastHealthy, LeavingFacts, NodeFacts, PodFacts, ServiceFacts, Target, WallTime,
        eviction, leaving::Mark, policy::PAUSED,
    },
};

use crate::objects::{everything_is_granted, group, pod, service};
use crate::words::{ip, no_answer};

pub const SECOND: Duration = Duration::from_secs(1);

/// Says what is not as it should be.
pub type Case = (&'static str, fn() -> Result<(), String>);

pub fn expect<T: PartialEq + std::fmt::Debug>(what: &str, is: &T, should_be: &T) -> Result<(), String> {
    if is == should_be { Ok(()) } else { Err(format!("{what}: expected {should_be:?}, found {is:?}")) }
}

/// An engine, whose calls are answered at once, but for reads: they are answered when the case says so.
pub struct Stage {
    pub engine: Engine,
    pub now: Moment,
    ledger: Option<StoredLedger>,
    version: u32,
    reading: Vec<RequestId>,
    /// What was taken out; which gates were written; what was written on pods that leave.
    pub removed: Vec<Target>,
    pub gates: Vec<(String, bool, Cause)>,
    pub marks: Vec<Mark>,
    /// The same by pod, as far as nobody has looked at it.
    pub marked: Vec<(String, Mark)>,
    /// Of so many removals the answer will be lost.
    pub lost_removals: usize,
    /// No target group can be looked up, for this reason.
    pub no_lookups: Option<Failure>,
    /// What was written on nodes: the same is not said twice.
    pub detached: Vec<(String, bool)>,
}

impl Stage {
    /// Another replica leads, and has claimed the targets of these pods.
    pub fn new(claimed: &[u8]) -> Self {
        let settings = Settings {
            region: "us-east-1".into(),
            scopes: vec![Scope::Cluster],
            seed: 1,
            gate_patience: Some(60 * SECOND),
            ..Settings::default()
        };
        let mut stage = Self {
            engine: Engine::new(settings),
            now: Moment::START,
            ledger: None,
            version: 0,
            reading: Vec::new(),
            removed: Vec::new(),
            gates: Vec::new(),
            marks: Vec::new(),
            marked: Vec::new(),
            lost_removals: 0,
            no_lookups: None,
            detached: Vec::new(),
        };
        stage.another_claims(claimed);
        stage.step(everything_is_granted());
        let change = Change::Relisted(Scope::Cluster, vec![]);
        stage.step(Input::Binding { change, seen: stage.now });
        stage
    }

    /// The replica that leads has claimed the targets of these pods.
    pub fn another_claims(&mut self, claimed: &[u8]) {
        let claim = |last: &u8| {
            let claim = Claim { pod: PodMark::of(&pod("", *last).uid), binding: None };
            (Target::new(ip(*last), 80), claim)
        };
        let content = Content { claims: claimed.iter().map(claim).collect(), ..Content::default() };
        let name = object_name(&group().arn);
        let content = Ok(PackedLedger::of(&group().arn, IpFamily::V4, &content));
        let stored = StoredLedger { name: name.into(), version: LedgerVersion::new("0"), content };
        self.ledger = Some(stored).filter(|_| !claimed.is_empty());
    }

    /// Leads, and has seen a Service and no pod.
    pub fn leading() -> Self {
        let mut stage = Self::new(&[]);
        stage.service(service("web"));
        stage.pods(&[]);
        stage.lead();
        stage.shows(3, &[]);
        stage
    }

    pub fn wall(&self) -> WallTime {
        WallTime::default() + self.now.elapsed()
    }

    pub fn step(&mut self, input: Input) {
        for effect in self.engine.step(input, self.now) {
            let Effect::Send { id, request, .. } = effect else { continue };
            if let Request::Call(Call::ReadHealth { .. }) = request {
                self.reading.push(id);
            } else {
                let result = self.answer(request);
                self.step(Input::Answered { id, result });
            }
        }
    }

    fn answer(&mut self, request: Request) -> Result<Answer, Failure> {
        match request {
            Request::Call(Call::FindGroups { .. }) if self.no_lookups.is_some() => {
                return self.no_lookups.clone().map_or(Ok(Answer::Done), Err);
            }
            Request::Call(Call::FindGroups { references })
                if references.iter().any(|name| name.to_string() != group().arn.name()) =>
            {
                return Err(Failure::new(FailureClass::Gone, "TargetGroupNotFound", "there is none"));
            }
            Request::Call(Call::FindGroups { .. }) => return Ok(Answer::Groups(vec![group()])),
            Request::Call(Call::ReadAttributes { .. }) => {
                return Ok(Answer::Attributes(LeastHealthy::DEFAULT));
            }
            Request::Call(Call::Deregister { items, .. }) => {
                self.removed.extend(items.iter().map(|item| item.target));
                if self.lost_removals > 0 {
                    self.lost_removals -= 1;
                    return Err(no_answer());
                }
            }
            Request::Ledger(LedgerRequest::LoadAll) => {
                return Ok(Answer::Ledgers(self.ledger.iter().cloned().collect()));
            }
            Request::Ledger(LedgerRequest::Load(_)) => return Ok(Answer::Ledger(self.ledger.clone())),
            Request::Ledger(LedgerRequest::Write(_, ledger)) => {
                self.version += 1;
                let version = LedgerVersion::new(self.version.to_string());
                let name = object_name(&ledger.group).into();
                self.ledger = Some(StoredLedger { name, version: version.clone(), content: Ok(ledger) });
                return Ok(Answer::Written(version));
            }
            Request::Gate(write) => {
                let condition = &write.condition;
                self.gates.push((write.pod.name.to_string(), condition.open, condition.reason));
            }
            Request::Mark(write) => {
                self.marks.push(write.mark);
                self.marked.push((write.pod.name.to_string(), write.mark));
            }
            Request::Detached(write) => {
                let said = (write.node.to_string(), write.at.is_some());
                if self.detached.last() != Some(&said) {
                    self.detached.push(said);
                }
            }
            Request::Check(_) => {
                return Ok(Answer::Checked(eviction::Checked { refused: None, budgets: Vec::new() }));
            }
            _ => {}
        }
        Ok(Answer::Done)
    }

    pub fn lead(&mut self) {
        self.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    }

    /// What was taken out is 10.0.0.`last`, in this order.
    pub fn expect_removed(&self, lasts: &[u8]) -> Result<(), String> {
        let expected = lasts.iter().map(|last| Target::new(ip(*last), 80)).collect();
        expect("removed targets", &self.removed, &expected)
    }

    /// A pod is asked to leave.
    pub fn asks(&mut self, pod: PodFacts) {
        let asked = Box::new(LeavingFacts::asked(self.wall(), self.wall()));
        self.pod(PodFacts { leaving: Some(asked), ..pod });
    }

    /// How many gates were closed since their targets are to be registered again.
    pub fn closed_again(&self) -> usize {
        let closed = |(_, open, reason): &&(String, bool, Cause)| !open && *reason == Cause::RegisteredAgain;
        self.gates.iter().filter(closed).count()
    }

    /// Whether a pod was let go.
    pub fn lets_go(&self) -> bool {
        self.marks.iter().any(|mark| matches!(mark, Mark::MayGo { .. }))
    }

    /// Whether the eviction of a pod is recorded and waits.
    pub fn waits(&self, last: u8) -> bool {
        matches!(self.evict(last), eviction::Ruling::Wait { cause: Cause::EvictionRecorded, .. })
    }

    /// What is noted on a pod whose eviction is asked for.
    pub fn notes(&self, last: u8) -> Option<Mark> {
        if let eviction::Ruling::Wait { mark, .. } = self.evict(last) { mark } else { None }
    }

    fn evict(&self, last: u8) -> eviction::Ruling {
        self.engine.may_evict(&pod("", last).key, &eviction::Request::default(), self.now)
    }

    pub fn service(&mut self, service: ServiceFacts) {
        self.step(Input::Service { change: Change::Relisted(Scope::Cluster, vec![service]), seen: self.now });
    }

    pub fn apply(&mut self, service: ServiceFacts) {
        self.step(Input::Service { change: Change::Applied(service), seen: self.now });
    }

    pub fn nodes(&mut self, nodes: Vec<NodeFacts>) {
        self.step(Input::Node { change: Change::Relisted(Scope::Cluster, nodes), seen: self.now });
    }

    pub fn pods(&mut self, pods: &[PodFacts]) {
        self.step(Input::Pod { change: Change::Relisted(Scope::Cluster, pods.to_vec()), seen: self.now });
    }

    pub fn pod(&mut self, pod: PodFacts) {
        self.step(Input::Pod { change: Change::Applied(pod), seen: self.now });
    }

    /// A pod is deleted, and gone.
    pub fn goes(&mut self, pod: &PodFacts) {
        self.pod(PodFacts { terminating: true, ..pod.clone() });
        self.passes(SECOND);
        self.step(Input::Pod { change: Change::Deleted(pod.clone()), seen: self.now });
    }

    pub fn passes(&mut self, wait: Duration) {
        self.now = self.now + wait;
        self.step(Input::Tick);
    }

    /// The reads that are open show this.
    pub fn reads(&mut self, there: &[(u8, Health)]) {
        for id in std::mem::take(&mut self.reading) {
            let states = there.iter().map(|(last, health)| (Target::new(ip(*last), 80), *health)).collect();
            self.step(Input::Answered { id, result: Ok(Answer::Health(states)) });
        }
    }

    /// Time passes second by second, and each read fails.
    pub fn reads_fail(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.passes(SECOND);
            for id in std::mem::take(&mut self.reading) {
                self.step(Input::Answered { id, result: Err(no_answer()) });
            }
        }
    }

    /// Time passes second by second, and each read shows this.
    pub fn shows(&mut self, seconds: u64, there: &[(u8, Health)]) {
        for _ in 0..seconds {
            self.passes(SECOND);
            self.reads(there);
        }
    }

    /// The same, until a target is taken out.
    pub fn shows_until_one_goes(&mut self, seconds: u64, there: &[(u8, Health)]) {
        for _ in 0..seconds {
            if self.removed.is_empty() {
                self.shows(1, there);
            }
        }
    }
}

/// The Service, and nothing is to be written about its targets.
pub fn paused() -> ServiceFacts {
    let mut paused = service("web");
    paused.policy.set(PAUSED, "true");
    paused
}
