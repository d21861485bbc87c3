//! Sentences that occur only in the output of `explain`.

use crate::{
    binding::annotation::TARGET_GROUPS,
    explanation::Step,
    model::{
        Cause, Failure, Fate, ObjectKey, Signal, TargetGroupArn,
        account::{Account, Under},
    },
};

/// Why a target of a living pod is not deregistered immediately.
pub const AFTER_GATE: &str = "Headgate deregisters the target when the pod's readiness gate is closed";
pub const AFTER_TERM: &str =
    "Headgate deregisters the target when the previous leader can no longer open the pod's readiness gate";

/// Descriptions of a target that another program has registered.
pub const FOREIGN_STAYS: &str =
    "another writer has registered the target: the target remains, because the target group may be shared";
pub const FOREIGN_GOES: &str = "another writer has registered the target: Headgate deregisters the target, because only \
                                Headgate may use this target group";

/// Describes the removal of a node.
pub fn node_goes(signal: &Signal) -> String {
    let sign = &signal.sign;
    match signal.fate {
        Fate::Cordoned => {
            format!(
                "the node accepts no new pods ({sign}): Headgate deregisters pods early if the drain tool skips them"
            )
        }
        Fate::Disrupted => {
            format!("the node will be drained ({sign}): Headgate deregisters pods early if they have no hold")
        }
        Fate::Dying => {
            format!(
                "the node is about to fail ({sign}): Headgate deregisters all pods of the node immediately"
            )
        }
        Fate::Deleted => {
            format!("the node was deleted ({sign}): Headgate deregisters all pods of the node immediately")
        }
    }
}

/// Describes the state of a target.
pub fn standing(account: &Account<'_>) -> String {
    let said = match account.under {
        Under::Registered if account.attempts == 0 => {
            "an earlier leader registered the target for this pod, according to the ledger"
        }
        Under::Registered => "AWS has accepted the registration",
        Under::Believed => {
            "the ledger lists the target as registered; no DescribeTargetHealth response has listed the target yet"
        }
        Under::Registering | Under::ToRegister | Under::ToNote => "the target should be registered",
        Under::AfterGate => AFTER_GATE,
        Under::AfterTerm(_) => AFTER_TERM,
        Under::SetAside(_) => "Headgate waits before the next retry, because AWS rejects the target",
        Under::Contested(_) => {
            "Headgate waits before the next registration, because another system repeatedly removes the target"
        }
        Under::AfterRemoval => {
            "Headgate registers the target again after AWS has answered the deregistration"
        }
        Under::ToRemove | Under::Removing => "the target should be deregistered",
        Under::Held => "Headgate deregisters the target when one of its replacements is healthy",
        Under::Doubted => "the target remains for now, because an unresolved binding may select the pod",
        Under::Suspect => {
            "the target remains: its pod was deleted, but the target is healthy, so another cluster may have got the address"
        }
        Under::Removed => {
            "AWS has accepted the deregistration; the load balancer may keep sending for a while, even in the state `draining`"
        }
    };
    said.to_owned()
}

/// Why a selected pod is not a target.
pub const fn no_target(cause: Cause) -> &'static str {
    match cause {
        Cause::PodTerminating => {
            "the pod has a deletionTimestamp: the pod will terminate, and never becomes a target again"
        }
        Cause::PodFinished => "the pod's phase is Succeeded or Failed: the pod has finished",
        Cause::NoIp => "the pod has no IP yet; Headgate registers the pod as soon as it has an IP",
        Cause::NotReadyYet => {
            "the pod is less ready than headgate.dev/register-when requires: `containers-ready` requires ready containers, \
             and `ready` also requires all other readiness gates. With `ip`, Headgate still waits for ready containers if \
             the target group requires more than one healthy target (target_group_health.*)"
        }
        Cause::NotReady => {
            "the pod was not ready for too long, and headgate.dev/when-not-ready is `deregister`; Headgate registers the \
             pod again when the pod is ready"
        }
        Cause::PodEvicting => {
            "the pod will be evicted and has no hold, so Headgate deregistered the pod first; Headgate registers the pod \
             again if no client requests its eviction any more"
        }
        Cause::NodeDying | Cause::NodeDeleted | Cause::NodeDisrupted => {
            "the pod's node will be removed, so Headgate deregistered the pod first; Headgate registers the pod again if the \
             node remains"
        }
        Cause::NotRegisteredYet => "Headgate has not decided yet whether to register the pod",
        _ => "the pod is not a target of this target group",
    }
}

/// Why a pod that should be deregistered early is still registered.
pub const fn leaves_early(cause: Cause) -> &'static str {
    match cause {
        Cause::LastHealthyTarget => {
            "when another target of the target group is healthy, or a client requests the pod's eviction: its node will be \
             drained, and it is the last healthy target"
        }
        Cause::TooManyLeaveEarly => {
            "when other pods that were deregistered early have terminated, or their replacements serve: its node will be \
             drained, and the drain tool skips the pod"
        }
        Cause::ManyNodesMarked => {
            "when its node is cordoned, or a pod is evicted from it: many nodes have the same taint, and the drain tool skips \
             the pod"
        }
        Cause::EvictionWaitsForZone => {
            "when its zone has enough healthy targets without it, or after a timeout: its node will be drained"
        }
        Cause::EvictionWaitsForBudget | Cause::EvictionWaitsForDeparture => {
            "when its PodDisruptionBudgets allow one more disruption: its node will be drained"
        }
        _ => "its node will be drained, and the pod has no hold, or the drain tool skips it",
    }
}

/// Another pod of the host network has the same address and port.
pub fn another_had_it_first(owner: Option<&ObjectKey>) -> String {
    format!(
        "{} of the host network already uses the same address and port; this pod becomes a target when the other pod is \
         deleted. Run at most one pod for each port of a node",
        another_pod(owner)
    )
}

/// Another pod received the address later.
pub fn another_has_got_it(owner: Option<&ObjectKey>) -> String {
    format!("{} now has the address, so this pod is no longer a target", another_pod(owner))
}

fn another_pod(pod: Option<&ObjectKey>) -> String {
    pod.map_or_else(|| "another pod".to_owned(), |pod| format!("pod {pod}"))
}

/// No binding selects the pod, but these Services select the pod.
pub fn not_selected(namespace: &str, services: &[&str]) -> String {
    if services.is_empty() {
        format!(
            "no TargetBinding and no Service with {TARGET_GROUPS} in namespace {namespace} selects this pod; \
             compare the pod's labels with the selectors"
        )
    } else {
        format!(
            "no TargetBinding and no Service with {TARGET_GROUPS} selects this pod; these Services select the \
             pod, but lack the annotation: {}",
            services.join(", ")
        )
    }
}

/// A call about the target is in flight.
pub fn in_flight(step: Step) -> String {
    format!("AWS has not answered {} yet", step.as_str())
}

/// Headgate must write the ledger before it can register the target.
pub fn unnoted() -> String {
    "Headgate writes the target into the group's ledger before RegisterTargets is called".to_owned()
}

/// A call has failed for a temporary reason.
pub fn failed(step: Step, failure: &Failure) -> String {
    format!("the last {} failed ({}: {}); Headgate retries", step.as_str(), failure.code, failure.message)
}

/// AWS rejects calls about this group.
pub fn refused(arn: &TargetGroupArn) -> String {
    format!("AWS rejects the call for target group {}; Headgate retries", arn.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{Moment, Uid},
        testing::arn,
    };

    #[test]
    fn each_reason_not_to_be_a_target_has_a_sentence_of_its_own() {
        for (cause, word) in [
            (Cause::PodTerminating, "deletionTimestamp"),
            (Cause::PodFinished, "Succeeded or Failed"),
            (Cause::NoIp, "no IP yet"),
            (Cause::NotReadyYet, "headgate.dev/register-when"),
            (Cause::NotReady, "headgate.dev/when-not-ready"),
            (Cause::PodEvicting, "the pod will be evicted"),
            (Cause::NodeDying, "node will be removed"),
            (Cause::NodeDeleted, "node will be removed"),
            (Cause::NodeDisrupted, "node will be removed"),
            (Cause::NotRegisteredYet, "not decided yet"),
            (Cause::BindingRemoved, "is not a target of this target group"),
        ] {
            assert!(no_target(cause).contains(word), "{cause:?}: {}", no_target(cause));
        }
    }

    #[test]
    fn a_pod_that_leaves_early_is_told_what_that_waits_for() {
        for (cause, word) in [
            (Cause::LastHealthyTarget, "another target of the target group is healthy"),
            (Cause::TooManyLeaveEarly, "that were deregistered early have terminated"),
            (Cause::ManyNodesMarked, "when its node is cordoned"),
            (Cause::EvictionWaitsForZone, "zone has enough healthy targets"),
            (Cause::EvictionWaitsForBudget, "PodDisruptionBudgets allow one more"),
            (Cause::EvictionWaitsForDeparture, "PodDisruptionBudgets allow one more"),
            (Cause::NodeDisrupted, "the pod has no hold"),
        ] {
            assert!(leaves_early(cause).contains(word), "{cause:?}: {}", leaves_early(cause));
        }
    }

    #[test]
    fn how_a_target_stands_says_what_happens_to_it_and_who_registered_it() {
        let uid = Uid::new("1");
        let says = |under, attempts| {
            let (cause, since) = (Cause::PodHasIp, Moment::START);
            standing(&Account {
                uid: &uid,
                binding: None,
                paused: false,
                paused_by: None,
                under,
                cause,
                since,
                ended: None,
                attempts,
            })
        };
        let until = Moment::START;
        for (under, word) in [
            (Under::Registered, "AWS has accepted the registration"),
            (Under::Believed, "no DescribeTargetHealth response"),
            (Under::Registering, "should be registered"),
            (Under::AfterGate, "when the pod's readiness gate is closed"),
            (Under::AfterTerm(until), "when the previous leader can no longer"),
            (Under::SetAside(until), "AWS rejects the target"),
            (Under::Contested(until), "another system repeatedly removes"),
            (Under::AfterRemoval, "after AWS has answered the deregistration"),
            (Under::Removing, "should be deregistered"),
            (Under::Held, "one of its replacements is healthy"),
            (Under::Doubted, "may select the pod"),
            (Under::Suspect, "another cluster may have got the address"),
            (Under::Removed, "AWS has accepted the deregistration"),
        ] {
            assert!(says(under, 1).contains(word), "{under:?}: {}", says(under, 1));
        }
        assert!(says(Under::Registered, 0).contains("an earlier leader registered the target"));
        assert!(refused(&arn("blue")).contains("target group blue"));
    }
}
