//! Changes: the content of the journal.

use std::sync::Arc;

use super::{
    Cause, Health, HealthState, Moment, Notice, Owner, Reason, Target, TargetGroupArn, view::GateView,
};

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// A target of a pod, in a target group.
    Target(TargetGroupArn, Target, Owner, TargetStep),
    /// A pod.
    Pod(Owner, PodStep),
    /// A node is about to be removed, for this reason; or `None`: it is not.
    Node(Arc<str>, Option<Cause>),
    /// This replica leads from now on, or no longer.
    Leads(bool),
    /// A user got a report.
    Said(Notice),
}

/// What has become of a target. What AWS has answered and shown, only the leader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetStep {
    /// It should be there.
    Wanted(Cause),
    /// AWS has taken its registration.
    Registered,
    /// AWS has not.
    NotRegistered(Reason),
    /// The load balancer reports this (`None`: it is absent), and reported something else before.
    Shown(Option<HealthState>, Option<Health>),
    /// It should be deregistered.
    Unwanted(Cause),
    /// AWS has taken its removal.
    Deregistered,
    /// AWS has not.
    NotDeregistered(Reason),
}

/// What has become of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodStep {
    /// The new state of its readiness gate.
    Gate(GateView),
    /// Its eviction waits, or is allowed, for this reason.
    Eviction(Cause, bool),
    /// Nothing in it answers any more.
    Ended,
    /// It is not there any more.
    Gone,
}

/// An entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which one it is, counted from 1 since this replica began.
    pub number: u64,
    /// When it came to be known here.
    pub at: Moment,
    /// The change.
    pub what: Transition,
}
