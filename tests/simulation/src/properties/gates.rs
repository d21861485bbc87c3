//! Readiness gates.

use headgate_core::model::{
    CallItem, Cause, Moment, PodFacts, TargetGroupArn, gate::GateWrite, gate::Shown, policy::GATE_WHEN_UNUSED,
};

use super::{Properties, Scene, broken};
use crate::{cluster::lives, words::GROUPS, words::Key};

impl Properties {
    /// A readiness gate is written.
    pub fn writes_gate(&mut self, write: &GateWrite, scene: &Scene<'_>) -> Result<(), String> {
        let (name, reason) = (&write.pod.name, write.condition.reason);
        if scene.leads.is_none() {
            return broken(
                "authority",
                format!("the gate of {name} is written by who does not lead, or not know all"),
            );
        }
        if !write.condition.open {
            self.closed_gates.insert(write.uid.clone(), scene.now);
        }
        let pod = scene.cluster.pods.get(&write.pod).filter(|pod| pod.uid == write.uid && lives(pod));
        if let Some(pod) = pod.filter(|_| !write.condition.open && reason != Cause::IpChanged) {
            return self.closes_gate(pod, scene);
        }
        let Some(pod) = pod.filter(|pod| write.condition.open && scene.knows_pod(pod)) else {
            return Ok(());
        };
        if reason == Cause::NodeDisrupted {
            let by = pod.passed_over;
            let is_passed_over = by.by_all || by.by_karpenter || by.by_cluster_autoscaler;
            return if is_passed_over {
                Ok(())
            } else {
                broken("gates", format!("that of {name} opens for its node"))
            };
        }
        let mut waits = None;
        for arn in GROUPS.iter().filter_map(|name| scene.aws.arn(name)) {
            for wanted in scene.wanted(arn).iter().filter(|wanted| wanted.pod.uid == pod.uid) {
                let key = (arn.clone(), wanted.target);
                if reason == Cause::HealthUnreadable && self.is_unread(&key, pod, scene) {
                    continue;
                }
                let unused = scene.aws.unused(arn).filter(|_| !wanted.by.says(GATE_WHEN_UNUSED, "wait"));
                let asked = self.asked.get(&(key, pod.uid.clone()));
                let healthy = scene.aws.proven(arn, &wanted.target, &pod.uid).max(unused);
                if asked.is_none()
                    || healthy.is_none_or(|at| Some(&at) < asked && !scene.aws.has(arn, &wanted.target))
                {
                    waits = Some(arn.name());
                }
            }
        }
        match (reason, waits) {
            // What these words say is not that the pod is healthy.
            (Cause::NothingBound | Cause::TargetGroupUnused, _) => Ok(()),
            (_, Some(group)) => {
                broken("gates", format!("that of {name} opens, and {group} never saw it healthy"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a gate may open for a target whose health cannot be read: AWS has answered that it has it, and no read was
    /// answered since, for long enough.
    fn is_unread(&self, key: &Key, pod: &PodFacts, scene: &Scene<'_>) -> bool {
        let was_open = pod.gate.as_deref().is_some_and(|gate| gate.shown == Shown::ClosedAgain);
        let Some(patience) = scene.settings.gate_patience.filter(|_| !was_open) else { return false };
        let taken = self.taken.get(key).filter(|(uid, since)| *uid == pod.uid && Some(*since) >= scene.leads);
        let Some((_, since)) = taken else { return false };
        let began = |all: &std::collections::BTreeMap<TargetGroupArn, Moment>| all.get(&key.0).copied();
        scene.now.since(*since) >= patience
            && began(&self.read).is_none_or(|began| began < *since)
            && began(&self.not_read).is_some_and(|began| began >= *since)
    }

    /// An open gate of a pod that stays is not closed, unless Headgate takes the pod out.
    fn closes_gate(&self, pod: &PodFacts, scene: &Scene<'_>) -> Result<(), String> {
        let is_open =
            pod.gate.as_deref().is_some_and(|gate| gate.shown.is_open_for(&pod.ips) && !gate.unread);
        // Whoever leads next cannot know whether AWS had what was to be taken out.
        let goes = |arn: &TargetGroupArn| {
            let mut its = self.asked.keys().filter(|((group, _), uid)| group == arn && *uid == pod.uid);
            let wanted = scene.wanted(arn);
            its.any(|((_, target), _)| {
                !wanted
                    .iter()
                    .any(|it| it.pod.uid == pod.uid && it.target == *target && !it.by.may_deregister())
            })
        };
        let is_to_go = GROUPS.iter().filter_map(|name| scene.aws.arn(name)).any(goes);
        let was_out = is_to_go || self.taken_out.values().any(|out| out.is_of(&pod.uid));
        if is_open && scene.knows_pod(pod) && !was_out && scene.has_its_address(pod) && !scene.leaves(pod) {
            return broken(
                "gates",
                format!("that of {} is closed, and nobody has taken it out", pod.key.name),
            );
        }
        Ok(())
    }

    /// A pod that lives on has its gate closed before it is taken out for what became of it.
    pub(super) fn takes_out(
        group: &TargetGroupArn,
        item: &CallItem,
        scene: &Scene<'_>,
    ) -> Result<(), String> {
        let of_the_pod = matches!(item.reason, Cause::NotReady | Cause::PodEvicting | Cause::NodeDisrupted);
        let pod = scene.cluster.pods.get(&item.pod).filter(|pod| pod.uid == item.uid && lives(pod));
        let is_open = |pod: &PodFacts| {
            pod.gate.as_deref().is_some_and(|gate| gate.shown.is_open_for(&pod.ips) && !gate.unread)
        };
        let Some(pod) = pod.filter(|pod| of_the_pod && is_open(pod)) else {
            return Ok(());
        };
        let is_wanted = item.attempt == 1
            && pod.ips.contains(&item.target.ip)
            && scene.wanted(group).iter().any(|wanted| wanted.pod.uid == pod.uid);
        if is_wanted && scene.knows(&item.pod, Some(&item.target.ip)) {
            let said =
                format!("{} is removed from {}, and the gate of its pod is open", item.target, group.name());
            return broken("gates", said);
        }
        Ok(())
    }
}
