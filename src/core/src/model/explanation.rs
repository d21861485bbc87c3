//! The answers to "why is this pod a target, or why not?", for a pod or for all pods of a node, and to "what differs in
//! the target groups?". They use the same reasons as Events, log lines and metrics.

use std::{net::IpAddr, sync::Arc};

use super::{
    BindingKey, Health, HoldWanted, Moment, NodeFacts, ObjectKey, Reason, Target, TargetGroupArn, Uid,
    WallTime, view::GateView, words::words,
};

/// A reason, and a sentence for the user.
pub type Word = (Reason, String);

/// All information about one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The pod.
    pub pod: ObjectKey,
    /// The pod as last seen. `None`: no pod of this name is known.
    pub seen: Option<Seen>,
    /// Each target group in which the pod is or should be registered, or from which it is deregistered.
    pub places: Vec<Place>,
    /// Why there is no such target group.
    pub nowhere: Option<Word>,
    /// The readiness gate. `None`: the pod is not known.
    pub gate: Option<Gate>,
    /// How long the pod should be held when it terminates.
    pub hold: Option<HoldWanted>,
}

/// The relevant properties of a pod as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The UID of the pod.
    pub uid: Uid,
    /// The addresses of the pod, the primary one first.
    pub ips: Vec<IpAddr>,
    /// Whether the pod shares the address of its node.
    pub host_network: bool,
    /// Whether its containers are ready, and every readiness gate except Headgate's is true.
    pub ready: bool,
    /// Whether the pod is terminating.
    pub life: Life,
}

words! {
    /// Whether a pod is terminating.
    Life {
        /// The pod has no `deletionTimestamp` and has not finished.
        Lives = "living",
        /// The pod has a `deletionTimestamp`.
        Terminating = "terminating",
        /// The pod's phase is `Succeeded` or `Failed`.
        Finished = "finished",
    }
}

words! {
    /// The progress of a registration or deregistration.
    Progress {
        /// The pod is selected, but is not a target, or not yet.
        NotATarget = "not a target",
        /// The target should be registered, and AWS has not accepted that yet.
        Registering = "registering",
        /// AWS has accepted the target for this pod.
        Registered = "registered",
        /// The target should be deregistered, and AWS has not accepted that yet.
        Deregistering = "deregistering",
        /// AWS has accepted the deregistration.
        Deregistered = "deregistered",
    }
}

/// A pod in a target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The target group.
    pub group: TargetGroupArn,
    /// The present or former binding of the pod to the group. `None`: only the ledger contains it.
    pub binding: Option<BindingKey>,
    /// The address and port, if the pod is, was or should be a target.
    pub target: Option<Target>,
    /// The progress of the registration or deregistration.
    pub progress: Progress,
    /// Why the target has this state.
    pub word: Word,
    /// Since when it has this state. `None`: not remembered.
    pub since: Option<Moment>,
    /// The target's health in the last read.
    pub health: Option<Health>,
    /// When the last read began. `None`: there was none.
    pub read: Option<Moment>,
    /// The next step.
    pub next: Option<Next>,
    /// The problems of the binding and its target group.
    pub troubles: Vec<Word>,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The API action.
    pub step: Step,
    /// The earliest time of the step. `None`: as soon as it no longer waits.
    pub at: Option<Moment>,
    /// What the step waits for, apart from its place in the queue.
    pub waits: Option<Word>,
}

words! {
    /// An API action, by the name that AWS, the log and the metrics use.
    Step {
        /// Registers a target.
        Register = "RegisterTargets",
        /// Deregisters a target.
        Deregister = "DeregisterTargets",
        /// Reads the health of targets.
        Read = "DescribeTargetHealth",
    }
}

/// The readiness gate of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The gate in the pod's status.
    pub shown: GateView,
    /// What to write into the status, and since when. `None`: the status is right, or the pod has no gate.
    pub verdict: Option<(Word, Moment)>,
}

/// All information about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeExplanation {
    /// The name of the node.
    pub node: Arc<str>,
    /// The node as last seen. `None`: no node of this name is known, or Headgate does not watch nodes.
    pub seen: Option<NodeFacts>,
    /// Why the node will be removed, and since when. `None`: it remains.
    pub goes: Option<(Word, WallTime)>,
    /// The pods of the node that are, should be or were targets.
    pub pods: Vec<Explanation>,
}

words! {
    /// How a target differs from the desired state.
    Side {
        /// It should be registered, and AWS does not show it.
        Missing = "missing",
        /// Headgate registered it, it should not be registered, and AWS shows it.
        LeftOver = "left-over",
        /// Another writer registered it, and AWS shows it.
        Foreign = "foreign",
    }
}

/// A target that differs from the desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The target.
    pub target: Target,
    /// How it differs.
    pub side: Side,
    /// The pod of the target. Unknown for a foreign target.
    pub pod: Option<ObjectKey>,
    /// The health that the load balancer reports.
    pub health: Option<Health>,
    /// Why it differs.
    pub word: Word,
    /// Since when it differs. `None`: not remembered.
    pub since: Option<Moment>,
    /// The next step.
    pub next: Option<Next>,
}

/// The desired targets of a target group, compared with the last answer of AWS. Draining targets count as deregistered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The target group.
    pub group: TargetGroupArn,
    /// The number of desired targets.
    pub wanted: usize,
    /// The number of targets that AWS shows.
    pub there: usize,
    /// When the last read began. `None`: there was none, so nothing is compared.
    pub read: Option<Moment>,
    /// The targets that differ.
    pub differences: Vec<Difference>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_word_that_users_see_is_there_once() {
        assert_eq!([Life::Lives, Life::Finished].map(Life::as_str), ["living", "finished"]);
        let words: BTreeSet<_> = Progress::ALL.iter().map(|progress| progress.as_str()).collect();
        assert!(words.len() == Progress::ALL.len() && words.contains("not a target"), "{words:?}");
    }
}
