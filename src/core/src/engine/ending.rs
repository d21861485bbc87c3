//! Pods that end before their load balancer has stopped sending to them.
//!
//! A load balancer goes on sending for a while after it has answered `DeregisterTargets` (see [`hold`](crate::hold)); who
//! has ended by then loses requests. Each such pod is counted and told, once: it has ended before the answer, or sooner
//! after it than the load balancer takes. However it ended: a force delete and a node that is gone count too.
//!
//! Not counted is a pod that nobody wants to be held (`headgate.dev/hold: off`), one that never was healthy, one whose
//! target group is paused, and one that ended while nobody led: what its removal was like is not known.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    engine::{Effect, Engine, group::Group, sayings, short::Short},
    index::{Ended, Owner},
    model::{
        hold::AskedHold, object::Uid, origin::Origin, reason::Reason, request::CallItem, target::Target,
        target_group::TargetGroupArn, time::Moment,
    },
    notice::{About, Notice},
};

/// Those who bind the pods are told this often at most: each pod is told anyway.
const REMINDER: Duration = Duration::from_secs(600);

/// A target of a pod that has been taken out, or is to be.
#[derive(Debug)]
struct Leaving {
    group: TargetGroupArn,
    target: Target,
    /// When AWS has answered; `None`: not yet.
    accepted: Option<Moment>,
    /// Whether it was seen healthy, and so was sent to beyond doubt.
    served: bool,
    asked: AskedHold,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Ending {
    /// By pod, as long as it lives.
    leaving: BTreeMap<Uid, Vec<Leaving>>,
    told: BTreeMap<Origin, Moment>,
}

impl Ending {
    /// A target is to go, or its removal is sent. An address that the pod has lost is none that it answers at.
    pub fn leaves(&mut self, arn: &TargetGroupArn, target: &Target, reason: Reason, group: &Group) {
        if reason == Reason::IpChanged {
            return;
        }
        let Some((owner, served)) = group.registrations.may_be_sent_to(target) else { return };
        self.stays(arn, target, Some(owner));
        let asked = group.governed.asked;
        let leaving = Leaving { group: arn.clone(), target: *target, accepted: None, served, asked };
        self.leaving.entry(owner.uid.clone()).or_default().push(leaving);
    }

    /// A target is this pod's.
    pub fn stays(&mut self, arn: &TargetGroupArn, target: &Target, owner: Option<&Owner>) {
        let Some(uid) = owner.map(|owner| &owner.uid) else { return };
        if let Some(all) = self.leaving.get_mut(uid) {
            all.retain(|leaving| leaving.group != *arn || leaving.target != *target);
            if all.is_empty() {
                self.leaving.remove(uid);
            }
        }
    }

    /// AWS has answered `DeregisterTargets`.
    pub fn accepted(&mut self, arn: &TargetGroupArn, items: &[CallItem], now: Moment) {
        for item in items {
            let all = self.leaving.get_mut(&item.uid).into_iter().flatten();
            for leaving in all.filter(|leaving| leaving.group == *arn && leaving.target == item.target) {
                leaving.accepted = Some(now);
            }
        }
    }
}

impl Engine {
    /// A pod has ended: was it held long enough? Of several targets the one counts that lacked most.
    pub(super) fn pod_ended(&mut self, ended: &Ended, effects: &mut Vec<Effect>) {
        let Some(left) = self.ending.leaving.remove(&ended.pod.uid) else { return };
        let paused = |arn: &TargetGroupArn| self.groups.get(arn).is_some_and(Group::is_paused);
        let served = left.into_iter().filter(|leaving| leaving.served && !paused(&leaving.group));
        let short = served.filter_map(|leaving| {
            let Leaving { group, target, accepted, asked, .. } = leaving;
            let bound = asked.bound(ended.hold, &self.settings.bounds)?;
            let after = accepted.map(|accepted| ended.seen.since(accepted));
            let is_short = after.is_none_or(|after| after < bound);
            is_short.then_some(Short { group, target, after, bound })
        });
        let lacks = |short: &Short| short.bound.saturating_sub(short.after.unwrap_or_default());
        let Some(short) = short.max_by_key(lacks) else { return };
        let (reason, pod) = (Reason::HoldTooShort, &ended.pod);
        let about = About::Pod(pod.pod.clone(), pod.uid.clone());
        effects.push(Effect::Notice(Notice { about, reason, note: sayings::hold_too_short(&short) }));
        let bound = self.index.bindings_of(&short.group).map(|binding| &binding.key.origin);
        for origin in bound.filter(|origin| origin.key().namespace == pod.pod.namespace) {
            let said = self.ending.told.get(origin).copied();
            if said.is_some_and(|said| ended.seen.since(said) < REMINDER) {
                continue;
            }
            self.ending.told.insert(origin.clone(), ended.seen);
            let note = sayings::holds_too_short(&short, &pod.pod);
            effects.extend(
                self.services.about(origin).map(|about| Effect::Notice(Notice { about, reason, note })),
            );
        }
        effects.push(Effect::HoldTooShort(short.group));
    }
}
