//! What must hold of each write to a readiness gate.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use super::{Around, Replica};
use crate::oracle::{Selecting, Told};
use crate::words::Key;
use headgate_core::{
    ledger::PodMark,
    model::{
        CallItem, Cause, Failure, FailureClass, Moment, PodFacts, RequestId, TargetGroupArn, Uid,
        gate::{GateWrite, Shown},
    },
    requests::Answer,
};

/// A gate that is open for an address that its pod has no more is written to within this time: writes are given up
/// after 5 s, and wait for a while when one has failed.
const WRITTEN_WITHIN: Duration = Duration::from_secs(30);
/// A gate that has to be closed before a target is put back is waited for so long.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

/// For which pods a target was registered since it was out last, as far as is known here: this leader has asked for it, or
/// the ledger said so.
#[derive(Debug, Default)]
pub struct ToldOf {
    pods: BTreeSet<PodMark>,
    /// Whether its removal was sent since.
    goes: bool,
}

impl ToldOf {
    /// It is registered for this pod; `there`: AWS has it already.
    pub fn is_told(&mut self, pod: PodMark, there: bool) {
        if std::mem::take(&mut self.goes) || !there {
            self.pods.clear();
        }
        self.pods.insert(pod);
    }
}

fn shown(pod: &PodFacts) -> Shown {
    pod.gate.as_deref().map(|gate| gate.shown).unwrap_or_default()
}

impl Replica {
    pub fn check_gate(
        &mut self,
        id: RequestId,
        write: &GateWrite,
        around: &mut Around<'_>,
    ) -> Result<(), String> {
        let (name, condition) = (&write.pod.name, &write.condition);
        around.coverage.cause(condition.reason);
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
        self.writing.insert(id, write.clone());
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
        if write.condition.reason == Cause::NodeDisrupted {
            let is_left = self.oracle.is_passed_over(pod) && self.oracle.is_out(pod);
            return if is_left { Ok(()) } else { Err(format!("the gate of {name} opens for its node")) };
        }
        if self.oracle.misses(pod) {
            let settled = self.oracle.settled(pod);
            if settled.is_none_or(|settled| around.now < settled + self.binding_patience) {
                return Err(format!("the gate of {name} opens before its bindings can be known"));
            }
            if !matches!(write.condition.reason, Cause::NothingBound | Cause::HealthUnreadable) {
                return Err(format!(
                    "the gate of {name} opens, a binding is missing, and it does not say so"
                ));
            }
        }
        // What nobody can know yet: the pod is not there any more, or another one has got the address, for a while perhaps.
        let is_itself = around.cluster.has_kept(ip, uid, pod.ip_since);
        let may_be_unread = write.condition.reason == Cause::HealthUnreadable;
        let (mut unread, mut wrong) = (0, "it is no target".to_owned());
        for bound in self.oracle.selecting(pod) {
            let group = &bound.key.group;
            let Some(target) = bound.target else {
                return Err(format!("the gate of {name} opens, and it is no target of {}", group.name()));
            };
            let key: Key = (group.clone(), target);
            let proven = self.check_proven(pod, &bound, &key, is_itself, around);
            if !may_be_unread {
                proven?;
                continue;
            }
            match self.unread.check(&key, uid, around.aws, around.now) {
                Ok(()) => unread += 1,
                Err(why) if proven.is_err() => {
                    return Err(format!("the gate of {name} opens though it could not be read, and {why}"));
                }
                Err(why) => wrong = why,
            }
        }
        if may_be_unread && unread == 0 {
            return Err(format!("the gate of {name} opens for what could not be read, and {wrong}"));
        }
        Ok(())
    }

    /// A target of the pod was healthy because of this very pod, since it was registered for it.
    fn check_proven(
        &self,
        pod: &Told,
        bound: &Selecting<'_>,
        key: &Key,
        is_itself: bool,
        around: &Around<'_>,
    ) -> Result<(), String> {
        let (name, uid, (group, target)) = (&pod.facts.key.name, &pod.facts.uid, key);
        if around.history.registered_for.get(key) != Some(uid) {
            return Err(format!("the gate of {name} opens, and {} has not {target} for it", group.name()));
        }
        let since = around.history.own_since.get(key).copied().unwrap_or_default();
        if self.read.get(group).is_none_or(|began| *began < since) {
            return Err(format!("the gate of {name} opens by a read of {} from before", group.name()));
        }
        let healthy = around.aws.proven(group, target, uid);
        // A removal that AWS has not carried out has broken nothing off; what others have done meanwhile nobody could know.
        let since = if around.aws.taken_out(group, target) < healthy { Moment::START } else { since };
        let unused = around.aws.unused(group).filter(|_| !bound.waits_when_unused);
        if is_itself && healthy.max(unused).is_none_or(|at| at < since) {
            return Err(format!("the gate of {name} opens, and {} never saw it healthy", group.name()));
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
            Shown::Missing | Shown::Closed | Shown::ClosedAgain => false,
        };
        let mark = PodMark::of(&write.uid);
        // Removals never wait for the ledger: what it still has of a pod, and AWS has not, the leader before may have taken
        // out before it died. Whoever leads next cannot tell, and must not leave a gate open for a pod that was taken out.
        let may_be_out = || self.inherited.contains(&mark);
        let is_put_back = write.condition.reason == Cause::RegisteredAgain
            && (around.history.taken_from.iter().any(|(_, of)| *of == mark) || may_be_out());
        if is_for_another_ip || opened.is_some_and(|ip| !has(&ip)) || is_put_back {
            return Ok(());
        }
        Err(format!(
            "the gate of {name} is closed for {}, and should stay open",
            write.condition.reason.as_str()
        ))
    }

    /// A write has ended.
    pub fn gate_answered(&mut self, id: RequestId, result: &Result<Answer, Failure>) {
        let Some(write) = self.writing.remove(&id) else { return };
        if let Err(failure) = result {
            self.gone.extend((failure.class == FailureClass::Gone).then_some(write.uid));
            return;
        }
        let told = self.oracle.pod(&write.pod, &write.uid);
        if !write.condition.open {
            let is_again = matches!(write.condition.reason, Cause::IpChanged | Cause::RegisteredAgain);
            if write.condition.turns && is_again {
                self.unread.closed_again(write.uid.clone());
            }
            self.opened.remove(&write.uid);
            self.closed.insert(write.uid);
            return;
        }
        self.closed.remove(&write.uid);
        if let Shown::Open(Some(ip)) = Shown::read(Some("True"), Some(&write.condition.message))
            && told.is_some_and(|pod| !shown(&pod.facts).is_open_for(&[ip]))
        {
            self.opened.insert(write.uid, ip);
        }
    }

    /// The engine was told something: what a watch shows open is what counts.
    pub fn gates_shown(&mut self) {
        let oracle = &self.oracle;
        let pods = |uid: &Uid| oracle.all_pods().find(|pod| pod.facts.uid == *uid);
        let is_open = |pod: &Told| shown(&pod.facts).is_open_for(&pod.facts.ips);
        self.took_out.retain(|(_, target), mark| {
            let mut there = oracle.all_pods().filter(|pod| pod.facts.ips.contains(&target.ip));
            there.any(|pod| pod.lives() && PodMark::of(&pod.facts.uid) == *mark && is_open(pod))
        });
        self.closed.retain(|uid| pods(uid).is_some_and(is_open));
        self.unread.retain(|uid| pods(uid).is_some());
        self.writing.retain(|_, write| oracle.pod(&write.pod, &write.uid).is_some());
        self.opened.retain(|uid, ip| pods(uid).is_some_and(|pod| !shown(&pod.facts).is_open_for(&[*ip])));
    }

    /// That targets were taken out of a group that nothing binds any more need not be remembered.
    pub fn forget_gone_groups(&mut self) {
        self.took_out.retain(|(group, _), _| self.oracle.binds(group));
    }

    /// A target is taken out, because of its pod or, as far as the engine can know, perhaps so. The gate of a pod for which it
    /// was never registered says nothing about it.
    pub fn takes_out(&mut self, key: &Key, around: &mut Around<'_>) {
        let noted = around.store.mark(&key.0, &key.1);
        let left = self.oracle.left(key).map(|(uid, of_the_pod)| (PodMark::of(uid), of_the_pod));
        let told_of = self.told_of.entry(key.clone()).or_default();
        told_of.goes = true;
        let marks = noted.into_iter().chain(left.map(|(mark, _)| mark)).chain(told_of.pods.iter().copied());
        around.history.taken_from.extend(marks.map(|mark| (key.clone(), mark)));
        let had = |mark: &PodMark| told_of.pods.contains(mark);
        let mark = left.map_or(noted, |(mark, of_the_pod)| Some(mark).filter(|_| of_the_pod).filter(had));
        self.took_out.remove(key);
        self.took_out.extend(mark.map(|mark| (key.clone(), mark)));
        self.gates_shown();
    }

    /// AWS has refused to take these out: they have never left.
    pub fn stay(&mut self, keys: &[Key]) {
        for key in keys {
            self.took_out.remove(key);
            if let Some(told_of) = self.told_of.get_mut(key) {
                told_of.goes = false;
            }
        }
    }

    /// What was taken out because of its pod is registered again when the gate of the pod is closed, or could not be.
    pub fn check_puts_back(
        &mut self,
        group: &TargetGroupArn,
        item: &CallItem,
        around: &mut Around<'_>,
    ) -> Result<(), String> {
        let of_the_pod = matches!(
            item.reason,
            Cause::PodReady | Cause::PodHasIp | Cause::PodListed | Cause::EvictionGivenUp | Cause::NodeStays
        );
        let key = (group.clone(), item.target);
        let there = around.aws.has(group, &item.target);
        self.told_of.entry(key.clone()).or_default().is_told(PodMark::of(&item.uid), there);
        let mark = self.took_out.remove(&key);
        if !of_the_pod || item.attempt > 1 || mark != Some(PodMark::of(&item.uid)) {
            return Ok(());
        }
        let since = self.loaded.map_or(item.since, |loaded| loaded.max(item.since));
        if self.closed.contains(&item.uid) {
            around.coverage.saw("gate: closed before a target is put back");
        } else if around.now < since + CLOSED_WITHIN {
            let name = group.name();
            return Err(format!("{} is put back into {name}, and the gate of its pod is open", item.target));
        } else {
            around.coverage.saw("gate: not closed in time before a target is put back");
        }
        Ok(())
    }

    /// A gate that is open for an address which its pod has no more is closed, or opened for the one that it has.
    pub fn check_gates_are_prompt(&self, around: &Around<'_>) -> Result<(), String> {
        let Some(loaded) = self.loaded.filter(|_| self.may_write(around.now)) else { return Ok(()) };
        let Some(synced) = self.oracle.synced() else { return Ok(()) };
        for (pod, since) in self.oracle.wrongly_open() {
            let since = since.max(loaded).max(synced);
            let tried = self.written.get(&pod.facts.uid).is_some_and(|at| *at >= since);
            if !tried && !self.gone.contains(&pod.facts.uid) && around.now.since(since) > WRITTEN_WITHIN {
                return Err(format!("the gate of {} is open for another IP", pod.facts.key.name));
            }
        }
        Ok(())
    }
}
