//! Pods of held targets: while a removal is held (see `registration/replaced.rs`), nobody claims the target, so that
//! the index says nothing when its pod goes after all. It is looked after here.

use std::net::IpAddr;

use crate::{
    engine::{Effect, Engine},
    groups::{Group, Which},
    hold::TooShort,
    index::{Ended, Owner},
    leadership::Role,
    model::{
        Change, Moment, Notice, ObjectKey, PodFacts, Reason, Target, TargetGroupArn,
        notice::{self},
    },
    reports::sayings,
};

/// A target whose removal is held or may come to be, and the pod it was registered for.
type Held = (TargetGroupArn, Target, Owner);

/// Which pods a change may be about.
#[derive(Clone, Debug)]
pub enum About {
    /// This one, and whoever had its addresses before.
    Pod(ObjectKey, Vec<IpAddr>),
    /// Any.
    All,
}

impl About {
    /// Of a change of pods.
    pub fn of(change: &Change<PodFacts>) -> Self {
        match change {
            Change::Applied(pod) | Change::Deleted(pod) => Self::Pod(pod.key.clone(), pod.ips.clone()),
            Change::Relisted(..) => Self::All,
        }
    }

    /// The one that it is about.
    pub const fn pod(&self) -> Option<&ObjectKey> {
        match self {
            Self::Pod(pod, _) => Some(pod),
            Self::All => None,
        }
    }

    fn concerns(&self, target: &Target, owner: &Owner) -> bool {
        match self {
            Self::Pod(key, ips) => owner.pod == *key || ips.contains(&target.ip),
            Self::All => true,
        }
    }
}

impl Engine {
    /// A pod has ended: was it held long enough?
    pub(super) fn pod_ended(&mut self, ended: &Ended) {
        let (groups, index) = (&self.groups, &self.index);
        let is_paused = |arn: &TargetGroupArn| groups.get(arn).is_some_and(Group::is_paused);
        let bound_by = |arn: &TargetGroupArn| {
            index.bindings().of_group(arn).map(|binding| binding.key.origin.clone()).collect()
        };
        let Some(TooShort { short, tell }) = self.holds.ended(ended, is_paused, bound_by) else { return };
        let (reason, pod) = (Reason::HoldTooShort, &ended.pod);
        let about = notice::About::Pod(pod.pod.clone(), pod.uid.clone());
        self.out.tell(Notice { about, reason, note: sayings::hold_too_short(&short) });
        for origin in tell {
            let note = sayings::holds_too_short(&short, &pod.pod);
            let about = self.services.origins().about(&origin);
            self.out.extend(about.map(|about| Effect::Notice(Notice { about, reason, note })));
        }
        self.out.put(Effect::HoldTooShort(short.group));
    }

    fn held(&self, is_meant: impl Fn(&Target, &Owner) -> bool) -> Vec<Held> {
        // Whoever does not lead holds nothing, and all groups are awake.
        let leads = self.term.role() != Role::Standby;
        let groups = leads.then(|| self.groups.these(Which::Spare)).into_iter().flatten();
        let all = groups
            .flat_map(|(arn, group)| group.registrations().spare_their_pods().map(move |held| (arn, held)));
        let meant = all.filter(|(_, (target, owner))| is_meant(target, owner));
        meant.map(|(arn, (target, owner))| (arn.clone(), *target, owner.clone())).collect()
    }

    /// A pod leaves while it lives: its targets that are held until others replace them go with it, and what the ledgers left
    /// behind of it is judged again.
    pub(super) fn held_of_pod_goes(&mut self, pod: &ObjectKey, reason: Reason, seen: Moment) {
        self.groups.orphans().touch();
        for (arn, target, _) in self.held(|_, owner| owner.pod == *pod) {
            if let Some(group) = self.groups.get_mut(&arn) {
                group.registrations_mut().pod_went(&target, reason, seen);
                self.account.removal_caused(&arn, seen);
            }
        }
    }

    /// Lets go of those whose pods have gone, lost their address, or leave, in a change that was taken in: also of those
    /// that are held since this very change.
    pub(super) fn let_gone_pods_go(&mut self, about: &About, seen: Moment) {
        let held = self.held(|target, owner| about.concerns(target, owner));
        if held.is_empty() {
            return;
        }
        for (arn, target, owner) in held {
            let Some(reason) = self.index.pods().left(&owner, &target.ip) else { continue };
            if let Some(group) = self.groups.get_mut(&arn) {
                group.registrations_mut().pod_went(&target, reason, seen);
                self.account.removal_caused(&arn, seen);
            }
        }
    }
}
