//! How many pods of a set are to be left when pods are evicted.
//!
//! Kubernetes counts a share of a PodDisruptionBudget by the scale of what owns the pods. A set has none: nothing watches
//! the scale of a custom resource, so a budget by it would be stale for as long as half a minute. So the budget has a number,
//! and that is kept here (see docs/guides/per-node-ingress.md).
//!
//! * **Owns** no state.
//! * **Guarantees.** However few pods there are, one may go if any may: a drain ends.

use crate::model::Amount;

/// The `minAvailable` of the budget of a set that is to have so many pods, those of nodes that get no new ones counted as long
/// as they are there.
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
