//! The annotation `headgate.dev/expected-bindings`, which lists the targets that a pod should become. Headgate writes
//! the annotation when it adds the readiness gate.
//!
//! The format is `<target group>:<port>,…`, with the name of the target group and the port of the pod. Without the
//! annotation, Headgate could open the gate before it sees a late binding of the pod. If an expected binding does not
//! appear in time, Headgate ignores the entry, because the entry may be wrong.

use std::{fmt, str::FromStr};

use thiserror::Error;

use super::{Target, excerpt::excerpt};

/// The name of the annotation.
pub const EXPECTED_BINDINGS: &str = "headgate.dev/expected-bindings";

/// Headgate reads at most this number of entries, which exceeds the number of targets of any pod.
const MOST: usize = 200;
/// The maximum length of a target group's name.
const LONGEST_NAME: usize = 32;

/// One expected target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expected {
    /// The name of the target group.
    pub group: Box<str>,
    /// The port of the pod.
    pub port: u16,
}

/// An invalid entry of the annotation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{EXPECTED_BINDINGS}: \"{0}\" cannot be read. Write <target group>:<port>, such as my-nlb-web:8080.")]
pub struct BadExpected(Box<str>);

impl Expected {
    /// Parses each entry of the annotation separately, up to a maximum number of entries.
    pub fn list(text: &str) -> Vec<Result<Self, BadExpected>> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        entries.take(MOST).map(str::parse).collect()
    }

    /// Formats the entries as the value of the annotation.
    pub fn write(list: &[Self]) -> String {
        list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// Whether the entry names this target in this target group.
    pub fn is(&self, group: &str, target: &Target) -> bool {
        *self.group == *group && self.port == target.port
    }
}

impl FromStr for Expected {
    type Err = BadExpected;

    fn from_str(entry: &str) -> Result<Self, BadExpected> {
        let read = entry.rsplit_once(':').and_then(|(group, port)| Some((group, port.parse().ok()?)));
        match read {
            Some((group, port)) if (1..=LONGEST_NAME).contains(&group.len()) && port > 0 => {
                Ok(Self { group: group.into(), port })
            }
            _ => Err(BadExpected(excerpt(entry))),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.group, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::target;

    #[test]
    fn what_is_written_is_read_back_and_one_bad_entry_stops_no_other() {
        let all = [Expected { group: "blue".into(), port: 8080 }, Expected { group: "red".into(), port: 1 }];
        assert_eq!(Expected::list(&Expected::write(&all)), all.clone().map(Ok));
        let read = Expected::list("blue:8080, ,oops,red:0,:7,green:99999,red:1");
        let good: Vec<_> = read.iter().filter_map(|entry| entry.as_ref().ok()).collect();
        assert_eq!(good, [&all[0], &all[1]]);
        let bad: Vec<_> = read.iter().filter_map(|entry| entry.as_ref().err()).collect();
        assert_eq!(bad.len(), 4);
        assert_eq!(
            bad[0].to_string(),
            "headgate.dev/expected-bindings: \"oops\" cannot be read. Write <target group>:<port>, such as my-nlb-web:8080."
        );
    }

    #[test]
    fn a_target_is_expected_by_its_group_and_port() {
        let expected = Expected { group: "blue".into(), port: 80 };
        assert!(expected.is("blue", &target(1, 80)));
        assert!(!expected.is("red", &target(1, 80)) && !expected.is("blue", &target(1, 81)));
    }
}
