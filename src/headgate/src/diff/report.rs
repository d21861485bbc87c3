//! The JSON form of the differences between desired and actual targets. The names of the fields are stable.

use headgate_core::explanation::{Comparison, Difference as CoreDifference, Next as CoreNext};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};

use crate::{
    explain::report::{Next, Word},
    runtime::times::Times,
};

/// The differences of all target groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Differences {
    /// The time of the answer.
    pub at: MicroTime,
    /// The replica that answered.
    pub answered_by: Option<String>,
    /// The target groups, sorted by name.
    pub target_groups: Vec<TargetGroup>,
}

/// A target group and its differences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetGroup {
    /// The target group's name.
    pub name: String,
    /// The target group's ARN.
    pub arn: String,
    /// The number of desired targets.
    pub wanted: usize,
    /// The number of targets that AWS reported, without draining targets.
    pub there: usize,
    /// The time when Headgate sent the last successful `DescribeTargetHealth` request. `None`: no request has succeeded
    /// yet, so nothing is compared.
    pub last_read: Option<MicroTime>,
    /// The targets that differ.
    pub differences: Vec<Difference>,
}

/// A target that is desired but not registered, or registered but not desired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The target as `IP:PORT`.
    pub target: String,
    /// `missing` (should be registered), `left-over` (was registered by Headgate and should not be) or `foreign`.
    pub side: String,
    /// The target's pod as `NAMESPACE/NAME`.
    pub pod: Option<String>,
    /// The target's `TargetHealth.State`.
    pub health: Option<String>,
    /// The reason for the difference.
    #[serde(flatten)]
    pub word: Word,
    /// The time since which the target differs.
    pub since: Option<MicroTime>,
    /// Headgate's next step for the target.
    pub next: Option<Next>,
}

impl Differences {
    /// Converts the engine's comparison to its JSON form.
    pub fn new(all: Vec<Comparison>, answered_by: Option<String>, times: Times) -> Self {
        let group = |one: Comparison| TargetGroup {
            name: one.group.name().to_owned(),
            arn: one.group.to_string(),
            wanted: one.wanted,
            there: one.there,
            last_read: one.read.map(|read| times.time(read)),
            differences: one.differences.into_iter().map(|it| difference(it, times)).collect(),
        };
        Self { at: times.time(times.now), answered_by, target_groups: all.into_iter().map(group).collect() }
    }
}

fn difference(it: CoreDifference, times: Times) -> Difference {
    Difference {
        target: it.target.to_string(),
        side: it.side.as_str().to_owned(),
        pod: it.pod.map(|pod| pod.to_string()),
        health: it.health.map(|health| health.state.as_str().to_owned()),
        word: it.word.into(),
        since: it.since.map(|since| times.time(since)),
        next: it.next.map(|CoreNext { step, at, waits }| Next {
            action: step.as_str().to_owned(),
            at: at.map(|at| times.time(at)),
            waits: waits.map(Word::from),
        }),
    }
}
