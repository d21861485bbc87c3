//! Watches the pods of held targets. While a deregistration is held (see `registration/replaced.rs`), no pod claims the
//! target. The index therefore does not report the termination of the target's pod, so this module detects the
//! termination.

use std::{net::IpAddr, time::Duration};

use crate::{
    engine::{Effect, Engine},
    index::Index,
    leadership::Role,
    model::{
        Cause, Change, Ended, Fate, Moment, Notice, ObjectKey, Owner, PodFacts, Reason, Target,
        TargetGroupArn,
        notice::{self},
    },
    report::sayings,
    targets::groups::Which,
};

/// The pods that a change may affect.
#[derive(Clone, Debug)]
pub enum About {
    /// This pod, and the earlier owners of its addresses.
    Pod(ObjectKey, Vec<IpAddr>),
    /// Any pod.
    All,
}

impl About {
    /// The pods that this change may affect.
    pub fn of(change: &Change<PodFacts>) -> Self {
        match change {
            Change::Applied(pod) | Change::Deleted(pod) => Self::Pod(pod.key.clone(), pod.ips.clone()),
            Change::Relisted(..) => Self::All,
        }
    }

    /// The pod, if the change affects a single pod.
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
    /// Handles the termination of a pod. Reports the pod to the user if the pod did not keep serving long enough.
    pub(super) fn pod_ended(&mut self, ended: Ended) {
        let ended = &self.with_its_node(ended);
        let (groups, index) = (&self.groups, &self.known.index);
        let is_paused = |arn: &TargetGroupArn, target: &Target| {
            groups.get(arn).is_some_and(|group| group.registrations().is_paused(target))
        };
        let bound_by = |arn: &TargetGroupArn| {
            index.bindings().of_group(arn).map(|binding| binding.key.origin.clone()).collect()
        };
        let Some(leader) = &mut self.leader else { return };
        let Some((short, tell)) = leader.holds.ended(ended, is_paused, bound_by) else { return };
        let (reason, pod) = (Reason::HoldTooShort, &ended.pod);
        let about = notice::About::Pod(pod.pod.clone(), pod.uid.clone());
        self.out.tell(Notice { about, reason, note: sayings::hold_too_short(&short) });
        for origin in tell {
            let note = sayings::holds_too_short(&short, &pod.pod);
            let about = self.known.services.origins().about(&origin);
            self.out.extend(about.map(|about| Effect::Notice(Notice { about, reason, note })));
        }
        self.out.put(Effect::HoldTooShort(short.group));
    }

    /// Corrects the termination time of a pod on a deleted node. A pod on a deleted node terminated with its node, even
    /// if Kubernetes has kept the pod.
    fn with_its_node(&self, ended: Ended) -> Ended {
        let signal = ended.node.as_ref().and_then(|node| self.known.nodes.signal(node));
        let gone = signal.filter(|(signal, _)| signal.fate == Fate::Deleted).map(|(_, since)| since);
        let earlier = gone.map_or(Duration::ZERO, |since| self.wall(ended.seen).since(since));
        Ended { seen: ended.seen - earlier, ..ended }
    }

    /// Handles the deregistration of a pod that still runs. The held deregistrations of the pod become due immediately,
    /// and Headgate evaluates the pod's entries in earlier ledgers again.
    pub(super) fn held_of_pod_goes(&mut self, pod: &ObjectKey, cause: Cause, seen: Moment) {
        self.groups.orphans().touch();
        self.let_go(|_, _, owner| (owner.pod == *pod).then_some(cause), seen);
    }

    /// Makes held deregistrations due immediately if this change has deleted or deregistered their pods, or has moved
    /// their addresses to other pods. The method includes deregistrations that are held because of the same change.
    pub(super) fn let_gone_pods_go(&mut self, about: &About, seen: Moment) {
        let left = |index: &Index, target: &Target, owner: &Owner| {
            about.concerns(target, owner).then(|| index.pods().left(owner, &target.ip))?
        };
        self.let_go(left, seen);
    }

    /// Makes each held deregistration due immediately if `cause` returns a cause. The method includes deregistrations
    /// that may become held.
    fn let_go(&mut self, cause: impl Fn(&Index, &Target, &Owner) -> Option<Cause>, seen: Moment) {
        // A standby holds no deregistrations, and all groups of a standby are active.
        if self.term.role() == Role::Standby {
            return;
        }
        let mut due = Vec::new();
        for (arn, group) in self.groups.these(Which::Spare) {
            for (target, owner) in group.registrations().spare_their_pods() {
                due.extend(
                    cause(&self.known.index, target, owner).map(|cause| (arn.clone(), *target, cause)),
                );
            }
        }
        for (arn, target, cause) in due {
            self.record_held(&arn, &target, cause);
            if let Some(group) = self.groups.get_mut(&arn) {
                group.registrations_mut().pod_went(&target, cause, seen);
                self.accounts.removal_caused(&arn, seen);
            }
        }
    }
}
