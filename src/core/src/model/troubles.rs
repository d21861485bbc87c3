//! The problems of a target group, while they last. They are reported on all its bindings.

use std::collections::{BTreeMap, BTreeSet};

use super::{Failure, Moment, Target, explanation::Word};

/// See the module docs.
#[derive(Clone, Debug, Default)]
pub struct Troubles {
    /// What AWS rejects: by action, and by target if the rejection is about one.
    pub refusals: BTreeMap<(&'static str, Option<Target>), Word>,
    /// The failure of the last call of each action, if it failed.
    pub failing: BTreeMap<&'static str, Failure>,
    /// The error of the ledger.
    pub ledger: Option<Word>,
    /// Healthy targets that Headgate registered, and whose addresses another cluster may have got.
    pub suspects: BTreeSet<Target>,
    /// Targets of Headgate in a zone that the load balancer does not serve, and since when.
    pub zone_not_served: BTreeMap<Target, Moment>,
    /// Whether that was reported.
    pub said_zone: bool,
    /// Since when deregistrations wait for replacements, and how often that was reported.
    pub holds: Option<(Moment, u64)>,
    /// The number of registrations that wait because AWS accepts no more, as last reported.
    pub unplaced: usize,
    /// AWS's answer when it accepted no more targets.
    pub quota: Option<Failure>,
}

impl Troubles {
    /// The rejections by AWS, and the error of the ledger.
    pub fn refused(&self) -> impl Iterator<Item = &Word> {
        self.refusals.values().chain(&self.ledger)
    }

    /// The number of targets in a zone that the load balancer does not serve, and the first of them, as last reported.
    pub fn zone(&self) -> Option<(usize, Target)> {
        let first = self.zone_not_served.keys().next().filter(|_| self.said_zone)?;
        Some((self.zone_not_served.len(), *first))
    }
}
