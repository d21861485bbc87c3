//! Converts probe results to decisions.
//!
//! The counting follows the kubelet's `prober/worker.go`. A decision needs as many consecutive successes as the success
//! threshold, or as many consecutive failures as the failure threshold. The module is pure.

/// Counts the results of one probe.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    success: u32,
    failure: u32,
    last: bool,
    streak: u32,
    verdict: Option<bool>,
}

impl Threshold {
    /// Creates the counter of a probe that has not run. The initial result is not ready (`Some(false)`), alive
    /// (`Some(true)`), or unknown startup (`None`). A threshold below 1 counts as 1.
    pub fn new(success: u32, failure: u32, verdict: Option<bool>) -> Self {
        Self { success: success.max(1), failure: failure.max(1), last: false, streak: 0, verdict }
    }

    /// Counts one result. Returns `Some` if the decision changes.
    pub fn observe(&mut self, succeeded: bool) -> Option<bool> {
        if self.last == succeeded {
            self.streak = self.streak.saturating_add(1);
        } else {
            self.last = succeeded;
            self.streak = 1;
        }
        let needed = if succeeded { self.success } else { self.failure };
        if self.streak < needed || self.verdict == Some(succeeded) {
            return None;
        }
        self.verdict = Some(succeeded);
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
        let seen = changes(Threshold::new(1, 3, Some(false)), &results);
        assert_eq!(seen, [Some(true), None, None, None, None, None, Some(false), None]);
    }

    #[test]
    fn a_live_container_is_given_up_after_three_failures_in_a_row() {
        let seen =
            changes(Threshold::new(1, 3, Some(true)), &[true, false, false, true, false, false, false]);
        assert_eq!(seen, [None, None, None, None, None, None, Some(false)]);
    }

    #[test]
    fn a_startup_is_decided_by_whichever_threshold_comes_first() {
        assert_eq!(changes(Threshold::new(1, 2, None), &[false, true]), [None, Some(true)]);
        assert_eq!(changes(Threshold::new(1, 2, None), &[false, false]), [None, Some(false)]);
    }

    #[test]
    fn a_success_threshold_counts_successes_in_a_row() {
        let seen = changes(Threshold::new(2, 1, Some(false)), &[true, false, true, true, false]);
        assert_eq!(seen, [None, None, None, Some(true), Some(false)]);
    }
}
