//! The `action` field of an Event, which names what Headgate did or tried to do.

use crate::model::{
    Reason,
    notice::{About, Notice},
    words::words,
};

words! {
    /// The `action` field of an Event.
    EventAction {
        /// Resolve the target groups of a Service or TargetBinding, or apply a grant.
        Bind = "Bind",
        /// Register targets, and wait until they are healthy.
        Register = "Register",
        /// Deregister targets.
        Deregister = "Deregister",
        /// Open a readiness gate.
        OpenGate = "OpenGate",
        /// Keep a terminating pod running.
        HoldPod = "HoldPod",
        /// Decide on an eviction.
        Evict = "Evict",
        /// Roll out an IngressDaemonSet.
        RollOut = "RollOut",
        /// Call the AWS API.
        CallAws = "CallAws",
        /// Acquire, keep or release the Lease.
        Lead = "Lead",
    }
}

impl EventAction {
    /// The action of a notice.
    pub const fn of(notice: &Notice) -> Self {
        let is_pod = match &notice.about {
            About::IngressDaemonSet(..) => return Self::RollOut,
            About::Grant(..) => return Self::Bind,
            About::Pod(..) => true,
            About::Service(..) | About::TargetBinding(..) => false,
        };
        match notice.reason {
            Reason::PodSelected
            | Reason::AddressContested
            | Reason::RegisteredAgain
            | Reason::UnknownWriter
            | Reason::TargetRegistered
            | Reason::LedgerUnreadable
            | Reason::TargetsHealthy
            | Reason::TargetPending
            | Reason::TargetUnhealthy
            | Reason::NeverHealthy
            | Reason::TargetUnused
            | Reason::ZoneNotServed
            | Reason::ZoneWithoutHealthyTarget
            | Reason::TargetRefused
            | Reason::QuotaExceeded => Self::Register,
            // A pod that exceeds a limit is not registered.
            Reason::LimitExceeded if is_pod => Self::Register,

            Reason::NotReady
            | Reason::AddressChanged
            | Reason::PodTerminating
            | Reason::PodDeleted
            | Reason::PodFinished
            | Reason::PodEvicting
            | Reason::NodeDying
            | Reason::NodeDisrupted
            | Reason::BindingRemoved
            | Reason::StaleTarget
            | Reason::ForeignTarget
            | Reason::RemovalHeld
            | Reason::RemovalsPaused
            | Reason::ListDoubted
            | Reason::TargetDeregistered
            | Reason::ReplacementTooSlow
            | Reason::RemovalsFail => Self::Deregister,

            Reason::GateDelayed | Reason::HealthUnread | Reason::HeadgateLeft => Self::OpenGate,
            // On a pod, `NotSelected` and `RightMissing` concern the readiness gate.
            Reason::NotSelected | Reason::RightMissing if is_pod => Self::OpenGate,

            Reason::HoldMissing | Reason::HoldTooShort => Self::HoldPod,

            Reason::EvictionAllowed
            | Reason::EvictionWaits
            | Reason::EvictionWaitsForBudget
            | Reason::EvictionWaitsForZone
            | Reason::EvictionUnsafe
            | Reason::LeavingNotCredible => Self::Evict,

            Reason::NodesInTurn | Reason::ProgressDeadlineExceeded | Reason::PodsRefused => Self::RollOut,

            // The reason `AsExpected` reports that Headgate reaches AWS again.
            Reason::AwsUnreachable
            | Reason::NoAwsCredentials
            | Reason::AccessDenied
            | Reason::Throttled
            | Reason::Unavailable
            | Reason::AsExpected => Self::CallAws,

            Reason::NoLeader | Reason::CannotLead | Reason::WatchesFail => Self::Lead,

            Reason::NotSelected
            | Reason::RightMissing
            | Reason::LimitExceeded
            | Reason::NamespaceNotServed
            | Reason::NotListedYet
            | Reason::InvalidBinding
            | Reason::TargetGroupNotFound
            | Reason::TargetGroupUnsupported
            | Reason::TargetClaimedTwice
            | Reason::Paused
            | Reason::ReadOnly
            | Reason::NotGranted
            | Reason::ExclusiveNotGranted
            | Reason::NoGrant
            | Reason::InvalidGrant
            | Reason::NotInstalled
            | Reason::WebhookFails
            | Reason::CheckFailed
            | Reason::RiskyWorkload
            | Reason::RiskyTargetGroup => Self::Bind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::object::{ObjectKey, Uid};

    #[test]
    fn an_action_depends_on_the_reason_and_on_the_kind_of_object() {
        let (key, uid) = (ObjectKey::new("shop", "web"), Uid::new("u-1"));
        let pod = About::Pod(key.clone(), uid.clone());
        let service = About::Service(key.clone(), uid.clone());
        let set = About::IngressDaemonSet(key, uid.clone());
        for (about, reason, action) in [
            (&pod, Reason::TargetRegistered, "Register"),
            (&pod, Reason::TargetDeregistered, "Deregister"),
            (&pod, Reason::GateDelayed, "OpenGate"),
            (&pod, Reason::NotSelected, "OpenGate"),
            (&pod, Reason::LimitExceeded, "Register"),
            (&pod, Reason::EvictionWaitsForBudget, "Evict"),
            (&pod, Reason::CannotLead, "Lead"),
            (&service, Reason::InvalidBinding, "Bind"),
            (&service, Reason::LimitExceeded, "Bind"),
            (&service, Reason::NotSelected, "Bind"),
            (&service, Reason::RemovalHeld, "Deregister"),
            (&service, Reason::HoldTooShort, "HoldPod"),
            (&service, Reason::AsExpected, "CallAws"),
            (&set, Reason::AsExpected, "RollOut"),
            (&About::Grant("front".into(), uid), Reason::InvalidGrant, "Bind"),
        ] {
            let notice = Notice { about: about.clone(), reason, note: String::new() };
            assert_eq!(EventAction::of(&notice).as_str(), action, "{reason} of {about:?}");
        }
    }
}
