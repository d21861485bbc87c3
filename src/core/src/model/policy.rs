//! The annotations of a Service next to `headgate.dev/target-groups`, which control the registration of its pods.
//!
//! Headgate reports an invalid value and keeps the last valid value.

use std::fmt;

use thiserror::Error;

use crate::model::{excerpt::excerpt, hold::Hold, load_balancer::LoadBalancerType, words::words};

/// The annotation that decides when a pod is registered.
pub const REGISTER_WHEN: &str = "headgate.dev/register-when";
/// The annotation for registered pods that are no longer ready.
pub const WHEN_NOT_READY: &str = "headgate.dev/when-not-ready";
/// The annotation for the ownership of the Service's target groups.
pub const OWNERSHIP: &str = "headgate.dev/ownership";
/// The annotation that pauses all changes.
pub const PAUSED: &str = "headgate.dev/paused";
/// The annotation for the hold of terminating pods, on a Service or a pod.
pub const HOLD: &str = "headgate.dev/hold";

/// The annotation that controls the readiness gate while no listener uses the target group.
pub const GATE_WHEN_UNUSED: &str = "headgate.dev/gate-when-unused";

/// The annotation for the number of healthy targets that a zone should keep during evictions.
pub const MIN_HEALTHY_PER_ZONE: &str = "headgate.dev/min-healthy-per-zone";

/// The annotations of this module.
pub const ALL: [&str; 7] =
    [REGISTER_WHEN, WHEN_NOT_READY, OWNERSHIP, PAUSED, HOLD, GATE_WHEN_UNUSED, MIN_HEALTHY_PER_ZONE];

/// How many healthy targets a zone should keep: 0 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinHealthy(pub u16);

impl Default for MinHealthy {
    fn default() -> Self {
        Self(1)
    }
}

words! {
    /// When a pod is registered.
    #[derive(Default)]
    RegisterWhen {
        /// Headgate registers the pod as soon as it has an IP. The load balancer sends requests after the pod has
        /// passed its health checks.
        #[default]
        Ip = "ip",
        /// Headgate registers the pod when its containers are ready.
        ContainersReady = "containers-ready",
        /// Headgate registers the pod when its containers are ready and every readiness gate except Headgate's is true.
        Ready = "ready",
        /// The best time for the type of load balancer. Behind an NLB, Headgate registers a pod when it has an IP,
        /// because an NLB always takes a long time to check a new target. Behind an ALB, Headgate waits for ready
        /// containers, because a target that fails its first check becomes healthy late.
        Auto = "auto",
    }
}

impl RegisterWhen {
    /// The effective value for this type of load balancer.
    #[must_use]
    pub const fn behind(self, balancer: LoadBalancerType) -> Self {
        match (self, balancer) {
            (Self::Auto, LoadBalancerType::Application) => Self::ContainersReady,
            (Self::Auto, LoadBalancerType::Network) => Self::Ip,
            (given, _) => given,
        }
    }
}

words! {
    /// How Headgate treats a registered pod that is no longer ready.
    #[derive(Default)]
    WhenNotReady {
        /// The pod remains registered, and the load balancer relies on its health checks.
        #[default]
        Keep = "keep",
        /// Headgate deregisters a pod that remains unready for a while, and registers the pod again when it is ready.
        Deregister = "deregister",
    }
}

words! {
    /// How Headgate treats foreign targets.
    #[derive(Default)]
    Ownership {
        /// Foreign targets remain, because Headgate removes only targets that it registered.
        #[default]
        Shared = "shared",
        /// Headgate removes foreign targets, because only Headgate uses the target group.
        Exclusive = "exclusive",
    }
}

words! {
    /// The behavior of the readiness gate while no listener uses the target group.
    #[derive(Default)]
    GateWhenUnused {
        /// The gate opens. Without a listener, no load balancer sends requests to the pod, so no request is dropped.
        #[default]
        Open = "open",
        /// The gate remains closed, because the target group will be used soon.
        Wait = "wait",
    }
}

/// The active settings of a Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// When a pod is registered.
    pub register_when: RegisterWhen,
    /// How Headgate treats a registered pod that is no longer ready.
    pub when_not_ready: WhenNotReady,
    /// How Headgate treats foreign targets.
    pub ownership: Ownership,
    /// Whether Headgate only reports the changes that it would make.
    pub paused: bool,
    /// How long new pods are held when they terminate.
    pub hold: Hold,
    /// The behavior of the readiness gate while no listener uses the target group.
    pub gate_when_unused: GateWhenUnused,
    /// How many healthy targets a zone should keep when pods are evicted.
    pub min_healthy_per_zone: MinHealthy,
}

/// An invalid value of an annotation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{annotation}: invalid value \"{value}\". Set {expected}. Until then, {stays} is in effect.")]
pub struct BadValue {
    annotation: &'static str,
    value: Box<str>,
    expected: &'static str,
    stays: Box<str>,
}

impl Policy {
    /// Reads the annotations. For each invalid value, returns an error and keeps the value from `before`. An absent
    /// annotation means the default value.
    pub fn read(texts: &Texts, before: Self) -> (Self, Vec<BadValue>) {
        let mut reader = Reader { texts, bad: Vec::new() };
        let policy = Self {
            register_when: reader.read(
                (REGISTER_WHEN, "ip, containers-ready, ready or auto"),
                before.register_when,
                RegisterWhen::of_word,
                RegisterWhen::as_str,
            ),
            when_not_ready: reader.read(
                (WHEN_NOT_READY, "keep or deregister"),
                before.when_not_ready,
                WhenNotReady::of_word,
                WhenNotReady::as_str,
            ),
            ownership: reader.read(
                (OWNERSHIP, "shared or exclusive"),
                before.ownership,
                Ownership::of_word,
                Ownership::as_str,
            ),
            paused: reader.read(
                (PAUSED, "\"true\" or \"false\""),
                before.paused,
                |text| text.parse().ok(),
                |paused| paused.to_string(),
            ),
            hold: reader.read((HOLD, Hold::EXPECTED), before.hold, Hold::parse, |hold| hold.to_string()),
            gate_when_unused: reader.read(
                (GATE_WHEN_UNUSED, "open or wait"),
                before.gate_when_unused,
                GateWhenUnused::of_word,
                GateWhenUnused::as_str,
            ),
            min_healthy_per_zone: reader.read(
                (MIN_HEALTHY_PER_ZONE, "a whole number from 0 to 1000"),
                before.min_healthy_per_zone,
                |text| text.parse().ok().filter(|number| *number <= 1000).map(MinHealthy),
                |least| least.0.to_string(),
            ),
        };
        (policy, reader.bad)
    }
}

/// Reads annotations one by one, and collects errors.
struct Reader<'a> {
    texts: &'a Texts,
    bad: Vec<BadValue>,
}

impl Reader<'_> {
    fn read<T: Copy + Default, Word: Into<Box<str>>>(
        &mut self,
        (annotation, expected): (&'static str, &'static str),
        before: T,
        parse: impl Fn(&str) -> Option<T>,
        word: impl Fn(T) -> Word,
    ) -> T {
        let Some(value) = self.texts.get(annotation) else { return T::default() };
        parse(value.trim()).unwrap_or_else(|| {
            let stays = word(before).into();
            self.bad.push(BadValue { annotation, value: excerpt(value), expected, stays });
            before
        })
    }
}

/// The original values of the existing annotations in [`ALL`].
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Texts {
    known: Vec<(&'static str, Box<str>)>,
    unknown: Vec<Box<str>>,
}

/// The maximum number of unknown annotations that Headgate stores.
const UNKNOWN: usize = 8;

impl Texts {
    /// The names of unknown annotations that begin with Headgate's prefix.
    pub fn unknown(&self) -> &[Box<str>] {
        &self.unknown
    }

    /// Adds an unknown annotation with Headgate's prefix.
    pub fn add_unknown(&mut self, annotation: &str) {
        if self.unknown.len() < UNKNOWN {
            self.unknown.push(annotation.into());
            self.unknown.sort();
        }
    }

    /// Removes all unknown annotations.
    pub fn forget_unknown(&mut self) {
        self.unknown.clear();
    }

    /// The value of an annotation.
    pub fn get(&self, annotation: &str) -> Option<&str> {
        self.known.iter().find(|(name, _)| *name == annotation).map(|(_, value)| value.as_ref())
    }

    /// Sets an annotation if [`ALL`] contains its name.
    pub fn set(&mut self, annotation: &str, value: &str) {
        self.remove(annotation);
        if let Some(name) = ALL.into_iter().find(|name| *name == annotation) {
            self.known.push((name, excerpt(value)));
            self.known.sort();
        }
    }

    /// Removes an annotation.
    pub fn remove(&mut self, annotation: &str) {
        self.known.retain(|(name, _)| *name != annotation);
    }
}

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known.iter().map(|(name, value)| (&**name, &**value));
        f.debug_map().entries(known.chain(self.unknown.iter().map(|name| (&**name, "?")))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pairs: &[(&str, &str)]) -> Texts {
        let mut texts = Texts::default();
        for (name, value) in pairs {
            texts.set(name, value);
        }
        texts
    }

    #[test]
    fn every_word_is_read_and_nothing_means_the_default() {
        let all = texts(&[
            (REGISTER_WHEN, "ready"),
            (WHEN_NOT_READY, " deregister "),
            (OWNERSHIP, "exclusive"),
            (PAUSED, "true"),
            (HOLD, "2m"),
            (GATE_WHEN_UNUSED, "wait"),
            (MIN_HEALTHY_PER_ZONE, "2"),
        ]);
        let (policy, bad) = Policy::read(&all, Policy::default());
        assert_eq!(bad, []);
        assert_eq!(
            policy,
            Policy {
                register_when: RegisterWhen::Ready,
                when_not_ready: WhenNotReady::Deregister,
                ownership: Ownership::Exclusive,
                paused: true,
                hold: Hold::For(120),
                gate_when_unused: GateWhenUnused::Wait,
                min_healthy_per_zone: MinHealthy(2),
            }
        );
        assert_eq!(Policy::read(&Texts::default(), policy), (Policy::default(), Vec::new()));
    }

    #[test]
    fn what_was_valid_before_stays_in_force_and_the_rest_is_read() {
        let before = Policy {
            register_when: RegisterWhen::ContainersReady,
            paused: true,
            hold: Hold::For(60),
            ..Policy::default()
        };
        let written = texts(&[
            (REGISTER_WHEN, "redy"),
            (PAUSED, "yes"),
            (OWNERSHIP, "exclusive"),
            (HOLD, "1 minute"),
            (MIN_HEALTHY_PER_ZONE, "1001"),
        ]);
        let (policy, bad) = Policy::read(&written, before);
        assert_eq!(policy, Policy { ownership: Ownership::Exclusive, ..before });
        let said: Vec<String> = bad.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "headgate.dev/register-when: invalid value \"redy\". Set ip, containers-ready, ready or auto. Until then, \
                 containers-ready is in effect.",
                "headgate.dev/paused: invalid value \"yes\". Set \"true\" or \"false\". Until then, true is in effect.",
                "headgate.dev/hold: invalid value \"1 minute\". Set auto, off, or a duration from 1s to 1h in whole seconds, \
                 e.g. 45s or 2m30s. Until then, 60s is in effect.",
                "headgate.dev/min-healthy-per-zone: invalid value \"1001\". Set a whole number from 0 to 1000. Until then, 1 \
                 is in effect.",
            ]
        );
    }

    #[test]
    fn auto_is_the_ip_behind_an_nlb_and_ready_containers_behind_an_alb() {
        assert_eq!(RegisterWhen::Auto.behind(LoadBalancerType::Network), RegisterWhen::Ip);
        assert_eq!(RegisterWhen::Auto.behind(LoadBalancerType::Application), RegisterWhen::ContainersReady);
        assert_eq!(RegisterWhen::Ip.behind(LoadBalancerType::Application), RegisterWhen::Ip);
    }

    #[test]
    fn some_names_that_nobody_knows_are_kept_in_order_until_they_are_forgotten() {
        let mut texts = texts(&[(HOLD, "45s")]);
        for name in 0..2 * UNKNOWN {
            texts.add_unknown(&format!("headgate.dev/{}", 9 - name % 10));
        }
        assert_eq!(texts.unknown().len(), UNKNOWN);
        assert!(texts.unknown().is_sorted());
        assert_eq!(&*texts.unknown()[0], "headgate.dev/2");
        let shown = format!("{texts:?}");
        assert!(shown.contains("45s") && shown.contains("headgate.dev/2"), "{shown}");
        texts.forget_unknown();
        assert_eq!((texts.unknown(), texts.get(HOLD)), (&[][..], Some("45s")));
    }
}
