//! How many pods of a set must remain when pods are evicted.
//!
//! Kubernetes computes a percentage in a PodDisruptionBudget from the scale of the pods' owner. The scale of a custom
//! resource is not watched, so a budget with a percentage would be up to 30 s out of date. The controller therefore
//! writes a number into the budget and updates it (see docs/guides/per-node-ingress.md).
//!
//! * **Owns** no state.
//! * **Guarantees.** For any number of pods, at least one may be evicted if any may. Every drain ends.

use crate::model::Amount;

/// The `minAvailable` for a set with this many wanted pods. Pods on nodes that get no new ones count while they exist.
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
