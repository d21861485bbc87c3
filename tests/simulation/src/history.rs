//! What all replicas of a world have done together.

use std::collections::{BTreeMap, BTreeSet};

use headgate_core::{
    ledger::PodMark,
    model::{Moment, Uid},
};

use crate::words::Key;

/// What all replicas of a world have done together.
#[derive(Debug, Default)]
pub struct History {
    /// Every target that an engine has ever registered, or noted that it would.
    pub ever: BTreeSet<Key>,
    /// Every target whose registration AWS has ever confirmed.
    pub taken: BTreeSet<Key>,
    /// For which pod each target was registered last.
    pub registered_for: BTreeMap<Key, Uid>,
    /// Since when it has been registered for that pod, without being taken out in between; and when each target was
    /// taken out last.
    pub own_since: BTreeMap<Key, Moment>,
    pub taken_out: BTreeMap<Key, Moment>,
    /// From which pods targets were ever taken out, or the ledger was to say so.
    pub taken_from: BTreeSet<(Key, PodMark)>,
}
