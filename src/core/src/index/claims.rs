//! Who claims a target, and whose it is.

use std::collections::BTreeSet;

use crate::{
    binding::BindingKey,
    index::{Cause, Changes, Claim, Index, Owner, Ownership, Trouble},
    object::ObjectKey,
    planted::{Bug, planted},
    reason::Reason,
    target::Target,
    verdict::verdict,
};

impl Index {
    /// Makes the claim of `pod` through `binding` what the verdict says; `cause` is why a new one begins.
    pub(super) fn claim(
        &mut self,
        pod: &ObjectKey,
        binding: &BindingKey,
        cause: Cause,
        changes: &mut Changes,
    ) {
        let (Some(entry), Some(rule)) = (self.pods.get(pod), self.binding(binding)) else { return };
        let had = entry.claims.iter().find(|(key, _)| key == binding).map(|(_, target)| *target);
        let says = verdict(&entry.facts, entry.standing, had, rule);
        let keeps_ip = had.is_some_and(|had| entry.facts.ips.contains(&had.ip));
        self.note_trouble(pod, binding, says.err(), changes);
        match (had, says) {
            (Some(had), Ok(target)) if had == target => {}
            (had, Ok(target)) => {
                // The new target first: whoever watches the order sees no moment without one.
                self.add(pod, binding, target, cause, changes);
                if let Some(had) = had {
                    let reason = if had.ip == target.ip { Reason::PortChanged } else { Reason::IpChanged };
                    self.release(pod, binding, Some(had), cause.but(reason), changes);
                }
            }
            (Some(had), Err(reason)) => {
                let reason = match reason {
                    Reason::NotReadyYet if keeps_ip => Reason::PortChanged,
                    Reason::NotReadyYet | Reason::NoIp | Reason::WrongIpFamily => Reason::IpChanged,
                    Reason::NoSuchPort => Reason::PortChanged,
                    other => other,
                };
                self.release(pod, binding, Some(had), cause.but(reason), changes);
            }
            (None, Err(_)) => {}
        }
    }

    pub(super) fn add(
        &mut self,
        pod: &ObjectKey,
        binding: &BindingKey,
        target: Target,
        cause: Cause,
        changes: &mut Changes,
    ) {
        let Some(entry) = self.pods.get_mut(pod) else { return };
        entry.claims.push((binding.clone(), target));
        let claim = Claim {
            binding: binding.clone(),
            owner: Owner { pod: pod.clone(), uid: entry.facts.uid.clone() },
            order: entry.order,
            host_network: entry.facts.host_network,
        };
        self.targets.entry(binding.clone()).or_default().insert(target, pod.clone());
        let contest = self.contests.entry((binding.group.clone(), target)).or_default();
        contest.claims.push(claim);
        self.decide(binding, target, cause, changes);
    }

    /// Ends the claim of `pod` through `binding`: the one on `target`, or all.
    pub(super) fn release(
        &mut self,
        pod: &ObjectKey,
        binding: &BindingKey,
        target: Option<Target>,
        cause: Cause,
        changes: &mut Changes,
    ) {
        let Some(entry) = self.pods.get_mut(pod) else { return };
        let uid = entry.facts.uid.clone();
        let ends = |claim: &(BindingKey, Target)| claim.0 == *binding && target.is_none_or(|t| t == claim.1);
        let ended: Vec<Target> =
            entry.claims.iter().filter(|claim| ends(claim)).map(|claim| claim.1).collect();
        entry.claims.retain(|claim| !ends(claim));
        for target in ended {
            if let Some(targets) = self.targets.get_mut(binding)
                && targets.get(&target) == Some(pod)
            {
                targets.remove(&target);
            }
            if let Some(contest) = self.contests.get_mut(&(binding.group.clone(), target)) {
                contest.claims.retain(|claim| claim.owner.uid != uid || claim.binding != *binding);
            }
            self.decide(binding, target, cause, changes);
        }
    }

    /// Looks again whose `target` is, and reports it if that changed.
    pub(super) fn decide(
        &mut self,
        binding: &BindingKey,
        target: Target,
        cause: Cause,
        changes: &mut Changes,
    ) {
        changes.bindings.insert(binding.clone());
        let id = (binding.group.clone(), target);
        let Some(contest) = self.contests.get_mut(&id) else { return };
        let honest = contest.claims.iter().all(|claim| claim.host_network);
        let owner = if honest || planted(Bug::OlderHolderKeepsTheIp) {
            contest.claims.iter().min_by_key(|claim| claim.order)
        } else {
            contest.claims.iter().rev().max_by_key(|claim| claim.order)
        };
        let mut begun = Vec::new();
        if let Some(owner) = owner {
            for other in contest.claims.iter().filter(|claim| claim.binding.origin != owner.binding.origin) {
                let (first, second) = (&owner.binding.origin, &other.binding.origin);
                if other.owner.uid == owner.owner.uid {
                    let trouble = Trouble::ClaimedTwice {
                        group: id.0.clone(),
                        first: first.clone(),
                        second: second.clone(),
                    };
                    begun.push((trouble, other.owner.pod.clone()));
                }
            }
            for other in contest.claims.iter().filter(|claim| honest && claim.owner.uid != owner.owner.uid) {
                let trouble = Trouble::HostNetwork {
                    waiting: other.owner.pod.clone(),
                    owner: owner.owner.pod.clone(),
                    target,
                };
                begun.push((trouble, other.owner.pod.clone()));
            }
        }
        let owner = owner.map(|claim| claim.owner.clone());
        if owner.as_ref().map(|owner| &owner.uid) != contest.owner.as_ref() {
            contest.owner = owner.as_ref().map(|owner| owner.uid.clone());
            changes.ownerships.push(Ownership {
                binding: binding.clone(),
                target,
                owner,
                reason: cause.reason,
                seen: cause.seen,
            });
        }
        if contest.claims.is_empty() {
            self.contests.remove(&id);
        }
        for (trouble, pod) in begun {
            self.begin(trouble, pod, format!("{target}"), changes);
        }
    }

    pub(super) fn note_trouble(
        &mut self,
        pod: &ObjectKey,
        binding: &BindingKey,
        says: Option<Reason>,
        changes: &mut Changes,
    ) {
        for reason in [Reason::NoSuchPort, Reason::WrongIpFamily] {
            let trouble = Trouble::Pod { binding: binding.clone(), reason };
            if says == Some(reason) {
                self.begin(trouble, pod.clone(), pod.name.to_string(), changes);
            } else if let Some((_, pods)) = self.troubles.get_mut(&trouble) {
                pods.remove(pod);
                if pods.is_empty() {
                    self.troubles.remove(&trouble);
                }
            }
        }
    }

    pub(super) fn begin(&mut self, trouble: Trouble, pod: ObjectKey, example: String, changes: &mut Changes) {
        let (_, pods) =
            self.troubles.entry(trouble.clone()).or_insert_with(|| (example.clone(), BTreeSet::new()));
        if pods.is_empty() {
            changes.troubles.push((trouble, example));
        }
        pods.insert(pod);
    }
}
