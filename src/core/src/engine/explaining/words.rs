//! Sentences that occur only in the output of `explain`.

use crate::{
    binding::annotation::TARGET_GROUPS,
    explanation::Step,
    model::{
        Cause, Failure, Fate, ObjectKey, Signal, TargetGroupArn,
        account::{Account, Under},
    },
};

/// Why a target is not registered again at once.
pub const AFTER_GATE: &str = "to be registered again when the pod's readiness gate is closed, which is waited for 5 s at \
                              most: Headgate had taken it out, and the pod has to be healthy anew";

/// A target that another writer has registered.
pub const FOREIGN_STAYS: &str =
    "somebody else has registered it: it stays, for the target group may be shared";
pub const FOREIGN_GOES: &str =
    "somebody else has registered it: it is to be deregistered, for the target group is Headgate's alone";

/// What happens to a node.
pub fn node_goes(signal: &Signal) -> String {
    let sign = &signal.sign;
    match signal.fate {
        Fate::Cordoned => {
            format!("it takes no new pods ({sign}): pods that whoever drains it passes over leave early")
        }
        Fate::Disrupted => {
            format!("it is to be drained ({sign}): pods that nothing would keep alive leave early")
        }
        Fate::Dying => {
            format!("it is about to die ({sign}): the targets of its pods are deregistered at once")
        }
        Fate::Deleted => format!("it is gone ({sign}): the targets of its pods are deregistered at once"),
    }
}

/// The state of a target.
pub fn standing(account: &Account<'_>) -> String {
    let said = match account.under {
        Under::Registered if account.attempts == 0 => {
            "registered for this pod before this Headgate came to lead, by its ledger"
        }
        Under::Registered => "AWS has taken its registration",
        Under::Believed => "registered by the ledger; no read of the target group has shown it yet",
        Under::Registering | Under::ToRegister | Under::ToNote => "to be registered",
        Under::AfterGate(_) => AFTER_GATE,
        Under::SetAside(_) => "set aside: AWS refuses it",
        Under::Contested(_) => "not registered again for a while: somebody else removes it again and again",
        Under::AfterRemoval => "to be registered again when AWS has answered its removal",
        Under::ToRemove | Under::Removing => "to be deregistered",
        Under::Held => "to be deregistered when one of those that replace it is healthy",
        Under::Doubted => "stays for now: something may yet turn out to bind the pod",
        Under::Suspect => {
            "stays: its pod is gone, it is healthy, and another cluster may have got the address"
        }
        Under::Removed => {
            "AWS has taken its removal; the load balancer may go on sending for a while, and `draining` does not say \
             whether it does"
        }
    };
    said.to_owned()
}

/// Why a selected pod is not a target.
pub const fn no_target(cause: Cause) -> &'static str {
    match cause {
        Cause::PodTerminating => "the pod has a deletionTimestamp: it will go, and is never a target again",
        Cause::PodFinished => "the pod's phase is Succeeded or Failed: it has ended",
        Cause::NoIp => "the pod's status has no IP yet; it is registered the moment it has",
        Cause::NotReadyYet => {
            "the pod is not as ready as headgate.dev/register-when asks for before it is registered; expected its \
             containers, or all of its readiness gates but Headgate's own, to be ready. With `ip`, too, it waits for its \
             containers where the target group asks for more than one healthy target (target_group_health.*)"
        }
        Cause::NotReady => {
            "the pod was not ready for too long, and headgate.dev/when-not-ready asks for its removal; it is \
             registered again when it is ready"
        }
        Cause::PodEvicting => {
            "the pod is to be evicted, and nothing keeps it alive: it was taken out before, and is put back if nobody \
             asks for its eviction any more"
        }
        Cause::NodeDying | Cause::NodeDeleted | Cause::NodeDisrupted => {
            "the pod's node is about to go: the pod was taken out before, and is put back if the node stays"
        }
        Cause::NotRegisteredYet => "its registration has not been decided yet",
        _ => "the pod is not a target there",
    }
}

/// Why a pod that should be deregistered early is still registered.
pub const fn leaves_early(cause: Cause) -> &'static str {
    match cause {
        Cause::LastHealthyTarget => {
            "when another target of the target group is healthy, or the pod's eviction is asked for: its node is to be \
             drained, and it is the last one"
        }
        Cause::TooManyLeaveEarly => {
            "when others that left early have ended, or their replacements serve: its node is to be drained, and nobody evicts \
             the pod"
        }
        Cause::ManyNodesMarked => {
            "when its node is cordoned, or a pod is evicted from it: many nodes have the mark that its node has, and nobody \
             evicts the pod"
        }
        Cause::EvictionWaitsForZone => {
            "when its zone keeps enough healthy targets without it, for a while at most: its node is to be drained"
        }
        Cause::EvictionWaitsForBudget | Cause::EvictionWaitsForDeparture => {
            "when its PodDisruptionBudgets allow one more departure: its node is to be drained"
        }
        _ => {
            "its node is to be drained, and nothing keeps the pod alive when it is evicted, or nobody evicts it"
        }
    }
}

/// A pod of the host network has the same address and port.
pub fn another_had_it_first(owner: Option<&ObjectKey>) -> String {
    format!(
        "{} of the host network has the same address and port, and had it first; this pod becomes a target when that one \
         has gone; expected one pod for each address and port of a node",
        another_pod(owner)
    )
}

/// Another pod got the address.
pub fn another_has_got_it(owner: Option<&ObjectKey>) -> String {
    format!("{} has got the address since, so it is not this pod's any more", another_pod(owner))
}

fn another_pod(pod: Option<&ObjectKey>) -> String {
    pod.map_or_else(|| "another pod".to_owned(), |pod| format!("pod {pod}"))
}

/// No binding selects the pod, but these Services do.
pub fn not_selected(namespace: &str, services: &[&str]) -> String {
    if services.is_empty() {
        format!(
            "no Service with {TARGET_GROUPS} in namespace {namespace}, and no TargetBinding, selects this pod; \
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
    "it is written into the target group's ledger before RegisterTargets is called".to_owned()
}

/// A call has failed for a temporary reason.
pub fn failed(step: Step, failure: &Failure) -> String {
    format!("the last {} failed ({}: {}); it is tried again", step.as_str(), failure.code, failure.message)
}

/// AWS rejects calls about this group.
pub fn refused(arn: &TargetGroupArn) -> String {
    format!("AWS refuses it for target group {}; it is tried again", arn.name())
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
            (Cause::PodEvicting, "the pod is to be evicted"),
            (Cause::NodeDying, "node is about to go"),
            (Cause::NodeDeleted, "node is about to go"),
            (Cause::NodeDisrupted, "node is about to go"),
            (Cause::NotRegisteredYet, "not been decided yet"),
            (Cause::BindingRemoved, "is not a target there"),
        ] {
            assert!(no_target(cause).contains(word), "{cause:?}: {}", no_target(cause));
        }
    }

    #[test]
    fn a_pod_that_leaves_early_is_told_what_that_waits_for() {
        for (cause, word) in [
            (Cause::LastHealthyTarget, "another target of the target group is healthy"),
            (Cause::TooManyLeaveEarly, "others that left early have ended"),
            (Cause::ManyNodesMarked, "when its node is cordoned"),
            (Cause::EvictionWaitsForZone, "zone keeps enough healthy targets"),
            (Cause::EvictionWaitsForBudget, "PodDisruptionBudgets allow one more"),
            (Cause::EvictionWaitsForDeparture, "PodDisruptionBudgets allow one more"),
            (Cause::NodeDisrupted, "nothing keeps the pod alive"),
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
            (Under::Registered, "AWS has taken its registration"),
            (Under::Believed, "no read of the target group has shown it"),
            (Under::Registering, "to be registered"),
            (Under::AfterGate(None), "when the pod's readiness gate is closed"),
            (Under::SetAside(until), "AWS refuses it"),
            (Under::Contested(until), "somebody else removes it"),
            (Under::AfterRemoval, "when AWS has answered its removal"),
            (Under::Removing, "to be deregistered"),
            (Under::Held, "one of those that replace it is healthy"),
            (Under::Doubted, "may yet turn out to bind the pod"),
            (Under::Suspect, "another cluster may have got the address"),
            (Under::Removed, "AWS has taken its removal"),
        ] {
            assert!(says(under, 1).contains(word), "{under:?}: {}", says(under, 1));
        }
        assert!(says(Under::Registered, 0).contains("before this Headgate came to lead"));
        assert!(refused(&arn("blue")).contains("target group blue"));
    }
}
