//! Deleted pods. Headgate registered the targets that the TargetLedger still has for them, and a new leader deregisters these
//! targets at once.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    ledger::PodMark,
    model::{Moment, Owner},
};

/// No cluster is without a leader for this long.
const KEPT: std::time::Duration = std::time::Duration::from_secs(15 * 60);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Gone {
    all: BTreeMap<PodMark, Owner>,
    order: VecDeque<(Moment, PodMark)>,
}

impl Gone {
    /// Remembers these deleted pods.
    pub fn note(&mut self, owners: &[Owner], now: Moment) {
        for owner in owners {
            let mark = PodMark::of(&owner.uid);
            self.all.insert(mark, owner.clone());
            self.order.push_back((now, mark));
        }
        while let Some((_, mark)) = self.order.pop_front_if(|(seen, _)| now.since(*seen) > KEPT) {
            self.all.remove(&mark);
        }
    }

    /// The deleted pod whose UID has this hash.
    pub fn of(&self, mark: PodMark) -> Option<&Owner> {
        self.all.get(&mark)
    }
}
