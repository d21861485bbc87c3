//! Who claims a target, and whose it is.

use crate::{
    binding::BindingKey,
    index::{Cause, Changes, Claim, Contest, Index, Owner, Ownership},
    model::{object::ObjectKey, reason::Reason, target::Target},
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
        let says = self.says(entry, had, rule);
        let keeps_ip = had.is_some_and(|had| entry.facts.ips.contains(&had.ip));
        self.note_unfit(pod, binding, says.err(), changes);
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
        if !ended.is_empty() && cause.reason != Reason::IpChanged {
            entry.left = Some(cause.seen);
        }
        for target in ended {
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
        let here = contest.claims.iter().filter(|claim| claim.binding == *binding);
        // Of several pods of one binding, the one that got the address last is shown.
        if let Some(claim) = here.max_by_key(|claim| claim.order) {
            let pod = claim.owner.pod.clone();
            self.targets.entry(binding.clone()).or_default().insert(target, pod);
        } else if let Some(targets) = self.targets.get_mut(binding) {
            targets.remove(&target);
        }
        let owner = contest.prevailing().map(|claim| claim.owner.clone());
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
        let now = contest.troubles(target);
        let before = std::mem::replace(&mut contest.troubles, now.clone());
        if contest.claims.is_empty() {
            self.contests.remove(&id);
        }
        self.note_contest(&before, &now, changes);
    }
}

impl Contest {
    /// Whether all that claim it share the address honestly: pods of the host network.
    pub(super) fn is_honest(&self) -> bool {
        self.claims.iter().all(|claim| claim.host_network)
    }

    /// The claim that makes its pod the owner.
    pub(super) fn prevailing(&self) -> Option<&Claim> {
        if self.is_honest() {
            self.claims.iter().min_by_key(|claim| claim.order)
        } else {
            self.claims.iter().rev().max_by_key(|claim| claim.order)
        }
    }
}
