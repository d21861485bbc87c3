//! Counts pods that stop before their load balancers have stopped sending requests.
//!
//! A load balancer keeps sending requests for a while after `DeregisterTargets` has returned (see [`Bounds`]). A pod
//! that stops too early drops requests. Headgate counts and reports each early stop of a pod only once. A force delete
//! or the deletion of a node also counts. Pods of a deleted node count as stopped when Headgate sees the deletion of
//! the node, even if the pods are deleted later.
//!
//! Headgate does not count pods with `headgate.dev/hold: off`, pods that were never healthy, and pods with a paused
//! binding. Headgate also does not count pods that stop without a leader, because no replica knows when they were
//! deregistered.
//!
//! * **Owns** the targets of running pods that were or will be deregistered, and the times of AWS's answers. Also owns
//!   the time of each binding's last report. Every replica also tracks whether the API server creates pods with a hold
//!   (`creations.rs`).
//! * **Assumes** that the caller reports each target that should be deregistered, each request that is sent, and each
//!   target that is registered again. A new leader may report only the request.

mod creations;

use std::{collections::BTreeMap, time::Duration};

pub use self::creations::Creations;
use crate::model::{
    AskedHold, Bounds, CallItem, Cause, Ended, Moment, Origin, Owner, Target, TargetGroupArn, Uid,
    hold::Short,
};

/// The minimum interval between two reports about a binding. Each pod still gets its own report.
const REMINDER: Duration = Duration::from_secs(600);

/// A pod's target that was or will be deregistered.
#[derive(Clone, Debug)]
struct Leaving {
    group: TargetGroupArn,
    target: Target,
    /// When AWS answered `DeregisterTargets`, or `None` before the answer.
    accepted: Option<Moment>,
    /// Whether the target was healthy at some time, so that the load balancer sent requests to it.
    served: bool,
    asked: AskedHold,
}

#[derive(Clone, Debug)]
pub struct Holds {
    bounds: Bounds,
    /// The targets of each pod, while the pod exists.
    leaving: BTreeMap<Uid, Vec<Leaving>>,
    told: BTreeMap<Origin, Moment>,
}

impl Holds {
    /// Creates the state without any pods. `bounds` are the propagation delays of the load balancers.
    pub const fn new(bounds: Bounds) -> Self {
        Self { bounds, leaving: BTreeMap::new(), told: BTreeMap::new() }
    }

    /// Records that a target should be deregistered, or that Headgate sends a `DeregisterTargets` call for the target.
    /// `was` is the pod that had the target, and whether the pod served requests. Headgate ignores a pod that has lost
    /// the target's address.
    pub fn leaves(
        &mut self,
        arn: &TargetGroupArn,
        target: &Target,
        cause: Cause,
        was: Option<(&Owner, bool)>,
        asked: AskedHold,
    ) {
        let Some((owner, served)) = was.filter(|_| !cause.loses_the_address()) else { return };
        self.stays(arn, target, Some(owner));
        let leaving = Leaving { group: arn.clone(), target: *target, accepted: None, served, asked };
        self.leaving.entry(owner.uid.clone()).or_default().push(leaving);
    }

    /// The number of running pods with targets that were or will be deregistered.
    #[cfg(test)]
    pub fn awaited(&self) -> usize {
        self.leaving.len()
    }

    /// Records that the target belongs to this pod again.
    pub fn stays(&mut self, arn: &TargetGroupArn, target: &Target, owner: Option<&Owner>) {
        let Some(uid) = owner.map(|owner| &owner.uid) else { return };
        if let Some(all) = self.leaving.get_mut(uid) {
            all.retain(|leaving| leaving.group != *arn || leaving.target != *target);
            if all.is_empty() {
                self.leaving.remove(uid);
            }
        }
    }

    /// Records that AWS has answered `DeregisterTargets`.
    pub fn accepted(&mut self, arn: &TargetGroupArn, items: &[CallItem], now: Moment) {
        for item in items {
            let all = self.leaving.get_mut(&item.uid).into_iter().flatten();
            for leaving in all.filter(|leaving| leaving.group == *arn && leaving.target == item.target) {
                leaving.accepted = Some(now);
            }
        }
    }

    /// Checks whether a stopped pod was held long enough. If the hold was too short, returns the target group with the
    /// largest difference and the bindings that get a report. Only bindings in `bound_by` that belong to the pod's
    /// namespace and had no recent report get a report.
    pub fn ended(
        &mut self,
        ended: &Ended,
        is_paused: impl Fn(&TargetGroupArn, &Target) -> bool,
        bound_by: impl Fn(&TargetGroupArn) -> Vec<Origin>,
    ) -> Option<(Short, Vec<Origin>)> {
        let left = self.leaving.remove(&ended.pod.uid)?;
        let served =
            left.into_iter().filter(|leaving| leaving.served && !is_paused(&leaving.group, &leaving.target));
        let short = served.filter_map(|leaving| {
            let Leaving { group, target, accepted, asked, .. } = leaving;
            let bound = asked.bound(ended.hold, &self.bounds)?;
            let after = accepted.map(|accepted| ended.seen.since(accepted));
            let is_short = after.is_none_or(|after| after < bound);
            is_short.then_some(Short { group, target, after, bound })
        });
        let lacks = |short: &Short| short.bound.saturating_sub(short.after.unwrap_or_default());
        let short = short.max_by_key(lacks)?;
        let mut tell = bound_by(&short.group);
        tell.retain(|origin| {
            let said = self.told.get(origin).is_some_and(|said| ended.seen.since(*said) < REMINDER);
            origin.key().namespace == ended.pod.pod.namespace && !said
        });
        self.told.extend(tell.iter().map(|origin| (origin.clone(), ended.seen)));
        Some((short, tell))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{Hold, LoadBalancerType, ObjectKey},
        testing::{NAMESPACE, arn, target},
    };

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn owner() -> Owner {
        Owner { pod: ObjectKey::new(NAMESPACE, "a"), uid: Uid::new("1") }
    }

    fn asked() -> AskedHold {
        AskedHold { balancer: LoadBalancerType::Network, hold: Hold::default() }
    }

    /// Headgate deregisters the pod from `blue`, AWS accepts the deregistration, and the pod stops.
    fn ends(
        holds: &mut Holds,
        served: bool,
        accepted: Option<u64>,
        seen: u64,
    ) -> Option<(Short, Vec<Origin>)> {
        let (blue, at_blue) = (arn("blue"), target(1, 80));
        holds.leaves(&blue, &at_blue, Cause::PodTerminating, Some((&owner(), served)), asked());
        let item = CallItem {
            target: at_blue,
            pod: owner().pod,
            uid: owner().uid,
            reason: Cause::PodTerminating,
            since: at(0),
            attempt: 1,
        };
        if let Some(accepted) = accepted {
            holds.accepted(&blue, &[item], at(accepted));
        }
        let ended = Ended { pod: owner(), hold: None, node: None, seen: at(seen) };
        let here = || Origin::Service(ObjectKey::new(NAMESPACE, "web"));
        let elsewhere = || Origin::Service(ObjectKey::new("other", "web"));
        holds.ended(&ended, |_, _| false, |_| vec![here(), elsewhere()])
    }

    #[test]
    fn a_pod_that_ends_before_the_load_balancer_has_stopped_was_not_held_long_enough() {
        let mut holds = Holds::new(Bounds::default());
        let network = Bounds::default().network;
        let early = ends(&mut holds, true, Some(10), 20).unwrap();
        assert_eq!((early.0.after, early.0.bound), (Some(Duration::from_secs(10)), network));
        let before = ends(&mut holds, true, None, 20).unwrap();
        assert_eq!(before.0.after, None);
        assert!(ends(&mut holds, true, Some(10), 10 + network.as_secs()).is_none());
        assert!(ends(&mut holds, false, None, 20).is_none(), "nothing was sent to it");
    }

    #[test]
    fn those_who_bind_it_in_its_namespace_are_told_once_in_a_while() {
        let mut holds = Holds::new(Bounds::default());
        let told = |holds: &mut Holds, seen| ends(holds, true, None, seen).unwrap().1.len();
        assert_eq!((told(&mut holds, 0), told(&mut holds, 599), told(&mut holds, 600)), (1, 0, 1));
    }

    #[test]
    fn one_that_is_the_pods_again_or_was_not_its_own_any_more_is_not_missed() {
        let mut holds = Holds::new(Bounds::default());
        let (blue, at_blue, owner) = (arn("blue"), target(1, 80), owner());
        let ended = Ended { pod: owner.clone(), hold: None, node: None, seen: at(20) };
        let none = |holds: &mut Holds| holds.ended(&ended, |_, _| false, |_| vec![]).is_none();
        holds.leaves(&blue, &at_blue, Cause::NotReady, Some((&owner, true)), asked());
        holds.stays(&blue, &at_blue, Some(&owner));
        assert!(none(&mut holds));
        holds.leaves(&blue, &at_blue, Cause::IpChanged, Some((&owner, true)), asked());
        assert!(none(&mut holds));
        holds.leaves(&blue, &at_blue, Cause::PodTerminating, Some((&owner, true)), asked());
        assert!(holds.ended(&ended, |_, _| true, |_| vec![]).is_none(), "the group is paused");
    }

    #[test]
    fn of_two_target_groups_each_has_its_own_answer() {
        let target = target(1, 80);
        let short = |stays: Option<&str>| {
            let mut holds = Holds::new(Bounds::default());
            for name in ["blue", "green"] {
                holds.leaves(&arn(name), &target, Cause::PodTerminating, Some((&owner(), true)), asked());
            }
            let Owner { pod, uid } = owner();
            let item = CallItem { target, pod, uid, reason: Cause::PodTerminating, since: at(0), attempt: 1 };
            holds.accepted(&arn("blue"), &[item], at(10));
            if let Some(name) = stays {
                holds.stays(&arn(name), &target, Some(&owner()));
            }
            let ended = Ended { pod: owner(), hold: None, node: None, seen: at(11) };
            let (short, _) = holds.ended(&ended, |_, _| false, |_| vec![]).unwrap();
            (short.group, short.after)
        };
        assert_eq!(short(None), (arn("green"), None));
        assert_eq!(short(Some("green")), (arn("blue"), Some(Duration::from_secs(1))));
    }
}
