//! Pods that leave while they live: evictions, and nodes that are detached.

use std::time::Duration;

use headgate_core::model::{
    Bounds, CallItem, Cause, Labels, LeavingFacts, NodeFacts, ObjectKey, PodFacts, Target, TargetGroupArn,
    Uid,
    eviction::{Check, MarkWrite},
    leaving::{Asked, Mark},
    node::DetachedWrite,
    policy::PAUSED,
    signal::{DISRUPTED, DYING},
};

use super::{LONGEST_UNREAD, Properties, Scene, broken, prompt::GRACE, scene::Written};
use crate::{cluster::lives, words::APPLICATION};

/// The clocks of replicas differ by less than this, where they are not wrong.
const SKEW: Duration = Duration::from_secs(2);

impl Properties {
    /// No load balancer sends to a living pod any more, `after` a bound or at once.
    fn is_out(&self, pod: &PodFacts, after: bool, scene: &Scene<'_>) -> Result<(), String> {
        // What is paused stays where it is.
        let was_paused = self.paused.is_some_and(|at| scene.now.since(at) < GRACE);
        if was_paused || scene.policies().any(|policy| policy.get(PAUSED).is_some_and(|said| said != "false"))
        {
            return Ok(());
        }
        for ((key, _), _) in self.asked.iter().filter(|((_, of), _)| *of == pod.uid) {
            let (group, target) = key;
            if scene.aws.arn(group.name()) != Some(group)
                || !pod.ips.contains(&target.ip)
                || (scene.leads.is_some() && !scene.found.contains(&Some(group.clone())))
            {
                continue;
            }
            let Bounds { application, network } = scene.settings.bounds;
            let bound = if group.name() == APPLICATION { application } else { network };
            let is_known = self.knows_when(group, target, pod, scene);
            let bound = if after && is_known { bound.saturating_sub(2 * SKEW) } else { Duration::ZERO };
            if let Some(why) = scene.aws.sends_to(group, target, bound, scene.now) {
                let name = &pod.key.name;
                return broken(
                    "evictions",
                    format!("{name} is let go, and {target} in {}: {why}", group.name()),
                );
            }
        }
        Ok(())
    }

    /// Whether a replica knows when a target was taken out: it has done it, or it is written on the pod.
    fn knows_when(&self, group: &TargetGroupArn, target: &Target, pod: &PodFacts, scene: &Scene<'_>) -> bool {
        let Some(out) = self.taken_out.get(&(group.clone(), *target)) else { return true };
        if scene.leads.is_some_and(|leads| out.by == scene.sender && out.at >= leads) {
            return true;
        }
        if scene.clocks_are_wrong {
            return false;
        }
        let wall = scene.wall(out.at);
        let on_the_pod = pod.leaving.as_deref().and_then(|leaving| leaving.deregistered);
        on_the_pod.is_some_and(|(at, _)| at + SKEW >= wall)
    }

    /// A pod is let go, and nothing has gone wrong for a while.
    pub fn lets_go(&self, uid: &Uid, scene: &Scene<'_>) -> Result<(), String> {
        let Some(pod) = scene.cluster.pods.values().find(|pod| pod.uid == *uid) else { return Ok(()) };
        // One that nothing selects any more a standby cannot know to have been a target a moment ago.
        let is_selected = scene.written().iter().any(|by| by.selector.selects(&pod.labels));
        if !scene.knows_pod(pod) || !lives(pod) || !scene.has_its_address(pod) || !is_selected {
            return Ok(());
        }
        self.is_out(pod, true, scene)
    }

    /// A replica lets an eviction through, for this reason.
    pub fn evicts(&self, key: &ObjectKey, uid: &Uid, cause: Cause, scene: &Scene<'_>) -> Result<(), String> {
        let Some(pod) = scene.cluster.pods.get(key).filter(|pod| pod.uid == *uid && lives(pod)) else {
            return Ok(());
        };
        if cause == Cause::HoldAllows && pod.ending.sleeps == 0 {
            return broken("evictions", format!("{} is let go with its hold, and has none", key.name));
        }
        let asked = scene.cluster.asked_to_leave(uid).filter(|_| cause == Cause::NobodyDecides);
        if asked.is_some_and(|(first, _)| scene.now.since(first) < scene.settings.leaving.silence()) {
            return broken(
                "evictions",
                format!("{} is let go, and a leader had no time to decide", key.name),
            );
        }
        // What a leader has written it has looked at then.
        let is_written = pod.leaving.as_deref().and_then(LeavingFacts::let_go).is_some();
        let is_asked_for =
            scene.written().iter().any(|by| by.selector.selects(&pod.labels) && !by.says(PAUSED, "true"));
        if cause == Cause::NotATarget
            && scene.knows_pod(pod)
            && !is_written
            && is_asked_for
            && scene.has_its_address(pod)
        {
            return self.is_out(pod, false, scene);
        }
        Ok(())
    }

    /// The leader takes a living pod out because its eviction is asked for.
    pub(super) fn leaves(&self, pod: &PodFacts, item: &CallItem, scene: &Scene<'_>) -> Result<(), String> {
        let name = &pod.key.name;
        // That it is out is written already.
        if pod.leaving.as_deref().is_some_and(LeavingFacts::is_out) {
            return Ok(());
        }
        if scene.cluster.refuses(pod) && item.since == scene.now {
            return broken("evictions", format!("{name} is taken out, and its budget allows no disruption"));
        }
        let by = pod.passed_over;
        let is_passed_over = by.by_all || by.by_karpenter || by.by_cluster_autoscaler;
        if pod.ending.sleeps > 0 && !is_passed_over && !scene.node_goes(pod) {
            return broken("evictions", format!("{name} is taken out, and it has its hold"));
        }
        let patience = scene.settings.leaving.patience;
        let waits =
            |uid: &Uid| self.asked_to_leave.get(uid).is_some_and(|at| scene.now.since(*at) + SKEW < patience);
        // One that is not ready for too long goes where that is asked for, whoever is left.
        let selects = |by: &Written<'_>| by.selector.selects(&pod.labels) && by.may_deregister();
        let is_unready_for_long = !self.was_ready(&pod.uid, scene) && scene.written().iter().any(selects);
        if item.since == scene.now
            && waits(&pod.uid)
            && !is_unready_for_long
            && is_last_of_its_zone(pod, scene)
        {
            return broken(
                "zones",
                format!("{name} is taken out, and is the last healthy target of its zone"),
            );
        }
        Ok(())
    }

    /// It is asked whether a budget allows an eviction, beside those pods that leave already.
    pub fn asks(&self, check: &Check, scene: &Scene<'_>) -> Result<(), String> {
        let name = &check.pod.name;
        if scene.leads.is_none() {
            return broken("authority", format!("the budgets of {name} are asked for by who does not lead"));
        }
        let app = |labels: &Labels| labels.get("app").unwrap_or_default().to_owned();
        let wall = scene.wall(scene.now);
        let over = scene.settings.leaving.given_up_after.saturating_sub(SKEW);
        let leaves = |pod: &&PodFacts| {
            let leaving = pod.leaving.as_deref().and_then(|leaving| leaving.credible(wall));
            let is_asked = self.asked_to_leave.get(&pod.uid).is_some_and(|at| scene.now.since(*at) < over);
            pod.uid != check.uid
                && lives(pod)
                && app(&pod.labels) == app(&check.labels)
                && is_asked
                && leaving.is_some_and(|leaving| leaving.is_out())
        };
        let leave = scene.cluster.pods.values().filter(leaves).count();
        let said = check.departing.iter().filter(|labels| app(labels) == app(&check.labels)).count();
        if scene.knows_all() && said < leave {
            return broken(
                "evictions",
                format!("the budgets of {name} are asked for beside {said} that leave, and {leave} do"),
            );
        }
        Ok(())
    }

    /// Something is written on a pod that leaves.
    pub fn marks(&self, write: &MarkWrite, scene: &Scene<'_>) -> Result<(), String> {
        let name = &write.pod.name;
        if scene.leads.is_none() {
            return broken(
                "authority",
                format!("{:?} is written on {name} by who does not lead", write.mark),
            );
        }
        let pod = scene.cluster.pods.get(&write.pod).filter(|pod| pod.uid == write.uid && lives(pod));
        let Some(pod) = pod.filter(|pod| scene.knows_pod(pod)) else { return Ok(()) };
        let watched = scene.cluster.nodes_are_watched();
        match write.mark {
            Mark::Asked(Asked { early: true, .. }) => {
                if watched && !scene.node_goes(pod) {
                    return broken("nodes", format!("{name} is asked to leave early, and its node stays"));
                }
                let by = pod.passed_over;
                let is_passed_over = by.by_all || by.by_karpenter || by.by_cluster_autoscaler;
                if is_passed_over && watched && !self.is_its_turn(pod, scene) {
                    return broken(
                        "nodes",
                        format!("{name} is asked to leave early, and many nodes are marked"),
                    );
                }
                if pod.ending.sleeps > 0 && !is_passed_over {
                    return broken("nodes", format!("{name} is asked to leave early, and has its hold"));
                }
                Ok(())
            }
            Mark::Deregistered { .. } if scene.has_its_address(pod) => self.is_out(pod, false, scene),
            Mark::MayGo { reason: Cause::EvictionAllowed | Cause::NotATarget, .. }
                if scene.has_its_address(pod) =>
            {
                self.is_out(pod, true, scene)
            }
            Mark::Undone => {
                let is_cordoned = watched
                    && pod
                        .node
                        .as_ref()
                        .is_some_and(|node| scene.cluster.node(node).is_some_and(|node| !node.takes_pods));
                let asked = scene.cluster.asked_to_leave(&pod.uid);
                let given_up = scene.settings.leaving.given_up_after;
                if asked.is_some_and(|(_, last)| scene.now.since(last) + SKEW < given_up) {
                    return broken(
                        "evictions",
                        format!("{name} is put back, and somebody asks for its eviction"),
                    );
                }
                if is_cordoned {
                    return broken("evictions", format!("{name} is put back on a node that takes no pods"));
                }
                Ok(())
            }
            Mark::Disbelieved => {
                let leaving = pod.leaving.as_deref();
                let is_credible = leaving.is_some_and(|it| it.credible(scene.wall(scene.now)) == Some(*it));
                if is_credible && !scene.clocks_are_wrong {
                    return broken(
                        "evictions",
                        format!("what is written on {name} is taken away, and may be true"),
                    );
                }
                Ok(())
            }
            Mark::Stays if watched && scene.node_goes(pod) => {
                let is_only_cordoned =
                    pod.node.as_ref().and_then(|node| scene.cluster.node(node)).is_some_and(|node| {
                        node.taints.is_empty() && !node.shuts_down && !pod.passed_over.by_all
                    });
                if is_only_cordoned {
                    return Ok(());
                }
                broken("nodes", format!("{name} is said to stay with its node, which goes"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the node of a pod is marked for itself, and not as one of many that wait for their turn.
    fn is_its_turn(&self, pod: &PodFacts, scene: &Scene<'_>) -> bool {
        let mark = |node: &NodeFacts| {
            let is_dying = node.shuts_down || node.taints.iter().any(|taint| DYING.contains(&&**taint));
            let mut marks = node.taints.iter().filter(|taint| DISRUPTED.contains(&&***taint));
            marks.next().filter(|_| !is_dying).cloned()
        };
        let Some(node) = pod.node.as_ref().and_then(|node| scene.cluster.node(node)) else { return true };
        let Some(its) = mark(node) else { return true };
        let alike = scene.cluster.nodes.values().filter(|other| mark(other).as_ref() == Some(&its)).count();
        node.cordoned
            || alike <= 1
            || alike * 4 <= scene.cluster.nodes.len()
            || self.drained.contains(&node.name)
    }

    /// A node is called detached.
    pub fn detaches(&self, write: &DetachedWrite, scene: &Scene<'_>) -> Result<(), String> {
        let name = &write.node;
        if scene.leads.is_none() {
            return broken("authority", format!("node {name} is written to by who does not lead"));
        }
        let Some(node) = scene.cluster.node(name).filter(|_| write.at.is_some() && scene.knows_all()) else {
            return Ok(());
        };
        let goes = node.cordoned || node.shuts_down || !node.taints.is_empty();
        if !goes {
            return broken("nodes", format!("{name} is called detached, and stays"));
        }
        let is_here =
            |pod: &&PodFacts| pod.node.as_ref() == Some(name) && !pod.finished && !pod.ips.is_empty();
        let mut here = scene.cluster.pods.values().filter(is_here);
        here.try_for_each(|pod| {
            let alone = scene.cluster.is_alone(pod);
            if alone { self.is_out(pod, true, scene) } else { Ok(()) }
        })
    }
}

/// Whether a pod is a target that is healthy for long, and no other one of its zone and group was it lately; and another
/// pod there may become it.
fn is_last_of_its_zone(pod: &PodFacts, scene: &Scene<'_>) -> bool {
    let zone = |pod: &PodFacts| scene.cluster.node(pod.node.as_ref()?)?.zone.clone();
    let Some(here) = zone(pod).filter(|_| scene.cluster.nodes_are_watched()) else { return false };
    let is_here =
        |other: &&PodFacts| other.uid != pod.uid && zone(other).as_ref() == Some(&here) && !other.finished;
    let others: Vec<&PodFacts> = scene.cluster.pods.values().filter(is_here).collect();
    scene.written().iter().filter(|by| by.selector.selects(&pod.labels) && !by.is_deleted).any(|by| {
        let Some(arn) = scene.aws.arn(by.group) else { return false };
        let of = |pod: &PodFacts| pod.ips.first().map(|ip| Target::new(*ip, by.port));
        let is_healthy = |pod: &PodFacts| {
            let since = of(pod).and_then(|target| scene.aws.healthy_since(arn, &target));
            since.is_some_and(|at| scene.now.since(at) > LONGEST_UNREAD)
        };
        let may_be = |other: &PodFacts| {
            of(other).is_some_and(|target| {
                scene
                    .aws
                    .proven(arn, &target, &other.uid)
                    .is_some_and(|at| scene.now.since(at) < LONGEST_UNREAD)
            })
        };
        let mut its = others.iter().filter(|other| by.selector.selects(&other.labels)).peekable();
        !scene.aws.is_shifted(arn)
            && is_healthy(pod)
            && its.peek().is_some()
            && !its.any(|other| may_be(other))
    })
}
