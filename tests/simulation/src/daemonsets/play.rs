//! What happens next in a world, and how the controller learns of it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use headgate_core::{
    daemonset::{Daemonsets, Input},
    model::{
        Labels, Moment, ObjectKey, RequestId, Scope, Uid,
        daemonset::{
            Amount, BudgetFacts, Handshake, SetNode, SetPod, SetSpec, Strategy, Wait,
            ask::{Ask, Asked, Outcome},
        },
    },
};

use super::{
    api::{Api, NAMESPACE, wall},
    oracle::{self, Calm, Known, takes},
};

/// So many steps a world goes wrong for.
const TROUBLED: usize = 400;
/// For so long everything is quiet at the end, in seconds.
const QUIET: f64 = 2_400.0;
/// So much is asked at most in the last part of that.
const SETTLED: f64 = 300.0;

/// A request that is on its way.
struct Sent {
    asked: Asked,
    known: Known,
    /// When it is carried out; never: it is lost.
    at: Option<f64>,
    /// What is answered instead.
    fails: Option<Outcome>,
    /// It was carried out, and this is answered then.
    answer: Option<(f64, Outcome)>,
}

/// Whoever leads.
struct Controller {
    machine: Daemonsets,
    /// What each watch will say, and when.
    watches: [VecDeque<(f64, Input)>; 5],
    sent: Vec<Sent>,
    /// The set and the nodes as the watches have shown them.
    spec: Option<SetSpec>,
    nodes: BTreeMap<Arc<str>, SetNode>,
    pods: BTreeMap<Arc<str>, SetPod>,
    /// Pods that it has asked to leave, on nodes that were detached: nobody knows of some whether they do.
    let_go: BTreeSet<Uid>,
}

/// A world.
pub struct World {
    api: Api,
    controller: Controller,
    rng: fastrand::Rng,
    now: f64,
    calm: Calm,
    trace: bool,
    /// The last revision that came while there was a node where fewer served than should: it may be everywhere.
    first: Arc<str>,
    /// So many available pods every node always had to keep.
    least: usize,
    /// So many nodes might have their turn at once.
    cap: usize,
    revisions: usize,
    asked: usize,
}

/// How a set is rolled where nothing goes wrong but that the controller is killed.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// Two pods on each node, and a third one in a node's turn.
    Surge,
    /// One, and a second one.
    SurgeOfOne,
    /// Two, and one less.
    InPlace,
    /// Both at once.
    NodeReplace,
    /// As the first, when others have detached the node.
    Detached,
}

impl Way {
    pub const ALL: [Self; 5] =
        [Self::Surge, Self::SurgeOfOne, Self::InPlace, Self::NodeReplace, Self::Detached];

    fn apply(self, spec: &mut SetSpec) {
        spec.pods_per_node = if matches!(self, Self::SurgeOfOne) { 1 } else { 2 };
        spec.strategy = match self {
            Self::InPlace => Strategy::RollingUpdate { surge: 0, unavailable: 1 },
            Self::NodeReplace => Strategy::NodeReplace,
            _ => Strategy::RollingUpdate { surge: 1, unavailable: 0 },
        };
        spec.nodes_at_once = Amount::Number(2);
        // Detached: with a grace period.
        spec.handshake = matches!(self, Self::Detached).then(|| Arc::new(detaching()));
    }
}

fn watch(input: &Input) -> usize {
    match input {
        Input::Set(_) => 0,
        Input::Pod(_) => 1,
        Input::Node(_) => 2,
        Input::Revision(_) => 3,
        _ => 4,
    }
}

impl Controller {
    fn new(api: &Api) -> Self {
        let mut watches: [VecDeque<(f64, Input)>; 5] = Default::default();
        for list in api.lists() {
            watches[watch(&list)].push_back((0.0, list));
        }
        let machine = Daemonsets::new(&[Scope::Cluster]);
        let (nodes, pods) = (BTreeMap::new(), BTreeMap::new());
        Self { machine, watches, sent: Vec::new(), spec: None, nodes, pods, let_go: BTreeSet::new() }
    }

    /// Follows what the watches show, to be able to say what was known when something was asked. That a node is gone need not
    /// be believed at once.
    fn follow(&mut self, input: &Input) {
        use headgate_core::model::Change::{Applied, Deleted, Relisted};
        match input {
            Input::Set(Applied(set)) => self.spec = Some(set.spec.clone()),
            Input::Set(Relisted(_, sets)) => self.spec = sets.first().map(|set| set.spec.clone()),
            Input::Node(Applied(node)) => _ = self.nodes.insert(node.name.clone(), node.clone()),
            Input::Node(Relisted(_, nodes)) => {
                self.nodes.extend(nodes.iter().map(|node| (node.name.clone(), node.clone())));
            }
            Input::Pod(Applied(pod)) => _ = self.pods.insert(pod.key.name.clone(), pod.clone()),
            Input::Pod(Deleted(pod)) => _ = self.pods.remove(&pod.key.name),
            Input::Pod(Relisted(_, pods)) => {
                self.pods = pods.iter().map(|pod| (pod.key.name.clone(), pod.clone())).collect();
            }
            _ => {}
        }
    }

    /// Whether a pod may be asked to leave once more, as its node was detached when that was asked first.
    fn goes_again(&mut self, ask: &Ask, known: &Known) -> bool {
        let (Ask::Delete { uid, name, .. } | Ask::Evict { uid, name, .. }) = ask else { return false };
        let node = self.pods.get(name).map(|pod| &pod.node);
        let may = known.detached.as_ref().zip(node).is_some_and(|(detached, node)| detached.contains(node));
        if may {
            self.let_go.insert(uid.clone());
        }
        self.let_go.contains(uid)
    }

    fn known(&self, now: f64) -> Known {
        let took = self.nodes.values().filter(|node| takes(node)).map(|node| node.name.clone()).collect();
        let serves = |pod: &&SetPod| pod.ready.is_some() && !pod.terminating && !pod.finished;
        let serve: BTreeSet<&Arc<str>> = self.pods.values().filter(serves).map(|pod| &pod.node).collect();
        let down = self.nodes.keys().filter(|name| !serve.contains(name)).cloned().collect();
        let spec = self.spec.clone().unwrap();
        let detached = oracle::detached(&spec, self.nodes.values(), now);
        Known { most: oracle::most(&spec), least: oracle::least(&spec), spec, took, down, detached }
    }
}

impl World {
    pub fn new(seed: u64, trace: bool) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let labels = Labels::from_iter([("app", "edge")]);
        let mut spec = Api::spec(&labels);
        let calm = Calm { pods: rng.bool(), nodes: rng.bool() };
        vary(&mut rng, &mut spec);
        spec.handshake = handshake(&mut rng).map(Arc::new);
        let mut api = Api::new(spec);
        for at in 0..rng.usize(1..7) {
            api.put_node(node(at));
        }
        let first = api.set.spec.revision.clone();
        let controller = Controller::new(&api);
        api.news.clear();
        let (least, cap) = (oracle::least(&api.set.spec), oracle::cap(&api.set.spec, 9));
        Self { api, controller, rng, now: 0.0, calm, trace, first, least, cap, revisions: 1, asked: 0 }
    }

    /// A world of four nodes, all of them well.
    pub fn of(way: Way) -> Self {
        let mut spec = Api::spec(&Labels::from_iter([("app", "edge")]));
        way.apply(&mut spec);
        let mut api = Api::new(spec);
        for at in 0..4 {
            api.put_node(node(at));
        }
        let (first, controller) = (api.set.spec.revision.clone(), Controller::new(&api));
        api.news.clear();
        let (least, cap) = (oracle::least(&api.set.spec), oracle::cap(&api.set.spec, 4));
        let (rng, calm) = (fastrand::Rng::with_seed(1), Calm { pods: true, nodes: true });
        let (now, trace, revisions, asked) = (0.0, false, 1, 0);
        Self { api, controller, rng, now, calm, trace, first, least, cap, revisions, asked }
    }

    /// Rolls, and kills the controller when it has asked for so much more; `is_done`: whether what is under way then is
    /// carried out. Says whether it has asked for that much.
    pub fn roll_killed_at(mut self, at: usize, is_done: bool) -> Result<bool, String> {
        while self.now < SETTLED {
            self.advance(false)?;
        }
        let begun = self.asked;
        self.api.change_set(|spec| spec.revision = "r2".into());
        let (end, mut is_killed) = (self.now + QUIET, false);
        while self.now < end {
            self.advance(false)?;
            let asked = self.asked - begun;
            if !is_killed && asked > at {
                is_killed = true;
                // What it would have asked for after that it never has.
                let sent = &mut self.controller.sent;
                sent.truncate(sent.len().saturating_sub(asked - at - 1));
                self.crash_with(|_| is_done)?;
            }
            oracle::always(&self.api, self.now)?;
        }
        oracle::quiet(&self.api, self.calm, &self.first, (self.least, self.cap), self.now)?;
        Ok(is_killed)
    }

    fn say(&self, what: impl FnOnce() -> String) {
        if self.trace {
            println!("{:9.3} {}", self.now, what());
        }
    }

    pub fn run(mut self) -> Result<(), String> {
        for _ in 0..TROUBLED {
            self.trouble()?;
            self.advance(true)?;
        }
        self.calm_down();
        let end = self.now + QUIET;
        while self.now < end - SETTLED {
            self.advance(false)?;
        }
        oracle::quiet(&self.api, self.calm, &self.first, (self.least, self.cap), self.now)?;
        let asked = self.asked;
        while self.now < end {
            self.advance(false)?;
        }
        // A bad revision's node may be late only now, and what is refused is tried again.
        let more = self.asked - asked;
        let evicts = oracle::least(&self.api.set.spec) == 0 && oracle::is_short(&self.api);
        if more > 3 && !evicts && !self.api.bad.contains(&self.api.set.spec.revision) {
            return Err(format!("{more} more was asked when all was quiet"));
        }
        Ok(())
    }

    /// Nothing goes wrong any more.
    fn calm_down(&mut self) {
        let names: Vec<Arc<str>> = self.api.nodes.keys().cloned().collect();
        for name in names {
            let node = self.api.nodes[&name].clone();
            let stays = node.cordoned && self.rng.bool();
            self.api.put_node(SetNode { ready: true, cordoned: stays, ..node });
        }
        if self.api.set.spec.paused {
            self.api.change_set(|spec| spec.paused = false);
        }
    }

    fn advance(&mut self, troubled: bool) -> Result<(), String> {
        self.now += self.rng.f64() * if troubled { 2.0 } else { 5.0 };
        self.api.pass(self.now);
        let now = self.now;
        let names: Vec<Arc<str>> = self.api.nodes.keys().cloned().collect();
        // They look at a node often enough to see that a turn is over before the next one begins.
        let seldom = if troubled { 6 } else { 2 };
        for name in names.iter().filter(|_| self.rng.u8(..seldom) == 0) {
            self.api.detach(name, now);
        }
        self.drive(troubled)?;
        let rng = &mut self.rng;
        let news = std::mem::take(&mut self.api.news);
        for input in news {
            let queue = &mut self.controller.watches[watch(&input)];
            let lag = if troubled && rng.u8(..8) == 0 { rng.f64() * 20.0 } else { rng.f64() * 0.3 };
            let after = queue.back().map_or(0.0, |(at, _)| *at);
            queue.push_back(((now + lag).max(after), input));
        }
        // A watch breaks off, and lists anew.
        if troubled && rng.u8(..40) == 0 {
            let kind = rng.usize(..5);
            let lists = self.api.lists();
            let list = lists.into_iter().find(|list| watch(list) == kind).unwrap();
            let queue = &mut self.controller.watches[kind];
            queue.clear();
            queue.push_back((now, list));
        }
        Ok(())
    }

    fn drive(&mut self, troubled: bool) -> Result<(), String> {
        let mut sent = std::mem::take(&mut self.controller.sent);
        for one in &mut sent {
            self.land(one, troubled)?;
        }
        let now = self.now;
        let mut inputs: Vec<Input> = Vec::new();
        for one in &sent {
            if let Some((at, outcome)) = &one.answer
                && *at <= now
            {
                inputs.push(Input::Answered(one.asked.id, outcome.clone()));
            }
        }
        let answered: BTreeSet<RequestId> = inputs
            .iter()
            .filter_map(|input| match input {
                Input::Answered(id, _) => Some(*id),
                _ => None,
            })
            .collect();
        sent.retain(|one| !answered.contains(&one.asked.id));
        self.controller.sent = sent;
        for queue in &mut self.controller.watches {
            while queue.front().is_some_and(|(at, _)| *at <= now) {
                inputs.extend(queue.pop_front().map(|(_, input)| input));
            }
        }
        inputs.push(Input::Passed);
        for input in inputs {
            self.controller.follow(&input);
            if let Some(spec) = &self.controller.spec {
                for sent in &mut self.controller.sent {
                    sent.known.most = sent.known.most.max(oracle::most(spec));
                    sent.known.least = sent.known.least.min(oracle::least(spec));
                }
            }
            let moment = Moment::after_start(Duration::from_secs_f64(now));
            for asked in self.controller.machine.step(input, moment, wall(now)) {
                self.send(asked, troubled);
            }
            if self.controller.machine.take_relist() {
                let lists = self.api.lists();
                let list = lists.into_iter().find(|list| watch(list) == 2).unwrap();
                self.controller.watches[2].clear();
                self.controller.watches[2].push_back((now, list));
            }
        }
        // Who waits until then would never wait.
        let (moment, due) = self.controller.machine.due();
        let is_past = moment.is_some_and(|at| at.elapsed() <= Duration::from_secs_f64(now));
        if is_past || due.is_some_and(|at| at <= wall(now)) {
            return Err(format!("something is due at {moment:?} or {due:?}, and it is {now}"));
        }
        Ok(())
    }

    fn send(&mut self, asked: Asked, troubled: bool) {
        self.say(|| format!("asks {:?}", asked.ask));
        self.asked += 1;
        let rng = &mut self.rng;
        let controller = &mut self.controller;
        let fails = match rng.u8(..40) {
            0 if troubled => Some(Outcome::Unknown("no answer".into())),
            1 if troubled => Some(Outcome::Refused("quota".into())),
            _ => None,
        };
        let is_lost = matches!(fails, Some(Outcome::Unknown(_))) && rng.bool();
        let is_refused = matches!(fails, Some(Outcome::Refused(_)));
        let delay = if troubled && rng.u8(..6) == 0 { rng.f64() * 6.0 } else { rng.f64() * 0.2 };
        let at = (!is_lost && !is_refused).then_some(self.now + delay);
        let answer = (is_lost || is_refused).then(|| (self.now + delay, fails.clone().unwrap()));
        let mut known = controller.known(self.now);
        if controller.goes_again(&asked.ask, &known) {
            known.detached = None;
        }
        controller.sent.push(Sent { asked, known, at, fails, answer });
    }

    /// A request is carried out, if its time has come.
    fn land(&mut self, sent: &mut Sent, troubled: bool) -> Result<(), String> {
        if sent.answer.is_some() || sent.at.is_none_or(|at| at > self.now) {
            return Ok(());
        }
        oracle::check(&self.api, &sent.asked, &sent.known, self.calm, self.now)?;
        let hold = self.rng.f64() * 120.0;
        let ready = self.rng.f64() * 30.0;
        let outcome = self.api.carry_out(&sent.asked, self.now, hold, ready);
        self.say(|| format!("done {:?}: {outcome:?}", sent.asked.ask));
        let delay = if troubled { self.rng.f64() * 2.0 } else { 0.1 };
        sent.answer = Some((self.now + delay, sent.fails.clone().unwrap_or(outcome)));
        Ok(())
    }

    fn trouble(&mut self) -> Result<(), String> {
        match self.rng.u16(..400) {
            0..8 => self.crash()?,
            8..12 => self.revise(),
            12..14 => {
                let rng = &mut self.rng;
                self.api.change_set(|spec| spec.paused = rng.u8(..3) == 0);
            }
            14..16 => {
                let rng = &mut self.rng;
                self.api.change_set(|spec| vary(rng, spec));
                self.least = self.least.min(oracle::least(&self.api.set.spec));
                self.cap = self.cap.max(oracle::cap(&self.api.set.spec, 9));
            }
            16..28 if !self.calm.nodes => self.trouble_node(),
            28..40 if !self.calm.pods => self.trouble_pod(),
            40..42 => {
                let other = BudgetFacts {
                    key: ObjectKey::new(NAMESPACE, "own"),
                    uid: Uid::new("own"),
                    controller: None,
                    set: None,
                    selector: Vec::new(),
                    min_available: Some(0),
                };
                if self.api.budgets.contains_key("own") {
                    self.api.drop_budget("own");
                } else {
                    self.api.put_budget(other);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whoever leads is gone, and what it has sent is lost or done. Another one leads when its requests cannot land any more.
    fn crash(&mut self) -> Result<(), String> {
        self.crash_with(fastrand::Rng::bool)
    }

    fn crash_with(&mut self, is_done: impl Fn(&mut fastrand::Rng) -> bool) -> Result<(), String> {
        self.say(|| "crash".into());
        let sent = std::mem::take(&mut self.controller.sent);
        for mut sent in sent {
            if is_done(&mut self.rng) {
                sent.at = sent.at.map(|_| self.now);
                self.land(&mut sent, true)?;
            }
        }
        self.api.news.clear();
        self.controller = Controller::new(&self.api);
        Ok(())
    }

    fn revise(&mut self) {
        // An older one again, now and then; else a new one.
        let kept: Vec<Arc<str>> = self.api.revisions.values().map(|kept| kept.revision.clone()).collect();
        let revision = if self.rng.u8(..3) == 0 && !kept.is_empty() {
            self.rng.choice(kept).unwrap()
        } else {
            self.revisions += 1;
            let name: Arc<str> = format!("r{}", self.revisions).into();
            if self.rng.u8(..3) == 0 {
                self.api.bad.insert(name.clone());
            }
            name
        };
        self.say(|| format!("revision {revision}"));
        let min_ready = self.api.set.spec.min_ready;
        let serves = |node: &Arc<str>| {
            let here = self.api.pods.values().filter(|pod| pod.facts.node == *node);
            here.filter(|pod| pod.is_available(self.now, min_ready)).count() >= self.least.max(1)
        };
        if !self.api.nodes.keys().all(serves) {
            self.first = revision.clone();
        }
        self.api.change_set(|spec| spec.revision = revision);
    }

    fn trouble_node(&mut self) {
        let names: Vec<Arc<str>> = self.api.nodes.keys().cloned().collect();
        let Some(name) = self.rng.choice(names) else { return };
        let node_now = self.api.nodes[&name].clone();
        self.say(|| format!("trouble with {name}"));
        match self.rng.u8(..8) {
            0 if self.api.nodes.len() > 1 => self.api.drop_node(&name),
            1 => {
                let at = self.rng.usize(..9);
                if !self.api.nodes.contains_key(&node(at).name) {
                    self.api.put_node(node(at));
                }
            }
            2..5 => self.api.put_node(SetNode { ready: !node_now.ready, ..node_now }),
            _ => self.api.put_node(SetNode { cordoned: !node_now.cordoned, ..node_now }),
        }
    }

    fn trouble_pod(&mut self) {
        let names: Vec<Arc<str>> = self.api.pods.keys().cloned().collect();
        let Some(name) = self.rng.choice(names) else { return };
        let pod = self.api.pods[&name].clone();
        let (uid, gone_at) = (pod.facts.uid.clone(), self.now + self.rng.f64() * 60.0);
        self.say(|| format!("trouble with {name}"));
        match self.rng.u8(..6) {
            0 => _ = self.api.change_pod(&name, &uid, |pod| pod.finished = true),
            1 => {
                _ = self.api.change_pod(&name, &uid, |pod| pod.ready = None);
                if let Some(pod) = self.api.pods.get_mut(&name) {
                    pod.ready_at = pod.ready_at.map(|_| gone_at);
                }
            }
            _ => _ = self.api.evict(&name, None, gone_at),
        }
    }
}

fn node(at: usize) -> SetNode {
    let zone = ["a", "b", "c"][at % 3];
    SetNode { name: format!("{zone}{at}").into(), zone: zone.into(), ready: true, ..SetNode::default() }
}

/// What others are asked to do in a turn, in some worlds.
fn handshake(rng: &mut fastrand::Rng) -> Option<Handshake> {
    match rng.u8(..6) {
        0 => Some(Handshake { wait: None, ..detaching() }),
        1 => Some(detaching()),
        _ => None,
    }
}

/// Nodes are to be detached first, and that is waited for.
fn detaching() -> Handshake {
    let wait = Wait { key: "example.com/detached-at".into(), grace: Duration::from_secs(10) };
    Handshake { key: "example.com/detach".into(), value: "edge".into(), wait: Some(wait) }
}

/// How a set rolls, by chance.
fn vary(rng: &mut fastrand::Rng, spec: &mut SetSpec) {
    spec.pods_per_node = rng.usize(1..4);
    spec.strategy = match rng.u8(..8) {
        0 => Strategy::NodeReplace,
        1 => Strategy::OnDelete,
        2 => Strategy::RollingUpdate { surge: 0, unavailable: 1 },
        3 => Strategy::RollingUpdate { surge: 2, unavailable: 1 },
        _ => Strategy::RollingUpdate { surge: 1, unavailable: 0 },
    };
    spec.nodes_at_once = match rng.u8(..3) {
        0 => Amount::Percent(50),
        1 => Amount::Number(2),
        _ => Amount::Number(1),
    };
}
