//! Phases of a run. A request belongs to the phase of its intended start, even if the request started later.

use std::collections::VecDeque;

use tokio::time::Instant;

/// The label of the phase before the first mark.
pub const FIRST: &str = "run";

/// The phases of a run until now.
#[derive(Debug)]
pub struct Phases {
    labels: Vec<String>,
    /// The start of each phase, in order. Phases are removed when no later request can belong to them.
    marks: VecDeque<(Instant, usize)>,
}

impl Phases {
    /// Creates the phases of a run. The first phase is [`FIRST`].
    pub fn new(start: Instant) -> Self {
        Self { labels: vec![FIRST.to_owned()], marks: VecDeque::from([(start, 0)]) }
    }

    /// Starts a phase at `now`. Requests with a later intended start belong to `label`. A label may be used again.
    pub fn mark(&mut self, label: &str, now: Instant) {
        let known = self.labels.iter().position(|known| known == label);
        let phase = known.unwrap_or_else(|| {
            self.labels.push(label.to_owned());
            self.labels.len() - 1
        });
        self.marks.push_back((now, phase));
    }

    /// Returns the phase of a request. Calls must be in the order of the intended starts.
    pub fn of(&mut self, intended: Instant) -> usize {
        while self.marks.get(1).is_some_and(|(from, _)| *from <= intended) {
            self.marks.pop_front();
        }
        self.marks.front().map_or(0, |(_, phase)| *phase)
    }

    /// Returns the labels in the order of their first marks. A phase is an index of this list.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_request_belongs_to_the_phase_in_which_it_was_intended() {
        let start = Instant::now();
        let mut phases = Phases::new(start);
        phases.mark("rollout", start + 2 * SECOND);
        phases.mark("after", start + 3 * SECOND);
        let of = [1, 2, 3, 4].map(|second| phases.of(start + second * SECOND));
        assert_eq!(of, [0, 1, 2, 2]);
        assert_eq!(phases.labels(), ["run", "rollout", "after"]);
    }

    #[test]
    fn a_label_can_be_taken_up_again() {
        let start = Instant::now();
        let mut phases = Phases::new(start);
        phases.mark("busy", start + SECOND);
        phases.mark(FIRST, start + 2 * SECOND);
        assert_eq!(phases.of(start + SECOND), 1);
        assert_eq!(phases.of(start + 2 * SECOND), 0);
        assert_eq!(phases.labels(), ["run", "busy"]);
    }

    #[test]
    fn of_two_marks_at_once_the_later_one_holds() {
        let start = Instant::now();
        let mut phases = Phases::new(start);
        phases.mark("first", start);
        phases.mark("second", start);
        assert_eq!(phases.of(start), 2);
    }
}
