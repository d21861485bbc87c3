//! Lists and watches that say that most of something is gone: namespaces, TargetBindings, nodes. Worlds of their own.
//!
//! Each namespace has a TargetBinding with a target group, and a pod on each node. Now and then a list leaves most objects
//! of a kind out, or a watch says DELETED for most of them within a moment; sometimes that is so, sometimes not. The list that
//! the engine then asks for is right, and comes at once, late, or not at all.
//!
//! * Nothing that should be a target is taken out before the patience is over, but for what hangs on the first object that
//!   a watch takes away.
//! * What is true takes effect within a minute, and so does that nothing was.
//! * A single deletion takes effect at once, and so does the end of a pod whatever is in doubt.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use headgate_core::{
    Settings,
    engine::{Effect, Engine, Input, Leadership},
    leadership::Watch,
    ledger::{LedgerRequest, LedgerVersion},
    model::{
        BindingFacts, Call, Change, HealthState, Labels, LeastHealthy, Moment, NodeFacts, ObjectKey,
        PodFacts, Protocol, RequestId, Scope, ServiceFacts, Target, TargetGroupArn, TargetGroupFacts,
        TargetPort, Texts, Uid, target_binding::Pods,
    },
    requests::{Answer, Request},
};

use crate::objects::{group, pod};

/// Namespaces, and nodes; each namespace has one TargetBinding.
const MANY: usize = 4;
const WORLDS: u64 = 60;
const EPISODES: usize = 8;
const MINUTE: Duration = Duration::from_secs(60);
/// For so long at most nothing follows from what is doubted.
const PATIENCE: Duration = Duration::from_secs(30);
/// What need not wait is done by then.
const AT_ONCE: Duration = Duration::from_secs(1);
const KINDS: [Watch; 3] = [Watch::Namespaces, Watch::Bindings, Watch::Nodes];

/// A pod: its namespace, and its node.
type Place = (usize, usize);

fn namespace(at: usize) -> Arc<str> {
    format!("namespace-{at}").into()
}

fn arn(name: &str) -> TargetGroupArn {
    let number: u64 = name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default();
    let text =
        format!("arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/{name}/{number:016x}");
    TargetGroupArn::parse(&text).unwrap()
}

fn binding(at: usize) -> BindingFacts {
    BindingFacts {
        key: ObjectKey::new(namespace(at), "own"),
        uid: Uid::new(format!("binding-{at}")),
        group: format!("group-{at}").into(),
        pods: Pods::Selected(Labels::from_iter([("app", "web")]), TargetPort::Number(80), Protocol::Tcp),
        policy: Texts::default(),
        ending: false,
    }
}

fn node(at: usize) -> NodeFacts {
    NodeFacts { name: format!("node-{at}").into(), takes_pods: true, ..NodeFacts::default() }
}

/// A pod there, in this life of its name.
fn pod_at((space, on): Place, life: usize) -> PodFacts {
    let it = pod("web", u8::try_from(space * MANY + on + 1).unwrap());
    let key = ObjectKey::new(namespace(space), it.key.name.clone());
    let uid = Uid::new(format!("{}-{life}", it.uid));
    PodFacts { key, uid, node: Some(node(on).name), ..it }
}

fn places() -> impl Iterator<Item = Place> {
    (0..MANY).flat_map(|space| (0..MANY).map(move |on| (space, on)))
}

/// What a watch says of the objects of its kind.
fn says(watch: Watch, change: Change<usize>, seen: Moment) -> Input {
    fn of<T>(change: Change<usize>, make: fn(usize) -> T) -> Change<T> {
        match change {
            Change::Applied(at) => Change::Applied(make(at)),
            Change::Deleted(at) => Change::Deleted(make(at)),
            Change::Relisted(scope, all) => Change::Relisted(scope, all.into_iter().map(make).collect()),
        }
    }
    match watch {
        Watch::Namespaces => Input::Namespace { change: of(change, namespace), seen },
        Watch::Bindings => Input::Binding { change: of(change, binding), seen },
        _ => Input::Node { change: of(change, node), seen },
    }
}

/// The first of these worlds that is not as it should be, and how.
pub fn first_broken() -> Option<String> {
    (0..WORLDS).find_map(|seed| World::new(seed).run().err().map(|broken| format!("world {seed}: {broken}")))
}

struct World {
    engine: Engine,
    now: Moment,
    rng: fastrand::Rng,
    /// What AWS has.
    there: BTreeSet<Place>,
    /// What is gone of each kind, and the pods that are ending.
    gone: [BTreeSet<usize>; 3],
    ended: BTreeSet<Place>,
    lives: BTreeMap<Place, usize>,
    /// What is said to be gone, and since when.
    kind: usize,
    said: Moment,
    /// The first one that a watch has taken away.
    first: Option<usize>,
    /// After which time a list comes that is asked for, if one does; and when one comes.
    latency: Option<Duration>,
    asked: bool,
    list: Option<Moment>,
    trace: Vec<String>,
}

impl World {
    fn new(seed: u64) -> Self {
        let settings = Settings {
            scopes: vec![Scope::Cluster],
            namespaces_are_selected: true,
            relist_patience: PATIENCE,
            seed,
            ..Settings::default()
        };
        Self {
            engine: Engine::new(settings),
            now: Moment::START,
            rng: fastrand::Rng::with_seed(seed),
            there: BTreeSet::new(),
            gone: Default::default(),
            ended: BTreeSet::new(),
            lives: BTreeMap::new(),
            kind: 0,
            said: Moment::START,
            first: None,
            latency: None,
            asked: false,
            list: None,
            trace: Vec::new(),
        }
    }

    fn run(mut self) -> Result<(), String> {
        self.begin().and_then(|()| (0..EPISODES).try_for_each(|_| self.episode())).map_err(|broken| {
            let trace = self.trace.join("\n    ");
            format!("{broken} at {:?}\n    {trace}", self.now.elapsed())
        })
    }

    fn begin(&mut self) -> Result<(), String> {
        let seen = self.now;
        self.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }))?;
        let services: Vec<ServiceFacts> = Vec::new();
        self.step(Input::Service { change: Change::Relisted(Scope::Cluster, services), seen })?;
        for kind in 0..KINDS.len() {
            self.lists(kind, &BTreeSet::new())?;
        }
        let pods = places().map(|place| pod_at(place, 0)).collect();
        self.step(Input::Pod { change: Change::Relisted(Scope::Cluster, pods), seen })?;
        self.passes(MINUTE)?;
        self.has_what_it_should()
    }

    fn episode(&mut self) -> Result<(), String> {
        (self.kind, self.said, self.first, self.asked) =
            (self.rng.usize(0..KINDS.len()), self.now, None, false);
        let mut all: Vec<usize> = (0..MANY).collect();
        self.rng.shuffle(&mut all);
        if self.rng.u8(0..4) == 0 {
            let one = BTreeSet::from([all[0]]);
            self.trace.push(format!("{:?}: {one:?} is gone", KINDS[self.kind]));
            self.gone[self.kind] = one;
            self.says(Change::Deleted(all[0]))?;
            self.passes(AT_ONCE)?;
            self.has_what_it_should()?;
            return self.comes_back();
        }
        let most: BTreeSet<usize> = all.into_iter().take(self.rng.usize(MANY / 2 + 1..=MANY)).collect();
        let (is_so, in_a_list) = (self.rng.bool(), self.rng.bool());
        self.latency = match self.rng.u8(0..3) {
            0 => Some(Duration::from_millis(self.rng.u64(5..2_000))),
            1 => Some(Duration::from_millis(self.rng.u64(2_000..25_000))),
            _ => None,
        };
        self.trace.push(format!(
            "{:?}: {most:?} gone? {is_so}; in a list: {in_a_list}; the next one after {:?}",
            KINDS[self.kind], self.latency
        ));
        if is_so {
            self.gone[self.kind].clone_from(&most);
        }
        if in_a_list {
            self.lists(self.kind, &most)?;
        } else {
            for at in most {
                self.first.get_or_insert(at);
                self.says(Change::Deleted(at))?;
                let pause = self.rng.u64(0..500);
                self.passes(Duration::from_millis(pause))?;
                // Whoever lists anew hears no more of what was said before.
                if self.asked && self.latency.is_some() && self.list.is_none() {
                    break;
                }
            }
        }
        if !self.asked {
            return Err("nobody asks for another list".to_owned());
        }
        self.a_pod_ends()?;
        self.passes(MINUTE.saturating_sub(self.now.since(self.said)))?;
        if is_so || self.latency.is_some() {
            self.has_what_it_should()?;
        }
        self.comes_back()
    }

    /// A pod ends: its target goes at once, whatever is in doubt.
    fn a_pod_ends(&mut self) -> Result<(), String> {
        let place = (self.rng.usize(0..MANY), self.rng.usize(0..MANY));
        self.trace.push(format!("the pod of {place:?} ends"));
        self.ended.insert(place);
        let life = self.lives.get(&place).copied().unwrap_or_default();
        let change = Change::Applied(PodFacts { terminating: true, ..pod_at(place, life) });
        self.step(Input::Pod { change, seen: self.now })?;
        self.passes(AT_ONCE)?;
        if self.there.contains(&place) { Err(format!("{place:?} is there and its pod ends")) } else { Ok(()) }
    }

    /// All objects are there again, and a list says so; the pod that has ended is followed by another one.
    fn comes_back(&mut self) -> Result<(), String> {
        self.trace.push("all is well".to_owned());
        self.gone[self.kind].clear();
        self.list = None;
        self.lists(self.kind, &BTreeSet::new())?;
        for place in std::mem::take(&mut self.ended) {
            let life = self.lives.entry(place).or_default();
            let (old, new) = (pod_at(place, *life), pod_at(place, *life + 1));
            *life += 1;
            self.step(Input::Pod { change: Change::Deleted(old), seen: self.now })?;
            self.step(Input::Pod { change: Change::Applied(new), seen: self.now })?;
        }
        self.passes(MINUTE)?;
        self.has_what_it_should()
    }

    fn says(&mut self, change: Change<usize>) -> Result<(), String> {
        self.step(says(KINDS[self.kind], change, self.now))
    }

    fn lists(&mut self, kind: usize, without: &BTreeSet<usize>) -> Result<(), String> {
        let list = (0..MANY).filter(|at| !without.contains(at)).collect();
        self.step(says(KINDS[kind], Change::Relisted(Scope::Cluster, list), self.now))
    }

    fn passes(&mut self, time: Duration) -> Result<(), String> {
        let end = self.now + time;
        while self.now < end {
            let wakes =
                self.engine.next_wakeup(self.now).map(|due| due.max(self.now + Duration::from_millis(1)));
            self.now = wakes.into_iter().chain(self.list).chain([end]).min().unwrap_or(end);
            if self.list.take_if(|list| *list <= self.now).is_some() {
                let gone = self.gone[self.kind].clone();
                self.lists(self.kind, &gone)?;
            } else {
                self.step(Input::Tick)?;
            }
        }
        Ok(())
    }

    fn step(&mut self, input: Input) -> Result<(), String> {
        for effect in self.engine.step(input, self.now) {
            match effect {
                Effect::Send { id, request, .. } => self.carry_out(id, request)?,
                // What a list has not got besides is asked about again.
                Effect::Relist(watch, _) if watch == KINDS[self.kind] && self.list.is_none() => {
                    self.asked = true;
                    self.list = self.latency.map(|latency| self.now + latency);
                }
                Effect::Relist(watch, _) => return Err(format!("{watch:?} are asked for one list too many")),
                _ => {}
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, id: RequestId, request: Request) -> Result<(), String> {
        let answer = match request {
            Request::Call(Call::FindGroups { references }) => {
                let arns = references.iter().map(|name| arn(&name.to_string()));
                Answer::Groups(arns.map(|arn| TargetGroupFacts { arn, ..group() }).collect())
            }
            Request::Call(Call::ReadAttributes { .. }) => Answer::Attributes(LeastHealthy::DEFAULT),
            Request::Call(Call::ReadHealth { group }) => {
                let here = self.there.iter().filter(|(space, _)| arn(&format!("group-{space}")) == group);
                Answer::Health(here.map(|place| (target(*place), HealthState::Healthy.into())).collect())
            }
            Request::Call(Call::Register { items, .. }) => {
                self.there.extend(items.iter().map(|item| place(&item.target)));
                Answer::Done
            }
            Request::Call(Call::Deregister { items, .. }) => {
                for item in items {
                    let place = place(&item.target);
                    self.check_removal(place)?;
                    self.there.remove(&place);
                }
                Answer::Done
            }
            Request::Ledger(LedgerRequest::LoadAll) => Answer::Ledgers(Vec::new()),
            Request::Ledger(LedgerRequest::Load(_)) => Answer::Ledger(None),
            Request::Ledger(LedgerRequest::Write(..)) => {
                Answer::Written(LedgerVersion::new(id.0.to_string()))
            }
            _ => Answer::Done,
        };
        self.step(Input::Answered { id, result: Ok(answer) })
    }

    fn is_wanted(&self, place: &Place) -> bool {
        let [namespaces, bindings, nodes] = &self.gone;
        let (space, on) = place;
        let is_bound = !namespaces.contains(space) && !bindings.contains(space);
        is_bound && !nodes.contains(on) && !self.ended.contains(place)
    }

    fn check_removal(&self, place: Place) -> Result<(), String> {
        let (space, on) = place;
        let hangs_on = if KINDS[self.kind] == Watch::Nodes { on } else { space };
        let is_over = self.latency.is_none() && self.now >= self.said + PATIENCE;
        if self.is_wanted(&place) && self.first != Some(hangs_on) && !is_over {
            return Err(format!("{place:?} is removed for what nobody has confirmed"));
        }
        Ok(())
    }

    fn has_what_it_should(&self) -> Result<(), String> {
        let wanted: BTreeSet<Place> = places().filter(|place| self.is_wanted(place)).collect();
        if self.there == wanted {
            return Ok(());
        }
        let (more, less) = (self.there.difference(&wanted), wanted.difference(&self.there));
        let (more, less): (Vec<_>, Vec<_>) = (more.collect(), less.collect());
        Err(format!("AWS has {more:?} and should not, and has not {less:?}"))
    }
}

fn target(place: Place) -> Target {
    Target::new(pod_at(place, 0).ips[0], 80)
}

fn place(of: &Target) -> Place {
    places().find(|place| target(*place) == *of).unwrap()
}
