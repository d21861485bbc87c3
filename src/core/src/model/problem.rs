//! Problems of an object that defines bindings, each with a reason and a message.

use std::{collections::BTreeMap, sync::Arc};

use super::{limits::PROBLEMS, reason::Reason};

/// A problem in the configuration of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The ports whose bindings have the problem, or `None` for all ports of the object.
    pub ports: Option<Vec<Arc<str>>>,
    /// The reason.
    pub reason: Reason,
    /// The problem and the remedy.
    pub said: String,
}

impl Problem {
    /// Creates a problem of the whole object.
    pub fn of_all(reason: Reason, said: String) -> Self {
        Self { ports: None, reason, said }
    }

    /// Creates a problem of some ports. Without ports, the problem concerns only the text and no active binding.
    pub fn of_ports(ports: impl IntoIterator<Item = Arc<str>>, reason: Reason, said: String) -> Self {
        Self { ports: Some(ports.into_iter().collect()), reason, said }
    }

    /// Whether the binding of this port has the problem.
    pub fn is_about(&self, port: &str) -> bool {
        self.ports.as_ref().is_none_or(|ports| ports.iter().any(|own| **own == *port))
    }
}

/// Keeps the first [`PROBLEMS`] problems of each reason, and only counts further problems.
pub fn bounded(problems: Vec<Problem>) -> Vec<Problem> {
    let mut counts: BTreeMap<Reason, usize> = BTreeMap::new();
    let mut kept: Vec<Problem> = Vec::new();
    for problem in problems {
        let count = counts.entry(problem.reason).or_default();
        *count += 1;
        if *count <= PROBLEMS.most {
            kept.push(problem);
        }
    }
    for (reason, count) in counts.into_iter().filter(|(_, count)| *count > PROBLEMS.most) {
        kept.push(Problem::of_ports(
            [],
            reason,
            format!("{} more problems like these.", count - PROBLEMS.most),
        ));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_problems_with_one_reason_the_first_are_kept_and_the_rest_is_counted() {
        let bad = |at: usize| Problem::of_ports([], Reason::InvalidBinding, format!("part {at}"));
        let other = Problem::of_all(Reason::LimitExceeded, "none".into());
        let kept = bounded((0..200).map(bad).chain([other.clone()]).collect());
        assert_eq!(kept.len(), PROBLEMS.most + 2);
        assert_eq!((&kept[19], &kept[20]), (&bad(19), &other));
        assert_eq!(kept[21].said, "180 more problems like these.");
        let few: Vec<Problem> = (0..PROBLEMS.most).map(bad).collect();
        assert_eq!(bounded(few.clone()), few);
    }

    #[test]
    fn a_problem_is_about_all_ports_or_about_those_it_names() {
        let said = || "something".to_owned();
        let all = Problem::of_all(Reason::InvalidBinding, said());
        assert!(all.is_about("http") && all.is_about("https"));
        let one = Problem::of_ports(["http".into()], Reason::InvalidBinding, said());
        assert!(one.is_about("http") && !one.is_about("https"));
        let what_is_written = Problem::of_ports([], Reason::InvalidBinding, said());
        assert!(!what_is_written.is_about("http"));
    }
}
