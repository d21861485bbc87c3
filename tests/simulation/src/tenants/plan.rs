//! What the owner and the intruder do when, for chance to say.

use headgate_core::{
    engine::Input,
    model::{
        BindingFacts, Change, GateFacts, Labels, Moment, ObjectKey, Texts, Uid,
        policy::{HOLD, MIN_HEALTHY_PER_ZONE, OWNERSHIP, PAUSED, REGISTER_WHEN, WHEN_NOT_READY},
        service::PortRef,
        target_binding::Pods,
    },
};

use super::{CALM, EVICTED, FOUND, INTRUDER, INTRUDERS, ITS, OWN, OWNER, PODS, TURN, What, World, arn, at};
use crate::objects::{pod, service};

impl World {
    /// A gated pod of this namespace and app comes, and is evicted or ends, or stays.
    fn comes(&mut self, namespace: &str, app: &str, last: u8, rng: &mut fastrand::Rng, from: u64) {
        let mut facts = pod(app, last);
        facts.key = ObjectKey::new(namespace, &*facts.key.name);
        facts.gate = Some(Box::new(GateFacts::default()));
        let comes = rng.u64(from..CALM / 2);
        let goes = rng.u64(comes + 500..CALM);
        let key = facts.key.clone();
        let seen = at(comes);
        self.put(comes, What::Input(Box::new(Input::Pod { change: Change::Applied(facts), seen })));
        // One after the other: whose turn it is among several hangs on when they are looked at.
        let asked = u64::from(last % PODS / EVICTED) * TURN + rng.u64(0..TURN / 4);
        match rng.u8(0..4) {
            _ if last.is_multiple_of(EVICTED) => self.put(asked.max(comes + 500), What::Asked(key)),
            0 => {}
            _ => self.put(goes, What::Ends(key)),
        }
    }

    pub(super) fn owns(&mut self, rng: &mut fastrand::Rng) {
        for (at, name) in OWN.into_iter().enumerate() {
            let mut facts = service(name);
            facts.key = ObjectKey::new(OWNER, name);
            facts.target_groups = Some(format!("http={name}").into());
            let change = Change::Applied(facts);
            self.put(1, What::Input(Box::new(Input::Service { change, seen: Moment::START })));
            let first = u8::try_from(at).unwrap() * PODS;
            // One is there from the beginning.
            let mut facts = pod(name, first);
            facts.key = ObjectKey::new(OWNER, &*facts.key.name);
            self.put(
                2,
                What::Input(Box::new(Input::Pod { change: Change::Applied(facts), seen: Moment::START })),
            );
            for last in first + 1..first + PODS {
                self.comes(OWNER, name, last, rng, 100);
            }
        }
    }

    pub(super) fn intrudes(&mut self, rng: &mut fastrand::Rng) {
        for last in INTRUDERS..INTRUDERS + PODS {
            self.comes(INTRUDER, "mine", last, rng, FOUND);
        }
        for _ in 0..60 {
            let when = rng.u64(FOUND..CALM);
            let named: Vec<String> = (0..rng.u8(1..4))
                .map(|_| match rng.u8(0..5) {
                    0 => format!("http={}", arn(OWN[rng.usize(0..OWN.len())])),
                    1 => format!("http={ITS}"),
                    2 => "http=".to_owned(),
                    _ => format!("http={}", OWN[rng.usize(0..OWN.len())]),
                })
                .collect();
            let policy = policy(rng);
            let name = ["a", "mine", "z"][rng.usize(0..3)];
            let key = ObjectKey::new(INTRUDER, name);
            let input = if rng.bool() {
                let mut facts = service("mine");
                (facts.target_groups, facts.policy) = (Some(named.join(",").into()), policy);
                facts.key = key;
                let change = if rng.u8(0..5) == 0 { Change::Deleted(facts) } else { Change::Applied(facts) };
                Input::Service { change, seen: at(when) }
            } else {
                let pods = if rng.bool() {
                    Pods::OfService("mine".into(), PortRef::Name("http".into()))
                } else {
                    let labels = Labels::from_iter([("app", "mine")]);
                    Pods::Selected(
                        labels,
                        service("mine").ports[0].target_port.clone(),
                        service("mine").ports[0].protocol,
                    )
                };
                let group = OWN[rng.usize(0..OWN.len())].into();
                let facts =
                    BindingFacts { key, uid: Uid::new(name), group, pods, policy, ending: rng.u8(0..5) == 0 };
                Input::Binding { change: Change::Applied(facts), seen: at(when) }
            };
            self.put(when, What::Input(Box::new(input)));
        }
    }
}

/// What the intruder asks for besides.
fn policy(rng: &mut fastrand::Rng) -> Texts {
    let mut texts = Texts::default();
    for (name, values) in [
        (PAUSED, &["true", "yes", ""][..]),
        (OWNERSHIP, &["exclusive", "shared", ""]),
        (HOLD, &["off", "1h", ""]),
        (MIN_HEALTHY_PER_ZONE, &["1000", "0", ""]),
        (REGISTER_WHEN, &["ready", ""]),
        (WHEN_NOT_READY, &["deregister", ""]),
    ] {
        match values[rng.usize(0..values.len())] {
            "" => {}
            value => texts.set(name, value),
        }
    }
    texts
}
