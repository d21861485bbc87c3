//! What an object binds, by what it says, and by what it said before where it cannot be followed.

use std::collections::{BTreeMap, BTreeSet};

use crate::{cluster::Part, cluster::parts, oracle::Known, oracle::pods::Told, words::APPLICATION};
use headgate_core::model::{
    BindingFacts, BindingKey, Labels, Moment, ObjectKey, Origin, ServiceFacts, Target, TargetGroupArn,
    TargetGroupFacts, TargetPort, Texts, Uid,
    policy::{GATE_WHEN_UNUSED, OWNERSHIP, PAUSED, REGISTER_WHEN, WHEN_NOT_READY},
    service::PortRef,
    target_binding::Pods,
};

/// The label of the one port that Services have.
const PORT: &str = "http";

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    pub uid: Uid,
    /// `None`: it binds nothing.
    parts: Option<&'static [Part]>,
    /// How the port is called, and where it leads.
    label: String,
    port: u16,
    selector: Labels,
    policy: Texts,
}

impl Text {
    pub fn of_service(service: &ServiceFacts) -> Self {
        let TargetPort::Number(port) = service.ports[0].target_port else {
            unreachable!("worlds use numbers")
        };
        Self {
            uid: service.uid.clone(),
            parts: service.target_groups.as_deref().map(parts),
            label: PORT.into(),
            port,
            selector: service.selector.clone(),
            policy: service.policy.clone(),
        }
    }

    /// Of a TargetBinding, given the Service that it names, if there is one.
    pub fn of_binding(binding: &BindingFacts, named: Option<&ServiceFacts>) -> Self {
        let group = parts(&binding.group);
        let own = |parts, label: String, port, selector: &Labels| Self {
            uid: binding.uid.clone(),
            parts,
            label,
            port,
            selector: selector.clone(),
            policy: binding.policy.clone(),
        };
        match (&binding.pods, named) {
            (Pods::Selected(selector, TargetPort::Number(port), _), _) => {
                own(Some(group), port.to_string(), *port, selector)
            }
            (Pods::Selected(..), _) => unreachable!("worlds use numbers"),
            (Pods::Unreadable(_), _) => unreachable!("worlds have an API server that refuses them"),
            (Pods::OfService(..), None) => own(None, PORT.into(), 0, &Labels::default()),
            (Pods::OfService(_, port), Some(service)) => {
                let service = Self::of_service(service);
                let parts = if *port == PortRef::Name("nothing".into()) { &[Part::Bad] } else { group };
                own(Some(parts), PORT.into(), service.port, &service.selector)
            }
        }
    }

    /// Whether it names this target group.
    pub fn names(&self, group: &str) -> bool {
        let is = |part: &Part| matches!(part, Part::Group(name) if *name == group);
        self.parts.is_some_and(|parts| parts.iter().any(is))
    }

    /// As if it was taken away.
    pub fn without_groups(&self) -> Self {
        Self { parts: None, ..self.clone() }
    }
}

/// What the other annotations ask for.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "one for each annotation")]
struct Policy {
    /// 0: at the IP, 1: when the containers are ready, 2: when the pod is, 3: as suits the load balancer.
    register_when: u8,
    deregisters: bool,
    exclusive: bool,
    paused: bool,
    waits_when_unused: bool,
}

impl Policy {
    fn read(texts: &Texts, before: Self) -> Self {
        let word = |name, before, words: &[&str]| match texts.get(name) {
            None => 0,
            Some(text) => words.iter().position(|word| *word == text).unwrap_or(before),
        };
        let when = usize::from(before.register_when);
        let when = word(REGISTER_WHEN, when, &["ip", "containers-ready", "ready", "auto"]);
        Self {
            register_when: u8::try_from(when).unwrap(),
            deregisters: word(WHEN_NOT_READY, before.deregisters.into(), &["keep", "deregister"]) == 1,
            exclusive: word(OWNERSHIP, before.exclusive.into(), &["shared", "exclusive"]) == 1,
            waits_when_unused: word(GATE_WHEN_UNUSED, before.waits_when_unused.into(), &["open", "wait"])
                == 1,
            paused: word(PAUSED, before.paused.into(), &["false", "true"]) == 1,
        }
    }

    fn is_content_with(self, pod: &Told, group: &TargetGroupArn, waits: bool) -> bool {
        match self.register_when {
            0 if !waits => true,
            3 if !waits && group.name() != APPLICATION => true,
            2 => pod.facts.readiness.is_ready(),
            _ => pod.facts.readiness.containers,
        }
    }
}

/// Notes whether a group asks for more than one healthy target, or nobody knows.
fn note(waits: &mut BTreeSet<TargetGroupArn>, group: &TargetGroupFacts) {
    if group.least_healthy.is_none_or(|least| least.percent > 0 || least.count > 1) {
        waits.insert(group.arn.clone());
    } else {
        waits.remove(&group.arn);
    }
}

/// What an object binds.
#[derive(Clone, Debug)]
pub struct Bound {
    pub text: Text,
    /// The Service whose pods a TargetBinding has.
    pub of: Option<ObjectKey>,
    /// When it ends, if its Service is not made again.
    pub ends: Option<Moment>,
    /// What is in force: each binding with its port.
    in_force: BTreeMap<BindingKey, u16>,
    selector: Labels,
    /// Whether it takes in pods that it has not: what is written selects some.
    admits: bool,
    policy: Policy,
    /// Whether all that is written was in force once.
    followed: bool,
    /// The groups that ask for more than one healthy target, as far as is known.
    waits: BTreeSet<TargetGroupArn>,
}

impl Bound {
    pub fn new(text: Text) -> Self {
        Self {
            text,
            of: None,
            ends: None,
            in_force: BTreeMap::new(),
            waits: BTreeSet::new(),
            selector: Labels::default(),
            admits: false,
            policy: Policy::default(),
            followed: false,
        }
    }

    /// It says something else now.
    pub fn says(&mut self, text: Text) {
        self.followed &= self.text.parts == text.parts;
        (self.text, self.ends) = (text, None);
    }

    /// Whether it cannot be followed, or not yet.
    pub fn is_in_doubt(&self) -> bool {
        self.text.parts.is_some() && !self.followed && self.ends.is_none()
    }

    pub fn binds_nothing(&self) -> bool {
        self.in_force.is_empty()
    }

    pub fn is_over(&self) -> bool {
        self.text.parts.is_none() && self.in_force.is_empty()
    }

    pub fn keys(&self) -> impl Iterator<Item = &BindingKey> {
        self.in_force.keys()
    }

    pub fn binds(&self, group: &TargetGroupArn) -> bool {
        self.keys().any(|key| key.group == *group)
    }

    pub fn is_paused(&self) -> bool {
        self.policy.paused
    }

    /// Whether a pod that is not ready any more is to be removed.
    pub fn deregisters(&self) -> bool {
        self.policy.deregisters
    }

    pub fn waits_when_unused(&self) -> bool {
        self.policy.waits_when_unused
    }

    /// Whether what is in force selects pods with these labels.
    pub fn selects(&self, labels: &Labels) -> bool {
        self.selector.selects(labels)
    }

    /// Whether what is written does.
    pub fn asks_for(&self, labels: &Labels) -> bool {
        self.text.selector.selects(labels)
    }

    pub fn is_exclusive(&self) -> bool {
        self.policy.exclusive
    }

    /// Decides what is in force.
    pub fn settle(&mut self, origin: &Origin, known: &Known<'_>) {
        let Some(parts) = self.text.parts else {
            *self = Self { ends: self.ends, ..Self::new(self.text.clone()) };
            return;
        };
        let before = std::mem::take(&mut self.in_force);
        self.policy = Policy::read(&self.text.policy, self.policy);
        self.admits = !self.text.selector.is_empty();
        if self.admits || before.is_empty() {
            self.selector = self.text.selector.clone();
        }
        let label = &*self.text.label;
        let (mut port_is_in_doubt, mut any_is_in_doubt) = (false, false);
        for part in parts {
            match part {
                Part::Group(name) => match known(name) {
                    Some(_) if self.selector.is_empty() => {}
                    Some(facts) => {
                        let group = facts.arn.clone();
                        note(&mut self.waits, &facts);
                        let key = BindingKey { origin: origin.clone(), port: label.into(), group };
                        let stays = before.get(&key).filter(|_| !self.admits);
                        self.in_force.insert(key, stays.copied().unwrap_or(self.text.port));
                    }
                    None => port_is_in_doubt = true,
                },
                Part::BadGroup => port_is_in_doubt = true,
                Part::Bad => any_is_in_doubt = true,
            }
        }
        self.followed |= !port_is_in_doubt && !any_is_in_doubt;
        let is_settled = !self.in_force.is_empty();
        for (mut key, port) in before {
            let here = &*key.port == label;
            if (here && port_is_in_doubt) || (any_is_in_doubt && !(here && is_settled)) {
                if let Some(facts) = known(key.group.name()) {
                    note(&mut self.waits, &facts);
                    key.group = facts.arn.clone();
                }
                self.in_force.entry(key).or_insert(port);
            }
        }
    }

    /// The target that `pod` should be for the binding `key`; `had`: the one that it has. One that is not ready any more
    /// stays where it is until its zones have `let_go` of it.
    pub fn target(&self, key: &BindingKey, pod: &Told, had: Option<Target>, let_go: bool) -> Option<Target> {
        let port = *self.in_force.get(key)?;
        if !pod.lives() || !self.selector.selects(&pod.facts.labels) {
            return None;
        }
        if self.policy.deregisters && pod.is_lost && (let_go || had.is_none()) {
            return None;
        }
        let target = Target::new(pod.facts.ips[0], port);
        if !self.admits && had != Some(target) {
            return None;
        }
        (self.policy.is_content_with(pod, &key.group, self.waits.contains(&key.group)) || had == Some(target))
            .then_some(target)
    }

    /// Whether `pod` would be this target if it was readier.
    pub fn waits_for(&self, target: &Target, group: &TargetGroupArn, pod: &Told, let_go: bool) -> bool {
        let mut keys = self.keys().filter(|key| key.group == *group);
        keys.any(|key| self.target(key, pod, Some(*target), let_go) == Some(*target))
    }
}
