//! The annotation `headgate.dev/injected`: what was done, for people and for the next time the pod is looked at.
//!
//! `GateAdded; HoldAdded: 150s in web, proxy (NLB); OwnSleepRaised: proxy from 20s; OwnPreStop: shell; GraceRaised: 180s;
//! ProbeGraceAdded: 5s for livenessProbe of web`. What cannot be read counts as not written: then it is as if the pod was
//! seen for the first time.

use std::fmt;

use crate::model::{Hold, injection::Decision};

/// The name of the annotation.
pub const INJECTED: &str = "headgate.dev/injected";

/// The content of the annotation.
#[derive(Debug, Default)]
pub struct Record {
    said: Vec<(Decision, String)>,
    /// Whether the pod was given the readiness gate, as far as was read.
    pub(super) gate_added: bool,
    /// The seconds, and the reason for them.
    pub(super) hold: Option<(u32, Box<str>)>,
    /// The containers that were given a `preStop`.
    pub(super) held: Vec<Box<str>>,
    /// What the grace period became.
    pub(super) grace: Option<i64>,
}

impl Record {
    /// Reads the annotation, as far as it is valid.
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

    /// Whether it contains this.
    pub fn has(&self, decision: Decision) -> bool {
        match decision {
            Decision::HoldAdded => self.hold.is_some(),
            Decision::GraceRaised => self.grace.is_some(),
            _ => self.said.iter().any(|(said, _)| *said == decision),
        }
    }

    /// The detail of this word.
    pub fn text(&self, decision: Decision) -> Option<&str> {
        self.said.iter().find(|(said, _)| *said == decision).map(|(_, what)| &**what)
    }

    /// Adds this word and its detail.
    pub fn say(&mut self, decision: Decision, what: &str) {
        self.said.push((decision, what.into()));
    }

    /// Adds this word, with its detail from `before`.
    pub fn add(&mut self, decision: Decision, before: &Self, new: Vec<String>) {
        let said = before.said.iter().filter(|(said, _)| *said == decision).map(|(_, what)| what.clone());
        let all: Vec<String> = said.chain(new).collect();
        if !all.is_empty() {
            self.say(decision, &all.join(", "));
        }
    }

    /// Adds how long the containers of [`Record::held`] are held.
    pub fn hold(&mut self, seconds: u32, why: &str) {
        self.hold = Some((seconds, why.into()));
        self.say(Decision::HoldAdded, &format!("{seconds}s in {} ({why})", self.held.join(", ")));
    }

    /// Adds the new grace period.
    pub fn grace(&mut self, seconds: i64) {
        self.grace = Some(seconds);
        self.say(Decision::GraceRaised, &format!("{seconds}s"));
    }

    /// The decisions that it names.
    pub fn decisions(&self) -> Vec<Decision> {
        self.said.iter().map(|(decision, _)| *decision).collect()
    }
}

/// A grace period may be far longer than any hold.
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
