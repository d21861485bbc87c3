//! When Headgate saw a deletion: its log contains the time of the call, and how long Headgate took.

use std::collections::BTreeMap;

use headgate_harness::{headgate::Headgate, recorder::Micros};
use k8s_openapi::jiff::Timestamp;

/// For each deregistered target, when Headgate received the event that its pod terminates.
pub fn deletions_seen(headgate: &Headgate) -> BTreeMap<String, Micros> {
    let mut seen = BTreeMap::new();
    for line in headgate.logged(|line| line["message"] == "deregistering" && line["attempt"] == 1) {
        let sent: Timestamp = line["timestamp"].as_str().unwrap().parse().unwrap();
        let sent = u64::try_from(sent.as_microsecond()).unwrap();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some seconds
        let waited = (line["wait_ms"].as_f64().unwrap() * 1000.0) as u64;
        seen.insert(line["target"].as_str().unwrap().to_owned(), sent - waited);
    }
    seen
}
