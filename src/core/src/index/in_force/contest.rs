//! Of all that claim a target, whose it is.

use super::{InForce, Subject};
use crate::{
    index::Cause,
    model::{BindingKey, Owner, Target, Trouble, Uid, changes::Ownership},
};

#[derive(Clone, Debug)]
pub struct Claim {
    pub binding: BindingKey,
    pub owner: Owner,
    pub order: u64,
    pub host_network: bool,
}

/// Who claims a target.
#[derive(Debug, Default)]
pub struct Contest {
    pub claims: Vec<Claim>,
    owner: Option<Uid>,
    troubles: Vec<(Trouble, Subject)>,
}

impl InForce {
    /// Looks again whose `target` is, and reports it if that changed.
    pub(super) fn decide(&mut self, binding: &BindingKey, target: Target, cause: Cause) {
        self.changes.bindings.insert(binding.clone());
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
            self.changes.ownerships.push(Ownership {
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
        self.note_contest(&before, &now);
    }
}

impl Contest {
    /// Whether all that claim it share the address honestly: pods of the host network.
    pub fn is_honest(&self) -> bool {
        self.claims.iter().all(|claim| claim.host_network)
    }

    /// The claim that makes its pod the owner.
    pub fn prevailing(&self) -> Option<&Claim> {
        if self.is_honest() {
            self.claims.iter().min_by_key(|claim| claim.order)
        } else {
            self.claims.iter().rev().max_by_key(|claim| claim.order)
        }
    }
}
