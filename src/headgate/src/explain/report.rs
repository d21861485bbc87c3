//! The JSON form of the explanation of a pod, with times of day instead of moments. The names of the fields are stable.

use headgate_core::{
    explanation::{Explanation, Gate as CoreGate, Next as CoreNext, Place, Seen, Word as CoreWord},
    model::hold::HoldWanted,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};

use crate::{journal::report::Past, runtime::times::Times};

/// The explanation of a pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The replica that answered.
    pub answered_by: Option<String>,
    /// The watched properties of the pod. `None`: the pod is unknown.
    pub pod: Option<Pod>,
    /// The target groups in which the pod is or should be registered, or from which it is being deregistered.
    pub targets: Vec<Target>,
    /// The reason why `targets` is empty.
    pub nowhere: Option<Word>,
    /// The pod's readiness gate.
    pub gate: Option<Gate>,
    /// The hold that the pod should have, and whether the pod has this hold.
    pub hold: Option<Hold>,
    /// The pod's history in the journal of the answering replica.
    #[serde(default)]
    pub past: Past,
}

/// The relevant properties of a pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    /// The pod's `metadata.uid`.
    pub uid: String,
    /// The pod's `status.podIPs`.
    pub ips: Vec<String>,
    /// The pod's `spec.hostNetwork`.
    pub host_network: bool,
    /// Whether the pod's containers are ready, and whether every other readiness gate is true.
    pub ready: bool,
    /// `living`, `terminating` (the pod has a `deletionTimestamp`) or `finished` (the phase is `Succeeded` or
    /// `Failed`).
    pub life: String,
}

/// A reason and a sentence that explains it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// The reason.
    pub reason: String,
    /// The sentence that explains the reason.
    pub message: String,
}

/// The state of a pod in a target group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The ARN of the target group.
    pub target_group: String,
    /// The binding of the pod to the target group.
    pub binding: Option<Binding>,
    /// The target as `IP:PORT`.
    pub target: Option<String>,
    /// The state of the target: `not a target`, `registering`, `registered`, `deregistering` or `deregistered`.
    pub state: String,
    /// The reason for the state.
    #[serde(flatten)]
    pub word: Word,
    /// The time when the state began.
    pub since: Option<MicroTime>,
    /// The health that the load balancer reports.
    pub health: Option<Health>,
    /// The time of the last successful `DescribeTargetHealth` request for the target group.
    pub last_read: Option<MicroTime>,
    /// Headgate's next step for the target.
    pub next: Option<Next>,
    /// The problems of the binding and the target group.
    pub troubles: Vec<Word>,
}

/// The binding of a pod to a target group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The kind of the object: `Service` or `TargetBinding`.
    pub kind: String,
    /// The name of the object, which is in the pod's namespace.
    pub name: String,
    /// The port of the binding.
    pub port: String,
}

/// The target's `TargetHealth` in AWS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// The value of `State`.
    pub state: String,
    /// The value of `Reason`, or an empty text.
    pub reason: String,
}

/// Headgate's next step for the target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Next {
    /// The API action of the step.
    pub action: String,
    /// The earliest time of the step. `None`: the step follows when the reason in `waits` no longer applies.
    pub at: Option<MicroTime>,
    /// The reason why the step waits.
    pub waits: Option<Word>,
}

/// The pod's readiness gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// The state of the readiness gate: `open`, `closed` or `none`.
    pub state: String,
    /// The reason for the state. If the gate is open, the reason comes from the pod's condition.
    pub word: Option<Word>,
    /// The time when the state began.
    pub since: Option<MicroTime>,
}

/// The pod's hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The required hold in seconds.
    pub wanted: u32,
    /// The number of seconds for which the load balancer may keep sending after a deregistration.
    pub bound: u32,
    /// Whether the pod has the hold. `None`: Headgate has not read the pod's spec.
    pub word: Option<Word>,
}

impl From<CoreWord> for Word {
    fn from((reason, message): CoreWord) -> Self {
        Self { reason: reason.to_string(), message }
    }
}

impl Report {
    /// Converts an explanation to its JSON form.
    pub fn new(explanation: Explanation, answered_by: Option<String>, past: Past, times: Times) -> Self {
        let Explanation { pod, seen, places, nowhere, gate, hold } = explanation;
        Self {
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            answered_by,
            pod: seen.map(Pod::from),
            targets: places.into_iter().map(|place| target(place, times)).collect(),
            nowhere: nowhere.map(Word::from),
            gate: gate.map(|gate| self::gate(gate, times)),
            hold: hold.map(|HoldWanted { seconds, bound }| Hold { wanted: seconds, bound, word: None }),
            past,
        }
    }
}

impl From<Seen> for Pod {
    fn from(seen: Seen) -> Self {
        Self {
            uid: seen.uid.to_string(),
            ips: seen.ips.iter().map(ToString::to_string).collect(),
            host_network: seen.host_network,
            ready: seen.ready,
            life: seen.life.as_str().to_owned(),
        }
    }
}

fn target(place: Place, times: Times) -> Target {
    Target {
        target_group: place.group.to_string(),
        binding: place.binding.map(|key| Binding {
            kind: key.origin.kind().to_owned(),
            name: key.origin.key().name.to_string(),
            port: key.port.to_string(),
        }),
        target: place.target.map(|target| target.to_string()),
        state: place.progress.as_str().to_owned(),
        word: place.word.into(),
        since: place.since.map(|since| times.time(since)),
        health: place.health.map(|health| Health {
            state: health.state.as_str().to_owned(),
            reason: health.reason.to_owned(),
        }),
        last_read: place.read.map(|read| times.time(read)),
        next: place.next.map(|CoreNext { step, at, waits }| Next {
            action: step.as_str().to_owned(),
            at: at.map(|at| times.time(at)),
            waits: waits.map(Word::from),
        }),
        troubles: place.troubles.into_iter().map(Word::from).collect(),
    }
}

fn gate(gate: CoreGate, times: Times) -> Gate {
    let state = gate.shown.as_str();
    let (word, since) = gate.verdict.map(|(word, since)| (Word::from(word), times.time(since))).unzip();
    Gate { state: state.to_owned(), word, since }
}
