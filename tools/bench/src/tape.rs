//! The calls that reached the stand-in, read from the position of the last read.

use std::{collections::BTreeMap, time::Duration};

use headgate_harness::{
    aws::Aws,
    recorder::{Micros, micros},
};
use serde::Deserialize;
use serde_json::Value;

/// A call of the AWS API.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    /// The action.
    pub action: String,
    /// The target group in the call.
    pub target_group: Option<String>,
    /// `ip:port` of the targets in the call.
    pub targets: Vec<String>,
    /// `ok` or an error code.
    pub outcome: String,
    /// When the stand-in had read it.
    #[serde(deserialize_with = "micros")]
    pub arrived: Micros,
    /// When the stand-in sent its answer.
    #[serde(deserialize_with = "micros")]
    pub answered: Micros,
}

impl Call {
    /// Whether it is this action on this group.
    pub fn is(&self, action: &str, group: &str) -> bool {
        self.action == action && self.target_group.as_deref() == Some(group)
    }
}

/// Longer than any measured time. A call that has not come by then never comes.
const PATIENCE: Duration = Duration::from_secs(120);
const PERIOD: Duration = Duration::from_millis(20);

/// The recorded calls.
pub struct Tape {
    aws: Aws,
    next: u64,
    calls: Vec<Call>,
}

#[derive(Deserialize)]
struct Page {
    next: u64,
    dropped: u64,
    entries: Vec<Value>,
}

impl Tape {
    /// A record that begins now.
    pub async fn from_now(aws: &Aws) -> Self {
        let mut tape = Self { aws: aws.clone(), next: 0, calls: Vec::new() };
        tape.read().await;
        tape.calls.clear();
        tape
    }

    /// All calls so far, in the order of their answers.
    pub async fn read(&mut self) -> &[Call] {
        let page = self.aws.control("GET", &format!("/trace?since={}", self.next), None).await;
        let page: Page = serde_json::from_value(page).unwrap();
        assert!(self.next == 0 || page.dropped == 0, "the stand-in's trace was too short");
        self.next = page.next;
        let calls = page.entries.into_iter().filter(|entry| entry["kind"] == "call");
        self.calls.extend(calls.map(|entry| serde_json::from_value(entry).unwrap()));
        &self.calls
    }

    /// Waits until `answer` returns a value for the calls so far.
    pub async fn wait<T>(&mut self, what: &str, answer: impl Fn(&[Call]) -> Option<T>) -> T {
        let answer = self.wait_at_most(PATIENCE, answer).await;
        answer.unwrap_or_else(|| panic!("not within {PATIENCE:?}: {what}"))
    }

    /// Waits until `answer` returns a value for the calls so far, with a timeout.
    pub async fn wait_at_most<T>(
        &mut self,
        patience: Duration,
        answer: impl Fn(&[Call]) -> Option<T>,
    ) -> Option<T> {
        let end = tokio::time::Instant::now() + patience;
        loop {
            tokio::time::sleep(PERIOD).await;
            let answer = answer(self.read().await);
            if answer.is_some() || tokio::time::Instant::now() > end {
                return answer;
            }
        }
    }

    /// Waits for the first accepted call of this action with this target, in any group, with a timeout. Returns its
    /// arrival.
    pub async fn arrival_at_most(
        &mut self,
        patience: Duration,
        action: &str,
        target: &str,
    ) -> Option<Micros> {
        let names = |call: &&Call| {
            call.action == action && call.outcome == "ok" && call.targets.iter().any(|named| named == target)
        };
        self.wait_at_most(patience, |calls| calls.iter().find(names).map(|call| call.arrived)).await
    }

    /// Waits for the first call of this action with this target. Returns its arrival.
    pub async fn arrival(&mut self, action: &str, group: &str, target: &str) -> Micros {
        self.wait(&format!("{action} of {target} in {group}"), |calls| {
            let of =
                |call: &&Call| call.is(action, group) && call.targets.iter().any(|named| named == target);
            calls.iter().find(of).map(|call| call.arrived)
        })
        .await
    }

    /// Waits until each of these targets was in an accepted call of this action. Returns the first arrival for each.
    pub async fn arrivals(&mut self, action: &str, targets: &[String]) -> BTreeMap<String, Micros> {
        self.wait(&format!("{action} of {} targets", targets.len()), |calls| {
            let mut all = BTreeMap::new();
            for call in calls.iter().filter(|call| call.action == action && call.outcome == "ok") {
                for target in &call.targets {
                    all.entry(target.clone()).or_insert(call.arrived);
                }
            }
            targets.iter().all(|target| all.contains_key(target)).then_some(all)
        })
        .await
    }
}

/// The milliseconds from one time to another.
#[allow(clippy::cast_precision_loss)] // far below 2^52
pub fn millis(from: Micros, to: Micros) -> f64 {
    to.saturating_sub(from) as f64 / 1000.0
}
