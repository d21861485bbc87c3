//! Pods that this replica has seen to go: what the ledger still names of them is Headgate's, and can go at once.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    ledger::PodMark,
    model::{Moment, Owner},
};

/// Longer than any leader can be gone without another one taking over.
const KEPT: std::time::Duration = std::time::Duration::from_secs(15 * 60);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Gone {
    all: BTreeMap<PodMark, Owner>,
    order: VecDeque<(Moment, PodMark)>,
}

impl Gone {
    /// These have gone.
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

    /// The pod of this mark, if it has gone.
    pub fn of(&self, mark: PodMark) -> Option<&Owner> {
        self.all.get(&mark)
    }
}
