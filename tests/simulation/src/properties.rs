//! What Headgate guarantees: properties of what AWS, Kubernetes and the pods of a world do, whatever an engine remembers.
//!
//! A replica acts on what it was told, and what it was told may be late or wrong. So most properties are asked of a replica that
//! was told all that is true (`knows`): of everybody else it could not be asked.
//!
//! - **Authority.** Only the leader calls AWS and writes, within the rates of AWS, and with the ledger written before it registers.
//! - **Foreign targets.** What others have put into a target group stays, but where a binding says `exclusive`.
//! - **Living pods.** A target of a pod that lives, and is selected, is not taken out. No pod is registered that has ended.
//! - **Pause.** Nothing is written about what is paused.
//! - **Gates.** A gate opens for a pod that AWS had as a target, and that passed a health check as such.
//! - **Evictions and nodes.** A pod is let go, and a node called detached, when no load balancer sends there any more.
//! - **Promptness.** What has to go is taken out at once.
//! - **Convergence.** When faults stop, AWS has what the objects ask for and what others put there, gates are open, and evictions
//!   end.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
    time::Duration,
};

use headgate_core::{
    ledger::PodMark,
    model::{
        Bounds, Call, CallItem, Cause, FailureClass, Labels, Moment, ObjectKey, PodFacts, Target,
        TargetGroupArn, TargetPort, Texts, Uid,
        gate::{GateWrite, Shown},
        node::DetachedWrite,
        policy::{GATE_WHEN_UNUSED, OWNERSHIP, PAUSED, REGISTER_WHEN, WHEN_NOT_READY},
        service::PortRef,
        signal::{DISRUPTED, DYING},
        target_binding::Pods,
    },
};

use crate::{
    aws::Aws,
    cluster::{Cluster, Part, is_deaf, lives, parts},
    store::Store,
    words::{APPLICATION, GROUPS, Key, MANY_HEALTHY, NAMESPACE, Sender},
};

/// AWS's limit for Register and Deregister, in calls a second and at once.
const RATE: (f64, f64) = (4.0, 20.0);
/// Targets in a call at most.
const MOST: usize = 100;
/// What has to go is taken out within this time, as long as no call about its group fails; after a failure it may wait so long.
const PROMPT: Duration = Duration::from_secs(6);
const BACKOFF: Duration = Duration::from_secs(20);
/// A deleted Service keeps its targets for a minute after a replica was told, which may be late.
const GRACE: Duration = Duration::from_secs(180);
/// What annotations say that cannot be read.
const UNREADABLE: [&str; 5] = ["later", "drop", "mine", "maybe", "yes"];
/// The clocks of replicas differ by less than this, where they are not wrong.
const SKEW: Duration = Duration::from_secs(2);

/// What is true in a world, and whether the replica that acts was told all of it.
pub struct Scene<'a> {
    pub now: Moment,
    pub cluster: &'a Cluster,
    pub aws: &'a Aws,
    pub store: &'a Store,
    pub bounds: Bounds,
    pub knows: bool,
    /// Whether it leads, has the ledgers, and was given a list of everything.
    pub leads: bool,
    /// The target groups that AWS has named to it.
    pub found: [Option<TargetGroupArn>; 3],
}

/// A binding that somebody has written, if all of it can be followed.
struct Written<'a> {
    group: &'a str,
    selector: &'a Labels,
    port: u16,
    policy: &'a Texts,
}

impl Written<'_> {
    /// Whether it says this, or what cannot be read: then what was said before counts.
    fn may_say(&self, annotation: &str, value: &str) -> bool {
        self.policy.get(annotation).is_some_and(|said| said == value || UNREADABLE.contains(&said))
    }

    fn says(&self, annotation: &str, value: &str) -> bool {
        self.policy.get(annotation) == Some(value)
    }
}

/// A target that is asked for.
struct Wanted<'a> {
    target: Target,
    pod: &'a PodFacts,
    by: Written<'a>,
}

impl<'a> Scene<'a> {
    /// The bindings of all Services and TargetBindings.
    fn written(&self) -> Vec<Written<'a>> {
        let number = |port: &TargetPort| if let TargetPort::Number(port) = port { Some(*port) } else { None };
        let mut all = Vec::new();
        for service in self.cluster.services.values() {
            let parts = service.target_groups.as_deref().map(parts).unwrap_or_default();
            let Some(port) = number(&service.ports[0].target_port) else { continue };
            for part in parts {
                let Part::Group(group) = part else { continue };
                all.push(Written { group, selector: &service.selector, port, policy: &service.policy });
            }
        }
        for binding in self.cluster.bindings.values().filter(|binding| !binding.ending) {
            let (selector, port) = match &binding.pods {
                Pods::Selected(selector, port, _) => (selector, number(port)),
                Pods::Unreadable(_) | Pods::OfService(_, PortRef::Name(_)) => continue,
                Pods::OfService(name, _) => {
                    let Some(service) = self.cluster.services.get(&ObjectKey::new(NAMESPACE, &**name)) else {
                        continue;
                    };
                    (&service.selector, number(&service.ports[0].target_port))
                }
            };
            let Some(port) = port else { continue };
            all.push(Written { group: &binding.group, selector, port, policy: &binding.policy });
        }
        all
    }

    /// What is asked for in a target group: by pods that live, have their address alone, and do not leave.
    fn wanted(&self, group: &TargetGroupArn) -> Vec<Wanted<'a>> {
        let mut all = Vec::new();
        if self.aws.arn(group.name()) != Some(group) || !self.found.contains(&Some(group.clone())) {
            return all;
        }
        for by in
            self.written().into_iter().filter(|by| *by.group == *group.name() && !by.selector.is_empty())
        {
            let selected =
                self.cluster.pods.values().filter(|pod| lives(pod) && by.selector.selects(&pod.labels));
            let (port, policy, selector, group) = (by.port, by.policy, by.selector, by.group);
            all.extend(selected.filter(|pod| self.has_its_address(pod) && !self.leaves(pod)).map(|pod| {
                Wanted {
                    target: Target::new(pod.ips[0], port),
                    pod,
                    by: Written { group, selector, port, policy },
                }
            }));
        }
        all
    }

    /// Whether a pod is alone at its address, as far as anybody shows.
    fn has_its_address(&self, pod: &PodFacts) -> bool {
        let others = self.cluster.pods.values().filter(|other| other.uid != pod.uid && !other.finished);
        !others.into_iter().any(|other| other.ips == pod.ips)
            && self.cluster.has_kept(&pod.ips[0], &pod.uid, self.now)
    }

    /// Whether a pod is to leave, or its node is about to go.
    fn leaves(&self, pod: &PodFacts) -> bool {
        pod.leaving.is_some() || pod.left_over.is_some() || self.node_goes(pod)
    }

    fn node_goes(&self, pod: &PodFacts) -> bool {
        let Some(name) = &pod.node else { return false };
        let Some(node) = self.cluster.node(name) else { return true };
        let has = |keys: &[&str]| node.taints.iter().any(|taint| keys.contains(&&**taint));
        node.shuts_down || node.cordoned || node.not_ready || has(&DYING) || has(&DISRUPTED)
    }
}

/// Whether only the properties count: to see what they notice by themselves.
static ALONE: LazyLock<bool> = LazyLock::new(|| std::env::var_os("HEADGATE_PROPERTIES_ALONE").is_some());

/// What a check by the oracle says, which counts beside the properties.
pub fn beside(check: Result<(), String>) -> Result<(), String> {
    if *ALONE { Ok(()) } else { check }
}

fn broken<T>(property: &str, what: impl std::fmt::Display) -> Result<T, String> {
    Err(format!("property {property}: {what}"))
}

/// What has happened in a world, as far as a property needs it.
#[derive(Debug, Default)]
pub struct Properties {
    /// When AWS was asked to register each target for each pod.
    asked: BTreeMap<(Key, Uid), Moment>,
    /// Which process asked for it.
    askers: BTreeMap<Key, Sender>,
    /// What is left of AWS's limit, for each process.
    tokens: BTreeMap<Sender, (f64, Moment)>,
    /// When AWS was asked to take each target out last, and when a call about each group failed last.
    taken_out: BTreeMap<Key, Moment>,
    failed: BTreeMap<TargetGroupArn, Moment>,
    /// What AWS has refused to take out.
    refused: BTreeSet<Key>,
    /// When anything was paused last.
    paused: Option<Moment>,
    /// Since when a target has to go, and a leader knows and may take it out.
    due: BTreeMap<Key, Moment>,
}

impl Properties {
    /// A call to AWS leaves.
    pub fn calls(&mut self, sender: Sender, call: &Call, scene: &Scene<'_>) -> Result<(), String> {
        let (Call::Register { group, items } | Call::Deregister { group, items }) = call else {
            return Ok(());
        };
        if !scene.leads {
            let action = call.action();
            return broken(
                "authority",
                format!("{action} by who does not lead, or has not been told all yet"),
            );
        }
        let (per_second, burst) = RATE;
        let (tokens, at) = self.tokens.get(&sender).copied().unwrap_or((burst, Moment::START));
        let tokens = (tokens + scene.now.since(at).as_secs_f64() * per_second).min(burst) - 1.0;
        self.tokens.insert(sender, (tokens, scene.now));
        if tokens < -1e-6 {
            return broken("rate", "more calls than AWS's limit allows");
        }
        if items.is_empty() || items.len() > MOST {
            return broken("rate", format!("a call with {} targets", items.len()));
        }
        for item in items {
            if matches!(call, Call::Register { .. }) {
                self.registers(group, item, scene)?;
                self.askers.insert((group.clone(), item.target), sender);
            } else {
                self.deregisters(group, item, scene)?;
                self.taken_out.insert((group.clone(), item.target), scene.now);
            }
            is_not_paused(group, item, scene)?;
        }
        Ok(())
    }

    fn registers(
        &mut self,
        group: &TargetGroupArn,
        item: &CallItem,
        scene: &Scene<'_>,
    ) -> Result<(), String> {
        let (target, name) = (item.target, group.name());
        if !scene.store.says(group, &target, PodMark::of(&item.uid)) {
            return broken(
                "ledger first",
                format!("{target} is registered in {name}, and not in the ledger"),
            );
        }
        let pod = scene.cluster.pods.get(&item.pod).filter(|pod| pod.uid == item.uid);
        if scene.knows && !pod.is_some_and(|pod| lives(pod) && pod.ips.contains(&target.ip)) {
            return broken(
                "living pods",
                format!("{target} is registered in {name} for {}, which has ended", item.uid),
            );
        }
        self.asked.insert(((group.clone(), target), item.uid.clone()), scene.now);
        Ok(())
    }

    fn deregisters(&self, group: &TargetGroupArn, item: &CallItem, scene: &Scene<'_>) -> Result<(), String> {
        let (target, name) = (item.target, group.name());
        if !scene.knows {
            return Ok(());
        }
        let pod = scene.cluster.pods.get(&item.pod).filter(|pod| pod.uid == item.uid && lives(pod));
        if let Some(pod) = pod.filter(|pod| scene.cluster.refuses(pod))
            && item.reason == Cause::PodEvicting
            && item.since == scene.now
            && !self.taken_out.contains_key(&(group.clone(), target))
        {
            let name = &pod.key.name;
            return broken("evictions", format!("{name} is taken out, and its budget allows no disruption"));
        }
        let mut written = scene.written().into_iter().filter(|by| by.group == name).peekable();
        let is_exclusive = written.peek().is_some() && written.all(|by| by.may_say(OWNERSHIP, "exclusive"));
        if scene.aws.foreign_targets(group).any(|foreign| *foreign == target) && !is_exclusive {
            return broken(
                "foreign targets",
                format!("{target} is removed from {name}, and somebody else put it there"),
            );
        }
        let wanted = scene.wanted(group);
        // One that was never registered, or not by this binding, may have to be ready first.
        let is_registered = |wanted: &&Wanted<'_>| {
            let key = (group.clone(), target);
            let at_once =
                matches!(wanted.by.policy.get(REGISTER_WHEN), None | Some("ip")) && name != MANY_HEALTHY;
            wanted.pod.is_ready() || at_once && self.asked.contains_key(&(key, wanted.pod.uid.clone()))
        };
        match wanted.iter().filter(is_registered).find(|wanted| wanted.target == target) {
            // One that is not ready for long may be taken out where that is asked for.
            Some(wanted) if !wanted.by.may_say(WHEN_NOT_READY, "deregister") || wanted.pod.is_ready() => {
                broken(
                    "living pods",
                    format!("{target} of {} is removed from {name}, and it lives", wanted.pod.key.name),
                )
            }
            _ => Ok(()),
        }
    }

    /// A readiness gate is written.
    pub fn writes_gate(&self, write: &GateWrite, scene: &Scene<'_>) -> Result<(), String> {
        // What these words say is not that the pod is healthy.
        let is_said = matches!(
            write.condition.reason,
            Cause::HealthUnreadable | Cause::NothingBound | Cause::NodeDisrupted | Cause::TargetUnused
        );
        let pod = scene.cluster.pods.get(&write.pod).filter(|pod| pod.uid == write.uid && lives(pod));
        if let Some(pod) = pod.filter(|_| !write.condition.open && write.condition.reason != Cause::IpChanged)
        {
            return self.closes_gate(pod, scene);
        }
        let Some(pod) = pod.filter(|_| write.condition.open && scene.knows && !is_said) else {
            return Ok(());
        };
        for arn in GROUPS.iter().filter_map(|name| scene.aws.arn(name)) {
            for wanted in scene.wanted(arn).iter().filter(|wanted| wanted.pod.uid == pod.uid) {
                let key = (arn.clone(), wanted.target);
                let unused = scene.aws.unused(arn).filter(|_| !wanted.by.says(GATE_WHEN_UNUSED, "wait"));
                let asked = self.asked.get(&(key, pod.uid.clone()));
                let healthy = scene.aws.proven(arn, &wanted.target, &pod.uid).max(unused);
                if asked.is_none()
                    || healthy.is_none_or(|at| Some(&at) < asked && !scene.aws.has(arn, &wanted.target))
                {
                    let name = arn.name();
                    return broken(
                        "gates",
                        format!("that of {} opens, and {name} never saw it healthy", pod.key.name),
                    );
                }
            }
        }
        Ok(())
    }

    /// A call has failed. What AWS refuses is tried ever more rarely.
    pub fn fails(&mut self, call: &Call, class: FailureClass, now: Moment) {
        self.failed.extend(call.group().map(|group| (group.clone(), now)));
        if let Call::Deregister { group, items } = call
            && class == FailureClass::Refused
        {
            self.refused.extend(items.iter().map(|item| (group.clone(), item.target)));
        }
    }

    /// Time has passed; `acts`: who leads knows all, and may call AWS. What a leader before has left may be somebody else's by
    /// now, and what is paused stays.
    pub fn passes(&mut self, acts: Option<Sender>, scene: &Scene<'_>) -> Result<(), String> {
        if scene.written().iter().any(|by| by.may_say(PAUSED, "true")) {
            self.paused = Some(scene.now);
        }
        // A Service that is deleted while it is paused is so for as long as its targets stay.
        let is_paused = self.paused.is_some_and(|at| scene.now.since(at) < GRACE);
        if acts.is_none() || !scene.knows || is_paused {
            self.due.clear();
            return Ok(());
        }
        let mut due = BTreeMap::new();
        for (key, uid) in self.asked.keys() {
            let (group, target) = key;
            let fails = self.failed.get(group).is_some_and(|at| scene.now.since(*at) < BACKOFF);
            let lives_on =
                scene.cluster.pods.values().any(|pod| pod.uid == *uid && !pod.terminating && !pod.finished);
            let is_somebodys =
                scene.cluster.pods.values().any(|pod| lives(pod) && pod.ips.contains(&target.ip));
            let is_known = scene.found.contains(&Some(group.clone()));
            let is_anothers = self.askers.get(key).copied() != acts;
            let is_asked = scene.aws.open.iter().any(|open| is_about(&open.call, key));
            // What a late call has brought back nobody knows before a read.
            let is_there = scene.aws.sends_to(group, target, Duration::ZERO, scene.now).is_some();
            if is_there
                && is_known
                && !(lives_on
                    || is_somebodys
                    || fails
                    || self.refused.contains(key)
                    || is_anothers
                    || is_asked)
            {
                let since = self.due.get(key).copied().unwrap_or(scene.now);
                if scene.now.since(since) > PROMPT {
                    return broken(
                        "promptness",
                        format!("{target} stays in {}, and its pod has ended", group.name()),
                    );
                }
                due.insert(key.clone(), since);
            }
        }
        self.due = due;
        Ok(())
    }

    /// An open gate of a pod that stays is not closed, unless Headgate takes the pod out.
    fn closes_gate(&self, pod: &PodFacts, scene: &Scene<'_>) -> Result<(), String> {
        let is_open =
            pod.gate.as_deref().is_some_and(|gate| gate.shown.is_open_for(&pod.ips) && !gate.unread);
        let was_out = self
            .asked
            .keys()
            .filter(|(_, uid)| *uid == pod.uid)
            .any(|(key, _)| self.taken_out.contains_key(key));
        if is_open && scene.knows && !was_out && scene.has_its_address(pod) && !scene.leaves(pod) {
            return broken(
                "gates",
                format!("that of {} is closed, and nobody has taken it out", pod.key.name),
            );
        }
        Ok(())
    }

    /// A pod is let go, and nothing has gone wrong for a while; or a node is called detached.
    pub fn lets_go(&self, uid: &Uid, scene: &Scene<'_>) -> Result<(), String> {
        let Some(pod) = scene.cluster.pods.values().find(|pod| pod.uid == *uid) else { return Ok(()) };
        // One that nothing selects any more a standby cannot know to have been a target a moment ago.
        let is_selected = scene.written().iter().any(|by| by.selector.selects(&pod.labels));
        if !scene.knows || !lives(pod) || !scene.has_its_address(pod) || !is_selected {
            return Ok(());
        }
        for arn in GROUPS.iter().filter_map(|name| scene.aws.arn(name)) {
            let Bounds { application, network } = scene.bounds;
            let bound =
                if arn.name() == APPLICATION { application } else { network }.saturating_sub(2 * SKEW);
            for ((key, _), _) in self.asked.iter().filter(|(((group, target), of), _)| {
                group == arn && of == uid && pod.ips.contains(&target.ip)
            }) {
                if let Some(why) = scene.aws.sends_to(arn, &key.1, bound, scene.now) {
                    let (name, target) = (&pod.key.name, key.1);
                    return broken(
                        "evictions",
                        format!("{name} is let go, and {target} in {}: {why}", arn.name()),
                    );
                }
            }
        }
        Ok(())
    }

    /// A node is called detached.
    pub fn detaches(&self, write: &DetachedWrite, scene: &Scene<'_>) -> Result<(), String> {
        if write.at.is_none() {
            return Ok(());
        }
        let mut here = scene.cluster.pods.values().filter(|pod| pod.node.as_ref() == Some(&write.node));
        here.try_for_each(|pod| self.lets_go(&pod.uid, scene))
    }
}

/// Whether a call is about this target.
fn is_about(call: &Call, (group, target): &Key) -> bool {
    match call {
        Call::Register { group: of, items } | Call::Deregister { group: of, items } => {
            of == group && items.iter().any(|item| item.target == *target)
        }
        Call::ReadHealth { .. } | Call::FindGroups { .. } | Call::ReadAttributes { .. } => false,
    }
}

fn is_not_paused(group: &TargetGroupArn, item: &CallItem, scene: &Scene<'_>) -> Result<(), String> {
    if !scene.knows {
        return Ok(());
    }
    let wanted = scene.wanted(group);
    let mut its =
        wanted.iter().filter(|wanted| wanted.target == item.target && wanted.pod.uid == item.uid).peekable();
    if its.peek().is_some() && its.all(|wanted| wanted.by.says(PAUSED, "true")) {
        return broken("pause", format!("{} of {} is written to, and is paused", item.target, group.name()));
    }
    Ok(())
}

/// The faults have stopped, and everything has had time.
pub fn converges(scene: &Scene<'_>) -> Result<(), String> {
    for node in scene.cluster.nodes.values() {
        let has = |keys: &[&str]| node.taints.iter().any(|taint| keys.contains(&&**taint));
        let goes = node.cordoned || node.shuts_down || has(&DYING) || has(&DISRUPTED);
        if node.detached && !goes && scene.cluster.nodes_are_watched() {
            return broken("convergence", format!("node {} stays, and is called detached", node.name));
        }
    }
    for name in GROUPS {
        let Some(arn) = scene.aws.arn(name) else { continue };
        let ours = scene.aws.ours(name);
        if let Some(unnoted) = ours.iter().find(|target| scene.store.mark(arn, target).is_none()) {
            return broken("convergence", format!("{unnoted} is in {name}, and not in its ledger"));
        }
        let wanted = scene.wanted(arn);
        // One that never was ready may have to be it first.
        let mut due = wanted.iter().filter(|wanted| wanted.pod.is_ready());
        if let Some(missing) = due.find(|wanted| !ours.contains(&wanted.target) && !scene.aws.is_full(name)) {
            return broken(
                "convergence",
                format!("{} of {} is not in {name}", missing.target, missing.pod.key.name),
            );
        }
        let lives_at = |target: &Target| scene.cluster.lives_at(&target.ip);
        if let Some(left) = ours.iter().find(|target| !lives_at(target)) {
            return broken("convergence", format!("{left} is in {name}, and nobody lives there"));
        }
        for wanted in wanted.iter().filter(|wanted| wanted.pod.is_ready()) {
            let shown = wanted.pod.gate.as_deref().map(|gate| gate.shown);
            let is_served =
                scene.aws.healthy_since(arn, &wanted.target).is_some() && !is_deaf(&wanted.target);
            let is_closed = matches!(shown, Some(Shown::Closed | Shown::ClosedAgain | Shown::Missing));
            if is_closed && is_served && scene.all_serve(wanted.pod) {
                return broken("convergence", format!("the gate of {} is {shown:?}", wanted.pod.key.name));
            }
        }
    }
    Ok(())
}

impl Scene<'_> {
    /// Whether every target of a pod is healthy, and all that selects it can be followed.
    fn all_serve(&self, pod: &PodFacts) -> bool {
        let selecting =
            self.cluster.services.values().filter(|service| service.selector.selects(&pod.labels));
        let is_whole = |text: &str| parts(text).iter().all(|part| matches!(part, Part::Group(_)));
        let mut texts = selecting.filter_map(|service| service.target_groups.as_deref());
        texts.all(is_whole)
            && self.written().iter().filter(|by| by.selector.selects(&pod.labels)).all(|by| {
                let target = Target::new(pod.ips[0], by.port);
                self.aws.arn(by.group).is_some_and(|arn| self.aws.healthy_since(arn, &target).is_some())
            })
    }
}
