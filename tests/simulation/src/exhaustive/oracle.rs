//! What must never happen, and what must be at rest. It knows the truth, and what each engine was told; it shares no code
//! with the engine.

use std::collections::BTreeMap;

use headgate_core::{
    Call, Cause,
    ledger::{PackedLedger, PodMark},
    model::{Moment, ObjectKey, PodFacts, Target},
    requests::Request,
};

use super::{
    aws::Aws,
    parts::{Pod, Replica, read},
    words::{BOUND, pod, stranger, target},
};

/// What is.
pub struct Truth<'a> {
    pub now: Moment,
    pub aws: &'a Aws,
    pub ledger: Option<&'a PackedLedger>,
    pub pods: &'a BTreeMap<ObjectKey, Pod>,
    /// Whether somebody asks for the eviction of the first pod.
    pub is_asked: bool,
}

fn lives(pod: &PodFacts) -> bool {
    !pod.terminating && !pod.finished
}

/// The living pods at a target, as a replica was told.
fn told_at<'a>(replica: &'a Replica, target: &Target) -> impl Iterator<Item = &'a PodFacts> {
    let ip = target.ip;
    replica.told.values().filter(move |pod| lives(pod) && pod.ips.contains(&ip))
}

/// A request leaves.
pub fn may_send(truth: &Truth<'_>, replica: &Replica, request: &Request) -> Result<(), String> {
    match request {
        Request::Call(Call::Deregister { items, .. }) => items.iter().try_for_each(|item| {
            if item.target == stranger() {
                return Err("the target of a stranger is removed".to_owned());
            }
            // Whoever is asked to leave may be taken out. What another pod had at the address goes first.
            match told_at(replica, &item.target).find(|pod| pod.leaving.is_none() && pod.uid == item.uid) {
                Some(pod) => Err(format!("the target of {} is removed, and it lives", pod.key.name)),
                None => Ok(()),
            }
        }),
        Request::Call(Call::Register { items, .. }) => items.iter().try_for_each(|item| {
            if item.target == stranger() {
                return Err("the target of a stranger is registered".to_owned());
            }
            if !told_at(replica, &item.target).any(|pod| pod.uid == item.uid) {
                return Err(format!("{} is registered, and does not live", item.pod.name));
            }
            let said = truth.ledger.and_then(|packed| read(packed).get(&item.target).map(|claim| claim.pod));
            match said {
                Some(mark) if mark == PodMark::of(&item.uid) => Ok(()),
                _ => Err(format!("{} is registered, and the ledger says {said:?}", item.pod.name)),
            }
        }),
        Request::Gate(write) if write.condition.open => {
            let key = (target(), write.uid.clone());
            if !truth.aws.registered.contains(&key) {
                return Err(format!("the gate of {} opens, and it was never registered", write.pod.name));
            }
            if !truth.aws.proven.contains(&key) {
                return Err(format!("the gate of {} opens, and it was never healthy", write.pod.name));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A replica lets the first pod go.
pub fn may_go(truth: &Truth<'_>, replica: &Replica, cause: Cause) -> Result<(), String> {
    // Nobody has led for long: that is said, and the pod goes all the same.
    if cause == Cause::NobodyDecides {
        return Ok(());
    }
    // Who was asked before the watch has told it of the pod at all cannot know better; nobody sends to a pod that is so new.
    let pod = pod("a");
    let is_new = !replica.told.contains_key(&pod.key) && !truth.aws.proven.contains(&(target(), pod.uid));
    if is_new {
        return Ok(());
    }
    if truth.aws.targets.get(&target()).is_some_and(|there| !there.unknown) {
        return Err(format!("a pod is let go ({cause:?}) that AWS still sends to"));
    }
    match truth.aws.out.get(&target()).map(|out| truth.now.since(*out)) {
        Some(since) if since < BOUND => Err(format!(
            "a pod is let go ({cause:?}) {since:?} after its removal, and the bound is {BOUND:?}"
        )),
        _ => Ok(()),
    }
}

/// Nothing is due for long.
pub fn at_rest(truth: &Truth<'_>) -> Result<(), String> {
    let living: BTreeMap<&str, &PodFacts> = truth
        .pods
        .values()
        .filter(|pod| lives(&pod.facts))
        .map(|pod| (&*pod.facts.key.name, &pod.facts))
        .collect();
    if truth.is_asked && living.contains_key(&*pod("a").key.name) {
        return Err("the eviction does not end".to_owned());
    }
    let mut wanted: Vec<Target> = living.values().map(|_| target()).chain([stranger()]).collect();
    wanted.sort();
    let there: Vec<Target> = truth.aws.targets.keys().copied().collect();
    if there != wanted {
        return Err(format!("at rest AWS has {there:?}, and should have {wanted:?}"));
    }
    for (name, pod) in living {
        if !pod.gate.as_deref().is_some_and(|gate| gate.shown.is_open_for(&pod.ips)) {
            return Err(format!("at rest the gate of {name} is closed"));
        }
    }
    Ok(())
}
