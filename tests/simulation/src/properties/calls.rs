//! What is asked of AWS: by whom, how often, and about what.

use std::time::Duration;

use headgate_core::{
    ledger::PodMark,
    model::{
        Call, CallItem, Cause, Moment, PodFacts, TargetGroupArn,
        policy::{OWNERSHIP, REGISTER_WHEN},
    },
};

use super::scene::{UNREADABLE_MOMENT, Wanted, Written};
use super::{
    Properties, Scene, TakenOut, broken, is_about,
    prompt::{BACKOFF, GRACE},
};
use crate::{
    aws::STALE,
    cluster::lives,
    words::{Key, MANY_HEALTHY, Sender},
};

/// AWS's limit for Register and Deregister, in calls a second and at once.
const RATE: (f64, f64) = (4.0, 20.0);
/// Targets in a call at most.
const MOST: usize = 100;
/// What was asked for is registered no more when what is written is so old, and all that was written before is forgotten.
const SETTLED: Duration = Duration::from_secs(15);
const DOUBTED: Duration = Duration::from_secs(75);

impl Properties {
    /// A call to AWS leaves.
    pub fn calls(&mut self, sender: Sender, call: &Call, scene: &Scene<'_>) -> Result<(), String> {
        let (Call::Register { group, items } | Call::Deregister { group, items }) = call else {
            return Ok(());
        };
        let Some(leads) = scene.leads else {
            let action = call.action();
            return broken(
                "authority",
                format!("{action} by who does not lead, or has not been told all yet"),
            );
        };
        let (per_second, burst) = RATE;
        let (tokens, at) = self.tokens.get(&sender).copied().unwrap_or((burst, Moment::START));
        let tokens = (tokens + scene.now.since(at).as_secs_f64() * per_second).min(burst) - 1.0;
        self.tokens.insert(sender, (tokens, scene.now));
        if tokens < -1e-6 {
            return broken("rate", "more calls than AWS's limit allows");
        }
        if items.is_empty() || items.len() > MOST {
            return broken("rate", format!("a call with {} targets", items.len()));
        }
        for item in items {
            let key = (group.clone(), item.target);
            self.taken.remove(&key);
            if matches!(call, Call::Register { .. }) {
                let of_this_term =
                    scene.aws.open.iter().filter(|open| open.sender == sender && open.sent >= leads);
                let mut removals = of_this_term.filter(|open| matches!(open.call, Call::Deregister { .. }));
                if removals.any(|open| is_about(&open.call, &key)) {
                    return broken(
                        "order",
                        format!("{} is registered while its removal is open", item.target),
                    );
                }
                self.waits_for_removals(scene)?;
                self.registers(group, item, scene)?;
                self.askers.insert(key, sender);
            } else {
                self.deregisters(group, item, scene)?;
                let (at, of) = (scene.now, item.uid.clone());
                self.taken_out.insert(key, TakenOut { at, of, by: sender });
            }
            self.is_not_paused(group, item, scene)?;
        }
        Ok(())
    }

    /// No registration takes a token that an overdue removal waits for.
    fn waits_for_removals(&self, scene: &Scene<'_>) -> Result<(), String> {
        let is_asked = |key: &Key| scene.aws.open.iter().any(|open| is_about(&open.call, key));
        let fails =
            |group: &TargetGroupArn| self.failed.get(group).is_some_and(|at| scene.now.since(*at) < BACKOFF);
        let mut due = self.due.iter().filter(|(key, since)| **since < scene.now && !fails(&key.0));
        match due.find(|(key, _)| scene.aws.has(&key.0, &key.1) && !is_asked(key)) {
            Some(((group, target), _)) => broken(
                "order",
                format!("a registration goes before the removal of {target} from {}", group.name()),
            ),
            None => Ok(()),
        }
    }

    fn registers(
        &mut self,
        group: &TargetGroupArn,
        item: &CallItem,
        scene: &Scene<'_>,
    ) -> Result<(), String> {
        let (target, name) = (item.target, group.name());
        if !scene.store.says(group, &target, PodMark::of(&item.uid)) {
            return broken(
                "ledger first",
                format!("{target} is registered in {name}, and not in the ledger"),
            );
        }
        let pod = scene.cluster.pods.get(&item.pod).filter(|pod| pod.uid == item.uid);
        if scene.knows(&item.pod, Some(&target.ip)) {
            let Some(pod) = pod.filter(|pod| lives(pod) && pod.ips.contains(&target.ip)) else {
                return broken(
                    "living pods",
                    format!("{target} is registered in {name} for {}, which has ended", item.uid),
                );
            };
            let written = scene.written();
            let asks = |by: &&Written<'_>| by.group == name && by.asks_for(pod, &target);
            let was_selected = scene.cluster.was_selected(&pod.labels, scene.now, GRACE);
            let is_new =
                !was_selected && !self.asked.contains_key(&((group.clone(), target), item.uid.clone()));
            let was_ready = scene.cluster.was_ready(&item.uid);
            // While the group that is named now was not found, what was written before stays in force.
            let mut named = written.iter().filter(|by| by.selector.selects(&pod.labels));
            let is_found =
                |by: &Written<'_>| scene.found.iter().flatten().any(|arn| *arn.name() == *by.group);
            let are_found = named.all(is_found);
            // What was written before may have been content with it.
            let was_asked_for = scene.cluster.was_written_since(&item.uid);
            let mut asking = written.iter().filter(asks).peekable();
            // What a list or a watch says to be gone may be doubted for a while.
            let settled = if asking.peek().is_some() { SETTLED } else { DOUBTED };
            if is_new
                && are_found
                && scene.is_clear()
                && scene.cluster.writings_are_older(scene.now, settled)
                && !asking.any(|by| was_asked_for || was_ready || by.is_content_with(pod))
            {
                return broken(
                    "living pods",
                    format!("{target} is registered in {name}, and nothing asks for that"),
                );
            }
            // A Service without a selector keeps what it had, and takes in no more.
            let selects = |by: &Written<'_>| by.selector.selects(&pod.labels);
            let takes_none = written.iter().any(|by| by.group == name && by.selector.is_empty());
            if is_new
                && takes_none
                && scene.cluster.writings_are_older(scene.now, SETTLED)
                && !scene.cluster.anything_selects(&pod.labels)
                && !written.iter().any(selects)
            {
                return broken(
                    "living pods",
                    format!("{target} is registered in {name}, and nothing selects its pod"),
                );
            }
        }
        self.asked.insert(((group.clone(), target), item.uid.clone()), scene.now);
        Ok(())
    }

    fn deregisters(&self, group: &TargetGroupArn, item: &CallItem, scene: &Scene<'_>) -> Result<(), String> {
        let (target, name) = (item.target, group.name());
        if !scene.knows(&item.pod, Some(&target.ip)) {
            return Ok(());
        }
        Self::takes_out(group, item, scene)?;
        let key = (group.clone(), target);
        let pod = scene.cluster.pods.get(&item.pod).filter(|pod| pod.uid == item.uid && lives(pod));
        // One that was registered only when it was to leave already was decided on before.
        let first = scene.cluster.asked_to_leave(&item.uid).map(|(first, _)| first);
        let was_in = self.asked.get(&(key.clone(), item.uid.clone())).copied() < first;
        let is_evicted = item.reason == Cause::PodEvicting && !self.taken_out.contains_key(&key);
        if let Some(pod) = pod.filter(|_| is_evicted && was_in && scene.knows_all()) {
            self.leaves(pod, item, scene)?;
        }
        let mut written =
            scene.written().into_iter().filter(|by| by.group == name && !by.is_deleted).peekable();
        let is_exclusive = written.peek().is_some() && written.all(|by| by.may_say(OWNERSHIP, "exclusive"));
        if scene.aws.foreign_targets(group).any(|foreign| *foreign == target) && !is_exclusive {
            return broken(
                "foreign targets",
                format!("{target} is removed from {name}, and somebody else put it there"),
            );
        }
        let nobody_lived = self.inhabited.get(&target.ip).is_none_or(|at| *at < scene.born);
        let began = self.read.get(group).filter(|began| Some(**began) >= scene.leads);
        let was_healthy =
            scene.aws.healthy_since(group, &target).is_some_and(|at| Some(&(at + STALE)) < began);
        let is_noted = scene.store.mark(group, &target).is_some();
        if nobody_lived
            && was_healthy
            && !is_noted
            && scene.cluster.elsewhere.contains(&target.ip)
            && !is_exclusive
        {
            return broken(
                "foreign targets",
                format!("{target} is another cluster's, and is removed from {name}"),
            );
        }
        // Whoever did not know the target group when its Service was deleted keeps nothing of it.
        let mut wanted = scene.wanted(group);
        wanted.retain(|wanted| !wanted.by.is_deleted || self.askers.get(&key) == Some(&scene.sender));
        // One that was never registered, or not by this binding, may have to be ready first.
        let is_registered = |wanted: &&Wanted<'_>| {
            let asked = self.asked.contains_key(&(key.clone(), wanted.pod.uid.clone()));
            wanted.pod.is_ready()
                || asked
                    && name != MANY_HEALTHY
                    && self.is_labelled_as_ever(wanted.pod)
                    && !wanted.by.says(REGISTER_WHEN, UNREADABLE_MOMENT)
                    && wanted.by.is_content_with(wanted.pod)
        };
        // What AWS still has for the pod before goes first, so that nobody takes its health for that of the next one.
        let is_of_before = |wanted: &&Wanted<'_>| {
            wanted.pod.uid != item.uid && !self.asked.contains_key(&(key.clone(), wanted.pod.uid.clone()))
        };
        let is_its_own = |wanted: &&Wanted<'_>| is_registered(wanted) && !is_of_before(wanted);
        match wanted.iter().filter(is_its_own).find(|wanted| wanted.target == target) {
            // One that is not ready for long may be taken out where that is asked for.
            Some(wanted) if !wanted.by.may_deregister() || wanted.pod.is_ready() => broken(
                "living pods",
                format!("{target} of {} is removed from {name}, and it lives", wanted.pod.key.name),
            ),
            Some(wanted) if self.was_ready(&wanted.pod.uid, scene) => broken(
                "living pods",
                format!("{target} of {} is removed, and was ready a moment ago", wanted.pod.key.name),
            ),
            _ => {
                let was_its = |pod: &PodFacts| {
                    self.is_labelled_as_ever(pod) && self.asked.contains_key(&(key.clone(), pod.uid.clone()))
                };
                let is_its = |pod: &&PodFacts| pod.ips.contains(&target.ip) && scene.has_its_address(pod);
                let stays = pod.filter(|pod| is_its(pod) && !scene.leaves(pod));
                if stays.is_some_and(|pod| was_its(pod) && scene.kept(group, pod, &target)) {
                    return broken(
                        "living pods",
                        format!("{target} is removed from {name} for an annotation that cannot be read"),
                    );
                }
                Ok(())
            }
        }
    }

    fn is_labelled_as_ever(&self, pod: &PodFacts) -> bool {
        let first = self.labels.get(&pod.uid);
        !self.relabelled.contains(&pod.uid) && first.is_none_or(|first| *first == pod.labels)
    }

    fn is_not_paused(
        &self,
        group: &TargetGroupArn,
        item: &CallItem,
        scene: &Scene<'_>,
    ) -> Result<(), String> {
        if self.is_bound_as(group, item, true, scene) {
            return broken(
                "pause",
                format!("{} of {} is written to, and is paused", item.target, group.name()),
            );
        }
        Ok(())
    }

    /// A call is only said to be planned, because of a pause.
    pub fn plans(&self, call: &Call, scene: &Scene<'_>) -> Result<(), String> {
        let (Call::Register { group, items } | Call::Deregister { group, items }) = call else {
            return Ok(());
        };
        match items.iter().find(|item| self.is_bound_as(group, item, false, scene)) {
            Some(item) => {
                broken("pause", format!("{} of {} is held up, and not paused", item.target, group.name()))
            }
            None => Ok(()),
        }
    }

    /// Whether all bindings through which a pod has a target are paused, or none of them is.
    fn is_bound_as(&self, group: &TargetGroupArn, item: &CallItem, paused: bool, scene: &Scene<'_>) -> bool {
        let bound = self.bound.get(&(group.clone(), item.target));
        scene.knows(&item.pod, Some(&item.target.ip))
            && scene.is_clear()
            && scene.cluster.writings() == self.writings
            && bound.is_some_and(|bound| bound.of == item.uid && bound.paused == Some(paused))
    }
}
