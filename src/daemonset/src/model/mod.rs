//! The kind IngressDaemonSet: what its controller needs to know of the sets, of their pods, revisions and budgets, and of
//! nodes.

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
/// The label of a pod of a set: the hash of the template that it was made from. The word is that of Kubernetes' workloads.
pub const REVISION: &str = "controller-revision-hash";
/// A node has so many pods of a set at most.
pub const MOST_PER_NODE: usize = 16;

/// The hash of a pod template, as it is in the label [`REVISION`].
pub type Revision = Arc<str>;

/// A number of things, or a share of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many.
    Number(usize),
    /// So many of a hundred.
    Percent(usize),
}

impl Amount {
    /// How many of `all` at most, and at least one: a share is rounded down.
    pub fn at_most(self, all: usize) -> usize {
        match self {
            Self::Number(number) => number.max(1),
            Self::Percent(percent) => (all * percent / 100).max(1),
        }
    }

    /// How many of `all` may be missing: a share is rounded up, so that it lets one go of however few.
    pub fn may_miss(self, all: usize) -> usize {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => (all * percent).div_ceil(100),
        }
    }
}

/// How the pods of a set come to be of a new revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// On each node beside the old pods, before those are deleted.
    RollingUpdate {
        /// So many more than the node is to have, terminating ones not counted.
        surge: usize,
        /// So many fewer available ones.
        unavailable: usize,
    },
    /// On each node when its old pods are gone, which are evicted at once.
    NodeReplace,
    /// When somebody deletes the old pods.
    OnDelete,
}

impl Strategy {
    /// How many more pods than a node is to have there may be.
    pub const fn surge(self) -> usize {
        match self {
            Self::RollingUpdate { surge, .. } => surge,
            Self::NodeReplace | Self::OnDelete => 0,
        }
    }
}

/// What is asked of whatever detaches nodes from load balancers, before anything is done in a node's turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The annotation that the node gets.
    pub key: Arc<str>,
    /// Its value.
    pub value: Arc<str>,
    /// What is waited for; `None`: nothing.
    pub wait: Option<Wait>,
}

/// What is waited for after a node was annotated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The annotation that says when the node was detached.
    pub key: Arc<str>,
    /// So long after that.
    pub grace: Duration,
}

/// What a set asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSpec {
    /// A node has so many pods, 1 to [`MOST_PER_NODE`].
    pub pods_per_node: usize,
    /// The revision of the template as it is now.
    pub revision: Revision,
    /// Where its pods may be.
    pub placement: Placement,
    /// How the pods come to be of a new revision.
    pub strategy: Strategy,
    /// So many nodes have their turn at once.
    pub nodes_at_once: Amount,
    /// A node whose turn takes longer stops the roll.
    pub deadline: Duration,
    /// What is asked of others before anything is done in a node's turn.
    pub handshake: Option<Arc<Handshake>>,
    /// A pod is available when it has been ready for so long.
    pub min_ready: Duration,
    /// So many old revisions are kept.
    pub history: usize,
    /// No node gets its turn, and those that have it go no further.
    pub paused: bool,
    /// So many pods may be missing when pods are evicted; `None`: no budget is kept.
    pub may_miss: Option<Amount>,
    /// The labels of its pods.
    pub labels: Labels,
}

/// What the status of a set says, which is all that its controller remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// What nodes have whose turn has not come.
    pub current: Option<Revision>,
    /// What the turns are about.
    pub update: Option<Revision>,
    /// The nodes that have their turn, and since when.
    pub turns: BTreeMap<Arc<str>, WallTime>,
}

/// A set as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFacts {
    /// Its name.
    pub key: ObjectKey,
    /// This life of that name.
    pub uid: Uid,
    /// `metadata.resourceVersion`, which a status is written upon.
    pub version: Arc<str>,
    /// `metadata.generation`.
    pub generation: i64,
    /// It has a `deletionTimestamp`: its pods are the garbage collector's.
    pub deleting: bool,
    /// What it asks for.
    pub spec: SetSpec,
    /// What was written down.
    pub remembered: Remembered,
    /// What of its template exceeds a limit. Nothing is done about the set then.
    pub beyond: Option<Excess>,
}

/// The set that controls an object: its name, and which life of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Its name, in the same namespace.
    pub name: Arc<str>,
    /// Which life of it.
    pub uid: Uid,
}

/// A pod of a set as last seen. One that something else controls is none.
#[allow(clippy::struct_excessive_bools)] // each is one thing that the object says
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPod {
    /// Its name.
    pub key: ObjectKey,
    /// This life of that name.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
    /// The set that controls it.
    pub controller: Option<Owner>,
    /// The name in its label [`OWNED_BY`].
    pub set: Option<Arc<str>>,
    /// The one in its label [`REVISION`].
    pub revision: Revision,
    /// The node that it is on or made for.
    pub node: Arc<str>,
    /// `spec.nodeName` is set.
    pub scheduled: bool,
    /// `metadata.creationTimestamp`.
    pub created: WallTime,
    /// It has a `deletionTimestamp`.
    pub terminating: bool,
    /// Its phase is `Succeeded` or `Failed`.
    pub finished: bool,
    /// It is `Ready`, and since when.
    pub ready: Option<WallTime>,
}

/// A revision of a set as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionFacts {
    /// The name of the ControllerRevision.
    pub key: ObjectKey,
    /// This life of that name.
    pub uid: Uid,
    /// The set that controls it.
    pub controller: Option<Owner>,
    /// The name in its label [`OWNED_BY`].
    pub set: Option<Arc<str>>,
    /// The one in its label [`REVISION`].
    pub revision: Revision,
    /// The higher, the later it was what its set asked for.
    pub number: i64,
}

/// A PodDisruptionBudget as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetFacts {
    /// Its name.
    pub key: ObjectKey,
    /// This life of that name.
    pub uid: Uid,
    /// The set that controls it.
    pub controller: Option<Owner>,
    /// The set that it was made for, by its name and its label [`OWNED_BY`].
    pub set: Option<Arc<str>>,
    /// What it selects.
    pub selector: Vec<Requirement>,
    /// `spec.minAvailable`, if that is a number.
    pub min_available: Option<usize>,
    /// Its selector exceeds a limit, and selects nothing.
    pub beyond: Option<Excess>,
}

impl BudgetFacts {
    /// Whether it selects pods with these labels. An empty selector selects all.
    pub fn selects(&self, labels: &Labels) -> bool {
        self.selector.iter().all(|requirement| requirement.fits(labels.get(&requirement.key)))
    }
}

/// A node as its pods' controller sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetNode {
    /// Its name.
    pub name: Arc<str>,
    /// The label `topology.kubernetes.io/zone`; nothing if there is none.
    pub zone: Arc<str>,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations, but for long ones.
    pub annotations: Vec<Noted>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    /// Its condition `Ready` is true.
    pub ready: bool,
}

/// An annotation of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Its key.
    pub key: Box<str>,
    /// Its value.
    pub value: Box<str>,
    /// The time that the value is, if it is one.
    pub time: Option<WallTime>,
}

impl SetNode {
    /// Its annotation of this key.
    pub fn says(&self, key: &str) -> Option<&Noted> {
        self.annotations.iter().find(|noted| *noted.key == *key)
    }
}

words! {
    /// What a taint does to pods that do not tolerate it.
    Effect {
        /// They are not scheduled.
        NoSchedule = "NoSchedule",
        /// They are scheduled elsewhere if that can be.
        PreferNoSchedule = "PreferNoSchedule",
        /// They are not scheduled, and those that run are ended.
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
    /// What it does.
    pub effect: Effect,
}

/// A toleration of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// The key of taints; `None`: any.
    pub key: Option<Box<str>>,
    /// The value of taints; `None`: any.
    pub value: Option<Box<str>>,
    /// What the taints do; `None`: anything.
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
    /// What a requirement asks of a value.
    Operator {
        /// It is one of these.
        In = "In",
        /// It is none of these.
        NotIn = "NotIn",
        /// It is there.
        Exists = "Exists",
        /// It is not.
        DoesNotExist = "DoesNotExist",
        /// It is a number above this one.
        Gt = "Gt",
        /// It is a number below this one.
        Lt = "Lt",
    }
}

/// What a label, or a field, is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Its key.
    pub key: Box<str>,
    /// What is asked.
    pub operator: Operator,
    /// Of which values.
    pub values: Vec<Box<str>>,
}

impl Requirement {
    /// Whether a value is as it should be, as Kubernetes has it: what is not there is in no set, and no number.
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

/// One of the ways in which a node can fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Term {
    /// What its labels are to be.
    pub labels: Vec<Requirement>,
    /// What its fields are to be: there is only `metadata.name`.
    pub fields: Vec<Requirement>,
}

/// Where the pods of a set may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// `nodeSelector`.
    pub selector: Vec<(Box<str>, Box<str>)>,
    /// `requiredDuringSchedulingIgnoredDuringExecution`, if there is one: a node fits one of them.
    pub terms: Option<Vec<Term>>,
    /// What the pods tolerate, with what every pod of a set tolerates.
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
