//! Access to internal state, which simulations compare with the expected state.

use std::{collections::BTreeMap, sync::Arc};

use super::Engine;
use crate::model::{GroupRef, Moment, ObjectKey, Resolution, TargetGroupArn, TargetGroupFacts, view::Apart};

impl Engine {
    /// The facts about the target group with this name.
    pub fn group_named(&self, name: &str) -> Option<Arc<TargetGroupFacts>> {
        match self.accounts.resolve(&GroupRef::Name(name.into())) {
            Resolution::Found(group) => Some(group),
            Resolution::Pending | Resolution::Failed(..) => None,
        }
    }

    /// Living pods that are not targets because of a decision of the engine.
    pub fn apart(&self) -> BTreeMap<ObjectKey, Apart> {
        self.known.index.pods().apart()
    }

    /// A group that sleeps although an action is due. If this method returns a group, Headgate has a bug.
    pub fn overslept(&self, now: Moment) -> Option<&TargetGroupArn> {
        self.groups.calls(now).overslept().next().filter(|_| self.acts())
    }
}
