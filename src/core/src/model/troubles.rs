//! The current problems of a target group, which Headgate reports on all bindings of the group.

use std::collections::{BTreeMap, BTreeSet};

use super::{Failure, Moment, Target, explanation::Word};

/// The current problems of a target group.
#[derive(Clone, Debug, Default)]
pub struct Troubles {
    /// AWS's rejections by action, and by target if a rejection concerns one target.
    pub refusals: BTreeMap<(&'static str, Option<Target>), Word>,
    /// The failure of the last call of each action, if the last call failed.
    pub failing: BTreeMap<&'static str, Failure>,
    /// The error of the ledger.
    pub ledger: Option<Word>,
    /// Healthy targets that Headgate registered and whose addresses pods of another cluster may have.
    pub suspects: BTreeSet<Target>,
    /// Headgate's targets in zones that the load balancer does not serve, each with the start of the problem.
    pub zone_not_served: BTreeMap<Target, Moment>,
    /// Whether Headgate has reported the targets in `zone_not_served`.
    pub said_zone: bool,
    /// The time since which deregistrations wait for replacements, and the number of reports about the wait.
    pub holds: Option<(Moment, u64)>,
    /// The last reported number of registrations that wait because AWS accepts no more targets.
    pub unplaced: usize,
    /// The failure that AWS returned when it accepted no more targets.
    pub quota: Option<Failure>,
}

impl Troubles {
    /// The rejections by AWS, and the error of the ledger.
    pub fn refused(&self) -> impl Iterator<Item = &Word> {
        self.refusals.values().chain(&self.ledger)
    }

    /// The reported number of targets in zones that the load balancer does not serve, with the first such target.
    pub fn zone(&self) -> Option<(usize, Target)> {
        let first = self.zone_not_served.keys().next().filter(|_| self.said_zone)?;
        Some((self.zone_not_served.len(), *first))
    }
}
