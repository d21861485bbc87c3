//! The JSON form of the differences. The names of the fields are stable.

use headgate_core::explanation::{Comparison, Difference as CoreDifference, Next as CoreNext};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};

use crate::{
    explain::report::{Next, Word},
    runtime::times::Times,
};

/// All target groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Differences {
    /// The time of the answer.
    pub at: MicroTime,
    /// The replica that answered.
    pub answered_by: Option<String>,
    /// The target groups, by name.
    pub target_groups: Vec<TargetGroup>,
}

/// A target group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetGroup {
    /// Its name.
    pub name: String,
    /// Its ARN.
    pub arn: String,
    /// The number of wanted targets.
    pub wanted: usize,
    /// The number of targets that AWS showed, without draining ones.
    pub there: usize,
    /// When the last answered read was sent. `None`: there was none, so nothing is compared.
    pub last_read: Option<MicroTime>,
    /// The targets that differ.
    pub differences: Vec<Difference>,
}

/// A target that differs from what Headgate wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// `IP:PORT`.
    pub target: String,
    /// `missing` (it should be registered), `left-over` (Headgate registered it, and it should not be registered) or
    /// `foreign`.
    pub side: String,
    /// Its pod: `NAMESPACE/NAME`.
    pub pod: Option<String>,
    /// `TargetHealth.State`.
    pub health: Option<String>,
    /// The reason.
    #[serde(flatten)]
    pub word: Word,
    /// Since when it differs.
    pub since: Option<MicroTime>,
    /// The next step.
    pub next: Option<Next>,
}

impl Differences {
    /// The JSON form of the engine's comparison.
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
