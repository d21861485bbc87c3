//! What goes wrong in a world.

use std::sync::Arc;

use headgate_core::model::{ObjectKey, Uid};
use headgate_daemonset::model::{BudgetFacts, SetNode};

use super::{
    api::NAMESPACE,
    kinds::{node, vary},
    leader::Controller,
    oracle,
    play::{World, widespread},
};

impl World {
    /// Something goes wrong, or not.
    pub(super) fn trouble(&mut self) -> Result<(), String> {
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
                self.widespread = self.widespread.max(widespread(&self.api.set.spec, 9));
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
                    beyond: None,
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

    pub(super) fn crash_with(&mut self, is_done: impl Fn(&mut fastrand::Rng) -> bool) -> Result<(), String> {
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
