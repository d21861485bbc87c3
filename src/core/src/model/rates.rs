//! How fast calls may be sent to an account of AWS, and which account that is.

use super::{Moment, TargetGroupArn};

/// Targets in one call at most. AWS documents no limit, but refuses larger calls intermittently
/// (kubernetes/kubernetes#101592).
pub const MAX_TARGETS_PER_CALL: usize = 100;

/// A kind of call, with a token bucket of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// `DeregisterTargets`.
    Removal,
    /// `RegisterTargets`.
    Addition,
    /// `RegisterTargets` of what AWS has refused, or will probably refuse.
    Retry,
    /// `DescribeTargetGroups`.
    LookUp,
    /// `DescribeTargetHealth` that somebody waits for.
    AwaitedRead,
    /// Any `DescribeTargetHealth` that is due.
    Read,
}

/// The identity of an account. AWS limits calls, and names target groups, by account and region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountKey {
    /// Its 12 digits.
    pub id: Box<str>,
    /// The region.
    pub region: Box<str>,
    /// The ARN of the role that is taken on there.
    pub role: Box<str>,
}

/// A limit of AWS: one token for each request of any size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Tokens that come each second; above 0.
    pub per_second: f64,
    /// Tokens that are kept at most; at least 1.
    pub burst: f64,
}

/// The limits of one account and region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Of `RegisterTargets` and `DeregisterTargets` together.
    pub changes: Limit,
    /// Of `Describe…`.
    pub reads: Limit,
}

impl Default for Limits {
    /// AWS's own (ELBv2 "API request throttling"): registration 4/s with a burst of 20, Describe 50/s with a burst of
    /// 200.
    fn default() -> Self {
        Self {
            changes: Limit { per_second: 4.0, burst: 20.0 },
            reads: Limit { per_second: 50.0, burst: 200.0 },
        }
    }
}

/// A call about a target group that is due.
#[derive(Clone, Copy, Debug)]
pub struct Due<'a> {
    /// The target group.
    pub group: &'a TargetGroupArn,
    /// When the longest waiting cause of it came.
    pub since: Moment,
    /// The number of targets to remove.
    pub targets: usize,
}
