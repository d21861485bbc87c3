//! Pods whose deletion this replica has seen. If a ledger entry still names a deleted pod, Headgate can deregister the
//! target immediately.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    ledger::PodMark,
    model::{Moment, Owner},
};

/// The retention time of a record. The retention time exceeds the time that a replica needs to take over from any
/// leader.
const KEPT: std::time::Duration = std::time::Duration::from_secs(15 * 60);

/// The deleted pods. See the module docs.
#[derive(Clone, Debug, Default)]
pub struct Gone {
    all: BTreeMap<PodMark, Owner>,
    order: VecDeque<(Moment, PodMark)>,
}

impl Gone {
    /// Records that these pods were deleted.
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

    /// Returns the pod with this [`PodMark`] if the pod was deleted.
    pub fn of(&self, mark: PodMark) -> Option<&Owner> {
        self.all.get(&mark)
    }
}
