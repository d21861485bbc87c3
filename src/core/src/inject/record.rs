//! The annotation `headgate.dev/injected`, which records the changes to a pod for users and for the next webhook call.
//!
//! `GateAdded; HoldAdded: 150s in web, proxy (NLB); OwnSleepRaised: proxy from 20s; OwnPreStop: shell; GraceRaised: 180s; ProbeGraceAdded: 5s for livenessProbe of web`.
//! Headgate ignores invalid content, as if the webhook had never seen the pod.

use std::fmt;

use crate::model::{Hold, injection::Decision};

/// The name of the annotation.
pub const INJECTED: &str = "headgate.dev/injected";

/// The content of the annotation.
#[derive(Debug, Default)]
pub struct Record {
    said: Vec<(Decision, String)>,
    /// Whether the annotation records that Headgate added the readiness gate.
    pub(super) gate_added: bool,
    /// The length of the hold in seconds, and the reason for the length.
    pub(super) hold: Option<(u32, Box<str>)>,
    /// The containers that got a `preStop`.
    pub(super) held: Vec<Box<str>>,
    /// The new grace period.
    pub(super) grace: Option<i64>,
}

impl Record {
    /// Reads the valid parts of the annotation.
    pub fn read(text: &str) -> Self {
        let mut record = Self::default();
        for entry in text.split("; ") {
            let (word, rest) = entry.split_once(": ").unwrap_or((entry, ""));
            let Some(decision) = Decision::of_word(word) else {
                continue;
            };
            record.gate_added |= decision == Decision::GateAdded;
            match decision {
                Decision::HoldAdded => record.read_hold(rest),
                Decision::GraceRaised => record.grace = read_grace(rest),
                _ => record.said.push((decision, rest.into())),
            }
        }
        record
    }

    fn read_hold(&mut self, text: &str) {
        let Some((seconds, rest)) = text.split_once(" in ") else { return };
        let Some((names, why)) = rest.strip_suffix(')').and_then(|rest| rest.split_once(" (")) else {
            return;
        };
        let Some(Hold::For(seconds)) = Hold::parse(seconds) else { return };
        self.hold = Some((seconds, why.into()));
        self.held = names.split(", ").map(Box::from).collect();
    }

    /// Whether the annotation contains this decision.
    pub fn has(&self, decision: Decision) -> bool {
        match decision {
            Decision::HoldAdded => self.hold.is_some(),
            Decision::GraceRaised => self.grace.is_some(),
            _ => self.said.iter().any(|(said, _)| *said == decision),
        }
    }

    /// The detail of this decision.
    pub fn text(&self, decision: Decision) -> Option<&str> {
        self.said.iter().find(|(said, _)| *said == decision).map(|(_, what)| &**what)
    }

    /// Adds this decision and its detail.
    pub fn say(&mut self, decision: Decision, what: &str) {
        self.said.push((decision, what.into()));
    }

    /// Adds this decision with the detail from `before` and the new details.
    pub fn add(&mut self, decision: Decision, before: &Self, new: Vec<String>) {
        let said = before.said.iter().filter(|(said, _)| *said == decision).map(|(_, what)| what.clone());
        let all: Vec<String> = said.chain(new).collect();
        if !all.is_empty() {
            self.say(decision, &all.join(", "));
        }
    }

    /// Adds the length of the hold in the [`Record::held`] containers.
    pub fn hold(&mut self, seconds: u32, why: &str) {
        self.hold = Some((seconds, why.into()));
        self.say(Decision::HoldAdded, &format!("{seconds}s in {} ({why})", self.held.join(", ")));
    }

    /// Adds the new grace period.
    pub fn grace(&mut self, seconds: i64) {
        self.grace = Some(seconds);
        self.say(Decision::GraceRaised, &format!("{seconds}s"));
    }

    /// The decisions in the annotation.
    pub fn decisions(&self) -> Vec<Decision> {
        self.said.iter().map(|(decision, _)| *decision).collect()
    }
}

/// Parses a grace period, which may be far longer than any hold.
fn read_grace(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('s')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (decision, what)) in self.said.iter().enumerate() {
            let (between, colon) = (if at > 0 { "; " } else { "" }, if what.is_empty() { "" } else { ": " });
            write!(f, "{between}{}{colon}{what}", decision.as_str())?;
        }
        Ok(())
    }
}
