//! The answers to "why is this pod a target, or why not?", for a pod or all pods of a node. Also the answer to "what
//! differs in the target groups?". They use the same reasons as Events, log lines and metrics.

use std::{net::IpAddr, sync::Arc};

use super::{
    BindingKey, Health, HoldWanted, Moment, NodeFacts, ObjectKey, Reason, Target, TargetGroupArn, Uid,
    WallTime, view::GateView, words::words,
};

/// A reason word and a sentence for the user.
pub type Word = (Reason, String);

/// All information about one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The pod.
    pub pod: ObjectKey,
    /// The pod as last seen; `None`: none of this name is known.
    pub seen: Option<Seen>,
    /// Each target group that it is in, should be in or leaves.
    pub places: Vec<Place>,
    /// Why there is no such target group.
    pub nowhere: Option<Word>,
    /// Its readiness gate; `None` for a pod that is not known.
    pub gate: Option<Gate>,
    /// For how long it should be kept alive when it ends.
    pub hold: Option<HoldWanted>,
}

/// What counts of a pod as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// This life of the name.
    pub uid: Uid,
    /// Its addresses, the primary one first.
    pub ips: Vec<IpAddr>,
    /// It shares the address of its node.
    pub host_network: bool,
    /// Its containers are ready, and every readiness gate but our own is true.
    pub ready: bool,
    /// Whether it is about to be removed.
    pub life: Life,
}

words! {
    /// Whether a pod terminates.
    Life {
        /// It does not.
        Lives = "living",
        /// It has a `deletionTimestamp`.
        Terminating = "terminating",
        /// Its phase is `Succeeded` or `Failed`.
        Finished = "finished",
    }
}

words! {
    /// How far a target is.
    Progress {
        /// The pod is selected, and is no target (yet).
        NotATarget = "not a target",
        /// It should be there, and AWS has not taken it.
        Registering = "registering",
        /// AWS has taken it for this pod.
        Registered = "registered",
        /// It should be deregistered, and AWS has not accepted that.
        Deregistering = "deregistering",
        /// AWS has taken its removal.
        Deregistered = "deregistered",
    }
}

/// A pod in a target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The target group.
    pub group: TargetGroupArn,
    /// The binding of the pod to it, now or earlier; `None`: only the ledger contains it.
    pub binding: Option<BindingKey>,
    /// The address and port, if it is, was or should be a target.
    pub target: Option<Target>,
    /// How far it is.
    pub progress: Progress,
    /// Why.
    pub word: Word,
    /// Since when; `None` if that is not remembered.
    pub since: Option<Moment>,
    /// The target's state in the last read.
    pub health: Option<Health>,
    /// When that read began; `None`: there was none.
    pub read: Option<Moment>,
    /// What is done next.
    pub next: Option<Next>,
    /// The problems of the binding and its target group.
    pub troubles: Vec<Word>,
}

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// What.
    pub step: Step,
    /// When, at the earliest; `None`: when what it waits for has happened.
    pub at: Option<Moment>,
    /// What it waits for, apart from its place in the order.
    pub waits: Option<Word>,
}

words! {
    /// Something that is done: the API action, as AWS, the log and the metrics name it.
    Step {
        /// Puts a target in.
        Register = "RegisterTargets",
        /// Takes a target out.
        Deregister = "DeregisterTargets",
        /// Reads the health of targets.
        Read = "DescribeTargetHealth",
    }
}

/// The readiness gate of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// As its status shows it.
    pub shown: GateView,
    /// What to write into it, and since when; `None`: it is right, or there is none.
    pub verdict: Option<(Word, Moment)>,
}

/// All information about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeExplanation {
    /// Its name.
    pub node: Arc<str>,
    /// The node as last seen; `None`: none of this name is known, or nodes are not watched.
    pub seen: Option<NodeFacts>,
    /// Why it is about to be removed, and since when; `None`: it remains.
    pub goes: Option<(Word, WallTime)>,
    /// Its pods that are, should be or were targets.
    pub pods: Vec<Explanation>,
}

words! {
    /// How one target of a target group differs from what it should be.
    Side {
        /// It should be there, and AWS does not show it.
        Missing = "missing",
        /// AWS shows it, it was registered from here, and it should not be there.
        LeftOver = "left-over",
        /// AWS shows it, and somebody else has registered it.
        Foreign = "foreign",
    }
}

/// A target that differs from what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The target.
    pub target: Target,
    /// How.
    pub side: Side,
    /// Its pod; that of a foreign target is unknown.
    pub pod: Option<ObjectKey>,
    /// The health that the load balancer reports.
    pub health: Option<Health>,
    /// Why.
    pub word: Word,
    /// Since when; `None` if that is not remembered.
    pub since: Option<Moment>,
    /// What is done next.
    pub next: Option<Next>,
}

/// The wanted content of a target group, next to what AWS showed in the last read. Draining targets count as
/// deregistered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The target group.
    pub group: TargetGroupArn,
    /// How many targets should be there.
    pub wanted: usize,
    /// How many AWS shows.
    pub there: usize,
    /// When that read began; `None`: there was none, and nothing is compared.
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
