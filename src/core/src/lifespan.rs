//! For how long a pod lives on when it is told to end, and whether that is long enough for its load balancers.
//!
//! Kubernetes runs the `preStop` of each container first, sends SIGTERM when it has ended, and kills the container when
//! the grace period of the pod is over, whatever its `preStop` does then.

use crate::{
    explanation::Word,
    model::{HoldWanted, Reason},
};

/// What Kubernetes takes if `terminationGracePeriodSeconds` is not there.
pub const DEFAULT_GRACE: u32 = 30;

/// What a container does before it is told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreStop {
    /// Nothing.
    None,
    /// It sleeps for so many seconds at least.
    Sleeps(u32),
    /// Something that takes nobody knows how long.
    Unknown,
}

impl PreStop {
    /// Of a command. One that begins with `sleep` and a number takes as long, also within `sh -c`.
    pub fn of_command(command: &[&str]) -> Self {
        let is =
            |program: &str, names: &[&str]| names.contains(&program.rsplit('/').next().unwrap_or(program));
        let slept = match command {
            [program, time] if is(program, &["sleep"]) => seconds(time),
            [shell, "-c", script] if is(shell, &["sh", "bash", "ash", "dash"]) => {
                let first = script.split([';', '&', '|', '\n']).next().unwrap_or_default();
                // In the background it takes no time.
                let waits =
                    !script[first.len()..].starts_with('&') || script[first.len()..].starts_with("&&");
                match &first.split_whitespace().collect::<Vec<_>>()[..] {
                    [program, time] if waits && is(program, &["sleep"]) => seconds(time),
                    _ => None,
                }
            }
            _ => None,
        };
        slept.map_or(Self::Unknown, Self::Sleeps)
    }
}

/// As `sleep` reads it, in whole seconds.
fn seconds(text: &str) -> Option<u32> {
    let (number, worth) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) if text.ends_with('m') => (number, 60),
        Some(number) if text.ends_with('h') => (number, 3600),
        Some(number) => (number, 1),
        None => (text, 1),
    };
    number.parse::<u32>().ok()?.checked_mul(worth)
}

/// A container that runs as long as the pod does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: Box<str>,
    /// What it does before it ends.
    pub pre_stop: PreStop,
}

/// How a pod ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifespan {
    /// Its containers, native sidecars among them.
    pub containers: Vec<Container>,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace: u32,
}

impl Lifespan {
    /// Whether the pod lives on for long enough: the word, and a sentence with what was expected.
    pub fn judge(&self, wanted: HoldWanted) -> Word {
        let HoldWanted { seconds: wanted, bound } = wanted;
        if wanted == 0 {
            return (Reason::HoldOff, "headgate.dev/hold says that its pods are not held".to_owned());
        }
        let names = |meant: &dyn Fn(PreStop) -> bool| {
            let all = self.containers.iter().filter(|container| meant(container.pre_stop));
            all.map(|container| &*container.name).collect::<Vec<_>>().join(", ")
        };
        let shortest = |pre_stop| match pre_stop {
            PreStop::Sleeps(seconds) => Some(seconds),
            PreStop::None | PreStop::Unknown => None,
        };
        let needs = format!(
            "expected {wanted} s of preStop.sleep in each container, because the load balancer may go on sending for \
             {bound} s after the pod was deregistered"
        );
        let without = names(&|pre_stop| pre_stop == PreStop::None);
        if !without.is_empty() {
            let said = format!("no preStop keeps {without} alive when the pod ends; {needs}");
            return (Reason::HoldMissing, said);
        }
        let least = self.containers.iter().filter_map(|container| shortest(container.pre_stop)).min();
        if let Some(least) = least.filter(|least| *least < wanted) {
            let short = names(&|pre_stop| shortest(pre_stop).is_some_and(|seconds| seconds < wanted));
            return (Reason::HoldTooShort, format!("the preStop of {short} takes {least} s; {needs}"));
        }
        if self.grace <= wanted {
            let said = format!(
                "terminationGracePeriodSeconds is {}, after which containers are killed; expected more than {wanted}, \
                 and the time that they need to end themselves",
                self.grace
            );
            return (Reason::GraceTooShort, said);
        }
        let unknown = names(&|pre_stop| pre_stop == PreStop::Unknown);
        if !unknown.is_empty() {
            let said =
                format!("{unknown} has a preStop of its own, and nobody knows how long it takes; {needs}");
            return (Reason::OwnPreStop, said);
        }
        if wanted < bound {
            let said = format!(
                "held for {wanted} s, as headgate.dev/hold asks for; the load balancer may go on sending for {bound} s \
                 after the pod was deregistered"
            );
            return (Reason::HoldTooShort, said);
        }
        let least = least.unwrap_or(wanted);
        let said = format!("held for {least} s, of {} s of grace; {wanted} s were wanted", self.grace);
        (Reason::HoldIsEnough, said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NLB: HoldWanted = HoldWanted { seconds: 150, bound: 120 };

    fn judge(containers: &[(&str, PreStop)], grace: u32, wanted: HoldWanted) -> Word {
        let container =
            |(name, pre_stop): &(&str, PreStop)| Container { name: (*name).into(), pre_stop: *pre_stop };
        Lifespan { containers: containers.iter().map(container).collect(), grace }.judge(wanted)
    }

    #[test]
    fn a_pod_lives_long_enough_or_the_first_thing_that_ends_it_too_soon_is_named() {
        use PreStop::{None, Sleeps, Unknown};
        for (containers, grace, wanted, reason, said) in [
            (&[("web", Sleeps(150))][..], 180, NLB, Reason::HoldIsEnough, "held for 150 s, of 180 s"),
            (&[("web", Sleeps(150)), ("log", None)], 180, NLB, Reason::HoldMissing, "keeps log alive"),
            (
                &[("web", Sleeps(15)), ("p", Sleeps(150))],
                180,
                NLB,
                Reason::HoldTooShort,
                "preStop of web takes 15 s",
            ),
            (
                &[("web", Sleeps(150))],
                150,
                NLB,
                Reason::GraceTooShort,
                "terminationGracePeriodSeconds is 150",
            ),
            (&[("web", Unknown)], 180, NLB, Reason::OwnPreStop, "web has a preStop of its own"),
            (&[("web", Unknown)], 30, NLB, Reason::GraceTooShort, "is 30"),
            (
                &[("web", Sleeps(7))],
                37,
                HoldWanted { seconds: 7, bound: 120 },
                Reason::HoldTooShort,
                "as headgate.dev/hold asks",
            ),
            (
                &[("web", Sleeps(120))],
                150,
                HoldWanted { seconds: 120, bound: 120 },
                Reason::HoldIsEnough,
                "held for 120 s",
            ),
            (&[("web", None)], 30, HoldWanted { seconds: 0, bound: 120 }, Reason::HoldOff, "not held"),
        ] {
            let (is, text) = judge(containers, grace, wanted);
            assert_eq!(is, reason, "{text}");
            assert!(text.contains(said), "{text}");
        }
    }

    #[test]
    fn a_command_that_begins_with_sleep_takes_as_long_and_of_any_other_nobody_knows() {
        for (command, pre_stop) in [
            (&["sleep", "20"][..], PreStop::Sleeps(20)),
            (&["/bin/sleep", "2m"], PreStop::Sleeps(120)),
            (&["sh", "-c", "sleep 15; nginx -s quit"], PreStop::Sleeps(15)),
            (&["/bin/bash", "-c", "sleep 15s && kill 1"], PreStop::Sleeps(15)),
            (&["sh", "-c", " sleep 1h"], PreStop::Sleeps(3600)),
            (&["sh", "-c", "sleep 15 & kill 1"], PreStop::Unknown),
            (&["sh", "-c", "nginx -s quit; sleep 15"], PreStop::Unknown),
            (&["sleep", "1.5"], PreStop::Unknown),
            (&["sleep", "99999999999"], PreStop::Unknown),
            (&["sleep", "4294967295h"], PreStop::Unknown),
            (&["nginx", "-s", "quit"], PreStop::Unknown),
            (&["drain", "20"], PreStop::Unknown),
            (&["python", "-c", "sleep 15"], PreStop::Unknown),
            (&[], PreStop::Unknown),
        ] {
            assert_eq!(PreStop::of_command(command), pre_stop, "{command:?}");
        }
    }
}
