//! The kind IngressDaemonSet: what its controller needs to know about the sets, their pods, revisions and budgets, and
//! about nodes.

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

/// The label of a pod of a set: the name of the set.
pub const OWNED_BY: &str = "headgate.dev/daemonset";
/// The label of a pod of a set: the hash of the template that it was created from. Kubernetes workloads use the same
/// label.
pub const REVISION: &str = "controller-revision-hash";
/// The maximum number of pods of a set per node.
pub const MOST_PER_NODE: usize = 16;

/// The hash of a pod template: the value of the label [`REVISION`].
pub type Revision = Arc<str>;

/// A number, or a percentage of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// An absolute number.
    Number(usize),
    /// A percentage.
    Percent(usize),
}

impl Amount {
    /// The maximum number out of `all`: rounded down, but at least one.
    pub fn at_most(self, all: usize) -> usize {
        match self {
            Self::Number(number) => number.max(1),
            Self::Percent(percent) => (all * percent / 100).max(1),
        }
    }

    /// How many of `all` may be missing. A percentage is rounded up, so that one may be missing for any number of pods.
    pub fn may_miss(self, all: usize) -> usize {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => (all * percent).div_ceil(100),
        }
    }
}

/// How pods are replaced by those of a new revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// On each node, new pods start next to the old ones before those are deleted.
    RollingUpdate {
        /// How many live pods a node may have above the wanted number. Terminating pods do not count.
        surge: usize,
        /// How many available pods may be missing.
        unavailable: usize,
    },
    /// On each node, all old pods are evicted at once, and new pods start after they have terminated.
    NodeReplace,
    /// A user deletes the old pods.
    OnDelete,
}

impl Strategy {
    /// How many pods a node may have above the wanted number.
    pub const fn surge(self) -> usize {
        match self {
            Self::RollingUpdate { surge, .. } => surge,
            Self::NodeReplace | Self::OnDelete => 0,
        }
    }
}

/// The handshake with a system that detaches nodes from load balancers, before a node is updated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The key of the annotation on the node.
    pub key: Arc<str>,
    /// The value of the annotation.
    pub value: Arc<str>,
    /// What the controller waits for. `None`: nothing.
    pub wait: Option<Wait>,
}

/// What the controller waits for after it annotated a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The annotation with the time of the detachment.
    pub key: Arc<str>,
    /// How long to wait after that.
    pub grace: Duration,
}

/// The spec of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSpec {
    /// The number of pods per node, 1 to [`MOST_PER_NODE`].
    pub pods_per_node: usize,
    /// The revision of the present template.
    pub revision: Revision,
    /// The placement of its pods.
    pub placement: Placement,
    /// How pods are replaced by those of a new revision.
    pub strategy: Strategy,
    /// How many nodes are updated at once.
    pub nodes_at_once: Amount,
    /// A node update that takes longer stops the rollout.
    pub deadline: Duration,
    /// The handshake before a node is updated.
    pub handshake: Option<Arc<Handshake>>,
    /// A pod is available after it has been ready for this long.
    pub min_ready: Duration,
    /// How many old revisions are kept.
    pub history: usize,
    /// Whether no node update begins or continues.
    pub paused: bool,
    /// How many pods may be missing when pods are evicted. `None`: the set has no budget.
    pub may_miss: Option<Amount>,
    /// The labels of its pods.
    pub labels: Labels,
}

/// The part of a set's status that the controller remembers. It remembers nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The revision of nodes that are not updated yet.
    pub current: Option<Revision>,
    /// The revision that nodes are updated to.
    pub update: Option<Revision>,
    /// The nodes that are being updated, and since when.
    pub turns: BTreeMap<Arc<str>, WallTime>,
}

/// A set as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFacts {
    /// Its name.
    pub key: ObjectKey,
    /// The UID of the set.
    pub uid: Uid,
    /// `metadata.resourceVersion`, a precondition of status writes.
    pub version: Arc<str>,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether it has a `deletionTimestamp`. The garbage collector then deletes its pods.
    pub deleting: bool,
    /// The spec.
    pub spec: SetSpec,
    /// The remembered part of the status.
    pub remembered: Remembered,
    /// The part of its template that exceeds a limit. The controller then does nothing for the set.
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

/// A pod of a set as last seen. Pods with another controller are excluded.
#[allow(clippy::struct_excessive_bools)] // each is an independent property
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPod {
    /// Its name.
    pub key: ObjectKey,
    /// The UID of the pod.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
    /// The set that controls it.
    pub controller: Option<Owner>,
    /// The name in its label [`OWNED_BY`].
    pub set: Option<Arc<str>>,
    /// The revision in its label [`REVISION`].
    pub revision: Revision,
    /// The node that it runs on or was created for.
    pub node: Arc<str>,
    /// Whether `spec.nodeName` is set.
    pub scheduled: bool,
    /// `metadata.creationTimestamp`.
    pub created: WallTime,
    /// Whether it has a `deletionTimestamp`.
    pub terminating: bool,
    /// Whether its phase is `Succeeded` or `Failed`.
    pub finished: bool,
    /// Since when it is `Ready`, if it is.
    pub ready: Option<WallTime>,
}

/// A revision of a set as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionFacts {
    /// The name of the ControllerRevision.
    pub key: ObjectKey,
    /// The UID of the ControllerRevision.
    pub uid: Uid,
    /// The set that controls it.
    pub controller: Option<Owner>,
    /// The name in its label [`OWNED_BY`].
    pub set: Option<Arc<str>>,
    /// The revision in its label [`REVISION`].
    pub revision: Revision,
    /// A higher number means that the set asked for the revision later.
    pub number: i64,
}

/// A PodDisruptionBudget as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetFacts {
    /// Its name.
    pub key: ObjectKey,
    /// The UID of the budget.
    pub uid: Uid,
    /// The set that controls it.
    pub controller: Option<Owner>,
    /// The set that it was created for, by its name and its label [`OWNED_BY`].
    pub set: Option<Arc<str>>,
    /// The requirements of its selector.
    pub selector: Vec<Requirement>,
    /// `spec.minAvailable`, if it is a number.
    pub min_available: Option<usize>,
    /// Set if its selector exceeds a limit; then it selects nothing.
    pub beyond: Option<Excess>,
}

impl BudgetFacts {
    /// Whether it selects pods with these labels. An empty selector selects all pods.
    pub fn selects(&self, labels: &Labels) -> bool {
        self.selector.iter().all(|requirement| requirement.fits(labels.get(&requirement.key)))
    }
}

/// A node as last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetNode {
    /// Its name.
    pub name: Arc<str>,
    /// The label `topology.kubernetes.io/zone`. Empty if there is none.
    pub zone: Arc<str>,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations, except long ones.
    pub annotations: Vec<Noted>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    /// Whether its condition `Ready` is true.
    pub ready: bool,
}

/// An annotation of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Its key.
    pub key: Box<str>,
    /// Its value.
    pub value: Box<str>,
    /// The value as a time, if it is one.
    pub time: Option<WallTime>,
}

impl SetNode {
    /// The annotation with this key.
    pub fn says(&self, key: &str) -> Option<&Noted> {
        self.annotations.iter().find(|noted| *noted.key == *key)
    }
}

words! {
    /// The effect of a taint on pods that do not tolerate it.
    Effect {
        /// The pods are not scheduled.
        NoSchedule = "NoSchedule",
        /// The pods are scheduled elsewhere if possible.
        PreferNoSchedule = "PreferNoSchedule",
        /// The pods are not scheduled, and running ones are evicted.
        NoExecute = "NoExecute",
    }
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: Box<str>,
    /// Its value.
    pub value: Box<str>,
    /// Its effect.
    pub effect: Effect,
}

/// A toleration of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// The key of taints. `None`: any.
    pub key: Option<Box<str>>,
    /// The value of taints. `None`: any.
    pub value: Option<Box<str>>,
    /// The effect of taints. `None`: any.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Whether it tolerates a taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

words! {
    /// The operator of a requirement.
    Operator {
        /// The value is one of these.
        In = "In",
        /// The value is none of these.
        NotIn = "NotIn",
        /// There is a value.
        Exists = "Exists",
        /// There is no value.
        DoesNotExist = "DoesNotExist",
        /// The value is a number above this one.
        Gt = "Gt",
        /// The value is a number below this one.
        Lt = "Lt",
    }
}

/// A requirement for a label or a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Its key.
    pub key: Box<str>,
    /// The operator.
    pub operator: Operator,
    /// The values to compare with.
    pub values: Vec<Box<str>>,
}

impl Requirement {
    /// Whether a value meets the requirement by the rules of Kubernetes: a missing value is in no set, and is not a
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

/// One alternative of the required node affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Term {
    /// The requirements for labels.
    pub labels: Vec<Requirement>,
    /// The requirements for fields. The only field is `metadata.name`.
    pub fields: Vec<Requirement>,
}

/// The placement of a set's pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// `nodeSelector`.
    pub selector: Vec<(Box<str>, Box<str>)>,
    /// `requiredDuringSchedulingIgnoredDuringExecution`, if it exists. A node must match one of the terms.
    pub terms: Option<Vec<Term>>,
    /// The tolerations of the pods, including those of every pod of a set.
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
