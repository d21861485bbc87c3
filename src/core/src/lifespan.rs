//! How long a pod runs after its deletion, and whether this time is long enough for its load balancers.
//!
//! Kubernetes first runs the `preStop` hook of each container and then sends SIGTERM. Kubernetes kills the container
//! when the pod's grace period has passed, even if its `preStop` hook is still running.

use crate::model::{
    Cause, HoldWanted,
    lifespan::{Lifespan, PreStop},
};

/// The grace period of a pod without `terminationGracePeriodSeconds`.
pub const DEFAULT_GRACE: u32 = 30;

/// Decides whether the pod runs long enough after its deletion. Returns the reason, and a sentence that states which
/// setting to change.
pub fn judge(pod: &Lifespan, wanted: HoldWanted) -> (Cause, String) {
    let HoldWanted { seconds: wanted, bound } = wanted;
    if wanted == 0 {
        return (Cause::HoldOff, "headgate.dev/hold is off".to_owned());
    }
    let names = |meant: &dyn Fn(PreStop) -> bool| {
        let all = pod.containers.iter().filter(|container| meant(container.pre_stop));
        all.map(|container| &*container.name).collect::<Vec<_>>().join(", ")
    };
    let shortest = |pre_stop| match pre_stop {
        PreStop::Sleeps(seconds) => Some(seconds),
        PreStop::None | PreStop::Unknown => None,
    };
    let needs = format!(
        "add {wanted} s of preStop.sleep to each container, because the load balancer may keep sending for \
         {bound} s after the pod was deregistered"
    );
    let without = names(&|pre_stop| pre_stop == PreStop::None);
    if !without.is_empty() {
        let said = format!("no preStop keeps {without} alive when the pod terminates; {needs}");
        return (Cause::HoldMissing, said);
    }
    let least = pod.containers.iter().filter_map(|container| shortest(container.pre_stop)).min();
    if let Some(least) = least.filter(|least| *least < wanted) {
        let short = names(&|pre_stop| shortest(pre_stop).is_some_and(|seconds| seconds < wanted));
        return (Cause::HoldTooShort, format!("the preStop of {short} takes {least} s; {needs}"));
    }
    if pod.grace <= wanted {
        let said = format!(
            "terminationGracePeriodSeconds is {}, after which containers are killed. Set more than {wanted}, \
             plus the time that they need to stop",
            pod.grace
        );
        return (Cause::GraceTooShort, said);
    }
    let unknown = names(&|pre_stop| pre_stop == PreStop::Unknown);
    if !unknown.is_empty() {
        let said = format!(
            "{unknown} has its own preStop of unknown duration; {needs}; or set the annotation \
             headgate.dev/own-prestop: wrap on the pod, which adds the hold before it"
        );
        return (Cause::OwnPreStop, said);
    }
    if wanted < bound {
        let said = format!(
            "held for {wanted} s, as headgate.dev/hold asks; the load balancer may keep sending for {bound} \
             s after the pod was deregistered"
        );
        return (Cause::HoldTooShort, said);
    }
    let least = least.unwrap_or(wanted).min(pod.grace);
    let said = format!("held for {least} s, within {} s of grace; {wanted} s were wanted", pod.grace);
    (Cause::HoldIsEnough, said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::lifespan::{Container, hold_of_command, only_sleeps};

    const NLB: HoldWanted = HoldWanted { seconds: 150, bound: 120 };

    fn judged(containers: &[(&str, PreStop)], grace: u32, wanted: HoldWanted) -> (Cause, String) {
        let container =
            |(name, pre_stop): &(&str, PreStop)| Container { name: (*name).into(), pre_stop: *pre_stop };
        judge(&Lifespan { containers: containers.iter().map(container).collect(), grace }, wanted)
    }

    #[test]
    fn a_pod_lives_long_enough_or_the_first_thing_that_ends_it_too_soon_is_named() {
        use PreStop::{None, Sleeps, Unknown};
        for (containers, grace, wanted, reason, said) in [
            (&[("web", Sleeps(150))][..], 180, NLB, Cause::HoldIsEnough, "held for 150 s, within 180 s"),
            (&[("web", Sleeps(150)), ("log", None)], 180, NLB, Cause::HoldMissing, "keeps log alive"),
            (
                &[("web", Sleeps(15)), ("p", Sleeps(150))],
                180,
                NLB,
                Cause::HoldTooShort,
                "preStop of web takes 15 s",
            ),
            (&[("web", Sleeps(150))], 150, NLB, Cause::GraceTooShort, "terminationGracePeriodSeconds is 150"),
            (&[("web", Unknown)], 180, NLB, Cause::OwnPreStop, "web has its own preStop"),
            (&[("web", Unknown)], 30, NLB, Cause::GraceTooShort, "is 30"),
            (
                &[("web", Sleeps(7))],
                37,
                HoldWanted { seconds: 7, bound: 120 },
                Cause::HoldTooShort,
                "as headgate.dev/hold asks",
            ),
            (
                &[("web", Sleeps(120))],
                150,
                HoldWanted { seconds: 120, bound: 120 },
                Cause::HoldIsEnough,
                "held for 120 s",
            ),
            (&[("web", None)], 30, HoldWanted { seconds: 0, bound: 120 }, Cause::HoldOff, "hold is off"),
        ] {
            let (is, text) = judged(containers, grace, wanted);
            assert_eq!(is, reason, "{text}");
            assert!(text.contains(said), "{text}");
        }
    }

    #[test]
    fn only_a_command_that_was_put_before_another_is_known_to_hold() {
        for (command, seconds) in [
            (
                &["/bin/sh", "-c", "sleep 45; exec \"$@\"", "headgate-hold", "nginx", "-s", "quit"][..],
                Some(45),
            ),
            (&["/.headgate/headgate-hold", "150", "run", "nginx"], Some(150)),
            (&["sh", "-c", "sleep 45; exec \"$@\"", "sh", "nginx"], None),
            (&["sh", "-c", "nginx -s quit", "headgate-hold"], None),
            (&["sleep", "45"], None),
            (&["headgate-hold"], None),
            (&[], None),
        ] {
            assert_eq!(hold_of_command(command), seconds, "{command:?}");
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
            (&["sh", "-c", "sleep 45; exec \"$@\"", "sh", "nginx", "-s", "quit"], PreStop::Sleeps(45)),
            (&["/.headgate/headgate-hold", "150", "run", "nginx", "-s", "quit"], PreStop::Sleeps(150)),
            (&["headgate-hold", "nginx"], PreStop::Unknown),
            (&["sh", "-c", "sleep 15 & kill 1"], PreStop::Unknown),
            (&["sh", "-c", "nginx -s quit; sleep 15"], PreStop::Unknown),
            (&["sleep", "1.5"], PreStop::Sleeps(1)),
            (&["sleep", "1m", "30s"], PreStop::Sleeps(90)),
            (&["sleep", "infinity"], PreStop::Sleeps(u32::MAX)),
            (&["sleep", "99999999999"], PreStop::Sleeps(u32::MAX)),
            (&["sleep", "4294967295h"], PreStop::Sleeps(u32::MAX)),
            (&["bash", "-lc", "sleep 15"], PreStop::Sleeps(15)),
            (&["bash", "-eo", "pipefail", "-c", "sleep 15; nginx -s quit"], PreStop::Sleeps(15)),
            (&["sh", "-c", "set -e; sleep 5; sleep 10 && nginx -s quit"], PreStop::Sleeps(15)),
            (&["sh", "-c", "trap '' TERM; sleep 15; nginx -s quit"], PreStop::Sleeps(15)),
            (&["sh", "-c", "sleep 15 | nginx -s quit"], PreStop::Sleeps(15)),
            (&["sh", "-c", "exit 0; sleep 15"], PreStop::Unknown),
            (&["sh", "-c", "sleep $DRAIN"], PreStop::Unknown),
            (&["sh", "sleep 15"], PreStop::Unknown),
            (&["sleep"], PreStop::Unknown),
            (&["sleep", "1.5h"], PreStop::Unknown),
            (&["sleep", ".5"], PreStop::Unknown),
            (&["sleep", "é"], PreStop::Unknown),
            (&["nginx", "-s", "quit"], PreStop::Unknown),
            (&["drain", "20"], PreStop::Unknown),
            (&["python", "-c", "sleep 15"], PreStop::Unknown),
            (&[], PreStop::Unknown),
        ] {
            assert_eq!(PreStop::of_command(command), pre_stop, "{command:?}");
        }
    }

    #[test]
    fn a_command_that_only_sleeps_is_known_in_each_of_the_ways_to_write_it() {
        for (command, seconds) in [
            (&["sleep", "15"][..], Some(15)),
            (&["/bin/sleep", "15s"], Some(15)),
            (&["/usr/bin/env", "sleep", "15"], Some(15)),
            (&["busybox", "sleep", "15"], Some(15)),
            (&["sh", "-c", "sleep 15"], Some(15)),
            (&["/bin/sh", "-c", "exec sleep 15;"], Some(15)),
            (&["/bin/bash", "-lc", "sleep 15"], Some(15)),
            (&["bash", "-l", "-c", "set -e\nsleep 15\nexit 0\n"], Some(15)),
            (&["sh", "-c", "sleep 15 || true"], Some(15)),
            (&["sh", "-c", "trap '' TERM; sleep 10; sleep 5"], Some(15)),
            (&["sleep", "infinity"], Some(u32::MAX)),
            (&["sh", "-c", "sleep 15; nginx -s quit"], None),
            (&["sh", "-c", "nginx -s quit; sleep 15"], None),
            (&["sh", "-c", "sleep 15 &"], None),
            (&["sh", "-c", "trap 'echo end; rm x' EXIT; sleep 15"], None),
            (&["sh", "-c", "true"], None),
            (&["headgate-hold", "150", "run", "x"], None),
            (&["sh", "-c", "sleep 150; exec \"$@\"", "headgate-hold", "x"], None),
            (&["powershell", "Start-Sleep", "15"], None),
        ] {
            assert_eq!(only_sleeps(command), seconds, "{command:?}");
        }
    }
}
