//! Two namespaces: no input of one changes targets, gates or evictions of the other.
//!
//! The owner has Services whose pods come and go, get their gates opened, and are evicted. The intruder names the owner's
//! target groups in Services and TargetBindings, pauses them, wants them for itself alone, asks for other holds and zones,
//! and has pods of its own. Half way another replica leads. The same world is run once more without the intruder: AWS is
//! told the same about the owner's target groups, and the same is written to its pods, at the same times.
//!
//! Who may bind what is said by grants, by grants that are required, or by who was first. One of the groups is granted to
//! both: the intruder has targets there, and what it asks for holds for those.

mod plan;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use headgate_core::{
    Settings,
    engine::{Effect, Engine, Input, Leadership},
    ledger::{LedgerRequest, LedgerVersion, PackedLedger, StoredLedger, object_name},
    model::{
        BindingFacts, Bounds, Call, Change, GroupRef, Health, HealthState, LeastHealthy, Moment, NodeFacts,
        ObjectKey, PodFacts, RequestId, Scope, ServiceFacts, Target, TargetGroupArn, TargetGroupFacts, Uid,
        WallTime,
        eviction::{Checked, Limits as Leaving},
        gate::Shown,
        grant::{GrantFacts, GroupPattern},
        leaving::{Annotations, Asked, Mark},
        rates::{Limit, Limits},
        settings::Granting,
    },
    requests::{Answer, Request},
};

use crate::{objects::group, timeline::Timeline};

const OWNER: &str = "owner";
const INTRUDER: &str = "intruder";
/// The owner's target groups, of which the intruder may bind one if there are grants, and the intruder's own.
const OWN: [&str; 3] = ["blue", "green", SHARED];
const SHARED: &str = "teal";
const ITS: &str = "red";
const PODS: u8 = 40;
/// The addresses of its pods begin here.
const INTRUDERS: u8 = 150;
/// One of so many is evicted, one in this time.
const EVICTED: u8 = 8;
const TURN: u64 = 25_000;
const WORLDS: u64 = 60;
/// The owner has targets by then.
const FOUND: u64 = 5_000;
const HALF: u64 = 60_000;
const CALM: u64 = 120_000;
const END: u64 = 400_000;
const LATENCY: Duration = Duration::from_millis(40);
/// Times that differ by less are the same: what is due at a step may be done at one that the intruder has caused.
const SAME: Duration = Duration::from_millis(500);
/// The same of what an eviction waits for, which is looked at every few seconds, and whenever something has happened.
const LOOKED_AT: Duration = Duration::from_secs(6);
const STEPS: u32 = 100_000;
/// Of some 200: which of two things comes first at a moment may hang on a microsecond.
const FEW: usize = 3;
/// The same in the shared group, whose ledger is written for both: what the next leader finds there may be a write older.
const FEW_SHARED: usize = 10;

fn at(ms: u64) -> Moment {
    Moment::after_start(Duration::from_millis(ms))
}

fn arn(name: &str) -> TargetGroupArn {
    let text =
        format!("arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/{name}/0123456789abcdef");
    TargetGroupArn::parse(&text).unwrap()
}

/// Somebody has put this into every target group of the owner's.
fn stranger() -> Target {
    Target::new([10, 0, 0, 250].into(), 80)
}

/// Whether this is a pod of the intruder's.
fn is_intruding(target: &Target) -> bool {
    let pods = INTRUDERS..INTRUDERS + PODS;
    matches!(target.ip, IpAddr::V4(ip) if pods.contains(&ip.octets()[3]))
}

/// What happens.
enum What {
    Input(Box<Input>),
    /// A pod is to be evicted; ends; is gone.
    Asked(ObjectKey),
    Ends(ObjectKey),
    Gone(ObjectKey),
    /// Another replica leads.
    Killed,
}

/// What was done about the owner, and when.
type Done = BTreeMap<String, Vec<Moment>>;

struct World {
    settings: Settings,
    grants: Vec<GrantFacts>,
    engine: Engine,
    now: Moment,
    there: BTreeMap<TargetGroupArn, BTreeMap<Target, Moment>>,
    ledgers: BTreeMap<String, (u64, PackedLedger)>,
    pods: BTreeMap<ObjectKey, PodFacts>,
    services: BTreeMap<ObjectKey, ServiceFacts>,
    written: BTreeMap<ObjectKey, BindingFacts>,
    marks: BTreeMap<Uid, Annotations>,
    events: Timeline<What>,
    done: Done,
}

fn grant(groups: &[&str], namespaces: &[&str], exclusive: bool) -> GrantFacts {
    GrantFacts {
        name: groups[0].trim_end_matches('*').into(),
        groups: groups.iter().map(|group| GroupPattern::parse(group).unwrap()).collect(),
        namespaces: namespaces.iter().map(|namespace| (*namespace).into()).collect(),
        exclusive,
    }
}

impl World {
    fn new(seed: u64, intrudes: bool) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let plenty = Limit { per_second: 1_000.0, burst: 1_000.0 };
        let settings = Settings {
            scopes: vec![Scope::Cluster],
            grants: if seed.is_multiple_of(3) { Granting::Required } else { Granting::Optional },
            limits: Limits { changes: plenty, reads: plenty },
            bounds: Bounds { application: Duration::from_secs(4), network: Duration::from_secs(4) },
            leaving: Leaving { patience: Duration::from_secs(30), ..Leaving::default() },
            started: WallTime::since_1970(Duration::from_secs(1_800_000_000)),
            seed,
            ..Settings::default()
        };
        let grants = match seed % 3 {
            2 => vec![],
            _ => vec![
                grant(&["bl*", "green"], &[OWNER], false),
                grant(&[ITS], &[INTRUDER], true),
                grant(&[SHARED], &[OWNER, INTRUDER], true),
            ],
        };
        let mut world = Self {
            engine: Engine::new(settings.clone()),
            settings,
            grants,
            now: Moment::START,
            there: OWN.iter().map(|name| (arn(name), [(stranger(), Moment::START)].into())).collect(),
            ledgers: BTreeMap::new(),
            pods: BTreeMap::new(),
            services: BTreeMap::new(),
            written: BTreeMap::new(),
            marks: BTreeMap::new(),
            events: Timeline::default(),
            done: Done::new(),
        };
        world.there.insert(arn(ITS), BTreeMap::new());
        world.lists();
        world.input(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
        world.owns(&mut rng);
        if intrudes {
            world.intrudes(&mut rng);
        }
        world.put(HALF, What::Killed);
        world
    }

    /// All that a replica is told that has just started.
    fn lists(&mut self) {
        let seen = self.now;
        let pods = self.pods.values().cloned().collect();
        let services = self.services.values().cloned().collect();
        let written = self.written.values().cloned().collect();
        let node = NodeFacts::default();
        for input in [
            Input::Grants { all: self.grants.clone(), seen },
            Input::Node { change: Change::Relisted(Scope::Cluster, vec![node]), seen },
            Input::Binding { change: Change::Relisted(Scope::Cluster, written), seen },
            Input::Service { change: Change::Relisted(Scope::Cluster, services), seen },
            Input::Pod { change: Change::Relisted(Scope::Cluster, pods), seen },
        ] {
            self.input(input);
        }
    }

    fn put(&mut self, after: u64, what: What) {
        self.push(at(after), what);
    }

    fn push(&mut self, at: Moment, what: What) {
        self.events.put(at, what);
    }

    /// Keeps what was said for whoever starts later.
    fn keep(&mut self, input: &Input) {
        match input {
            Input::Pod { change: Change::Applied(facts), .. } => {
                self.pods.insert(facts.key.clone(), facts.clone());
            }
            Input::Service { change: Change::Applied(facts), .. } => {
                self.services.insert(facts.key.clone(), facts.clone());
            }
            Input::Service { change: Change::Deleted(facts), .. } => {
                self.services.remove(&facts.key);
            }
            Input::Binding { change: Change::Applied(facts), .. } => {
                self.written.insert(facts.key.clone(), facts.clone());
            }
            _ => {}
        }
    }

    fn input(&mut self, input: Input) {
        self.push(self.now, What::Input(input.into()));
    }

    /// A pod looks otherwise now.
    fn change(&mut self, key: &ObjectKey, change: impl FnOnce(&mut PodFacts)) {
        let Some(facts) = self.pods.get_mut(key) else { return };
        change(facts);
        let change = Change::Applied(facts.clone());
        self.input(Input::Pod { change, seen: self.now });
    }

    fn run(mut self) -> Result<Done, String> {
        for _ in 0..STEPS {
            let wakes = self.engine.next_wakeup(self.now).map(|due| due.max(self.now));
            let happens = self.events.next();
            let Some(next) = wakes.into_iter().chain(happens).min().filter(|next| *next < at(END)) else {
                return self.ends();
            };
            self.now = next;
            let input = match self.events.take(next) {
                Some(what) => match self.happens(what) {
                    Some(input) => input,
                    None => continue,
                },
                None => Input::Tick,
            };
            self.keep(&input);
            for effect in self.engine.step(input, self.now) {
                if let Effect::Send { id, request, .. } = effect {
                    self.carry_out(id, request)?;
                }
            }
        }
        Err(format!("woken again and again at {:?}", self.now))
    }

    fn happens(&mut self, what: What) -> Option<Input> {
        match what {
            What::Input(input) => return Some(*input),
            What::Asked(key) => {
                let wall = self.settings.started + self.now.elapsed();
                self.mark(&key, Mark::Asked(Asked::first(wall)));
            }
            What::Ends(key) => {
                self.push(self.now + Duration::from_secs(5), What::Gone(key.clone()));
                self.change(&key, |facts| facts.terminating = true);
            }
            What::Gone(key) => {
                let facts = self.pods.remove(&key)?;
                return Some(Input::Pod { change: Change::Deleted(facts), seen: self.now });
            }
            What::Killed => {
                // What was asked for is never answered, and what was to be said to the one before is in the lists.
                self.events.retain(
                    |what| !matches!(what, What::Input(input) if matches!(**input, Input::Answered { .. })),
                );
                self.engine = Engine::new(self.settings.clone());
                self.lists();
                self.input(Input::Leadership(Leadership::Leading { term: 2, is_settled: false }));
            }
        }
        None
    }

    fn mark(&mut self, key: &ObjectKey, mark: Mark) {
        let Some(facts) = self.pods.get(key) else { return };
        let annotations = self.marks.entry(facts.uid.clone()).or_default();
        annotations.write(mark);
        let (leaving, left_over) = (annotations.facts().map(Box::new), annotations.left_over());
        self.change(key, |facts| (facts.leaving, facts.left_over) = (leaving, left_over));
    }

    /// The target group of a pod of the owner's.
    fn group_of(&self, pod: &ObjectKey) -> &'static str {
        let app = self.pods.get(pod).and_then(|facts| facts.labels.get("app"));
        OWN.into_iter().find(|name| app == Some(*name)).unwrap_or_default()
    }

    /// Something was done about a pod or target of the owner's.
    fn note(&mut self, what: String) {
        self.done.entry(what).or_default().push(self.now);
    }

    fn carry_out(&mut self, id: RequestId, request: Request) -> Result<(), String> {
        let answer = match request {
            Request::Call(call) => self.call(&call)?,
            Request::Ledger(request) => self.ledger(request)?,
            Request::Gate(write) => {
                // When the shared group is read hangs on all pods of it; a gate is opened all the same.
                let group = self.group_of(&write.pod);
                if &*write.pod.namespace == OWNER && (write.condition.open || group != SHARED) {
                    self.note(format!("gate {} {} {group}", write.pod, write.condition.open));
                }
                let message = write.condition.message.clone();
                let status = if write.condition.open { "True" } else { "False" };
                let shown = Shown::read(Some(status), Some(&message));
                self.change(&write.pod, |facts| facts.gate.get_or_insert_default().shown = shown);
                Answer::Done
            }
            Request::Mark(write) => {
                if &*write.pod.namespace == OWNER {
                    let kind = format!("{:?}", write.mark);
                    let kind = kind.split([' ', '{', '(']).next().unwrap_or_default().to_owned();
                    self.note(format!("mark {} {kind} {}", write.pod, self.group_of(&write.pod)));
                }
                self.mark(&write.pod, write.mark);
                if matches!(write.mark, Mark::MayGo { .. }) {
                    self.push(self.now + Duration::from_secs(1), What::Ends(write.pod));
                }
                Answer::Done
            }
            Request::Check(_) => Answer::Checked(Checked { refused: None, budgets: Vec::new() }),
            // There are no nodes.
            Request::Detached(write) => return Err(format!("node {} is written to", write.node)),
        };
        let input = Input::Answered { id, result: Ok(answer) };
        self.push(self.now + LATENCY, What::Input(input.into()));
        Ok(())
    }

    fn ledger(&mut self, request: LedgerRequest) -> Result<Answer, String> {
        let stored = |(name, (version, packed)): (&String, &(u64, PackedLedger))| StoredLedger {
            name: name.as_str().into(),
            version: LedgerVersion::new(version.to_string()),
            content: Ok(packed.clone()),
        };
        Ok(match request {
            LedgerRequest::LoadAll => Answer::Ledgers(self.ledgers.iter().map(stored).collect()),
            LedgerRequest::Load(group) => {
                Answer::Ledger(self.ledgers.get_key_value(&object_name(&group)).map(stored))
            }
            LedgerRequest::Write(_, packed) => {
                let holders: BTreeSet<Arc<str>> = packed.content.namespaces.iter().cloned().collect();
                if !self.is_the_intruders(&packed.group) && holders.iter().any(|holder| **holder != *OWNER) {
                    return Err(format!("{holders:?} hold {}", packed.group.name()));
                }
                let name = object_name(&packed.group);
                let version = self.ledgers.get(&name).map_or(1, |(version, _)| version + 1);
                self.ledgers.insert(name, (version, packed));
                Answer::Written(LedgerVersion::new(version.to_string()))
            }
            LedgerRequest::Delete(group, _) => {
                self.ledgers.remove(&object_name(&group));
                Answer::Done
            }
        })
    }

    fn call(&mut self, call: &Call) -> Result<Answer, String> {
        let now = self.now;
        Ok(match call {
            Call::FindGroups { references } => {
                let arns = references.iter().map(|reference| match reference {
                    GroupRef::Name(name) => arn(name),
                    GroupRef::Arn(arn) => arn.clone(),
                });
                Answer::Groups(arns.map(|arn| TargetGroupFacts { arn, ..group() }).collect())
            }
            Call::ReadAttributes { .. } => Answer::Attributes(LeastHealthy::DEFAULT),
            Call::ReadHealth { group } => {
                let health = |since: &Moment| {
                    let grown = now.since(*since) >= Duration::from_secs(3);
                    let state = if grown { HealthState::Healthy } else { HealthState::Initial };
                    Health { state, reason: "", zone: None }
                };
                let targets = &self.there[group];
                Answer::Health(targets.iter().map(|(target, since)| (*target, health(since))).collect())
            }
            Call::Register { group, items } | Call::Deregister { group, items } => {
                for item in items.iter().filter(|_| *group != arn(ITS)) {
                    let owners = item.pod.namespace == OWNER.into() || &*item.pod.name == "?";
                    if item.target == stranger() || !owners && !self.is_the_intruders(group) {
                        return Err(format!("{} {} of {}", call.action(), item.target, item.pod));
                    }
                    if is_intruding(&item.target) {
                        continue;
                    }
                    self.note(format!("{} {} {}", call.action(), group.name(), item.target));
                }
                let targets = self.there.get_mut(group).unwrap();
                for item in items {
                    if matches!(call, Call::Register { .. }) {
                        targets.entry(item.target).or_insert(now);
                    } else {
                        targets.remove(&item.target);
                    }
                }
                Answer::Done
            }
        })
    }

    /// Whether the intruder may have targets in this group.
    fn is_the_intruders(&self, group: &TargetGroupArn) -> bool {
        *group == arn(ITS) || *group == arn(SHARED) && !self.grants.is_empty()
    }

    /// AWS has in the owner's target groups what it should.
    fn ends(self) -> Result<Done, String> {
        for name in OWN {
            let living = self.pods.values().filter(|facts| {
                &*facts.key.namespace == OWNER && facts.labels.get("app") == Some(name) && !facts.terminating
            });
            let wanted: BTreeSet<Target> =
                living.map(|facts| Target::new(facts.ips[0], 80)).chain([stranger()]).collect();
            let intruding = |target: &&Target| is_intruding(target) && self.is_the_intruders(&arn(name));
            let there = self.there[&arn(name)].keys().filter(|target| !intruding(target));
            let there: BTreeSet<Target> = there.copied().collect();
            if there != wanted {
                return Err(format!("{name} has {there:?}, and should have {wanted:?}"));
            }
        }
        Ok(self.done)
    }
}

/// Runs a world with the intruder, and without.
fn check(seed: u64) -> Result<(), String> {
    let (with, without) = (World::new(seed, true).run()?, World::new(seed, false).run()?);
    let all: BTreeSet<&String> = with.keys().chain(without.keys()).collect();
    let differs = |what: &&&String| {
        let at = |done: &Done| done.get(**what).cloned().unwrap_or_default();
        let (one, other) = (at(&with), at(&without));
        let waits =
            ["mark", "DeregisterTargets"].iter().any(|kind| what.starts_with(kind)) || what.ends_with(SHARED);
        let same = if waits { LOOKED_AT } else { SAME };
        let far = |(a, b): (&Moment, &Moment)| a.since(*b).max(b.since(*a)) > same;
        one.len() != other.len() || one.iter().zip(&other).any(far)
    };
    let others: Vec<_> = all.iter().filter(differs).collect();
    let shared = others.iter().filter(|what| what.contains(SHARED)).count();
    if others.len() - shared <= FEW && shared <= FEW_SHARED {
        Ok(())
    } else {
        let times = |what: &String| (what.clone(), with.get(what).cloned(), without.get(what).cloned());
        let some: Vec<_> = others.iter().take(8).map(|what| times(what)).collect();
        Err(format!("{} of {} differ: {some:?}", others.len(), all.len()))
    }
}

/// What is broken in the first world in which anything is.
pub fn first_broken() -> Option<String> {
    let mut broken = (0..WORLDS).map(|seed| check(seed).map_err(|why| format!("{seed}: {why}")));
    broken.find_map(Result::err)
}
