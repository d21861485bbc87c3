//! The problems of a target group, until they have passed: reported on all its bindings.

use std::collections::{BTreeMap, BTreeSet};

use super::{Failure, Moment, Target, explanation::Word};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Troubles {
    /// What AWS refuses, by action and, if it is about one, target.
    pub refusals: BTreeMap<(&'static str, Option<Target>), Word>,
    /// How the last call of each action failed, if it did.
    pub failing: BTreeMap<&'static str, Failure>,
    /// The error of the ledger.
    pub ledger: Option<Word>,
    /// Healthy targets of ours whose addresses another cluster may have got.
    pub suspects: BTreeSet<Target>,
    /// Targets of ours that reads show in a zone that the load balancer does not serve, since when.
    pub zone_not_served: BTreeMap<Target, Moment>,
    /// Whether that was reported.
    pub said_zone: bool,
    /// Since when removals are held for their replacements, and how often that was reported before.
    pub holds: Option<(Moment, u64)>,
    /// The number of registrations that wait because AWS accepts no more, in the last report.
    pub unplaced: usize,
    /// AWS's answer when it accepted no more.
    pub quota: Option<Failure>,
}

impl Troubles {
    /// What AWS refuses, and the error of the ledger.
    pub fn refused(&self) -> impl Iterator<Item = &Word> {
        self.refusals.values().chain(&self.ledger)
    }

    /// The number of targets in a zone that the load balancer does not serve, and the first of them, in the last
    /// report.
    pub fn zone(&self) -> Option<(usize, Target)> {
        let first = self.zone_not_served.keys().next().filter(|_| self.said_zone)?;
        Some((self.zone_not_served.len(), *first))
    }
}
