//! What has to go is taken out at once.

use std::{collections::BTreeMap, time::Duration};

use headgate_core::model::{NodeFacts, PodFacts, Uid, policy::PAUSED, signal::DYING};

use super::{BoundTo, Properties, Scene, broken, is_about};
use crate::{
    cluster::lives,
    words::{GROUPS, Key, Sender},
};

/// What has to go is taken out within this time, as long as no call about its group fails; after a failure it may wait so long.
const PROMPT: Duration = Duration::from_secs(6);
pub const BACKOFF: Duration = Duration::from_secs(20);
/// A deleted Service keeps its targets for a minute after a replica was told, which may be late.
pub const GRACE: Duration = Duration::from_secs(180);

impl Properties {
    /// Time has passed; `acts`: who leads knows all, and may call AWS. What a leader before has left may be somebody else's by
    /// now, and what is paused stays.
    pub fn passes(&mut self, acts: Option<Sender>, scene: &Scene<'_>) -> Result<(), String> {
        self.observes(scene);
        if scene.policies().any(|policy| policy.get(PAUSED).is_some_and(|said| said != "false")) {
            self.paused = Some(scene.now);
        }
        // A Service that is deleted while it is paused is so for as long as its targets stay.
        let is_paused = self.paused.is_some_and(|at| scene.now.since(at) < GRACE);
        if acts.is_none() || !scene.knows_all() || is_paused {
            self.due.clear();
            return Ok(());
        }
        let mut due = BTreeMap::new();
        for (key, uid) in self.asked.keys() {
            let (group, target) = key;
            // A new leader writes the ledger of a group before it sends anything about it.
            let waits_for_ledger = self.ledger_failed.is_some_and(|at| scene.now.since(at) < BACKOFF)
                || scene.store.open.iter().any(|open| Some(open.sender) == acts);
            let fails =
                waits_for_ledger || self.failed.get(group).is_some_and(|at| scene.now.since(*at) < BACKOFF);
            let dies = |pod: &PodFacts| {
                let since = pod.node.as_ref().and_then(|node| self.dying.get(node));
                since.is_some_and(|since| {
                    self.asked.get(&(key.clone(), pod.uid.clone())).is_some_and(|asked| asked < since)
                })
            };
            let lives_on = scene
                .cluster
                .pods
                .values()
                .any(|pod| pod.uid == *uid && !pod.terminating && !pod.finished && !dies(pod));
            let is_somebodys = scene
                .cluster
                .pods
                .values()
                .any(|pod| lives(pod) && pod.ips.contains(&target.ip) && !(pod.uid == *uid && dies(pod)));
            let is_known = scene.found.contains(&Some(group.clone()));
            let is_anothers = self.askers.get(key).copied() != acts;
            let is_asked = scene.aws.open.iter().any(|open| is_about(&open.call, key));
            // What a late call has brought back nobody knows before a read.
            let is_there = scene.aws.sends_to(group, target, Duration::ZERO, scene.now).is_some();
            if is_there
                && is_known
                && !(lives_on
                    || is_somebodys
                    || fails
                    || self.refused.contains(key)
                    || is_anothers
                    || is_asked)
            {
                let since = self.due.get(key).copied().unwrap_or(scene.now);
                if scene.now.since(since) > PROMPT {
                    return broken(
                        "promptness",
                        format!(
                            "{target} stays in {}, and its pod has ended, or its node dies",
                            group.name()
                        ),
                    );
                }
                due.insert(key.clone(), since);
            }
        }
        self.due = due;
        Ok(())
    }

    /// Whether a pod was ready less long ago than it may be not ready.
    pub(super) fn was_ready(&self, uid: &Uid, scene: &Scene<'_>) -> bool {
        // A list after a cut watch leaves out that a pod was ready for a moment.
        let unseen = Duration::from_secs(2);
        let patience = scene.settings.not_ready_for.saturating_sub(unseen);
        self.ready.get(uid).is_some_and(|at| scene.now.since(*at) < patience)
    }

    /// What becomes of pods and nodes.
    fn observes(&mut self, scene: &Scene<'_>) {
        self.observes_bindings(scene);
        for pod in scene.cluster.pods.values().filter(|pod| lives(pod)) {
            self.inhabited.extend(pod.ips.iter().map(|ip| (*ip, scene.now)));
        }
        for pod in scene.cluster.pods.values() {
            if *self.labels.entry(pod.uid.clone()).or_insert_with(|| pod.labels.clone()) != pod.labels {
                self.relabelled.insert(pod.uid.clone());
            }
        }
        let evicted = scene.cluster.pods.values().filter(|pod| pod.is_evicted);
        self.drained.extend(evicted.filter_map(|pod| pod.node.clone()));
        for pod in scene.cluster.pods.values().filter(|pod| pod.is_ready()) {
            self.ready.insert(pod.uid.clone(), scene.now);
        }
        let is_dying =
            |node: &&NodeFacts| node.shuts_down || node.taints.iter().any(|taint| DYING.contains(&&**taint));
        let nodes = scene.cluster.nodes.values().filter(|_| scene.cluster.nodes_are_watched());
        let dying: Vec<&NodeFacts> = nodes.filter(is_dying).collect();
        for node in &dying {
            self.dying.entry(node.name.clone()).or_insert(scene.now);
        }
        self.dying.retain(|name, _| dying.iter().any(|node| node.name == *name));
        let asked = scene.cluster.pods.values().filter(|pod| pod.leaving.is_some());
        for pod in asked.clone() {
            self.asked_to_leave.entry(pod.uid.clone()).or_insert(scene.now);
        }
        self.asked_to_leave.retain(|uid, _| asked.clone().any(|pod| pod.uid == *uid));
    }

    /// Who has each target. What a pod had that is not there any more stays, until something else is written.
    fn observes_bindings(&mut self, scene: &Scene<'_>) {
        if scene.cluster.writings() > self.writings {
            self.bound.clear();
        }
        self.writings = scene.cluster.writings();
        for arn in GROUPS.iter().filter_map(|name| scene.aws.arn(name)) {
            let mut all: BTreeMap<Key, BoundTo> = BTreeMap::new();
            for wanted in scene.wanted(arn).iter().filter(|wanted| !wanted.by.is_deleted) {
                let paused = Some(wanted.by.says(PAUSED, "true"));
                let of = wanted.pod.uid.clone();
                let bound = all.entry((arn.clone(), wanted.target)).or_insert(BoundTo { of, paused });
                bound.paused = bound.paused.filter(|_| bound.paused == paused);
            }
            self.bound.extend(all);
        }
    }
}
