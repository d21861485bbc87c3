//! Sentences that occur only in the output of `explain`.

use crate::{
    binding::annotation::TARGET_GROUPS,
    explanation::Step,
    model::{
        Cause, Failure, Fate, ObjectKey, Signal, TargetGroupArn,
        account::{Account, Under},
    },
};

/// Why a target of a living pod is not deregistered at once.
pub const AFTER_GATE: &str = "deregistered when Headgate has closed the pod's readiness gate";
pub const AFTER_TERM: &str =
    "deregistered when the previous leader can no longer open the pod's readiness gate";

/// A target that another writer has registered.
pub const FOREIGN_STAYS: &str =
    "another writer has registered it: it remains, because the target group may be shared";
pub const FOREIGN_GOES: &str = "another writer has registered it: it will be deregistered, because only Headgate may use this target group";

/// What happens to a node.
pub fn node_goes(signal: &Signal) -> String {
    let sign = &signal.sign;
    match signal.fate {
        Fate::Cordoned => {
            format!("it accepts no new pods ({sign}): pods that the drain tool skips are deregistered early")
        }
        Fate::Disrupted => {
            format!("it will be drained ({sign}): pods without a hold are deregistered early")
        }
        Fate::Dying => {
            format!("it is about to die ({sign}): the targets of its pods are deregistered at once")
        }
        Fate::Deleted => format!("it was deleted ({sign}): the targets of its pods are deregistered at once"),
    }
}

/// The state of a target.
pub fn standing(account: &Account<'_>) -> String {
    let said = match account.under {
        Under::Registered if account.attempts == 0 => {
            "the ledger shows that an earlier leader registered it for this pod"
        }
        Under::Registered => "AWS has accepted its registration",
        Under::Believed => "the ledger shows it as registered; no read of the target group has shown it yet",
        Under::Registering | Under::ToRegister | Under::ToNote => "should be registered",
        Under::AfterGate => AFTER_GATE,
        Under::AfterTerm(_) => AFTER_TERM,
        Under::SetAside(_) => "set aside until the next retry: AWS rejects it",
        Under::Contested(_) => "not registered again for a while: somebody else removes it repeatedly",
        Under::AfterRemoval => "registered again after AWS has answered its deregistration",
        Under::ToRemove | Under::Removing => "should be deregistered",
        Under::Held => "deregistered when one of its replacements is healthy",
        Under::Doubted => "remains for now: a binding that is not resolved yet may select the pod",
        Under::Suspect => {
            "remains: its pod was deleted, but it is healthy, so another cluster may have got the address"
        }
        Under::Removed => {
            "AWS has accepted its deregistration; the load balancer may keep sending for a while, and `draining` does not \
             show whether it does"
        }
    };
    said.to_owned()
}

/// Why a selected pod is not a target.
pub const fn no_target(cause: Cause) -> &'static str {
    match cause {
        Cause::PodTerminating => {
            "the pod has a deletionTimestamp: it will terminate, and is never a target again"
        }
        Cause::PodFinished => "the pod's phase is Succeeded or Failed: it has finished",
        Cause::NoIp => "the pod's status has no IP yet; Headgate registers it as soon as it has one",
        Cause::NotReadyYet => {
            "the pod is less ready than headgate.dev/register-when requires: `containers-ready` requires ready containers, \
             and `ready` also requires all other readiness gates. With `ip`, Headgate still waits for ready containers if \
             the target group requires more than one healthy target (target_group_health.*)"
        }
        Cause::NotReady => {
            "the pod was not ready for too long, and headgate.dev/when-not-ready is `deregister`; Headgate registers it \
             again when it is ready"
        }
        Cause::PodEvicting => {
            "the pod will be evicted and has no hold, so Headgate deregistered it first; it is registered again if no client \
             requests its eviction any more"
        }
        Cause::NodeDying | Cause::NodeDeleted | Cause::NodeDisrupted => {
            "the pod's node will be removed, so Headgate deregistered the pod first; it is registered again if the node remains"
        }
        Cause::NotRegisteredYet => "Headgate has not decided yet whether to register it",
        _ => "the pod is not a target there",
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

/// A pod of the host network has the same address and port.
pub fn another_had_it_first(owner: Option<&ObjectKey>) -> String {
    format!(
        "{} of the host network has the same address and port, and had it first; this pod becomes a target when that pod \
         is deleted. Run at most one pod per port of a node",
        another_pod(owner)
    )
}

/// Another pod got the address.
pub fn another_has_got_it(owner: Option<&ObjectKey>) -> String {
    format!("{} has got the address since, so this pod has lost it", another_pod(owner))
}

fn another_pod(pod: Option<&ObjectKey>) -> String {
    pod.map_or_else(|| "another pod".to_owned(), |pod| format!("pod {pod}"))
}

/// No binding selects the pod, but these Services do.
pub fn not_selected(namespace: &str, services: &[&str]) -> String {
    if services.is_empty() {
        format!(
            "no TargetBinding and no Service with {TARGET_GROUPS} in namespace {namespace} selects this pod; \
             compare its labels with their selectors"
        )
    } else {
        format!(
            "no TargetBinding and no Service with {TARGET_GROUPS} selects this pod; without that annotation these \
             Services do: {}",
            services.join(", ")
        )
    }
}

/// A call about the target is in flight.
pub fn in_flight(step: Step) -> String {
    format!("AWS has not answered {} yet", step.as_str())
}

/// The ledger must be written first.
pub fn unnoted() -> String {
    "Headgate writes the target into the group's ledger before RegisterTargets is called".to_owned()
}

/// A call has failed for a temporary reason.
pub fn failed(step: Step, failure: &Failure) -> String {
    format!("the last {} failed ({}: {}); Headgate retries", step.as_str(), failure.code, failure.message)
}

/// AWS rejects calls about this group.
pub fn refused(arn: &TargetGroupArn) -> String {
    format!("AWS rejects it for target group {}; Headgate retries", arn.name())
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
            (Cause::BindingRemoved, "is not a target there"),
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
            (Under::Registered, "AWS has accepted its registration"),
            (Under::Believed, "no read of the target group has shown it"),
            (Under::Registering, "should be registered"),
            (Under::AfterGate, "when Headgate has closed the pod's readiness gate"),
            (Under::AfterTerm(until), "when the previous leader can no longer"),
            (Under::SetAside(until), "AWS rejects it"),
            (Under::Contested(until), "somebody else removes it"),
            (Under::AfterRemoval, "after AWS has answered its deregistration"),
            (Under::Removing, "should be deregistered"),
            (Under::Held, "one of its replacements is healthy"),
            (Under::Doubted, "may select the pod"),
            (Under::Suspect, "another cluster may have got the address"),
            (Under::Removed, "AWS has accepted its deregistration"),
        ] {
            assert!(says(under, 1).contains(word), "{under:?}: {}", says(under, 1));
        }
        assert!(says(Under::Registered, 0).contains("an earlier leader registered it"));
        assert!(refused(&arn("blue")).contains("target group blue"));
    }
}
