//! What must hold of each write to a readiness gate.

use std::{net::IpAddr, time::Duration};

use super::{Around, Key, Replica};
use crate::{
    gate::{GateFailure, GateWrite, Shown},
    input::CallId,
    object::Uid,
    pod::PodFacts,
    reason::Reason,
    simulation::oracle::Told,
};

/// A gate that is open for an address that its pod has no more is written to within this time: writes are given up
/// after 5 s, and wait for a while when one has failed.
const WRITTEN_WITHIN: Duration = Duration::from_secs(30);

fn shown(pod: &PodFacts) -> Shown {
    pod.gate.as_deref().map(|gate| gate.shown).unwrap_or_default()
}

impl Replica {
    pub fn check_gate(&mut self, write: &GateWrite, around: &mut Around<'_>) -> Result<(), String> {
        let (name, condition) = (&write.pod.name, &write.condition);
        around.coverage.reason(condition.reason);
        if self.loaded.is_none() || !self.oracle.has_seen_all() {
            return Err(format!("the gate of {name} is written before everything is known"));
        }
        let Some(pod) = self.oracle.pod(&write.pod, &write.uid).filter(|pod| pod.facts.gate.is_some()) else {
            return Err(format!("the gate of {name} is written, and there is no such pod {}", write.uid));
        };
        if self.writing.values().any(|other| other.uid == write.uid) {
            return Err(format!("the gate of {name} is written while another write is in flight"));
        }
        if condition.open {
            self.check_opens(pod, write, around)?;
        } else {
            self.check_closes(pod, write, around)?;
        }
        self.written.insert(write.uid.clone(), around.now);
        self.writing.insert(write.id, write.clone());
        Ok(())
    }

    /// Every target of the pod was healthy because of this very pod, since it was registered for it.
    fn check_opens(&self, pod: &Told, write: &GateWrite, around: &Around<'_>) -> Result<(), String> {
        let (name, uid) = (&write.pod.name, &write.uid);
        let Some(ip) = pod.facts.ips.first() else {
            return Err(format!("the gate of {name} is opened without an IP"));
        };
        if !write.condition.message.starts_with(&format!("pod IP {ip}, ")) {
            return Err(format!("the gate of {name} is opened for another IP than {ip}"));
        }
        if self.oracle.keeps_closed(pod) {
            return Err(format!("the gate of {name} opens, and what binds it never could be followed"));
        }
        if self.oracle.misses(pod) {
            let settled = self.oracle.settled(pod);
            if settled.is_none_or(|settled| around.now < settled + self.binding_patience) {
                return Err(format!("the gate of {name} opens before its bindings can be known"));
            }
            if write.condition.reason != Reason::NothingBound {
                return Err(format!(
                    "the gate of {name} opens, a binding is missing, and it does not say so"
                ));
            }
        }
        // What nobody can know yet: the pod is not there any more, or another one has got the address.
        let is_itself = around.cluster.holder(ip).is_some_and(|(holder, _)| holder == uid);
        for bound in self.oracle.selecting(pod) {
            let group = &bound.key.group;
            let Some(target) = bound.target else {
                return Err(format!("the gate of {name} opens, and it is no target of {}", group.name()));
            };
            let key: Key = (group.clone(), target);
            if around.history.registered_for.get(&key) != Some(uid) {
                return Err(format!(
                    "the gate of {name} opens, and {} has not {target} for it",
                    group.name()
                ));
            }
            let since = around.history.own_since.get(&key).copied().unwrap_or_default();
            if self.read.get(group).is_none_or(|began| *began < since) {
                return Err(format!("the gate of {name} opens by a read of {} from before", group.name()));
            }
            let healthy = around.aws.proven(group, &target, uid);
            let unused = around.aws.unused(group).filter(|_| !bound.waits_when_unused);
            if is_itself && healthy.max(unused).is_none_or(|at| at < since) {
                return Err(format!("the gate of {name} opens, and {} never saw it healthy", group.name()));
            }
        }
        Ok(())
    }

    /// An open gate closes for two reasons.
    fn check_closes(&self, pod: &Told, write: &GateWrite, around: &Around<'_>) -> Result<(), String> {
        let (name, shown) = (&write.pod.name, shown(&pod.facts));
        let opened = self.opened.get(&write.uid).copied();
        if opened.is_none() && !matches!(shown, Shown::Open(_)) {
            return Ok(());
        }
        let has = |ip: &IpAddr| pod.facts.ips.first() == Some(ip);
        let is_for_another_ip = match shown {
            Shown::Open(None) => pod.had_another_ip,
            Shown::Open(Some(ip)) => !pod.facts.ips.contains(&ip),
            Shown::Missing | Shown::Closed => false,
        };
        let own = around.history.registered_for.iter().filter(|(_, uid)| **uid == write.uid);
        let is_put_back = write.condition.reason == Reason::RegisteredAgain
            && own.into_iter().any(|(key, _)| around.history.taken_out.contains_key(key));
        if is_for_another_ip || opened.is_some_and(|ip| !has(&ip)) || is_put_back {
            return Ok(());
        }
        Err(format!("the gate of {name} is closed for {}, and should stay open", write.condition.reason))
    }

    /// A write has ended.
    pub fn gate_answered(&mut self, id: CallId, result: &Result<(), GateFailure>) {
        let Some(write) = self.writing.remove(&id) else { return };
        if result.is_err() {
            return;
        }
        let told = self.oracle.pod(&write.pod, &write.uid);
        if !write.condition.open {
            self.opened.remove(&write.uid);
        } else if let Some(ip) = crate::gate::ip_in(&write.condition.message)
            && told.is_some_and(|pod| !shown(&pod.facts).is_open_for(&[ip]))
        {
            self.opened.insert(write.uid, ip);
        }
    }

    /// The engine was told something: what a watch shows open is what counts.
    pub fn gates_shown(&mut self) {
        let oracle = &self.oracle;
        let pods = |uid: &Uid| oracle.all_pods().find(|pod| pod.facts.uid == *uid);
        self.writing.retain(|_, write| oracle.pod(&write.pod, &write.uid).is_some());
        self.opened.retain(|uid, ip| pods(uid).is_some_and(|pod| !shown(&pod.facts).is_open_for(&[*ip])));
    }

    /// A gate that is open for an address which its pod has no more is closed, or opened for the one that it has.
    pub fn check_gates_are_prompt(&self, around: &Around<'_>) -> Result<(), String> {
        let Some(loaded) = self.loaded.filter(|_| self.may_write(around.now)) else { return Ok(()) };
        let Some(synced) = self.oracle.synced() else { return Ok(()) };
        for (pod, since) in self.oracle.wrongly_open() {
            let since = since.max(loaded).max(synced);
            let tried = self.written.get(&pod.facts.uid).is_some_and(|at| *at >= since);
            if !tried && around.now.since(since) > WRITTEN_WITHIN {
                return Err(format!("the gate of {} is open for another IP", pod.facts.key.name));
            }
        }
        Ok(())
    }
}
