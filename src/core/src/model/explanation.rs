//! Explanations of why a pod, or each pod of a node, is or is not a target. The module also compares the desired and
//! actual targets of each target group. Explanations use the same reasons as Events, log lines and metrics.

use std::{net::IpAddr, sync::Arc};

use super::{
    BindingKey, Health, HoldWanted, Moment, NodeFacts, ObjectKey, Reason, Target, TargetGroupArn, Uid,
    WallTime, view::GateView, words::words,
};

/// A reason and a message for the user.
pub type Word = (Reason, String);

/// All information about one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The pod.
    pub pod: ObjectKey,
    /// The last known state of the pod, or `None` if Headgate knows no pod with this name.
    pub seen: Option<Seen>,
    /// Each target group in which the pod is or should be registered, or from which the pod was deregistered.
    pub places: Vec<Place>,
    /// Why the pod has no target group.
    pub nowhere: Option<Word>,
    /// The readiness gate, or `None` if the pod is unknown.
    pub gate: Option<Gate>,
    /// How long the pod should be held when it terminates.
    pub hold: Option<HoldWanted>,
}

/// The last known properties of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The UID of the pod.
    pub uid: Uid,
    /// The addresses of the pod, with the primary address first.
    pub ips: Vec<IpAddr>,
    /// Whether the pod shares the address of its node.
    pub host_network: bool,
    /// Whether the containers are ready and every readiness gate except Headgate's is true.
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
        /// A binding selects the pod, but the pod is currently not a target.
        NotATarget = "not a target",
        /// The target should be registered, but AWS has not accepted the registration yet.
        Registering = "registering",
        /// AWS has accepted the target for this pod.
        Registered = "registered",
        /// The target should be deregistered, but AWS has not accepted the deregistration yet.
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
    /// The current or former binding of the pod to the group, or `None` if only the ledger contains the target.
    pub binding: Option<BindingKey>,
    /// The address and port, if the pod is, was or should be a target.
    pub target: Option<Target>,
    /// The progress of the registration or deregistration.
    pub progress: Progress,
    /// Why the target has this state.
    pub word: Word,
    /// When the target entered this state, or `None` if the time is unknown.
    pub since: Option<Moment>,
    /// The target's health in the last `DescribeTargetHealth` response.
    pub health: Option<Health>,
    /// When the last answered `DescribeTargetHealth` call began, or `None` if no call was answered.
    pub read: Option<Moment>,
    /// The next step.
    pub next: Option<Next>,
    /// The problems of the binding and its target group.
    pub troubles: Vec<Word>,
}

/// The next step for a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The API action.
    pub step: Step,
    /// The earliest time of the step, or `None` if the step is due when its wait ends.
    pub at: Option<Moment>,
    /// The condition that the step waits for, apart from its place in the queue.
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
    /// The gate's condition in the pod's status.
    pub shown: GateView,
    /// The condition to write into the status, and when the write became due. `None`: the status is correct, or the pod
    /// has no gate.
    pub verdict: Option<(Word, Moment)>,
}

/// All information about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeExplanation {
    /// The name of the node.
    pub node: Arc<str>,
    /// The last known state of the node. `None`: the node is unknown, or Headgate does not watch nodes.
    pub seen: Option<NodeFacts>,
    /// Why the node will be removed, and when the removal was announced. `None`: the node remains.
    pub goes: Option<(Word, WallTime)>,
    /// The pods on the node that are, were or should be targets.
    pub pods: Vec<Explanation>,
}

words! {
    /// How a target differs from the desired state.
    Side {
        /// The target should be registered, but AWS does not list it.
        Missing = "missing",
        /// AWS lists a target that Headgate registered and that should no longer be registered.
        LeftOver = "left-over",
        /// AWS lists a target that another writer registered.
        Foreign = "foreign",
    }
}

/// A target that differs from the desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The target.
    pub target: Target,
    /// How the target differs from the desired state.
    pub side: Side,
    /// The pod of the target, which is unknown for a foreign target.
    pub pod: Option<ObjectKey>,
    /// The health that the load balancer reports.
    pub health: Option<Health>,
    /// Why the target differs from the desired state.
    pub word: Word,
    /// Since when the target differs from the desired state, or `None` if the time is unknown.
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
    /// The number of targets that AWS lists.
    pub there: usize,
    /// When the last answered `DescribeTargetHealth` call began. `None`: no call was answered, so nothing is compared.
    pub read: Option<Moment>,
    /// The targets that differ from the desired state.
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
