//! The JSON form of the history. The names of fields and kinds are stable.

use headgate_core::{
    Cause, Reason,
    model::{
        Entry as CoreEntry, HealthState, Owner, Transition, Uid,
        notice::{About, Notice},
        object::ObjectKey,
        transition::{PodStep, TargetStep},
    },
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};
use serde::{Deserialize, Serialize};

use crate::runtime::times::Times;

/// Entries of a replica's journal, and the times from which the journal contains changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Past {
    /// The time when the replica started. The journal contains no earlier changes.
    pub since: Option<MicroTime>,
    /// The time when the replica became the leader. The journal contains no answers from AWS before this time. `None`:
    /// the replica is not the leader.
    pub leads_since: Option<MicroTime>,
    /// The number of entries that were dropped to make room for later ones.
    pub forgotten: u64,
    /// The entries, oldest first.
    pub entries: Vec<Entry>,
    /// A sentence that states which changes the journal cannot contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<String>,
}

/// A change in the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The number of the entry, counted from 1 since the replica started.
    pub number: u64,
    /// The time when the replica learned of the change.
    pub at: MicroTime,
    /// The kind of the change, one of [`WORDS`].
    pub what: String,
    /// The kind of the object: `Pod`, `Node`, `Service`, `TargetBinding`, `TargetGroupGrant`, or `Headgate`.
    pub kind: String,
    /// The object's namespace, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The object's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The object's `metadata.uid`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The ARN of the target group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_group: Option<String>,
    /// The target as `IP:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// For `health`, the previous state. `None`: the target group did not contain the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// For `health` and `gate`, the new state. `None`: the target group no longer contains the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// The reason for the change. For `health`, the reason is AWS's reason code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For `said`, the reported sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What happened, as a sentence without the name of the object.
    #[serde(default)]
    pub text: String,
    /// Whether the change is a problem: AWS rejected a call, a target became unhealthy, or Headgate emitted a Warning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub problem: bool,
}

/// The kinds of changes.
pub const WORDS: [&str; 17] = [
    "wanted",
    "registered",
    "not-registered",
    "health",
    "unwanted",
    "deregistered",
    "not-deregistered",
    "gate",
    "eviction-waits",
    "eviction-allowed",
    "ended",
    "gone",
    "node-goes",
    "node-stays",
    "leads",
    "stands-by",
    "said",
];

/// An entry in its JSON form, without its sentence.
pub fn entry(entry: CoreEntry, times: Times) -> Entry {
    let CoreEntry { number, at, what } = entry;
    let problem = is_problem(&what);
    let told = match what {
        Transition::Target(group, target, owner, step) => Entry {
            target_group: Some(group.to_string()),
            target: Some(target.to_string()),
            ..target_step(step, &about_pod(&owner.pod, &owner.uid))
        },
        Transition::Pod(Owner { pod, uid }, step) => pod_step(step, &about_pod(&pod, &uid)),
        Transition::Node(node, goes) => Entry {
            what: if goes.is_some() { "node-goes" } else { "node-stays" }.to_owned(),
            reason: goes.map(|cause| cause.reason().to_string()),
            message: goes.and_then(Cause::detail).map(str::to_owned),
            ..about("Node", "", &node, "")
        },
        Transition::Leads(leads) => Entry {
            what: if leads { "leads" } else { "stands-by" }.to_owned(),
            ..about("Headgate", "", "", "")
        },
        Transition::Said(Notice { about: object, reason, note }) => Entry {
            what: "said".to_owned(),
            reason: Some(reason.to_string()),
            message: Some(note),
            ..about_object(&object)
        },
    };
    Entry { number, at: times.time(at), problem, ..told }
}

/// Whether the page shows the change if only problems are requested.
fn is_problem(what: &Transition) -> bool {
    match what {
        Transition::Target(.., TargetStep::NotRegistered(_) | TargetStep::NotDeregistered(_)) => true,
        Transition::Target(.., TargetStep::Shown(_, now)) => {
            now.is_some_and(|now| now.state == HealthState::Unhealthy)
        }
        Transition::Said(notice) => !notice.reason.is_good_news(),
        _ => false,
    }
}

/// Creates an entry about an object, without details.
fn about(kind: &str, namespace: &str, name: &str, uid: &str) -> Entry {
    Entry {
        number: 0,
        at: MicroTime(Timestamp::UNIX_EPOCH),
        what: String::new(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        target_group: None,
        target: None,
        before: None,
        now: None,
        reason: None,
        message: None,
        text: String::new(),
        problem: false,
    }
}

fn about_pod(pod: &ObjectKey, uid: &Uid) -> Entry {
    about("Pod", &pod.namespace, &pod.name, uid.as_str())
}

fn about_object(object: &About) -> Entry {
    match object {
        About::Service(key, uid) => about("Service", &key.namespace, &key.name, uid.as_str()),
        About::TargetBinding(key, uid) => about("TargetBinding", &key.namespace, &key.name, uid.as_str()),
        About::Pod(key, uid) => about_pod(key, uid),
        About::Grant(name, uid) => about("TargetGroupGrant", "", name, uid.as_str()),
        About::IngressDaemonSet(key, uid) => {
            about("IngressDaemonSet", &key.namespace, &key.name, uid.as_str())
        }
    }
}

fn target_step(step: TargetStep, of: &Entry) -> Entry {
    let word = |what: &str, reason: Option<Reason>| Entry {
        what: what.to_owned(),
        reason: reason.map(|reason| reason.to_string()),
        ..of.clone()
    };
    let why = |what: &str, cause: Cause| Entry {
        message: cause.detail().map(str::to_owned),
        ..word(what, Some(cause.reason()))
    };
    match step {
        TargetStep::Wanted(cause) => why("wanted", cause),
        TargetStep::Registered => word("registered", None),
        TargetStep::NotRegistered(reason) => word("not-registered", Some(reason)),
        TargetStep::Shown(before, now) => {
            let state = |state: HealthState| state.as_str().to_owned();
            let reason = now.map(|now| now.reason.to_owned()).filter(|reason| !reason.is_empty());
            let (before, now) = (before.map(state), now.map(|now| state(now.state)));
            Entry { before, now, reason, ..word("health", None) }
        }
        TargetStep::Unwanted(cause) => why("unwanted", cause),
        TargetStep::Deregistered => word("deregistered", None),
        TargetStep::NotDeregistered(reason) => word("not-deregistered", Some(reason)),
    }
}

fn pod_step(step: PodStep, of: &Entry) -> Entry {
    let word = |what: &str| Entry { what: what.to_owned(), ..of.clone() };
    match step {
        PodStep::Gate(gate) => Entry { now: Some(gate.as_str().to_owned()), ..word("gate") },
        PodStep::Eviction(cause, passes) => {
            let what = if passes { "eviction-allowed" } else { "eviction-waits" };
            let message = cause.detail().map(str::to_owned);
            Entry { reason: Some(cause.reason().to_string()), message, ..word(what) }
        }
        PodStep::Ended => word("ended"),
        PodStep::Gone => word("gone"),
    }
}
