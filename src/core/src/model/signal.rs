//! The signs that a node will be removed, which Headgate sees before the node's pods get any signal.
//!
//! A **dying** node stops within minutes, so Headgate deregisters its targets immediately.
//!
//! A **disrupted** node is drained first, and its replacement may take minutes. Headgate deregisters pods on a
//! disrupted node early only if they have no hold. PodDisruptionBudgets and the zone guard limit how many pods Headgate
//! deregisters early at a time. Headgate also deregisters pods that the drain tool skips, because these pods still run
//! when the machine shuts down. A **cordon** alone is a sign only for pods that the drain tool skips.

use std::collections::BTreeSet;

use super::{Cause, NodeFacts, PodFacts, words::words};

/// The default taints of dying nodes. The taint `out-of-service` means that the node is already shut down. After a spot
/// interruption notice, a node has two minutes.
pub const DYING: [&str; 2] = ["node.kubernetes.io/out-of-service", "aws-node-termination-handler/spot-itn"];

/// The taint of nodes that the cluster-autoscaler drains.
const AUTOSCALERS: &str = "ToBeDeletedByClusterAutoscaler";

/// The default taints of nodes that will be drained. A scheduled maintenance may be days away. An Auto Scaling group
/// terminates an instance after the lifecycle hook has drained the node.
pub const DISRUPTED: [&str; 4] = [
    "karpenter.sh/disrupted",
    AUTOSCALERS,
    "aws-node-termination-handler/scheduled-maintenance",
    "aws-node-termination-handler/asg-lifecycle-termination",
];

/// The announced removal of a node, by severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The node accepts no new pods, and a drain tool may be draining it.
    Cordoned,
    /// The node will be drained.
    Disrupted,
    /// The node stops soon, with or without a drain.
    Dying,
    /// The Node object was deleted.
    Deleted,
}

impl Fate {
    /// Why Headgate deregisters the targets of the node's pods.
    pub const fn cause(self) -> Cause {
        match self {
            Self::Cordoned | Self::Disrupted => Cause::NodeDisrupted,
            Self::Dying => Cause::NodeDying,
            Self::Deleted => Cause::NodeDeleted,
        }
    }

    /// Whether Headgate immediately deregisters the targets of the node's pods.
    pub fn is_immediate(self) -> bool {
        matches!(self, Self::Dying | Self::Deleted)
    }
}

/// A sign that a node will be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// The announced removal.
    pub fate: Fate,
    /// The source of the sign, as text for users.
    pub sign: Box<str>,
    /// The tool that drains the node, if the sign identifies the tool.
    pub drainer: Drainer,
    /// Whether the node is also cordoned and the settings let Headgate act on a cordon.
    pub cordoned: bool,
}

impl Signal {
    /// Creates the sign of a deleted Node object.
    pub fn deleted() -> Self {
        let sign = "its object was deleted".into();
        Self { fate: Fate::Deleted, sign, drainer: Drainer::Any, cordoned: false }
    }

    /// Whether the sign concerns this pod.
    pub fn concerns(&self, pod: &PodFacts) -> bool {
        self.fate > Fate::Cordoned || pod.passed_over.on(self)
    }
}

/// The tool that drains a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drainer {
    /// The tool is unknown.
    #[default]
    Any,
    /// Karpenter.
    Karpenter,
    /// Cluster API.
    ClusterApi,
    /// The cluster-autoscaler.
    ClusterAutoscaler,
}

impl Drainer {
    fn of(taint: &str) -> Self {
        match taint.split_once('/') {
            Some(("karpenter.sh", _)) => Self::Karpenter,
            Some((group, _)) if group == "cluster.x-k8s.io" || group.ends_with(".cluster.x-k8s.io") => {
                Self::ClusterApi
            }
            None if taint == AUTOSCALERS => Self::ClusterAutoscaler,
            _ => Self::Any,
        }
    }
}

words! {
    /// Which pods Headgate deregisters when a node is cordoned.
    Cordon {
        /// No pods.
        None = "none",
        /// Pods that drain tools skip.
        Unevictable = "unevictable",
        /// Pods that drain tools skip, and pods without a hold.
        All = "all",
    }
}

/// The signs to which Headgate reacts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signals {
    /// The keys of taints that announce that a node stops within minutes.
    pub dying: BTreeSet<Box<str>>,
    /// The keys of taints that announce a drain.
    pub disrupted: BTreeSet<Box<str>>,
    /// The effect of a cordon without a taint.
    pub cordon: Cordon,
}

impl Default for Signals {
    fn default() -> Self {
        let all = |keys: &[&str]| keys.iter().map(|key| (*key).into()).collect();
        Self { dying: all(&DYING), disrupted: all(&DISRUPTED), cordon: Cordon::Unevictable }
    }
}

impl Signals {
    /// The most severe sign of an existing node.
    pub fn of(&self, node: &NodeFacts) -> Option<Signal> {
        let cordoned = node.cordoned && self.cordon != Cordon::None;
        let taint = |keys: &BTreeSet<Box<str>>, fate| {
            let key = node.taints.iter().find(|key| keys.contains(*key))?;
            let sign = format!("it has the taint {key}").into();
            Some(Signal { fate, sign, drainer: Drainer::of(key), cordoned })
        };
        let says = |is: bool, fate, sign: &str| {
            is.then(|| Signal { fate, sign: sign.into(), drainer: Drainer::Any, cordoned })
        };
        let by_cordon = if self.cordon == Cordon::All { Fate::Disrupted } else { Fate::Cordoned };
        taint(&self.dying, Fate::Dying)
            .or_else(|| says(node.shuts_down, Fate::Dying, "it is shutting down"))
            .or_else(|| taint(&self.disrupted, Fate::Disrupted))
            .or_else(|| says(cordoned, by_cordon, "it is cordoned"))
    }

    /// Whether a node accepts pods and has no sign that it will be removed.
    pub fn remains(&self, node: &NodeFacts) -> bool {
        node.takes_pods && self.of(node).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::pod::PassedOver, testing::pod};

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
    fn a_node_remains_if_it_takes_pods_and_has_no_sign() {
        let plain = NodeFacts { takes_pods: true, ..NodeFacts::default() };
        let signals = |cordon| Signals { cordon, ..Signals::default() };
        for cordon in [Cordon::None, Cordon::Unevictable, Cordon::All] {
            assert!(signals(cordon).remains(&plain));
            assert!(signals(cordon).remains(&NodeFacts { taints: vec!["other".into()], ..plain.clone() }));
            // A cordoned or tainted node accepts no pods, even if the cordon or taint does not deregister targets
            // early.
            let cordoned = NodeFacts { cordoned: true, takes_pods: false, ..plain.clone() };
            assert!(!signals(cordon).remains(&cordoned));
            for key in [DYING[0], DISRUPTED[0]] {
                // A taint with the effect PreferNoSchedule gives the same result.
                let marked = NodeFacts { taints: vec![key.into()], ..plain.clone() };
                assert!(!signals(cordon).remains(&marked), "{key}");
            }
            assert!(!signals(cordon).remains(&NodeFacts { shuts_down: true, ..plain.clone() }));
        }
    }

    #[test]
    fn who_drains_a_node_passes_over_some_pods_and_a_cordon_concerns_only_those() {
        let own = ["node.cluster.x-k8s.io/gone", "cluster.x-k8s.io/x", "not-cluster.x-k8s.io/x"];
        let disrupted = DISRUPTED.iter().copied().chain(own).map(Into::into).collect();
        let signals = Signals { disrupted, ..Signals::default() };
        let all = PassedOver { by_all: true, ..PassedOver::default() };
        let karpenter = PassedOver { by_karpenter: true, ..PassedOver::default() };
        let cluster_api = PassedOver { by_cluster_api: true, ..PassedOver::default() };
        let autoscaler = PassedOver { by_cluster_autoscaler: true, ..PassedOver::default() };
        let cordoned = NodeFacts { cordoned: true, ..NodeFacts::default() };
        for (node, passed_over) in [
            (cordoned, vec![all]),
            (tainted(&["karpenter.sh/disrupted"]), vec![all, karpenter]),
            (tainted(&[own[0]]), vec![all, cluster_api]),
            (tainted(&[own[1]]), vec![all, cluster_api]),
            (tainted(&[own[2]]), vec![all]),
            (tainted(&["ToBeDeletedByClusterAutoscaler"]), vec![all, autoscaler]),
        ] {
            let signal = signals.of(&node).unwrap();
            for by in [all, karpenter, cluster_api, autoscaler, PassedOver::default()] {
                assert_eq!(by.on(&signal), passed_over.contains(&by), "{by:?} on {signal:?}");
                let concerns = signal.concerns(&pod("a", "u-a").passed_over(by).build());
                assert_eq!(concerns, signal.fate > Fate::Cordoned || by == all, "{by:?}");
            }
        }
    }

    #[test]
    fn a_cordon_counts_only_if_that_is_asked_for_and_the_list_is_the_users() {
        let cordoned = NodeFacts { cordoned: true, ..NodeFacts::default() };
        let fate = |cordon, node: &NodeFacts| {
            let signal = Signals { cordon, ..Signals::default() }.of(node);
            signal.map(|signal| (signal.fate, signal.cordoned))
        };
        assert_eq!(Signals::default().cordon, Cordon::Unevictable);
        assert_eq!(fate(Cordon::None, &cordoned), None);
        assert_eq!(fate(Cordon::Unevictable, &cordoned), Some((Fate::Cordoned, true)));
        assert_eq!(fate(Cordon::All, &cordoned), Some((Fate::Disrupted, true)));
        let both = NodeFacts { cordoned: true, ..tainted(&[DISRUPTED[0]]) };
        assert_eq!(fate(Cordon::None, &both), Some((Fate::Disrupted, false)));
        assert_eq!(fate(Cordon::Unevictable, &both), Some((Fate::Disrupted, true)));
        let own = Signals { dying: ["example.com/gone".into()].into(), ..Signals::default() };
        assert_eq!(own.of(&tainted(&[DYING[0]])), None);
        assert_eq!(own.of(&tainted(&["example.com/gone"])).map(|signal| signal.fate), Some(Fate::Dying));
    }
}
