//! Pods of held targets: while a removal is held (see `registration/replaced.rs`), nobody claims the target, so that
//! the index says nothing when its pod goes after all. It is looked after here.

use std::{collections::BTreeSet, net::IpAddr};

use crate::{
    engine::{Effect, Engine},
    index::Owner,
    input::Change,
    object::ObjectKey,
    planted::{Bug, planted},
    pod::PodFacts,
    target::Target,
    target_group::TargetGroupArn,
    time::Moment,
};

/// A target whose removal is held, and the pod it was registered for.
type Held = (TargetGroupArn, Target, Owner);

/// The held targets that a change of pods may be about, and the pods that may have got their addresses.
#[derive(Debug, Default)]
pub struct Concerned {
    held: Vec<Held>,
    came: Vec<ObjectKey>,
}

impl Engine {
    /// What is held and may have to go after this change.
    pub(super) fn concerned(&self, change: &Change<PodFacts>) -> Concerned {
        match change {
            Change::Applied(pod) | Change::Deleted(pod) => Concerned {
                held: self.held(|target, owner| owner.pod == pod.key || pod.ips.contains(&target.ip)),
                came: vec![pod.key.clone()],
            },
            Change::Relisted(_, pods) => {
                let held = self.held(|_, _| true);
                let ips: BTreeSet<IpAddr> = held.iter().map(|(_, target, _)| target.ip).collect();
                let came = pods.iter().filter(|pod| pod.ips.iter().any(|ip| ips.contains(ip)));
                Concerned { came: came.map(|pod| pod.key.clone()).collect(), held }
            }
        }
    }

    /// All that is held.
    pub(super) fn all_concerned(&self) -> Concerned {
        Concerned { held: self.held(|_, _| true), came: Vec::new() }
    }

    fn held(&self, is_meant: impl Fn(&Target, &Owner) -> bool) -> Vec<Held> {
        let holding = self.groups.iter().filter(|(_, group)| group.registrations.is_holding());
        let all = holding.flat_map(|(arn, group)| group.registrations.held().map(move |held| (arn, held)));
        let meant = all.filter(|(_, (target, owner))| is_meant(target, owner));
        meant.map(|(arn, (target, owner))| (arn.clone(), *target, owner.clone())).collect()
    }

    /// Says where removals are held, or registrations do not fit, and where they do no more: each once.
    pub(super) fn say_waiting(&mut self, effects: &mut Vec<Effect>) {
        let mut changed = Vec::new();
        self.groups.each_awake(|arn, group| {
            let holds = group.registrations.is_holding() && !group.is_paused();
            let unplaced = group.registrations.unplaced();
            if group.holds != holds || group.unplaced != unplaced {
                (group.holds, group.unplaced) = (holds, unplaced);
                changed.push(arn.clone());
            }
        });
        for arn in changed {
            self.pictures.touch_group(&arn);
            self.say_about(&arn, effects);
        }
    }

    /// Lets go of those whose pods have gone, or lost their address.
    pub(super) fn let_gone_pods_go(&mut self, concerned: &Concerned, seen: Moment) {
        for (arn, target, owner) in &concerned.held {
            let Some(reason) = self.index.left(owner, &target.ip, &concerned.came) else { continue };
            if let Some(group) = self.groups.get_mut(arn)
                && !planted(Bug::HoldOutlivesThePod)
            {
                group.registrations.pod_went(target, reason, seen);
                self.lanes.removal_caused(arn, seen);
            }
        }
    }
}
