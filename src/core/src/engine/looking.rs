//! The internal state that simulations compare with the expected state.

use std::{collections::BTreeMap, sync::Arc};

use super::Engine;
use crate::model::{GroupRef, Moment, ObjectKey, Resolution, TargetGroupArn, TargetGroupFacts, view::Apart};

impl Engine {
    /// The facts about the target group that was found under this name.
    pub fn group_named(&self, name: &str) -> Option<Arc<TargetGroupFacts>> {
        match self.accounts.resolve(&GroupRef::Name(name.into())) {
            Resolution::Found(group) => Some(group),
            Resolution::Pending | Resolution::Failed(..) => None,
        }
    }

    /// The decisions that keep living pods from being targets.
    pub fn apart(&self) -> BTreeMap<ObjectKey, Apart> {
        self.known.index.pods().apart()
    }

    /// A target group that sleeps although something is due in it. There must be none.
    pub fn overslept(&self, now: Moment) -> Option<&TargetGroupArn> {
        self.groups.calls(now).overslept().next().filter(|_| self.acts())
    }
}
