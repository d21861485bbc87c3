//! The signs that a node is about to go, which come before its pods are told.
//!
//! A node that is **about to die** takes its pods with it in minutes at most, however they end: its targets go at once. One
//! that is merely **disrupted** is drained first, and what replaces it may be minutes away: only pods that nothing would
//! keep alive leave early, and no more at a time than their PodDisruptionBudgets and the zone guard allow.

use std::collections::BTreeSet;

use super::{NodeFacts, Reason};

/// The taints of nodes that are about to die, unless others are named: out of service says that the node is shut down
/// already, and a spot interruption leaves it two minutes.
pub const DYING: [&str; 2] = ["node.kubernetes.io/out-of-service", "aws-node-termination-handler/spot-itn"];

/// The taints of nodes that are to be drained, unless others are named. A scheduled maintenance may be days away, and what
/// ends an instance of an auto scaling group waits until its lifecycle hook has drained it.
pub const DISRUPTED: [&str; 4] = [
    "karpenter.sh/disrupted",
    "ToBeDeletedByClusterAutoscaler",
    "aws-node-termination-handler/scheduled-maintenance",
    "aws-node-termination-handler/asg-lifecycle-termination",
];

/// What becomes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It is to be drained.
    Disrupted,
    /// It ends soon, drained or not.
    Dying,
    /// Its object is gone.
    Deleted,
}

impl Fate {
    /// The word for what becomes of the targets of its pods.
    pub const fn reason(self) -> Reason {
        match self {
            Self::Disrupted => Reason::NodeDisrupted,
            Self::Dying => Reason::NodeDying,
            Self::Deleted => Reason::NodeDeleted,
        }
    }

    /// Whether the targets of its pods go at once.
    pub fn is_immediate(self) -> bool {
        matches!(self, Self::Dying | Self::Deleted)
    }
}

/// The sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// What becomes of the node.
    pub fate: Fate,
    /// What says so, in words.
    pub sign: Box<str>,
}

/// What counts as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signals {
    /// The keys of taints that say that a node is about to die.
    pub dying: BTreeSet<Box<str>>,
    /// The keys of taints that say that it is to be drained.
    pub disrupted: BTreeSet<Box<str>>,
    /// Whether a plain cordon says that, too.
    pub cordon: bool,
}

impl Default for Signals {
    fn default() -> Self {
        let all = |keys: &[&str]| keys.iter().map(|key| (*key).into()).collect();
        Self { dying: all(&DYING), disrupted: all(&DISRUPTED), cordon: false }
    }
}

impl Signals {
    /// What is said of a node that is there; of several signs the gravest.
    pub fn of(&self, node: &NodeFacts) -> Option<Signal> {
        let taint = |keys: &BTreeSet<Box<str>>, fate| {
            let key = node.taints.iter().find(|key| keys.contains(*key))?;
            Some(Signal { fate, sign: format!("it has the taint {key}").into() })
        };
        let says = |is: bool, fate, sign: &str| is.then(|| Signal { fate, sign: sign.into() });
        taint(&self.dying, Fate::Dying)
            .or_else(|| says(node.shuts_down, Fate::Dying, "it is shutting down"))
            .or_else(|| taint(&self.disrupted, Fate::Disrupted))
            .or_else(|| says(self.cordon && node.cordoned, Fate::Disrupted, "it is cordoned"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tainted(keys: &[&str]) -> NodeFacts {
        NodeFacts { taints: keys.iter().map(|key| (*key).into()).collect(), ..NodeFacts::default() }
    }

    #[test]
    fn each_taint_says_what_becomes_of_its_node_and_the_gravest_counts() {
        let fate = |node: &NodeFacts| Signals::default().of(node).map(|signal| signal.fate);
        for key in DYING {
            assert_eq!(fate(&tainted(&[key])), Some(Fate::Dying), "{key}");
        }
        for key in DISRUPTED {
            assert_eq!(fate(&tainted(&["other", key])), Some(Fate::Disrupted), "{key}");
        }
        assert_eq!(fate(&tainted(&[DISRUPTED[0], DYING[0]])), Some(Fate::Dying));
        assert_eq!(fate(&NodeFacts { shuts_down: true, ..tainted(&[DISRUPTED[0]]) }), Some(Fate::Dying));
        assert_eq!(
            fate(&tainted(&["node.kubernetes.io/not-ready", "example.com/karpenter.sh/disrupted"])),
            None
        );
        let said = Signals::default().of(&tainted(&[DYING[1]])).map(|signal| signal.sign);
        assert_eq!(said.as_deref(), Some("it has the taint aws-node-termination-handler/spot-itn"));
    }

    #[test]
    fn a_cordon_counts_only_if_that_is_asked_for_and_the_list_is_the_users() {
        let cordoned = NodeFacts { cordoned: true, ..NodeFacts::default() };
        assert_eq!(Signals::default().of(&cordoned), None);
        let asked = Signals { cordon: true, ..Signals::default() };
        assert_eq!(asked.of(&cordoned).map(|signal| signal.fate), Some(Fate::Disrupted));
        let own = Signals { dying: ["example.com/gone".into()].into(), ..Signals::default() };
        assert_eq!(own.of(&tainted(&[DYING[0]])), None);
        assert_eq!(own.of(&tainted(&["example.com/gone"])).map(|signal| signal.fate), Some(Fate::Dying));
    }
}
