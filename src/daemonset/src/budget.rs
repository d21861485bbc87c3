//! Computes how many pods of a set must remain during evictions.
//!
//! Kubernetes computes a percentage in a PodDisruptionBudget from the scale of the pods' owner. Kubernetes does not
//! watch the scale of a custom resource, so a percentage would be up to 30 s out of date. The controller therefore
//! writes a number into the PodDisruptionBudget, and updates this number (see docs/guides/per-node-ingress.md).
//!
//! * **Owns** no state.
//! * **Guarantees.** Unless `may_miss` is 0, at least one pod may be evicted. Every drain therefore completes.

use crate::model::Amount;

/// Returns the `minAvailable` of a set with this many wanted pods. Pods on nodes that get no new pods count while they
/// exist.
pub fn min_available(wanted: usize, may_miss: Amount) -> usize {
    wanted.saturating_sub(may_miss.may_miss(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_pods_may_go_and_at_least_one() {
        let of = |wanted| min_available(wanted, Amount::Percent(25));
        assert_eq!([0, 1, 2, 4, 9, 1000].map(of), [0, 0, 1, 3, 6, 750]);
        assert_eq!(min_available(4, Amount::Number(0)), 4, "whoever asks for none gets none");
    }
}
