//! The length of a new pod's hold, the containers that get the hold, and the new grace period.

use std::collections::BTreeSet;

use super::{record::Record, wrapping};
use crate::{
    lifespan::DEFAULT_GRACE,
    model::{
        Hold, LoadBalancerType, Reason,
        excerpt::{brief, excerpt},
        hold::seconds,
        injection::{
            Container, Decision, Hook, Injection, Known, MAX_GRACE, Match, NewPod, OWN_PRESTOP, Terms,
            Wrapper,
        },
        notice::{About, Notice},
        policy::HOLD,
    },
};

/// The maximum value for a limit of the grace period, in seconds.
const LONGEST_GRACE: u32 = 24 * 3600;
/// The valid values of an annotation or a flag that limits grace periods, for error messages.
pub const MAX_GRACE_EXPECTED: &str = "a duration from 1s to 24h in whole seconds, e.g. 120s or 10m";

/// The reason for a shorter hold, if another webhook has lowered the grace period.
const LOWERED: &str = "another webhook has lowered the grace period of the pod";
/// The reason for a missing hold, if pods with a hold were not created.
const REFUSED: &str = "pods of its owner that were given a hold were not created";

/// Parses a limit of grace periods, in seconds.
pub fn max_grace(text: &str) -> Option<u32> {
    seconds(text.trim()).filter(|seconds| (1..=LONGEST_GRACE).contains(seconds))
}

/// Adds the hold to containers without a `preStop`, with a shorter sleep, or with a hook that should run after the
/// hold. Extends the pod's grace period by the length of the hold. Returns the grace period without the hold, if the
/// pod gets a hold.
pub(super) fn decide(
    pod: &NewPod,
    known: &Known,
    terms: Terms,
    before: &Record,
    injection: &mut Injection,
    record: &mut Record,
) -> Option<i64> {
    Holding { pod, known, terms, before, injection, record }.decide()
}

/// The data of one decision about the hold.
struct Holding<'a> {
    pod: &'a NewPod,
    known: &'a Known,
    terms: Terms,
    before: &'a Record,
    injection: &'a mut Injection,
    record: &'a mut Record,
}

/// A hold from an earlier decision, which the pod still has.
struct Given<'a> {
    /// The length of the hold in seconds; `why` is the reason for the length.
    seconds: u32,
    why: &'a str,
    /// The grace period of the pod without the hold, if Headgate extended the grace period.
    grace: Option<i64>,
    /// Whether another webhook has lowered the grace period after Headgate had extended it.
    is_lowered: bool,
}

/// A limit that shortens the hold.
struct Limit {
    /// The maximum grace period in seconds.
    most: i64,
    decision: Decision,
    /// The reason, as the end of a sentence after "because".
    why: String,
}

impl Holding<'_> {
    fn decide(mut self) -> Option<i64> {
        let length = self.length();
        let given = Given::of(self.pod, self.before);
        let (wanted, why) = match &given {
            // All containers of a pod get the same hold, including containers that another webhook adds later.
            Some(given) if !self.is_changed(length.0, given) => (given.seconds, given.why),
            _ => length,
        };
        let now = grace(self.pod);
        let had = given.as_ref().and_then(|given| given.grace).unwrap_or(now);
        let limit = self.limit(now, given.as_ref());
        let room = limit.as_ref().map_or(i64::MAX, |limit| (limit.most - had).max(0));
        let seconds = wanted.min(u32::try_from(room).unwrap_or(u32::MAX));
        let was_given = |container: &Container| {
            given.as_ref().is_some_and(|given| is_given(container, given.seconds, self.before))
        };

        self.injection.seconds = seconds;
        let mut raised = Vec::new();
        for container in &self.pod.containers {
            let Container { name, place, pre_stop, .. } = container;
            match *pre_stop {
                Hook::None if seconds > 0 => self.injection.held.push(*place),
                Hook::Sleep(own) if was_given(container) => match seconds {
                    0 => self.injection.released.push(*place),
                    seconds if seconds != own => self.injection.held.push(*place),
                    _ => {}
                },
                Hook::Sleep(own) if own < seconds => {
                    self.injection.held.push(*place);
                    raised.push(format!("{name} from {own}s"));
                }
                Hook::Wrapped(own) if own < seconds || (own > seconds && was_given(container)) => {
                    self.injection.wrapped.push((*place, Wrapper::Present));
                }
                _ => {}
            }
        }
        let unwrapped = wrapping::wrap(self.pod, self.terms, self.injection);
        let is_held = |container: &&Container| {
            let place = container.place;
            let is_wrapped = || self.injection.wrapped.iter().any(|(wrapped, _)| *wrapped == place);
            was_given(container) || self.injection.held.contains(&place) || is_wrapped()
        };
        let held: Vec<&Container> = self.pod.containers.iter().filter(is_held).collect();
        let own: Vec<&Container> = self
            .pod
            .containers
            .iter()
            .filter(|container| container.pre_stop != Hook::None && !is_held(container))
            .collect();

        if seconds > 0 {
            self.record.held = held.iter().map(|container| container.name.clone()).collect();
        }
        if wanted == 0 {
            self.record.say(Decision::HoldOff, why);
        } else if !self.record.held.is_empty() {
            self.record.hold(seconds, why);
        }
        let is_wanted = |container: &Container| match container.pre_stop {
            Hook::Command { .. } | Hook::Request | Hook::Other => is_held(&container),
            Hook::None | Hook::Sleep(_) | Hook::Wrapped(_) => {
                was_given(container) || container.is_shorter_than(wanted)
            }
        };
        let is_shortened = seconds < wanted && self.pod.containers.iter().any(is_wanted);
        if let Some(Limit { decision, why, .. }) = limit.filter(|_| is_shortened) {
            self.shortened((seconds, wanted), (decision, &why), had);
        }
        self.record.add(Decision::OwnSleepRaised, self.before, raised);
        self.record.add(Decision::OwnPreStopWrapped, self.before, wrapping::said(self.pod, self.injection));
        self.own_hooks(&own, &unwrapped);

        if held.is_empty() {
            return None;
        }
        let mut needed = had.saturating_add(i64::from(seconds));
        if given.is_some_and(|given| given.is_lowered) {
            // A webhook that has lowered the grace period would lower it again, or reject the pod.
            needed = needed.min(now);
        }
        if needed != now {
            self.injection.grace = Some(needed);
        }
        if seconds > 0 {
            self.record.grace(needed);
        }
        (seconds > 0).then_some(had)
    }

    /// Returns the length of the pod's hold in seconds, and the reason for the length. The pod's own annotation takes
    /// precedence over the longest hold of its bindings.
    fn length(&mut self) -> (u32, &'static str) {
        let own = self.pod.hold.as_deref().and_then(|text| {
            let hold = Hold::parse(text);
            if hold.is_none() {
                self.injection.warnings.push(format!(
                    "{HOLD}: invalid value \"{}\" is ignored. Set {}.",
                    excerpt(text),
                    Hold::EXPECTED
                ));
            }
            hold
        });
        let of = |seconds: u32, balancer: LoadBalancerType| match balancer {
            _ if seconds != Hold::Auto.seconds(balancer) => (seconds, HOLD),
            LoadBalancerType::Application => (seconds, "ALB"),
            LoadBalancerType::Network => (seconds, "NLB"),
        };
        let longest = |seconds: &dyn Fn(&Match) -> u32| {
            let all = self.known.bound().iter();
            all.map(|bound| of(seconds(bound), bound.balancer)).max_by_key(|(seconds, _)| *seconds)
        };
        // Without a known binding, the pod gets the longer hold of a Network Load Balancer.
        let unbound =
            || (Hold::Auto.seconds(LoadBalancerType::Network), "no binding known, so as for an NLB");
        match own {
            Some(Hold::Auto) => longest(&|bound| Hold::Auto.seconds(bound.balancer)).unwrap_or_else(unbound),
            Some(given) => (given.seconds(LoadBalancerType::Network), HOLD),
            None => longest(&|bound| bound.hold).unwrap_or_else(unbound),
        }
    }

    /// Whether a hold of this length should replace the earlier hold, because the pod requests the length or a binding
    /// needs a longer hold.
    fn is_changed(&self, length: u32, given: &Given) -> bool {
        let own = self.pod.hold.as_deref().and_then(Hold::parse);
        match own {
            Some(Hold::For(_) | Hold::Off) => length != given.seconds,
            Some(Hold::Auto) | None => !self.known.bound().is_empty() && length > given.seconds,
        }
    }

    /// Returns the limit of the hold. A limit in the pod's own annotation takes precedence over a configured limit.
    fn limit(&mut self, now: i64, given: Option<&Given>) -> Option<Limit> {
        let own = self.pod.max_grace.as_deref().and_then(|text| {
            let limit = max_grace(text);
            if limit.is_none() {
                self.injection.warnings.push(format!(
                    "{MAX_GRACE}: invalid value \"{}\" is ignored. Set {MAX_GRACE_EXPECTED}.",
                    excerpt(text),
                ));
            }
            limit
        });
        let of_pod = own.map(|limit| (limit, "the pod's annotation headgate.dev/max-grace"));
        let limit = of_pod.or(self.terms.max_grace).map(|(limit, whose)| Limit {
            most: limit.into(),
            decision: Decision::HoldShortened,
            why: format!("{whose} says {limit}s"),
        });
        // The annotation still records the lowered grace period, so Headgate does not extend the grace period again.
        let said = self.before.text(Decision::HoldShortened).and_then(|said| said.split_once(", because "));
        let said = said.map(|(_, why)| why.to_owned()).filter(|why| why.starts_with(LOWERED));
        let is_lowered = given.is_some_and(|given| given.is_lowered);
        let said = if is_lowered { Some(format!("{LOWERED} to {now} s")) } else { said };
        let lowered = said.map(|why| Limit { most: now, decision: Decision::HoldShortened, why });
        let is_refused = self.terms.is_refused && given.is_none();
        let refused =
            is_refused.then(|| Limit { most: 0, decision: Decision::HoldRefused, why: REFUSED.to_owned() });
        [limit, lowered, refused].into_iter().flatten().min_by_key(|limit| limit.most)
    }

    fn shortened(&mut self, (seconds, wanted): (u32, u32), (decision, why): (Decision, &str), had: i64) {
        self.record.say(decision, &format!("{seconds}s of {wanted}s, because {why}"));
        self.notify(Reason::HoldTooShort, &format!(
            "Hold of new pods: {seconds} s instead of {wanted} s, because {}. Requests may be dropped. Allow \
             a terminationGracePeriodSeconds of {} s.",
            why,
            had.saturating_add(i64::from(wanted))
        ));
        self.injection.warnings.push(format!(
            "Hold of {seconds} s instead of {wanted} s, because {why}: requests may be dropped. Allow a \
             terminationGracePeriodSeconds of {} s.",
            had.saturating_add(i64::from(wanted))
        ));
    }

    /// Reports which containers keep their own `preStop`, and warns about containers that also receive requests.
    fn own_hooks(&mut self, own: &[&Container], unwrapped: &[(Box<str>, &'static str)]) {
        if own.is_empty() {
            return;
        }
        let names: Vec<&str> = own.iter().map(|container| &*container.name).collect();
        self.record.say(Decision::OwnPreStop, &names.join(", "));
        let seconds = self.injection.seconds;
        if !unwrapped.is_empty() {
            let said: Vec<String> = unwrapped.iter().map(|(name, why)| format!("{name}: {why}")).collect();
            self.record.say(Decision::OwnPreStopNotWrapped, &said.join(", "));
        }
        for container in own {
            let why = unwrapped.iter().find(|(name, _)| *name == container.name);
            let name = &container.name;
            let warning = match why {
                Some((_, why)) => format!(
                    "{OWN_PRESTOP}: the preStop of container {name} is unchanged, so the container has no hold: {why}. Use a \
                     hook that can run after the hold, or begin its command with sleep {seconds}."
                ),
                None if seconds > 0 && container.is_shorter_than(seconds) && self.is_served_by(container) => {
                    let said = format!(
                        "container {} has its own preStop and no hold, so requests may be dropped. Annotate \
                         the pod {OWN_PRESTOP}: wrap, or begin the command with sleep {seconds}.",
                        brief(name)
                    );
                    self.notify(Reason::HoldMissing, &format!("New pods: {said}"));
                    said
                }
                None => continue,
            };
            self.injection.warnings.push(warning);
        }
    }

    /// Adds a report for the bindings of the pod.
    fn notify(&mut self, reason: Reason, note: &str) {
        let about: BTreeSet<&About> =
            self.known.bound().iter().filter_map(|bound| bound.about.as_ref()).collect();
        let notices =
            about.into_iter().map(|about| Notice { about: about.clone(), reason, note: note.to_owned() });
        self.injection.notices.extend(notices);
    }

    /// Whether a load balancer may send requests to the container, because the container declares the port or no
    /// container declares it.
    fn is_served_by(&self, container: &Container) -> bool {
        let mut ports = self.known.bound().iter().filter_map(|bound| bound.port);
        ports.any(|port| {
            let has = |container: &Container| container.ports.contains(&port);
            has(container) || !self.pod.containers.iter().any(has)
        })
    }
}

impl<'a> Given<'a> {
    /// The hold that `before` records, if a container still has this hold.
    fn of(pod: &NewPod, before: &'a Record) -> Option<Self> {
        let (seconds, why) = before.hold.as_ref()?;
        if !pod.containers.iter().any(|container| is_given(container, *seconds, before)) {
            return None;
        }
        let now = grace(pod);
        let without = |raised: i64| (raised.max(now) - i64::from(*seconds)).max(0);
        Some(Self {
            seconds: *seconds,
            why,
            grace: before.grace.map(without),
            is_lowered: before.grace.is_some_and(|raised| now < raised),
        })
    }
}

/// Whether the container has a hold of this length from an earlier decision.
fn is_given(container: &Container, seconds: u32, before: &Record) -> bool {
    match container.pre_stop {
        Hook::Sleep(own) => own == seconds && before.held.contains(&container.name),
        Hook::Wrapped(own) => own == seconds,
        Hook::None | Hook::Command { .. } | Hook::Request | Hook::Other => false,
    }
}

/// `spec.terminationGracePeriodSeconds`, with the default of Kubernetes.
fn grace(pod: &NewPod) -> i64 {
    pod.grace.unwrap_or(DEFAULT_GRACE.into()).max(0)
}
