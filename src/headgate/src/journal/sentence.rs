//! Formats entries of the journal as sentences. `headgate explain` and the page print the sentences unchanged.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::report::{Entry, Past};

/// Adds the sentence to an entry.
pub fn with_text(entry: Entry) -> Entry {
    Entry { text: sentence(&entry), ..entry }
}

/// The sentence that describes a change, without the name of the object.
fn sentence(entry: &Entry) -> String {
    let target = entry.target_group.as_ref().zip(entry.target.as_ref());
    let place = target.map(|(group, target)| format!("{} {target}: ", name(group))).unwrap_or_default();
    let reason = entry.reason.as_deref().unwrap_or_default();
    let because = match &entry.message {
        _ if reason.is_empty() => String::new(),
        Some(why) => format!(" ({reason}: {why})"),
        None => format!(" ({reason})"),
    };
    let or_absent = |state: &Option<String>| state.as_deref().unwrap_or("absent").to_owned();
    let text = match &*entry.what {
        "wanted" => format!("should be registered{because}"),
        "registered" => "AWS accepted the registration".to_owned(),
        "not-registered" => format!("AWS did not accept the registration{because}"),
        "health" => format!("{} → {}{because}", or_absent(&entry.before), or_absent(&entry.now)),
        "unwanted" => format!("should be deregistered{because}"),
        "deregistered" => "AWS accepted the deregistration".to_owned(),
        "not-deregistered" => format!("AWS did not accept the deregistration{because}"),
        "gate" => format!("readiness gate {}", entry.now.as_deref().unwrap_or_default()),
        "eviction-waits" => format!("the eviction waits{because}"),
        "eviction-allowed" => format!("the eviction is allowed{because}"),
        "ended" => "all containers have stopped".to_owned(),
        "gone" => "the pod no longer exists".to_owned(),
        "node-goes" => format!("the node will be removed{because}"),
        "node-stays" => "the node will not be removed any more".to_owned(),
        "leads" => "this replica leads".to_owned(),
        "stands-by" => "this replica no longer leads".to_owned(),
        "said" => format!("reported {reason}: {}", entry.message.as_deref().unwrap_or_default()),
        other => format!("{other}{because}"),
    };
    place + &text
}

/// A sentence about the changes that the journal cannot contain, if the replica became the leader after the history
/// began.
pub fn gap(past: &Past) -> Option<String> {
    let (since, leads) = (past.since.as_ref()?, past.leads_since.as_ref()?);
    let begins = past.entries.first().map_or(since, |first| &first.at);
    let text = "this replica leads since then; only an earlier leader knew AWS's earlier answers";
    (begins.0 < leads.0).then(|| format!("{}  {text}", clock(leads)))
}

/// The time of day in UTC, with milliseconds.
pub fn clock(time: &MicroTime) -> String {
    time.0.strftime("%H:%M:%S%.3fZ").to_string()
}

/// The target group's name, extracted from its ARN.
fn name(arn: &str) -> &str {
    arn.split('/').nth(1).unwrap_or(arn)
}
