//! The entries of the journal.

use std::sync::Arc;

use super::{
    Cause, Health, HealthState, Moment, Notice, Owner, Reason, Target, TargetGroupArn, view::GateView,
};

/// A recorded change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// A step of a pod's target in a target group.
    Target(TargetGroupArn, Target, Owner, TargetStep),
    /// A step of a pod.
    Pod(Owner, PodStep),
    /// The cause for the removal of a node, or `None` if the node remains.
    Node(Arc<str>, Option<Cause>),
    /// Whether this replica is the leader from now on.
    Leads(bool),
    /// A report to a user.
    Said(Notice),
}

/// A step of a target. Only the leader receives AWS's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetStep {
    /// The target should be registered.
    Wanted(Cause),
    /// AWS has accepted the registration.
    Registered,
    /// AWS has not accepted the registration.
    NotRegistered(Reason),
    /// The load balancer reports a new state of the target. `None`: the target is absent.
    Shown(Option<HealthState>, Option<Health>),
    /// The target should be deregistered.
    Unwanted(Cause),
    /// AWS has accepted the deregistration.
    Deregistered,
    /// AWS has not accepted the deregistration.
    NotDeregistered(Reason),
}

/// A step of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodStep {
    /// The new state of the pod's readiness gate.
    Gate(GateView),
    /// The pod's eviction waits or is allowed, for this reason.
    Eviction(Cause, bool),
    /// No process in the pod answers requests any more.
    Ended,
    /// The pod was deleted.
    Gone,
}

/// An entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The number of the entry, counted from 1 since this replica started.
    pub number: u64,
    /// When this replica learned about the change.
    pub at: Moment,
    /// The change.
    pub what: Transition,
}
