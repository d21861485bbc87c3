//! What can be looked at from outside beside the effects: simulated worlds hold it against what should be.

use std::collections::BTreeMap;

use super::Engine;
use crate::{
    groups::Which,
    model::{GroupRef, Moment, ObjectKey, Resolution, TargetGroupArn, view::Apart},
};

impl Engine {
    /// The target group that was found under this name.
    pub fn group_named(&self, name: &str) -> Option<TargetGroupArn> {
        match self.accounts.resolve(&GroupRef::Name(name.into())) {
            Resolution::Found(group) => Some(group.arn.clone()),
            Resolution::Pending | Resolution::Failed(..) => None,
        }
    }

    /// What stands between living pods and their targets.
    pub fn apart(&self) -> BTreeMap<ObjectKey, Apart> {
        self.index.pods().apart()
    }

    /// A target group that sleeps although something is due in it: there is none.
    pub fn overslept(&self, now: Moment) -> Option<&TargetGroupArn> {
        let mut late = self.groups.these(Which::Overslept(now)).filter(|_| self.acts());
        late.next().map(|(arn, _)| arn)
    }
}
