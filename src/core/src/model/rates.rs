//! The rate limits for calls to an AWS account, and the identity of the account.

use super::{Moment, TargetGroupArn};

/// The maximum number of targets in one call. AWS documents no limit, but rejects larger calls intermittently
/// (kubernetes/kubernetes#101592).
pub const MAX_TARGETS_PER_CALL: usize = 100;

/// A kind of call with its own token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// `DeregisterTargets`.
    Removal,
    /// `RegisterTargets`.
    Addition,
    /// `RegisterTargets` for targets that AWS has rejected or will probably reject.
    Retry,
    /// `DescribeTargetGroups`.
    LookUp,
    /// A `DescribeTargetHealth` call that a readiness gate, a finished call or a new leader waits for.
    AwaitedRead,
    /// Any other due `DescribeTargetHealth` call.
    Read,
}

/// The identity of an account. AWS limits calls per account and region, and the name of a target group is unique per
/// account and region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountKey {
    /// The 12 digits of the account.
    pub id: Box<str>,
    /// The region.
    pub region: Box<str>,
    /// The ARN of the role that Headgate assumes in the account.
    pub role: Box<str>,
}

/// An AWS rate limit. Each request takes one token, regardless of its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The number of tokens added per second, above 0.
    pub per_second: f64,
    /// The maximum number of tokens, at least 1.
    pub burst: f64,
}

/// The limits of one account and region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The limit of `RegisterTargets` and `DeregisterTargets` together.
    pub changes: Limit,
    /// The limit of all `Describe…` calls.
    pub reads: Limit,
}

impl Default for Limits {
    /// The limits that AWS documents (ELBv2 "API request throttling"). AWS allows 4 changes per second with a burst of
    /// 20, and 50 `Describe…` calls per second with a burst of 200.
    fn default() -> Self {
        Self {
            changes: Limit { per_second: 4.0, burst: 20.0 },
            reads: Limit { per_second: 50.0, burst: 200.0 },
        }
    }
}

/// A due call about a target group.
#[derive(Clone, Copy, Debug)]
pub struct Due<'a> {
    /// The target group.
    pub group: &'a TargetGroupArn,
    /// The time of the oldest cause of the call.
    pub since: Moment,
    /// The number of targets to remove.
    pub targets: usize,
}
