//! What a user should know about an object that binds: a reason word and a sentence.

use std::sync::Arc;

use super::reason::Reason;

/// Something that is wrong with what an object asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The ports whose bindings it is about; `None`: all that the object has.
    pub ports: Option<Vec<Arc<str>>>,
    /// The reason word.
    pub reason: Reason,
    /// A sentence: what is wrong, what was expected, what to do.
    pub said: String,
}

impl Problem {
    /// A problem of the whole object.
    pub fn of_all(reason: Reason, said: String) -> Self {
        Self { ports: None, reason, said }
    }

    /// A problem of some of its ports; none: of what is written, and of nothing that is in force.
    pub fn of_ports(ports: impl IntoIterator<Item = Arc<str>>, reason: Reason, said: String) -> Self {
        Self { ports: Some(ports.into_iter().collect()), reason, said }
    }

    /// Whether it is about the binding of this port.
    pub fn is_about(&self, port: &str) -> bool {
        self.ports.as_ref().is_none_or(|ports| ports.iter().any(|own| **own == *port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_about_all_ports_or_about_those_it_names() {
        let said = || "something".to_owned();
        let all = Problem::of_all(Reason::InvalidAnnotation, said());
        assert!(all.is_about("http") && all.is_about("https"));
        let one = Problem::of_ports(["http".into()], Reason::InvalidAnnotation, said());
        assert!(one.is_about("http") && !one.is_about("https"));
        let what_is_written = Problem::of_ports([], Reason::InvalidAnnotation, said());
        assert!(!what_is_written.is_about("http"));
    }
}
