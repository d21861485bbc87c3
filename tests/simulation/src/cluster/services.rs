//! What happens to Services, and how they are written.

use std::time::Duration;

use super::{APPS, Cluster};
use crate::words::NAMESPACE;
use headgate_core::model::{
    Change, Labels, Moment, ObjectKey, Protocol, ServiceFacts, ServicePort, TargetPort, Texts,
    policy::{GATE_WHEN_UNUSED, OWNERSHIP, PAUSED, REGISTER_WHEN, WHEN_NOT_READY},
    target_binding::Pods,
};

/// A part of an annotation, by what can be read of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The one port there is, bound to the target group of this name.
    Group(&'static str),
    /// The port can be read, the target group cannot.
    BadGroup,
    /// Not even the port.
    Bad,
}

use Part::{Bad, BadGroup, Group};

const GOOD: [(&str, &[Part]); 7] = [
    ("http=blue", &[Group("blue")]),
    ("http=green", &[Group("green")]),
    ("http=blue,http=green", &[Group("blue"), Group("green")]),
    ("80=red", &[Group("red")]),
    ("blue", &[Group("blue")]),
    ("green", &[Group("green")]),
    ("red", &[Group("red")]),
];
const BAD: [(&str, &[Part]); 5] = [
    ("", &[Bad]),
    ("http=", &[BadGroup]),
    ("http=no_name", &[BadGroup]),
    ("nothing=blue", &[Bad]),
    ("http=red,http=", &[Group("red"), BadGroup]),
];

/// What can be read of an annotation of this simulation.
pub fn parts(text: &str) -> &'static [Part] {
    let known = GOOD.iter().chain(&BAD).find(|(known, _)| *known == text);
    known.map(|(_, parts)| *parts).expect("an annotation of this module")
}

/// A Service that is gone.
#[derive(Debug)]
pub struct Deleted {
    at: Moment,
    /// Whether all replicas had been told all of the Services.
    was_known: bool,
    service: ServiceFacts,
}

fn good(rng: &mut fastrand::Rng) -> Box<str> {
    GOOD[rng.usize(0..GOOD.len())].0.into()
}

/// Changes how pods are registered; gives what happened.
pub(super) fn change_policy(texts: &mut Texts, rng: &mut fastrand::Rng) -> &'static str {
    let (annotation, values): (_, &[&str]) = match rng.u8(0..12) {
        0..=3 => (REGISTER_WHEN, &["ip", "containers-ready", "ready", "auto", "auto", "later"]),
        4..=6 => (WHEN_NOT_READY, &["keep", "deregister", "deregister", "deregister", "drop"]),
        7..=8 => (OWNERSHIP, &["shared", "exclusive", "exclusive", "exclusive", "mine"]),
        9..=10 => (GATE_WHEN_UNUSED, &["open", "wait", "wait", "maybe"]),
        _ => {
            if texts.get(PAUSED) == Some("true") {
                texts.remove(PAUSED);
                return "event: pause ends";
            }
            texts.set(PAUSED, if rng.u8(0..4) == 0 { "yes" } else { "true" });
            return "event: paused";
        }
    };
    if rng.u8(0..4) == 0 {
        texts.remove(annotation);
    } else {
        texts.set(annotation, values[rng.usize(0..values.len())]);
    }
    "event: policy changed"
}

/// Ends the pause that users have asked for, and mends what cannot be read.
pub(super) fn correct_policy(texts: &mut Texts) {
    texts.remove(PAUSED);
    let bad = [
        (REGISTER_WHEN, "later"),
        (WHEN_NOT_READY, "drop"),
        (OWNERSHIP, "mine"),
        (GATE_WHEN_UNUSED, "maybe"),
    ];
    for (annotation, bad) in bad {
        if texts.get(annotation) == Some(bad) {
            texts.remove(annotation);
        }
    }
}

impl Cluster {
    pub(super) fn change_services(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        match rng.u8(0..30) {
            0..=6 => self.create_service(rng),
            7..=10 => self.change_service(rng, "event: annotation changed", |service, rng| {
                service.target_groups = Some(good(rng));
            }),
            11..=13 => self.change_service(rng, "event: annotation bad", |service, rng| {
                service.target_groups = Some(BAD[rng.usize(0..BAD.len())].0.into());
            }),
            14..=16 => self.change_service(rng, "event: port changed", |service, rng| {
                service.ports[0].target_port = TargetPort::Number(rng.u16(8080..8082));
            }),
            17 => self.change_service(rng, "event: annotation taken away", |service, _| {
                service.target_groups = None;
            }),
            // A Service that selects nothing for a while, or has no selector; two never select one pod.
            18..=19 => self.change_service(rng, "event: selector changed", |service, rng| {
                let app = match rng.u8(0..6) {
                    0 => None,
                    1..=3 => Some(service.key.name.to_string()),
                    _ => Some("nobody".to_owned()),
                };
                service.selector = app.into_iter().map(|app| ("app", app)).collect();
            }),
            20..=21 => self.delete_service(rng),
            22..=23 => self.make_service_again(rng),
            _ => {
                let at = rng.usize(0..self.services.len().max(1));
                let service = self.services.values_mut().nth(at)?;
                let event = change_policy(&mut service.policy, rng);
                let service = service.clone();
                self.say_service(&Change::Applied(service));
                Some(event)
            }
        }
    }

    pub(super) fn correct_services(&mut self) {
        self.followed.clear();
        for service in self.services.values_mut() {
            if service.target_groups.as_deref().is_some_and(|text| BAD.iter().any(|(bad, _)| text == *bad)) {
                service.target_groups = Some(GOOD[0].0.into());
            }
            if service.selector.is_empty() {
                service.selector = Labels::from_iter([("app", &*service.key.name)]);
            }
            correct_policy(&mut service.policy);
        }
    }

    fn create_service(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        let app = APPS[rng.usize(0..APPS.len())];
        let key = ObjectKey::new(NAMESPACE, app);
        if self.services.contains_key(&key) {
            return None;
        }
        let text = if rng.u8(0..6) == 0 { BAD[rng.usize(0..BAD.len())].0.into() } else { good(rng) };
        let mut policy = Texts::default();
        while rng.u8(0..5) < 2 {
            let _ = change_policy(&mut policy, rng);
        }
        let service = ServiceFacts {
            key: key.clone(),
            uid: self.uid(),
            target_groups: Some(text),
            policy,
            selector: Labels::from_iter([("app", app)]),
            is_external: false,
            ports: vec![ServicePort {
                name: "http".into(),
                port: 80,
                target_port: TargetPort::Number(8080),
                protocol: Protocol::Tcp,
            }],
            beyond: [].into(),
        };
        self.forgets_service(&key);
        self.services.insert(key, service.clone());
        self.say_service(&Change::Applied(service));
        Some("event: service created")
    }

    fn change_service(
        &mut self,
        rng: &mut fastrand::Rng,
        name: &'static str,
        change: fn(&mut ServiceFacts, &mut fastrand::Rng),
    ) -> Option<&'static str> {
        let at = rng.usize(0..self.services.len().max(1));
        let service = self.services.values_mut().nth(at)?;
        let before = service.clone();
        change(service, rng);
        let service = service.clone();
        let is_bad = |service: &ServiceFacts| {
            service.target_groups.as_deref().is_some_and(|text| BAD.iter().any(|(bad, _)| text == *bad))
        };
        if !is_bad(&service) {
            self.followed.remove(&service.key);
        } else if !is_bad(&before) && self.services_are_known() {
            self.followed.insert(service.key.clone(), before.clone());
        }
        (service != before).then(|| {
            self.say_service(&Change::Applied(service));
            name
        })
    }

    fn delete_service(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        let at = rng.usize(0..self.services.len().max(1));
        let key = self.services.keys().nth(at)?.clone();
        let service = self.services.remove(&key)?;
        let was_known = self.services_are_known();
        self.forgets_service(&service.key);
        self.deleted.push(Deleted { at: self.now, was_known, service: service.clone() });
        self.say_service(&Change::Deleted(service));
        Some("event: service deleted")
    }

    fn services_are_known(&self) -> bool {
        self.watches.iter().all(|watches| watches.services.is_right())
    }

    fn forgets_service(&mut self, key: &ObjectKey) {
        self.deleted.retain(|deleted| deleted.service.key != *key);
        self.followed.remove(key);
    }

    /// The Services that were deleted so lately, and were known to all replicas before.
    pub fn deleted_services(&self, now: Moment, lately: Duration) -> impl Iterator<Item = &ServiceFacts> {
        let is_late = move |it: &&Deleted| now.since(it.at) < lately && it.was_known;
        self.deleted.iter().filter(is_late).map(|it| &it.service)
    }

    /// Whether a Service was deleted so lately that selected pods with these labels.
    pub fn was_selected(&self, labels: &Labels, now: Moment, lately: Duration) -> bool {
        let mut late = self.deleted.iter().filter(|it| now.since(it.at) < lately);
        late.any(|it| it.service.selector.selects(labels))
    }

    /// What Services said before that cannot be followed now, each with what it says.
    pub fn followed(&self) -> impl Iterator<Item = (&ServiceFacts, &ServiceFacts)> {
        self.followed.iter().filter_map(|(key, before)| Some((before, self.services.get(key)?)))
    }

    /// Whether any object selects pods with these labels.
    pub fn anything_selects(&self, labels: &Labels) -> bool {
        let by_binding =
            |pods: &Pods| matches!(pods, Pods::Selected(selector, ..) if selector.selects(labels));
        self.services.values().any(|service| service.selector.selects(labels))
            || self.bindings.values().any(|binding| by_binding(&binding.pods))
    }

    /// A tool changes a Service by deleting it and making it anew.
    fn make_service_again(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        let at = rng.usize(0..self.services.len().max(1));
        let old = self.services.values().nth(at)?.clone();
        let new = ServiceFacts { uid: self.uid(), ..old.clone() };
        self.forgets_service(&new.key);
        self.services.insert(new.key.clone(), new.clone());
        self.say_service(&Change::Deleted(old));
        self.say_service(&Change::Applied(new));
        Some("event: service made again")
    }
}
