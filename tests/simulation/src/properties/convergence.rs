//! Where a world ends when its faults have stopped.

use headgate_core::model::{
    LeavingFacts, NodeFacts, PodFacts, Target, TargetGroupArn,
    gate::Shown,
    policy::{GATE_WHEN_UNUSED, OWNERSHIP},
    signal::{DISRUPTED, DYING},
};

use super::{Properties, Scene, broken};
use crate::{
    cluster::{is_deaf, lives},
    words::GROUPS,
};

const NAME: &str = "convergence";

impl Properties {
    /// The faults have stopped, and everything has had time; `drains`: somebody still asks for evictions.
    pub fn converges(&self, drains: bool, scene: &Scene<'_>) -> Result<(), String> {
        nodes(scene)?;
        for name in GROUPS {
            let Some(arn) = scene.aws.arn(name) else { continue };
            has_what_is_wanted(arn, scene)?;
            self.ledger(arn, scene)?;
        }
        let is_current = |arn: &TargetGroupArn| scene.aws.arn(arn.name()) == Some(arn);
        if let Some((gone, _)) = scene.store.all().find(|(arn, _)| !is_current(arn)) {
            return broken(NAME, format!("{gone} is no more, and has a ledger"));
        }
        let held = GROUPS.iter().filter_map(|name| scene.aws.arn(name)).any(|arn| holds(arn, scene));
        if let Some(ending) = scene.cluster.bindings.values().find(|binding| binding.ending && !held) {
            return broken(NAME, format!("the deleted TargetBinding {} is still there", ending.key));
        }
        scene.cluster.pods.values().filter(|pod| lives(pod)).try_for_each(|pod| gate(pod, scene))?;
        self.nobody_leaves(drains, scene)
    }

    /// The ledger has what is registered, and what a load balancer may still send to.
    fn ledger(&self, arn: &TargetGroupArn, scene: &Scene<'_>) -> Result<(), String> {
        let (name, ours) = (arn.name(), scene.aws.ours(arn.name()));
        if let Some(unnoted) = ours.iter().find(|target| scene.store.mark(arn, target).is_none()) {
            return broken(NAME, format!("{unnoted} is in {name}, and not in its ledger"));
        }
        let asked = scene.asked(arn);
        let Some((_, ledger)) = scene.store.all().find(|(group, _)| *group == arn) else { return Ok(()) };
        let lingers = scene.settings.bounds.network + super::LONGEST_UNREAD;
        for target in ledger.keys().filter(|target| !ours.contains(target)) {
            let taken_out = self.taken_out.get(&(arn.clone(), *target));
            let may_be_sent_to = taken_out.is_some_and(|out| scene.now.since(out.at) < lingers);
            if !asked.iter().any(|asked| asked.target == *target) && !may_be_sent_to {
                return broken(NAME, format!("{target} is in the ledger of {name}, and nowhere else"));
            }
        }
        Ok(())
    }

    /// Nobody is to leave whom nobody asks to.
    fn nobody_leaves(&self, drains: bool, scene: &Scene<'_>) -> Result<(), String> {
        let over = scene.settings.leaving.given_up_after + super::MOMENTS;
        for pod in scene.cluster.pods.values().filter(|pod| !pod.terminating && !pod.finished) {
            let Some(leaving) = pod.leaving.as_deref() else { continue };
            let name = &pod.key.name;
            if leaving.credible(scene.wall(scene.now)) != Some(*leaving) && !scene.clocks_are_wrong {
                return broken(NAME, format!("{name} is to leave as cannot be true"));
            }
            let is_over = self
                .asked_to_leave
                .get(&pod.uid)
                .is_some_and(|at| scene.now.since(*at) > over + super::LONGEST_UNREAD);
            if !drains && !leaving.ask.early && is_over && !scene.cluster.is_closed(pod) {
                return broken(NAME, format!("{name} is to leave, and nobody asks for it"));
            }
        }
        Ok(())
    }
}

fn nodes(scene: &Scene<'_>) -> Result<(), String> {
    for node in scene.cluster.nodes.values().filter(|_| scene.cluster.nodes_are_watched()) {
        let has = |keys: &[&str]| node.taints.iter().any(|taint| keys.contains(&&**taint));
        let goes = node.cordoned || node.shuts_down || has(&DYING) || has(&DISRUPTED);
        let is_here = |pod: &PodFacts| pod.node.as_ref() == Some(&node.name) && !pod.ips.is_empty();
        if node.detached && !goes {
            return broken(NAME, format!("node {} stays, and is called detached", node.name));
        }
        if goes && !node.detached && !scene.cluster.pods.values().any(is_here) {
            return broken(NAME, format!("node {} goes and has no pod, and nobody says so", node.name));
        }
    }
    Ok(())
}

/// What is replaced stays while none of what replaces it serves.
fn holds(arn: &TargetGroupArn, scene: &Scene<'_>) -> bool {
    let serves = |target: &Target| scene.aws.healthy_since(arn, target).is_some() || scene.aws.is_unused(arn);
    let asked = scene.asked(arn);
    !scene.settings.replacement_grace.is_zero()
        && !asked.is_empty()
        && !asked.iter().any(|asked| serves(&asked.target))
}

/// AWS has what the objects ask for, and what others put there.
fn has_what_is_wanted(arn: &TargetGroupArn, scene: &Scene<'_>) -> Result<(), String> {
    let name = arn.name();
    let (wanted, ours, written) = (scene.wanted(arn), scene.aws.ours(name), scene.written());
    let mut its = written.iter().filter(|by| by.group == name).peekable();
    let is_exclusive = its.peek().is_some() && its.all(|by| by.says(OWNERSHIP, "exclusive"));
    if let Some(foreign) = scene.aws.foreign_targets(arn).find(|_| is_exclusive) {
        return broken(NAME, format!("{name} is Headgate's alone, and has {foreign}"));
    }
    // One that never was ready may have to be it first.
    let mut due = wanted.iter().filter(|wanted| wanted.pod.is_ready());
    if let Some(missing) = due.find(|wanted| !ours.contains(&wanted.target) && !scene.aws.is_full(name)) {
        return broken(NAME, format!("{} of {} is not in {name}", missing.target, missing.pod.key.name));
    }
    let is_held = holds(arn, scene);
    for target in &ours {
        let here: Vec<&PodFacts> =
            scene.cluster.pods.values().filter(|pod| lives(pod) && pod.ips.contains(&target.ip)).collect();
        if here.is_empty() {
            return broken(NAME, format!("{target} is in {name}, and nobody lives there"));
        }
        let asks = |pod: &&&PodFacts| written.iter().any(|by| by.group == name && by.asks_for(pod, target));
        let mut asked_for = here.iter().filter(asks).peekable();
        if asked_for.peek().is_none() && !is_held {
            return broken(NAME, format!("{target} is in {name}, and nothing asks for it"));
        }
        let is_out = |pod: &&&PodFacts| pod.leaving.as_deref().is_some_and(LeavingFacts::is_out);
        if asked_for.peek().is_some() && asked_for.all(|pod| is_out(&pod) || dies(pod, scene)) {
            return broken(NAME, format!("{target} is in {name}, and its pod is to be out"));
        }
    }
    Ok(())
}

/// Whether the node of a pod is about to die.
fn dies(pod: &PodFacts, scene: &Scene<'_>) -> bool {
    let node = pod.node.as_ref().and_then(|node| scene.cluster.node(node));
    let is_dying = |node: &NodeFacts| node.taints.iter().any(|taint| DYING.contains(&&**taint));
    scene.cluster.nodes_are_watched() && node.is_some_and(|node| node.shuts_down || is_dying(node))
}

/// A gate is open if its pod serves, and for no other address.
fn gate(pod: &PodFacts, scene: &Scene<'_>) -> Result<(), String> {
    let Some(gate) = pod.gate.as_deref() else { return Ok(()) };
    let (name, shown) = (&pod.key.name, gate.shown);
    if let Shown::Open(Some(ip)) = shown
        && !pod.ips.contains(&ip)
    {
        return broken(NAME, format!("the gate of {name} is open for {ip}"));
    }
    let is_open = shown.is_open_for(&pod.ips) && !gate.unread;
    let is_read = |healthy| scene.now.since(healthy) > super::LONGEST_UNREAD;
    let serves = |by: &super::scene::Written<'_>| {
        let target = Target::new(pod.ips[0], by.port);
        let waits = by.says(GATE_WHEN_UNUSED, "wait");
        scene.aws.arn(by.group).is_some_and(|arn| {
            let unused = scene.aws.is_unused(arn);
            scene.aws.has(arn, &target)
                && by.is_content_with(pod)
                && (pod.is_ready() || !by.may_deregister())
                && if unused {
                    !waits
                } else {
                    scene.aws.healthy_since(arn, &target).is_some_and(is_read) && !is_deaf(&target)
                }
        })
    };
    let all_serve = scene.written().iter().filter(|by| by.selector.selects(&pod.labels)).all(serves);
    if !is_open && all_serve && scene.has_its_address(pod) && !scene.leaves(pod) {
        return broken(NAME, format!("the gate of {name} is {shown:?}, and it serves"));
    }
    Ok(())
}
