//! The JSON form of an explanation, with times instead of moments. The names of the fields are stable.

use headgate_core::{
    explanation::{Explanation, Gate as CoreGate, Next as CoreNext, Place, Seen, Word as CoreWord},
    model::hold::HoldWanted,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};

use crate::{journal::report::Past, runtime::times::Times};

/// All information about one pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The replica that answered.
    pub answered_by: Option<String>,
    /// The pod as Headgate sees it. `None`: the pod is unknown.
    pub pod: Option<Pod>,
    /// The target groups in which it is or should be registered, or from which it is being deregistered.
    pub targets: Vec<Target>,
    /// Why there are none.
    pub nowhere: Option<Word>,
    /// Its readiness gate.
    pub gate: Option<Gate>,
    /// How long it should be held when it terminates, and whether it is.
    pub hold: Option<Hold>,
    /// Its history, as the answering replica has seen it.
    #[serde(default)]
    pub past: Past,
}

/// The relevant properties of a pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    /// `metadata.uid`.
    pub uid: String,
    /// `status.podIPs`.
    pub ips: Vec<String>,
    /// `spec.hostNetwork`.
    pub host_network: bool,
    /// Whether its containers are ready, and every readiness gate except Headgate's is true.
    pub ready: bool,
    /// `living`, `terminating` (it has a `deletionTimestamp`) or `finished` (its phase is `Succeeded` or `Failed`).
    pub life: String,
}

/// A reason and a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// The reason.
    pub reason: String,
    /// The sentence.
    pub message: String,
}

/// A pod in a target group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The ARN of the target group.
    pub target_group: String,
    /// The binding of the pod to the group.
    pub binding: Option<Binding>,
    /// `IP:PORT`.
    pub target: Option<String>,
    /// `not a target`, `registering`, `registered`, `deregistering` or `deregistered`.
    pub state: String,
    /// The reason.
    #[serde(flatten)]
    pub word: Word,
    /// Since when it has this state.
    pub since: Option<MicroTime>,
    /// The health that the load balancer reports.
    pub health: Option<Health>,
    /// When the target group was last read.
    pub last_read: Option<MicroTime>,
    /// The next step.
    pub next: Option<Next>,
    /// The problems of the binding and the target group.
    pub troubles: Vec<Word>,
}

/// The binding of a pod to a target group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// `Service` or `TargetBinding`.
    pub kind: String,
    /// Its name; it is in the pod's namespace.
    pub name: String,
    /// Its port.
    pub port: String,
}

/// `TargetHealth`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// `State`.
    pub state: String,
    /// `Reason`, or empty.
    pub reason: String,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Next {
    /// The API action.
    pub action: String,
    /// The earliest time. `None`: as soon as it no longer waits.
    pub at: Option<MicroTime>,
    /// What it waits for.
    pub waits: Option<Word>,
}

/// The readiness gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// `open`, `closed` or `none`.
    pub state: String,
    /// The reason. For an open gate, that of its condition.
    pub word: Option<Word>,
    /// Since when.
    pub since: Option<MicroTime>,
}

/// The hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The requested hold in seconds.
    pub wanted: u32,
    /// How many seconds the load balancer may keep sending.
    pub bound: u32,
    /// Whether the pod has the hold. `None`: its spec was not read.
    pub word: Option<Word>,
}

impl From<CoreWord> for Word {
    fn from((reason, message): CoreWord) -> Self {
        Self { reason: reason.to_string(), message }
    }
}

impl Report {
    /// The JSON form of an explanation.
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
