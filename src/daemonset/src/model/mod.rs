//! The data that the controller needs about IngressDaemonSets and their pods, ControllerRevisions and
//! PodDisruptionBudgets, and about nodes.

pub mod ask;
pub mod node;
pub mod plan;
pub mod status;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use headgate_core::{
    model::{
        limits::Excess,
        object::{Labels, ObjectKey, Uid},
        time::WallTime,
    },
    words,
};

/// The label that contains the name of the set. Pods, ControllerRevisions and PodDisruptionBudgets have this label.
pub const OWNED_BY: &str = "headgate.dev/daemonset";
/// The label on a pod that contains the hash of the pod's template. Kubernetes workloads use the same label.
pub const REVISION: &str = "controller-revision-hash";
/// The maximum number of pods of a set per node.
pub const MOST_PER_NODE: usize = 16;

/// The hash of a pod template: the value of the label [`REVISION`].
pub type Revision = Arc<str>;

/// A number or a percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// An absolute number.
    Number(usize),
    /// A percentage.
    Percent(usize),
}

impl Amount {
    /// Returns the maximum number out of `all`. A percentage is rounded down to at least 1.
    pub fn at_most(self, all: usize) -> usize {
        match self {
            Self::Number(number) => number.max(1),
            Self::Percent(percent) => (all * percent / 100).max(1),
        }
    }

    /// Returns how many of `all` pods may be missing. A percentage is rounded up, so that at least one pod may be
    /// missing.
    pub fn may_miss(self, all: usize) -> usize {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => (all * percent).div_ceil(100),
        }
    }
}

/// The strategy that replaces pods of an old revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// On each node, new pods start before the old pods are deleted.
    RollingUpdate {
        /// The maximum number of live pods above the wanted number. Terminating pods do not count.
        surge: usize,
        /// The maximum number of unavailable pods.
        unavailable: usize,
    },
    /// On each node, all old pods are evicted simultaneously. New pods start after the old pods have terminated.
    NodeReplace,
    /// A user deletes the old pods.
    OnDelete,
}

impl Strategy {
    /// Returns the maximum number of live pods above the wanted number on a node.
    pub const fn surge(self) -> usize {
        match self {
            Self::RollingUpdate { surge, .. } => surge,
            Self::NodeReplace | Self::OnDelete => 0,
        }
    }
}

/// The handshake before a node's update, with a system that detaches nodes from load balancers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The key of the annotation on the node.
    pub key: Arc<str>,
    /// The value of the annotation.
    pub value: Arc<str>,
    /// The condition that the controller waits for. `None`: the controller does not wait.
    pub wait: Option<Wait>,
}

/// The annotation that the controller waits for after it annotated a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The annotation that contains the time of the detachment.
    pub key: Arc<str>,
    /// The grace period after the detachment.
    pub grace: Duration,
}

/// The spec of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSpec {
    /// The number of pods per node, 1 to [`MOST_PER_NODE`].
    pub pods_per_node: usize,
    /// The revision of the current pod template.
    pub revision: Revision,
    /// The placement of the pods.
    pub placement: Placement,
    /// The strategy that replaces pods of an old revision.
    pub strategy: Strategy,
    /// The maximum number of nodes that are updated simultaneously.
    pub nodes_at_once: Amount,
    /// The deadline of a node's update. A missed deadline stops the rollout.
    pub deadline: Duration,
    /// The handshake before a node is updated.
    pub handshake: Option<Arc<Handshake>>,
    /// How long a pod must be ready before the pod counts as available.
    pub min_ready: Duration,
    /// The number of old revisions to keep.
    pub history: usize,
    /// Whether the rollout is paused.
    pub paused: bool,
    /// How many pods may be missing during evictions. `None`: the set has no PodDisruptionBudget.
    pub may_miss: Option<Amount>,
    /// The labels of the pods.
    pub labels: Labels,
}

/// The part of a set's status that the controller reads back. A new leader has no other memory of the rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The revision of nodes that are not updated yet.
    pub current: Option<Revision>,
    /// The revision that nodes are updated to.
    pub update: Option<Revision>,
    /// The nodes that are being updated, and the start of each update.
    pub turns: BTreeMap<Arc<str>, WallTime>,
}

/// A set, as the watch last reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFacts {
    /// The namespace and name of the set.
    pub key: ObjectKey,
    /// The UID of the set.
    pub uid: Uid,
    /// `metadata.resourceVersion`, which is a precondition of status writes.
    pub version: Arc<str>,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether the set has a `deletionTimestamp`. The garbage collector then deletes the pods.
    pub deleting: bool,
    /// The spec.
    pub spec: SetSpec,
    /// The part of the status that the controller reads back.
    pub remembered: Remembered,
    /// The part of the template that exceeds a limit. The controller then does nothing for the set. `None`: no part
    /// exceeds a limit.
    pub beyond: Option<Excess>,
}

/// The set that controls an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The name of the set, in the same namespace.
    pub name: Arc<str>,
    /// The UID of the set.
    pub uid: Uid,
}

/// A pod of a set, as the watch last reported it. Pods with another controller are excluded.
#[allow(clippy::struct_excessive_bools)] // each is an independent property
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPod {
    /// The namespace and name of the pod.
    pub key: ObjectKey,
    /// The UID of the pod.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
    /// The set that controls the pod. `None`: the pod has no controller.
    pub controller: Option<Owner>,
    /// The name in the pod's label [`OWNED_BY`].
    pub set: Option<Arc<str>>,
    /// The revision in the pod's label [`REVISION`].
    pub revision: Revision,
    /// The node that the pod runs on or was created for.
    pub node: Arc<str>,
    /// Whether `spec.nodeName` is set.
    pub scheduled: bool,
    /// `metadata.creationTimestamp`.
    pub created: WallTime,
    /// Whether the pod has a `deletionTimestamp`.
    pub terminating: bool,
    /// Whether the pod's phase is `Succeeded` or `Failed`.
    pub finished: bool,
    /// The time at which the pod became ready. `None`: the pod is not ready.
    pub ready: Option<WallTime>,
}

/// A ControllerRevision, as the watch last reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionFacts {
    /// The namespace and name of the ControllerRevision.
    pub key: ObjectKey,
    /// The UID of the ControllerRevision.
    pub uid: Uid,
    /// The set that controls the ControllerRevision. `None`: the ControllerRevision has no controller.
    pub controller: Option<Owner>,
    /// The name in the label [`OWNED_BY`].
    pub set: Option<Arc<str>>,
    /// The revision in the label [`REVISION`].
    pub revision: Revision,
    /// The number of the revision. The set's current revision has the highest number.
    pub number: i64,
}

/// A PodDisruptionBudget, as the watch last reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetFacts {
    /// The namespace and name of the PodDisruptionBudget.
    pub key: ObjectKey,
    /// The UID of the PodDisruptionBudget.
    pub uid: Uid,
    /// The set that controls the PodDisruptionBudget. `None`: the PodDisruptionBudget has no controller.
    pub controller: Option<Owner>,
    /// The set that the PodDisruptionBudget was created for, according to its name and its label [`OWNED_BY`].
    pub set: Option<Arc<str>>,
    /// The requirements of the selector.
    pub selector: Vec<Requirement>,
    /// The value of `spec.minAvailable`. `None`: the value is not a number.
    pub min_available: Option<usize>,
    /// The part of the selector that exceeds a limit. A PodDisruptionBudget that exceeds a limit selects no pod.
    /// `None`: no part exceeds a limit.
    pub beyond: Option<Excess>,
}

impl BudgetFacts {
    /// Returns whether the PodDisruptionBudget selects pods with these labels. An empty selector selects all pods.
    pub fn selects(&self, labels: &Labels) -> bool {
        self.selector.iter().all(|requirement| requirement.fits(labels.get(&requirement.key)))
    }
}

/// A node, as the watch last reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetNode {
    /// The name of the node.
    pub name: Arc<str>,
    /// The zone in the label `topology.kubernetes.io/zone`. Empty: the node has no such label.
    pub zone: Arc<str>,
    /// The labels of the node.
    pub labels: Labels,
    /// The annotations of the node, except long annotations.
    pub annotations: Vec<Noted>,
    /// The taints of the node.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    /// Whether the node's condition `Ready` is true.
    pub ready: bool,
}

/// An annotation of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// The key of the annotation.
    pub key: Box<str>,
    /// The value of the annotation.
    pub value: Box<str>,
    /// The value as a time. `None`: the value is not a time.
    pub time: Option<WallTime>,
}

impl SetNode {
    /// Returns the annotation with this key.
    pub fn says(&self, key: &str) -> Option<&Noted> {
        self.annotations.iter().find(|noted| *noted.key == *key)
    }
}

words! {
    /// The effect of a taint on pods that do not tolerate it.
    Effect {
        /// New pods are not scheduled.
        NoSchedule = "NoSchedule",
        /// New pods are scheduled on other nodes if possible.
        PreferNoSchedule = "PreferNoSchedule",
        /// New pods are not scheduled, and running pods are evicted.
        NoExecute = "NoExecute",
    }
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// The key of the taint.
    pub key: Box<str>,
    /// The value of the taint.
    pub value: Box<str>,
    /// The effect of the taint.
    pub effect: Effect,
}

/// A toleration of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// The key of tolerated taints. `None`: all keys.
    pub key: Option<Box<str>>,
    /// The value of tolerated taints. `None`: all values.
    pub value: Option<Box<str>>,
    /// The effect of tolerated taints. `None`: all effects.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Returns whether a pod with this toleration tolerates the taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

words! {
    /// The operator of a requirement.
    Operator {
        /// The value must be in the list.
        In = "In",
        /// The value must not be in the list.
        NotIn = "NotIn",
        /// The label or field must exist.
        Exists = "Exists",
        /// The label or field must not exist.
        DoesNotExist = "DoesNotExist",
        /// The value must be a number above the only number in the list.
        Gt = "Gt",
        /// The value must be a number below the only number in the list.
        Lt = "Lt",
    }
}

/// A requirement for a label or a field of a node or pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The key of the label or field.
    pub key: Box<str>,
    /// The operator.
    pub operator: Operator,
    /// The list of values.
    pub values: Vec<Box<str>>,
}

impl Requirement {
    /// Returns whether a value meets the requirement. As in Kubernetes, a missing value is in no list and is not a
    /// number.
    pub fn fits(&self, value: Option<&str>) -> bool {
        let is_in = |value: &str| self.values.iter().any(|one| **one == *value);
        let number = |text: &str| text.parse::<i64>().ok();
        let compared = |than: fn(&i64, &i64) -> bool| {
            let (Some(value), [bound]) = (value.and_then(number), &self.values[..]) else { return false };
            number(bound).is_some_and(|bound| than(&value, &bound))
        };
        match self.operator {
            Operator::In => value.is_some_and(is_in),
            Operator::NotIn => !value.is_some_and(is_in),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => compared(i64::gt),
            Operator::Lt => compared(i64::lt),
        }
    }
}

/// One term of the required node affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Term {
    /// The requirements for the node's labels.
    pub labels: Vec<Requirement>,
    /// The requirements for the node's fields. The only field is `metadata.name`.
    pub fields: Vec<Requirement>,
}

/// The placement of a set's pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The pods' `nodeSelector`.
    pub selector: Vec<(Box<str>, Box<str>)>,
    /// The terms of `requiredDuringSchedulingIgnoredDuringExecution`. A node must match at least one term. `None`: no
    /// required node affinity.
    pub terms: Option<Vec<Term>>,
    /// The tolerations of the pods, including the tolerations that each pod of a set has.
    pub tolerations: Vec<Toleration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_lets_at_least_one_node_have_its_turn_and_one_pod_go() {
        assert_eq!([1, 9, 25].map(|all| Amount::Percent(10).at_most(all)), [1, 1, 2]);
        assert_eq!([0, 1, 9, 25].map(|all| Amount::Percent(10).may_miss(all)), [0, 1, 1, 3]);
        assert_eq!((Amount::Number(0).at_most(5), Amount::Number(0).may_miss(5)), (1, 0));
        assert_eq!((Amount::Number(7).at_most(5), Amount::Number(7).may_miss(5)), (7, 7));
    }

    #[test]
    fn a_requirement_is_as_kubernetes_has_it() {
        let fits = |operator, values: &[&str], value| {
            let values = values.iter().map(|value| (*value).into()).collect();
            Requirement { key: "k".into(), operator, values }.fits(value)
        };
        assert!(fits(Operator::In, &["a", "b"], Some("b")) && !fits(Operator::In, &["a"], None));
        assert!(fits(Operator::NotIn, &["a"], None) && !fits(Operator::NotIn, &["a"], Some("a")));
        assert!(fits(Operator::Exists, &[], Some("")) && !fits(Operator::Exists, &[], None));
        assert!(fits(Operator::DoesNotExist, &[], None) && !fits(Operator::DoesNotExist, &[], Some("")));
        assert!(fits(Operator::Gt, &["4"], Some("5")) && !fits(Operator::Gt, &["5"], Some("5")));
        assert!(fits(Operator::Lt, &["4"], Some("3")) && !fits(Operator::Lt, &["4"], Some("x")));
        assert!(!fits(Operator::Lt, &["4", "5"], Some("3")) && !fits(Operator::Gt, &["4"], None));
    }

    #[test]
    fn a_toleration_tolerates_what_it_does_not_leave_out() {
        let taint = Taint { key: "dedicated".into(), value: "edge".into(), effect: Effect::NoSchedule };
        let tolerates = |key: Option<&str>, value: Option<&str>, effect| {
            let (key, value) = (key.map(Into::into), value.map(Into::into));
            Toleration { key, value, effect }.tolerates(&taint)
        };
        assert!(tolerates(None, None, None) && tolerates(Some("dedicated"), Some("edge"), None));
        assert!(!tolerates(Some("other"), None, None) && !tolerates(Some("dedicated"), Some("core"), None));
        assert!(
            !tolerates(None, None, Some(Effect::NoExecute))
                && tolerates(None, None, Some(Effect::NoSchedule))
        );
    }
}
