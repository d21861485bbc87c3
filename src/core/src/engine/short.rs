//! Pods that were not held long enough.

use std::time::Duration;

use crate::model::{target::Target, target_group::TargetGroupArn};

/// A pod that was not held long enough in a target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Short {
    /// The target group.
    pub group: TargetGroupArn,
    /// What the pod was there.
    pub target: Target,
    /// How long after AWS had answered `DeregisterTargets` the pod has ended; `None`: before that.
    pub after: Option<Duration>,
    /// How long it should have been.
    pub bound: Duration,
}
