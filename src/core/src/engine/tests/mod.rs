//! Tests of the whole engine: events are the inputs, and calls are the outputs. Each test decides when AWS answers.

mod asking;
mod brakes;
mod budgets;
mod clocks;
mod contesting;
mod detaching;
mod ending;
mod evicting;
mod explaining;
mod full;
mod gating;
mod governing;
mod granting;
mod handing_over;
mod keeping;
mod killed;
mod leading;
mod lingering;
mod missing_bindings;
mod owning;
mod passed_over;
mod policies;
mod recording;
mod replacing;
mod sending;
mod showing;
mod signals;
mod taking_out;
mod unproven;
mod unreadable;
mod waking;
mod written;
mod zones;

use std::{collections::BTreeMap, ops::Deref, sync::Arc, time::Duration};

use super::*;
use crate::model::view::Picture;
use crate::{
    engine::Leadership,
    ledger::{LedgerRequest, LedgerVersion, PackedLedger, PodMark, StoredLedger, object_name},
    model::{
        BindingFacts, Call, CallItem, Failure, FailureClass, GroupRef, HealthState, IpFamily, LeastHealthy,
        Notice, ObjectKey, PodFacts, Reason, RequestId, Scope, ServiceFacts, Target, TargetGroupArn,
        TargetGroupFacts, TargetType, Uid,
        claims::{Claim, Claims, Content},
        eviction,
        grant::{GrantFacts, GroupPattern},
        notice::About,
        policy::{REGISTER_WHEN, WHEN_NOT_READY},
        rates::Limits,
        settings::Granting,
        time::Window,
    },
    requests::{Answer, Request as Asks},
    testing::{NAMESPACE, PodBuilder, ServiceBuilder, arn, group, pod, service, target},
};

/// How long the bindings of a deleted Service remain in force.
const GRACE: Duration = Duration::from_secs(60);

/// A window without delays, so that each registration is sent separately.
const NO_WINDOW: Window = Window { idle: Duration::ZERO, most: Duration::ZERO };

/// A request that was sent and not answered.
#[derive(Debug, PartialEq, Eq)]
struct Sent<T> {
    id: RequestId,
    what: T,
}

impl<T> Deref for Sent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.what
    }
}

struct World {
    engine: Engine,
    now: Moment,
    open: Vec<(RequestId, Call)>,
    notices: Vec<Notice>,
    views: Vec<Effect>,
    /// How long each call waited for a token.
    waits: Vec<(&'static str, Duration)>,
    known: Vec<TargetGroupFacts>,
    /// The stored ledgers, each with its version. Reads and writes complete immediately.
    ledgers: BTreeMap<String, (u64, PackedLedger)>,
    /// The number of reads of a single ledger.
    loads: usize,
    /// Whether the creation of a ledger remains unanswered until the test answers the request.
    new_ledgers_wait: bool,
    /// Whether a request for all ledgers remains unanswered until the test answers the request.
    ledgers_wait: bool,
}

/// The answer to a look-up if AWS has these target groups. The look-up fails if one of the references is unknown.
fn find(known: &[TargetGroupFacts], references: &[GroupRef]) -> Result<Answer, Failure> {
    let one = |reference: &GroupRef| {
        let is_it = |facts: &&TargetGroupFacts| match reference {
            GroupRef::Arn(arn) => *arn == facts.arn,
            GroupRef::Name(name) => **name == *facts.arn.name(),
        };
        known.iter().find(is_it).cloned().ok_or_else(|| failure(FailureClass::Gone))
    };
    references.iter().map(one).collect::<Result<_, _>>().map(Answer::Groups)
}

impl World {
    /// A leader that has no lists except an empty list of TargetBindings.
    fn unsynced() -> Self {
        Self::with(cluster_wide())
    }

    /// A leader without ledgers, with an empty list of TargetBindings.
    fn with(settings: Settings) -> Self {
        let scopes = settings.scopes.clone();
        let mut world = Self::fresh(settings);
        for scope in scopes {
            world.written(Change::Relisted(scope, vec![]));
        }
        world
    }

    /// A leader without ledgers and without lists.
    fn fresh(settings: Settings) -> Self {
        let mut world = Self::standby(settings);
        world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
        world
    }

    /// A standby without lists.
    fn standby(settings: Settings) -> Self {
        let grants = settings.grants;
        let mut world = Self::unknowing(settings);
        // An administrator has granted all target groups, unless the test is about grants.
        if grants == Granting::Unwatched {
            let everything = GrantFacts {
                name: "everything".into(),
                groups: vec![GroupPattern::parse("*").unwrap()],
                namespaces: [NAMESPACE, "space-2", "space-3"].map(Arc::from).into(),
                exclusive: true,
            };
            world.step(Input::Grants { all: vec![everything], seen: world.now });
        }
        world
    }

    fn unknowing(settings: Settings) -> Self {
        Self {
            engine: Engine::new(settings),
            now: Moment::START,
            open: Vec::new(),
            notices: Vec::new(),
            views: Vec::new(),
            waits: Vec::new(),
            known: vec![group("blue"), group("green")],
            ledgers: BTreeMap::new(),
            loads: 0,
            new_ledgers_wait: false,
            ledgers_wait: false,
        }
    }

    /// Synced, with these Services and pods, and everything answered. The pods start when reads have shown that the
    /// groups are empty.
    fn new(services: Vec<ServiceBuilder>, pods: Vec<PodBuilder>) -> Self {
        let mut world = Self::unsynced();
        world.relist_services(services);
        world.relist_pods(vec![]);
        world.finds_empty_groups();
        world.relist_pods(pods);
        world.answer_all();
        world
    }

    /// A read shows that the groups are empty, and is too long ago to have shown an earlier time.
    fn finds_empty_groups(&mut self) {
        self.answer_all();
        self.wait(Duration::from_secs(7));
        self.answer_all();
    }

    fn step(&mut self, input: Input) {
        for effect in self.engine.step(input, self.now) {
            match effect {
                Effect::Send { id, request: Asks::Call(call), waited } => {
                    self.waits.extend(waited.map(|waited| (call.action(), waited)));
                    self.open.push((id, call));
                }
                Effect::Notice(notice) => self.notices.push(notice),
                Effect::Send { id, request: Asks::Ledger(request), .. } if !self.waits_for(&request) => {
                    let result = self.keeps(request);
                    self.step(Input::Answered { id, result });
                }
                other => self.views.push(other),
            }
        }
    }

    /// Whether the test must answer this request.
    fn waits_for(&self, request: &LedgerRequest) -> bool {
        match request {
            LedgerRequest::Write(None, _) => self.new_ledgers_wait,
            LedgerRequest::LoadAll => self.ledgers_wait,
            _ => false,
        }
    }

    /// Returns all requests for all ledgers that were sent after the last call.
    fn loads_of_all(&mut self) -> Vec<RequestId> {
        let loads = self.asked(|request| match request {
            Asks::Ledger(load @ LedgerRequest::LoadAll) => Some(load),
            _ => None,
        });
        loads.into_iter().map(|load| load.id).collect()
    }

    fn keeps(&mut self, request: LedgerRequest) -> Result<Answer, Failure> {
        match request {
            LedgerRequest::LoadAll => {
                let all = self.ledgers.keys().filter_map(|name| self.stored(name)).collect();
                Ok(Answer::Ledgers(all))
            }
            LedgerRequest::Load(group) => {
                self.loads += 1;
                Ok(Answer::Ledger(self.stored(&object_name(&group))))
            }
            LedgerRequest::Write(base, ledger) => {
                let name = object_name(&ledger.group);
                if self.stored(&name).map(|stored| stored.version) != base {
                    return Err(failure(FailureClass::Conflict));
                }
                let version = self.ledgers.get(&name).map_or(1, |(version, _)| version + 1);
                self.ledgers.insert(name, (version, ledger));
                Ok(Answer::Written(LedgerVersion::new(version.to_string())))
            }
            LedgerRequest::Delete(group, _) => {
                self.ledgers.remove(&object_name(&group));
                Ok(Answer::Done)
            }
        }
    }

    /// Returns all requests of this kind that were sent after the last call.
    fn asked<T>(&mut self, of: impl Fn(&Asks) -> Option<&T>) -> Vec<Sent<T>>
    where
        T: Clone,
    {
        let mut asked = Vec::new();
        self.views.retain(|view| {
            let Effect::Send { id, request, .. } = view else { return true };
            asked.extend(of(request).map(|what| Sent { id: *id, what: what.clone() }));
            of(request).is_none()
        });
        asked
    }

    /// An earlier leader has left this ledger: the last part of the address of each target at port 80, and the UID of its
    /// pod.
    fn claimed(&mut self, group: &str, claims: &[(u8, &str)]) {
        let claim = |uid: &str| Claim { pod: PodMark::of(&Uid::new(uid)), binding: None };
        let claims = claims.iter().map(|(last, uid)| (target(*last, 80), claim(uid))).collect();
        let packed = PackedLedger::of(&arn(group), IpFamily::V4, &Content { claims, ..Content::default() });
        self.ledgers.insert(object_name(&arn(group)), (1, packed));
    }

    /// The content of the ledger of a group.
    fn claims(&self, group: &str) -> Claims {
        self.stored(&object_name(&arn(group)))
            .map(|stored| stored.open().unwrap().1.claims)
            .unwrap_or_default()
    }

    fn stored(&self, name: &str) -> Option<StoredLedger> {
        let (version, packed) = self.ledgers.get(name)?;
        let version = LedgerVersion::new(version.to_string());
        Some(StoredLedger { name: name.into(), version, content: Ok(packed.clone()) })
    }

    fn pod(&mut self, change: Change<PodFacts>) {
        self.step(Input::Pod { change, seen: self.now });
    }
    fn apply(&mut self, pod: PodBuilder) {
        self.pod(Change::Applied(pod.build()));
    }
    fn delete(&mut self, pod: PodBuilder) {
        self.pod(Change::Deleted(pod.build()));
    }
    fn relist_pods(&mut self, pods: Vec<PodBuilder>) {
        self.pod(Change::Relisted(Scope::Cluster, pods.into_iter().map(PodBuilder::build).collect()));
    }
    fn service(&mut self, change: Change<ServiceFacts>) {
        self.step(Input::Service { change, seen: self.now });
    }
    fn annotate(&mut self, service: ServiceBuilder) {
        self.service(Change::Applied(service.build()));
    }
    fn relist_services(&mut self, services: Vec<ServiceBuilder>) {
        let services = services.into_iter().map(ServiceBuilder::build).collect();
        self.service(Change::Relisted(Scope::Cluster, services));
    }
    fn written(&mut self, change: Change<BindingFacts>) {
        self.step(Input::Binding { change, seen: self.now });
    }
    fn relist_written(&mut self, written: Vec<BindingFacts>) {
        self.written(Change::Relisted(Scope::Cluster, written));
    }
    fn wait(&mut self, wait: Duration) {
        self.now = self.now + wait;
        self.step(Input::Tick);
    }

    /// The open registrations (`+`) and deregistrations (`-`), each with its group and targets, in the order of
    /// sending.
    fn changes(&self) -> Vec<String> {
        let show = |sign: char, group: &TargetGroupArn, items: &[CallItem]| {
            let targets: Vec<String> = items.iter().map(|item| item.target.to_string()).collect();
            format!("{sign}{} {}", group.name(), targets.join(" "))
        };
        let of = |(_, call): &(RequestId, Call)| match call {
            Call::Register { group, items } => Some(show('+', group, items)),
            Call::Deregister { group, items } => Some(show('-', group, items)),
            _ => None,
        };
        self.open.iter().filter_map(of).collect()
    }

    fn causes(&self) -> Vec<Cause> {
        let items = self.open.iter().flat_map(|(_, call)| match call {
            Call::Register { items, .. } | Call::Deregister { items, .. } => items.clone(),
            _ => Vec::new(),
        });
        items.map(|item| item.reason).collect()
    }

    /// Answers every open call with success, including calls that follow from the answers.
    fn answer_all(&mut self) {
        while let Some((id, call)) = self.open.pop() {
            let result = match &call {
                Call::Register { .. } | Call::Deregister { .. } => Ok(Answer::Done),
                Call::ReadHealth { .. } => Ok(Answer::Health(Vec::new())),
                Call::FindGroups { references } => find(&self.known, references),
                Call::ReadAttributes { .. } => Ok(Answer::Attributes(LeastHealthy::DEFAULT)),
            };
            self.step(Input::Answered { id, result });
        }
    }

    /// AWS accepts the open deregistrations.
    fn accepts_removals(&mut self) {
        let (removals, rest) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(_, call)| matches!(call, Call::Deregister { .. }));
        self.open = rest;
        for (id, _) in removals {
            self.step(Input::Answered { id, result: Ok(Answer::Done) });
        }
    }

    /// The same for everything except changes, which remain open.
    fn answer_but_changes(&mut self) {
        let (changes, rest) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(_, call)| matches!(call, Call::Register { .. } | Call::Deregister { .. }));
        self.open = rest;
        self.answer_all();
        self.open.splice(..0, changes);
    }

    /// Rejects the open registrations and deregistrations.
    fn refuse_changes(&mut self, class: FailureClass) {
        let (changes, rest) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(_, call)| matches!(call, Call::Register { .. } | Call::Deregister { .. }));
        self.open = rest;
        for (id, _) in changes {
            self.step(Input::Answered { id, result: Err(failure(class)) });
        }
    }

    fn said(&self) -> Vec<Reason> {
        self.notices.iter().map(|notice| notice.reason).collect()
    }
}

fn cluster_wide() -> Settings {
    Settings {
        region: "us-east-1".into(),
        scopes: vec![Scope::Cluster],
        seed: 1,
        add_window: NO_WINDOW,
        // The engine does not undo evictions here without a repeated request, unless a test is about that.
        leaving: eviction::Limits {
            given_up_after: Duration::from_secs(15 * 60),
            ..eviction::Limits::default()
        },
        ..Settings::default()
    }
}

fn failure(class: FailureClass) -> Failure {
    Failure::new(class, "Code", "text")
}

/// A failure with this message.
fn fails(class: FailureClass, message: &str) -> Failure {
    Failure::new(class, "Code", message)
}

fn web() -> ServiceBuilder {
    service("web").port("http", 80).annotated("http=blue")
}
