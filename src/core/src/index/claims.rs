//! Adds and removes the `Claim`s of pods on targets.

use super::{Because, Index, in_force::Claim};
use crate::model::{BindingKey, Cause, ObjectKey, Owner, Target};

impl Index {
    /// Updates the `Claim` of `pod` through `binding` to match the verdict. `because`: why a new claim is added.
    pub(super) fn claim(&mut self, pod: &ObjectKey, binding: &BindingKey, because: Because) {
        let (Some(entry), Some(rule)) = (self.pods.get(pod), self.bindings.get(binding)) else { return };
        let had = entry.claims.iter().find(|(key, _)| key == binding).map(|(_, target)| *target);
        let says = self.pods().says(entry, had, rule);
        let keeps_ip = had.is_some_and(|had| entry.facts.ips.contains(&had.ip));
        self.bindings.note_unfit(pod, binding, says.err());
        match (had, says) {
            (Some(had), Ok(target)) if had == target => {}
            (had, Ok(target)) => {
                // Add the new target first, so that the pod always has a target.
                self.add(pod, binding, target, because);
                if let Some(had) = had {
                    let cause = if had.ip == target.ip { Cause::PortChanged } else { Cause::IpChanged };
                    self.release(pod, binding, Some(had), because.but(cause));
                }
            }
            (Some(had), Err(cause)) => {
                let cause = match cause {
                    Cause::NotReadyYet if keeps_ip => Cause::PortChanged,
                    Cause::NotReadyYet | Cause::NoIp | Cause::WrongIpFamily | Cause::AddressContested => {
                        Cause::IpChanged
                    }
                    Cause::NoSuchPort => Cause::PortChanged,
                    other => other,
                };
                self.release(pod, binding, Some(had), because.but(cause));
            }
            (None, Err(_)) => {}
        }
    }

    fn add(&mut self, pod: &ObjectKey, binding: &BindingKey, target: Target, because: Because) {
        let Some(entry) = self.pods.get_mut(pod) else { return };
        entry.claims.push((binding.clone(), target));
        self.workloads.is_bound(&pod.namespace, &entry.facts.labels);
        let claim = Claim {
            binding: binding.clone(),
            owner: Owner { pod: pod.clone(), uid: entry.facts.uid.clone() },
            order: entry.order,
            host_network: entry.facts.host_network,
        };
        self.bindings.add(claim, target, because);
    }

    /// Removes the `Claim` of `pod` through `binding` on `target`, or all its `Claim`s if `target` is `None`.
    pub(super) fn release(
        &mut self,
        pod: &ObjectKey,
        binding: &BindingKey,
        target: Option<Target>,
        because: Because,
    ) {
        let Some(entry) = self.pods.get_mut(pod) else { return };
        let uid = entry.facts.uid.clone();
        let ends = |claim: &(BindingKey, Target)| claim.0 == *binding && target.is_none_or(|t| t == claim.1);
        let ended: Vec<Target> =
            entry.claims.iter().filter(|claim| ends(claim)).map(|claim| claim.1).collect();
        entry.claims.retain(|claim| !ends(claim));
        if !ended.is_empty() && !because.cause.loses_the_address() {
            entry.left = Some(because.seen);
        }
        for target in ended {
            self.bindings.release(&uid, binding, target, because);
        }
    }
}
