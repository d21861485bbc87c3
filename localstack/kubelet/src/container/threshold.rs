//! From probe results to readiness.
//!
//! Owns the counting of a readiness probe's results (the kubelet's `prober/worker.go`): the first success
//! threshold reached in a row opens, the first failure threshold in a row closes. Pure.

/// Counts the results of one readiness probe.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    success: u32,
    failure: u32,
    last: bool,
    streak: u32,
    ready: bool,
}

impl Threshold {
    /// A probe that has not run: not ready. A threshold under 1 counts as 1.
    pub fn new(success: u32, failure: u32) -> Self {
        Self { success: success.max(1), failure: failure.max(1), last: false, streak: 0, ready: false }
    }

    /// Counts one result; `Some` when readiness changes.
    pub fn observe(&mut self, succeeded: bool) -> Option<bool> {
        if self.last == succeeded {
            self.streak = self.streak.saturating_add(1);
        } else {
            self.last = succeeded;
            self.streak = 1;
        }
        let needed = if succeeded { self.success } else { self.failure };
        if self.streak < needed || self.ready == succeeded {
            return None;
        }
        self.ready = succeeded;
        Some(succeeded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(threshold: Threshold, results: &[bool]) -> Vec<Option<bool>> {
        let mut threshold = threshold;
        results.iter().map(|result| threshold.observe(*result)).collect()
    }

    #[test]
    fn one_success_opens_by_default_and_three_failures_in_a_row_close() {
        let results = [true, false, false, true, false, false, false, false];
        let seen = changes(Threshold::new(1, 3), &results);
        assert_eq!(seen, [Some(true), None, None, None, None, None, Some(false), None]);
    }

    #[test]
    fn a_success_threshold_counts_successes_in_a_row() {
        let seen = changes(Threshold::new(2, 1), &[true, false, true, true, false]);
        assert_eq!(seen, [None, None, None, Some(true), Some(false)]);
    }
}
