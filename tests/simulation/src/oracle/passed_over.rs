//! The pods that whoever drains their nodes passes over: which they are, and when they may leave early.

use std::{collections::BTreeSet, sync::Arc};

use super::{Oracle, bound::Bound, leaving::disrupted_by, pods::Told};
use headgate_core::model::{BindingKey, NodeFacts, ObjectKey, Target, TargetGroupArn, Uid};

/// Nodes that replace others are younger than those by more than this, in seconds.
const YOUNGER: i64 = 60;

impl Oracle {
    fn node_of(&self, pod: &Told) -> Option<&NodeFacts> {
        self.nodes.get(pod.facts.node.as_ref()?)
    }

    /// Whether whoever drains the node of a pod, as its signs are, passes the pod over.
    pub fn is_passed_over(&self, pod: &Told) -> bool {
        let Some(node) = self.node_of(pod) else { return false };
        let by = pod.facts.passed_over;
        match disrupted_by(node) {
            Some(taint) => {
                by.by_all
                    || (by.by_karpenter && taint == "karpenter.sh/disrupted")
                    || (by.by_cluster_autoscaler && taint == "ToBeDeletedByClusterAutoscaler")
            }
            None => by.by_all && (node.cordoned || self.node_goes(pod)),
        }
    }

    /// Whether the turn of its node has come: it is cordoned, not many have its taint, or a pod was evicted from there.
    pub fn is_its_turn(&self, pod: &Told) -> bool {
        let Some(node) = self.node_of(pod) else { return false };
        let Some(taint) = disrupted_by(node) else { return true };
        let alike = self.nodes.all().filter(|other| disrupted_by(other) == Some(taint)).count();
        node.cordoned
            || alike <= 1
            || alike * 4 <= self.nodes.all().count()
            || self.nodes.drained.contains(&node.name)
    }

    /// Whether so many pods of each of its target groups leave early already that this one may not, by a generous count;
    /// `leaves`: which do.
    pub fn too_many_leave(&self, pod: &Told, leaves: impl Fn(&Told) -> bool) -> Option<TargetGroupArn> {
        // Where it is paused it does not leave.
        let is_paused = |key: &BindingKey| self.objects.bound.get(&key.origin).is_some_and(Bound::is_paused);
        let is_its = |name: &ObjectKey, uid: &Uid| *name == pod.facts.key && *uid == pod.facts.uid;
        let own = self.claims.iter().filter(|((_, name), (_, uid))| is_its(name, uid));
        let mut keys: Vec<&BindingKey> = own.map(|((key, _), _)| key).collect();
        // Nor where it is no target as it is now, or would be none if it did not leave: nothing is sent to one at an address
        // that another pod has.
        if keys.is_empty() && !self.pods.has_lost_its_ip(pod) {
            let would_be = |bound: &Bound, key: &BindingKey| bound.target(key, pod, None, false).is_some();
            let all = self.objects.bound.values();
            keys.extend(all.flat_map(|bound| bound.keys().filter(|key| would_be(bound, key))));
        }
        let deregisters =
            |key: &BindingKey| self.objects.bound.get(&key.origin).is_some_and(Bound::deregisters);
        let is_let_go = pod.is_lost && self.apart_of(&pod.facts.key).let_go;
        keys.retain(|key| !(is_paused(key) || is_let_go && deregisters(key)));
        let groups: BTreeSet<&TargetGroupArn> = keys.into_iter().map(|key| &key.group).collect();
        let is_of = |other: &Told, group: &TargetGroupArn| {
            other.lives() && self.selecting(other).any(|bound| bound.key.group == *group)
        };
        let exceeds = |group: &TargetGroupArn| {
            let all: Vec<&Told> = self.pods.all.values().filter(|other| is_of(other, group)).collect();
            let others = all.iter().filter(|other| other.facts.uid != pod.facts.uid && leaves(other)).count();
            let oldest =
                all.iter().filter(|other| self.node_goes(other)).filter_map(|other| self.node_of(other));
            let youngest = oldest.map(|node| node.created).max().unwrap_or(i64::MAX);
            let replaces = |other: &&&Told| {
                let node = self.node_of(other).filter(|_| !self.node_goes(other));
                node.is_some_and(|node| node.created.saturating_sub(YOUNGER) > youngest)
            };
            let replacing = all.iter().filter(replaces).count();
            others >= ((all.len() - replacing) / 4).max(1) + replacing
        };
        groups.into_iter().find(|group| exceeds(group)).cloned()
    }

    /// Whether a pod would be this target of this group, if it did not leave.
    pub fn would_have(&self, pod: &Told, group: &TargetGroupArn, target: &Target) -> bool {
        self.objects.bound.values().any(|bound| {
            let mut keys = bound.keys().filter(|key| key.group == *group);
            keys.any(|key| bound.target(key, pod, Some(*target), false) == Some(*target))
        })
    }

    /// From which nodes pods have been evicted since they are to be drained.
    pub(super) fn note_drained(&mut self) {
        let evicted = self.pods.all.values().filter(|pod| pod.facts.is_evicted);
        let from: Vec<Arc<str>> = evicted.filter_map(|pod| pod.facts.node.clone()).collect();
        self.nodes.note_drained(from);
    }
}
