//! What happens to the TargetBindings that somebody has written.

use super::{
    APPS, Cluster,
    services::{change_policy, correct_policy},
};
use crate::{words::GROUPS, words::NAMESPACE};
use headgate_core::model::{
    BindingFacts, Change, Labels, ObjectKey, Protocol, TargetPort, Texts, Uid, service::PortRef,
    target_binding::Pods,
};

const NAMES: [&str; 2] = ["first", "second"];

fn pods(rng: &mut fastrand::Rng) -> Pods {
    let app = APPS[rng.usize(0..APPS.len())];
    match rng.u8(0..6) {
        0..=2 => {
            let port = TargetPort::Number(rng.u16(8080..8082));
            Pods::Selected(Labels::from_iter([("app", app)]), port, Protocol::Tcp)
        }
        3 => Pods::OfService(app.into(), PortRef::Number(80)),
        4 => Pods::OfService(app.into(), PortRef::Name("nothing".into())),
        _ => Pods::OfService(app.into(), PortRef::Only),
    }
}

impl Cluster {
    pub(super) fn change_bindings(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        let key = ObjectKey::new(NAMESPACE, NAMES[rng.usize(0..NAMES.len())]);
        let group = GROUPS[rng.usize(0..GROUPS.len())];
        let uid = self.uid();
        let Some(binding) = self.bindings.get_mut(&key) else {
            if rng.bool() {
                return None;
            }
            let policy = Texts::default();
            let (group, pods) = (group.into(), pods(rng));
            let binding = BindingFacts { key: key.clone(), uid, group, pods, policy, ending: false };
            self.bindings.insert(key, binding.clone());
            self.say_binding(&Change::Applied(binding));
            return Some("event: binding written");
        };
        let before = binding.clone();
        let event = match rng.u8(0..8) {
            0..=2 => {
                binding.ending = true;
                "event: binding deleted"
            }
            3 => {
                binding.group = group.into();
                "event: binding changed"
            }
            4..=5 => {
                binding.pods = pods(rng);
                "event: binding changed"
            }
            _ => change_policy(&mut binding.policy, rng),
        };
        let binding = binding.clone();
        (binding != before).then(|| {
            self.say_binding(&Change::Applied(binding));
            event
        })
    }

    pub(super) fn correct_bindings(&mut self) {
        for binding in self.bindings.values_mut() {
            correct_policy(&mut binding.policy);
            let named = binding.service();
            let bad = |port: &PortRef| *port == PortRef::Name("nothing".into());
            if let Pods::OfService(_, port) = &binding.pods
                && (bad(port) || named.is_some_and(|named| !self.services.contains_key(&named)))
            {
                let pods = Labels::from_iter([("app", APPS[0])]);
                binding.pods = Pods::Selected(pods, TargetPort::Number(8080), Protocol::Tcp);
            }
        }
    }

    /// The finalizer of a deleted TargetBinding is taken away: nothing keeps it any more.
    pub fn release(&mut self, key: &ObjectKey, uid: &Uid) {
        if self.bindings.get(key).is_some_and(|binding| binding.uid == *uid && binding.ending)
            && let Some(binding) = self.bindings.remove(key)
        {
            self.say_binding(&Change::Deleted(binding));
        }
    }
}
