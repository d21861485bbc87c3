//! Who claims a target.

use super::{Cause, Index, in_force::Claim};
use crate::model::{BindingKey, ObjectKey, Owner, Reason, Target};

impl Index {
    /// Makes the claim of `pod` through `binding` what the verdict says; `cause` is why a new one begins.
    pub(super) fn claim(&mut self, pod: &ObjectKey, binding: &BindingKey, cause: Cause) {
        let (Some(entry), Some(rule)) = (self.pods.get(pod), self.bindings.get(binding)) else { return };
        let had = entry.claims.iter().find(|(key, _)| key == binding).map(|(_, target)| *target);
        let says = self.pods().says(entry, had, rule);
        let keeps_ip = had.is_some_and(|had| entry.facts.ips.contains(&had.ip));
        self.bindings.note_unfit(pod, binding, says.err());
        match (had, says) {
            (Some(had), Ok(target)) if had == target => {}
            (had, Ok(target)) => {
                // The new target first: whoever watches the order sees no moment without one.
                self.add(pod, binding, target, cause);
                if let Some(had) = had {
                    let reason = if had.ip == target.ip { Reason::PortChanged } else { Reason::IpChanged };
                    self.release(pod, binding, Some(had), cause.but(reason));
                }
            }
            (Some(had), Err(reason)) => {
                let reason = match reason {
                    Reason::NotReadyYet if keeps_ip => Reason::PortChanged,
                    Reason::NotReadyYet | Reason::NoIp | Reason::WrongIpFamily | Reason::AddressContested => {
                        Reason::IpChanged
                    }
                    Reason::NoSuchPort => Reason::PortChanged,
                    other => other,
                };
                self.release(pod, binding, Some(had), cause.but(reason));
            }
            (None, Err(_)) => {}
        }
    }

    fn add(&mut self, pod: &ObjectKey, binding: &BindingKey, target: Target, cause: Cause) {
        let Some(entry) = self.pods.get_mut(pod) else { return };
        entry.claims.push((binding.clone(), target));
        self.workloads.is_bound(&pod.namespace, &entry.facts.labels);
        let claim = Claim {
            binding: binding.clone(),
            owner: Owner { pod: pod.clone(), uid: entry.facts.uid.clone() },
            order: entry.order,
            host_network: entry.facts.host_network,
        };
        self.bindings.add(claim, target, cause);
    }

    /// Ends the claim of `pod` through `binding`: the one on `target`, or all.
    pub(super) fn release(
        &mut self,
        pod: &ObjectKey,
        binding: &BindingKey,
        target: Option<Target>,
        cause: Cause,
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
            self.bindings.release(&uid, binding, target, cause);
        }
    }
}
