//! What happens next in a world, and how the controller learns of it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use headgate_core::model::{Labels, Moment, RequestId};
use headgate_daemonset::{
    Input,
    model::{
        SetNode, SetSpec, Strategy,
        ask::{Asked, Outcome},
    },
};

use super::{
    api::{Api, wall},
    kinds::{Way, handshake, node, vary},
    leader::{Controller, Sent, watch},
    oracle::{self, Calm},
};

/// So many steps a world goes wrong for.
const TROUBLED: usize = 400;
/// For so long everything is quiet at the end, in seconds.
const QUIET: f64 = 2_400.0;
/// So much is asked at most in the last part of that.
const SETTLED: f64 = 300.0;

/// On how many nodes a bad revision may be: as many as may have their turn at once, and with `OnDelete` all on which pods
/// were missing.
pub fn widespread(spec: &SetSpec, nodes: usize) -> usize {
    if spec.strategy == Strategy::OnDelete { usize::MAX } else { oracle::cap(spec, nodes) }
}

/// A world.
pub struct World {
    pub(super) api: Api,
    pub(super) controller: Controller,
    pub(super) rng: fastrand::Rng,
    pub(super) now: f64,
    pub(super) calm: Calm,
    trace: bool,
    /// The last revision that came while there was a node where fewer served than should: it may be everywhere.
    pub(super) first: Arc<str>,
    /// So many available pods every node always had to keep.
    pub(super) least: usize,
    /// A bad revision may be on so many nodes.
    pub(super) widespread: usize,
    pub(super) revisions: usize,
    asked: usize,
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
        let (least, widespread) = (oracle::least(&api.set.spec), widespread(&api.set.spec, 9));
        Self { api, controller, rng, now: 0.0, calm, trace, first, least, widespread, revisions: 1, asked: 0 }
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
        let (least, widespread) = (oracle::least(&api.set.spec), widespread(&api.set.spec, 4));
        let (rng, calm) = (fastrand::Rng::with_seed(1), Calm { pods: true, nodes: true });
        let (now, trace, revisions, asked) = (0.0, false, 1, 0);
        Self { api, controller, rng, now, calm, trace, first, least, widespread, revisions, asked }
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
        oracle::quiet(&self.api, self.calm, &self.first, (self.least, self.widespread), self.now)?;
        Ok(is_killed)
    }

    pub(super) fn say(&self, what: impl FnOnce() -> String) {
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
        oracle::quiet(&self.api, self.calm, &self.first, (self.least, self.widespread), self.now)?;
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
    pub(super) fn land(&mut self, sent: &mut Sent, troubled: bool) -> Result<(), String> {
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
}
