//! The causes of Headgate's decisions.
//!
//! ```text
//!  verdict, watches, AWS, zones ──► Cause ──► implies: what happens to a target or a pod
//!                                     ├─────► reason: what Events, logs, metrics and answers show
//!                                     └─────► detail: which of the causes with that reason it is
//! ```
//!
//! Code stores and compares a [`Cause`]; a [`Reason`] appears only in reports. The table in [`Cause::implies`] defines
//! the implications of each cause. A new cause does not compile without a row in [`Cause::implies`]. Headgate writes
//! the name of a cause into its own annotations for the next leader. Users see the reason.

use super::{reason::Reason, words::words};

macro_rules! causes {
    ($($name:ident => $reason:ident $(, $detail:literal)?;)*) => {
        words! {
            /// Why a target or a pod is in its state, or why a replica cannot be the leader. See the module docs.
            Cause {
                $(#[doc = concat!("[`Reason::", stringify!($reason), "`]" $(, ": ", $detail)?, ".")]
                $name = stringify!($name)),*
            }
        }

        impl Cause {
            /// The reason that users see.
            pub const fn reason(self) -> Reason {
                match self { $(Self::$name => Reason::$reason),* }
            }

            /// The text that distinguishes this cause from other causes with the same reason.
            pub const fn detail(self) -> Option<&'static str> {
                match self { $(Self::$name => causes!(@detail $($detail)?)),* }
            }
        }
    };
    (@detail $detail:literal) => { Some($detail) };
    (@detail) => { None };
}

causes! {
    // The target should be registered.
    PodHasIp => PodSelected, "the pod has its IP, and a binding selects it";
    PodListed => PodSelected, "the pod existed when Headgate listed the pods";
    PodReady => PodSelected, "the pod is now as ready as the Service requires";
    BindingAdded => PodSelected, "a new binding selects the pod";
    TargetMissing => UnknownWriter, "AWS no longer had the target";
    // The target cannot be registered.
    NoIp => NotReady, "the pod has no IP yet";
    NotReadyYet => NotReady, "the pod is less ready than the Service requires";
    WrongIpFamily => InvalidBinding, "the pod has no IP of the target group's address family";
    NoSuchPort => InvalidBinding, "the pod has no container port with the name in the Service";
    WaitsForHostNetworkPod => AddressContested, "another pod of the host network has the same address and port";
    // The target should be deregistered, or registered again.
    PodTerminating => PodTerminating;
    PodDeleted => PodDeleted, "the pod object was deleted";
    PodMissing => PodDeleted, "the pod was missing when Headgate listed the pods again";
    PodFinished => PodFinished;
    PodEvicting => PodEvicting;
    EvictionGivenUp => RegisteredAgain, "no client requests the eviction of the pod any more";
    NodeDying => NodeDying, "the node will fail within minutes";
    NodeDeleted => NodeDying, "the object of the node was deleted";
    NodeDisrupted => NodeDisrupted;
    NodeStays => RegisteredAgain, "the node remains";
    LastHealthyTarget => RemovalHeld, "no other target of the target group is healthy";
    TooManyLeaveEarly => RemovalHeld, "the limit of early deregistrations in the target group is reached";
    ManyNodesMarked => RemovalHeld, "many nodes have the same taint, so the taint does not identify the next node to drain";
    IpChanged => AddressChanged, "the pod has another IP, or another pod has this IP";
    AddressContested => AddressContested, "a pod on another node has the address";
    NotReady => NotReady, "the pod was not ready for too long";
    NotSelected => NotSelected, "no binding selects the labels of the pod";
    PortChanged => AddressChanged, "the Service's port now targets another port of the pod";
    BindingRemoved => BindingRemoved;
    NamespaceNotSelected => NamespaceNotServed, "the namespace is not selected";
    // The target is registered, and no pod of this cluster needs it.
    ForeignTarget => ForeignTarget, "another writer has registered the target";
    StaleTarget => StaleTarget, "Headgate registered the target, and no pod needs it any more";
    // A readiness gate is open.
    TargetsHealthy => TargetsHealthy, "every target of the pod is healthy";
    ZonalShift => TargetsHealthy, "the target is healthy, and a zonal shift keeps new traffic away from it";
    TargetGroupUnused => TargetUnused, "no listener uses the target group";
    NothingBound => NotSelected, "no binding selected the pod in time";
    HealthUnreadable => HealthUnread, "AWS did not answer DescribeTargetHealth for --gate-patience";
    // A readiness gate is closed.
    NotRegisteredYet => TargetPending, "AWS has not accepted the registration yet";
    RegistrationPaused => Paused, "the pod is not registered, because its binding is paused";
    HealthUnread => HealthUnread, "the target group was not read since the registration";
    TargetInitial => TargetPending, "the load balancer has not checked the target yet";
    TargetUnhealthy => TargetUnhealthy;
    TargetUnused => TargetUnused, "the load balancer does not use the target";
    ZoneNotServed => ZoneNotServed;
    TargetUnavailable => HealthUnread, "the load balancer does not report the health of the target";
    BindingMissing => NotSelected, "an expected binding of the pod is missing";
    BindingUnreadable => InvalidBinding, "a Service that selects the pod is invalid";
    RegisteredAgain => RegisteredAgain, "Headgate had deregistered the target";
    // Headgate cannot apply the configuration of an object.
    LimitExceeded => LimitExceeded;
    NotGranted => NotGranted;
    NoSelector => InvalidBinding, "the Service has no selector";
    TargetGroupNotFound => TargetGroupNotFound;
    TargetGroupUnsupported => TargetGroupUnsupported;
    // An eviction is allowed or waits.
    NotATarget => EvictionAllowed, "no load balancer sends to the pod";
    EvictionAllowed => EvictionAllowed, "the pod was deregistered, and its load balancers have stopped sending";
    ZoneAllows => EvictionAllowed, "the pod has its hold, and its zones keep enough healthy targets";
    ReplacementTooSlow => ReplacementTooSlow, "no replacement has become healthy in the zone in time";
    ZoneHasNoRoom => ReplacementTooSlow, "no node in the zone accepts new pods";
    EvictionWaitsForZone => EvictionWaitsForZone;
    EvictionWaitsForBudget => EvictionWaitsForBudget, "Kubernetes rejects the eviction for now";
    EvictionWaitsForDeparture => EvictionWaitsForBudget, "the PodDisruptionBudgets allow no further disruption";
    DeregistrationTooSlow => EvictionUnsafe, "AWS has not accepted the deregistration in time";
    EvictionUncheckable => EvictionUnsafe, "Kubernetes does not report what the PodDisruptionBudgets allow";
    // A replica cannot be the leader, or AWS does not return the data of a target group.
    RemovalsFail => RemovalsFail;
    WatchesFail => WatchesFail;
    AwsUnreachable => AwsUnreachable;
    NoAwsCredentials => NoAwsCredentials;
    AccessDenied => AccessDenied;
    // The hold of a terminating pod is long enough or too short.
    HoldIsEnough => AsExpected, "the hold of the pod is long enough";
    HoldOff => AsExpected, "the hold of the pod is off";
    HoldMissing => HoldMissing, "a container of the pod has no hold";
    OwnPreStop => HoldMissing, "a container has a preStop of its own";
    HoldTooShort => HoldTooShort, "the hold of the pod is too short";
    GraceTooShort => HoldTooShort, "the grace period ends before the hold";
    // The following causes appear only in answers to eviction requests.
    HoldAllows => EvictionAllowed, "the pod has its hold";
    HoldNotWanted => EvictionAllowed, "the hold of the pod is off";
    Paused => Paused, "all bindings of the pod are paused";
    NamespaceNotServed => NamespaceNotServed, "Headgate does not manage the namespace";
    BindingsUnknown => NotListedYet, "Headgate does not know the pod's bindings yet";
    EvictionRecorded => EvictionWaits, "the pod is deregistered first";
    EvictionWaitsForLoadBalancer => EvictionWaits, "load balancers may still send to the pod";
    HeadgateBusy => EvictionWaits, "Headgate was too busy to decide in time";
    GraceCutsHold => EvictionUnsafe, "the grace period of the request cuts the hold short";
    NobodyDecides => EvictionUnsafe, "no leader has decided for too long";
    LeavingNotRecorded => EvictionUnsafe, "Headgate could not annotate the pod";
    LeavingNotCredible => LeavingNotCredible;
}

/// The kinds of causes that code distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A Service or TargetBinding has changed. After a deregistration for this kind of cause, the pod keeps running at
    /// its address.
    Written,
    /// The pod is less ready than the Service requires.
    Readiness,
    /// The pod's node was removed or will be removed.
    NodeEnds,
    /// The zones of the pod allow the eviction.
    Zones,
    /// Kubernetes or a `PodDisruptionBudget` blocks the eviction for now.
    Budgets,
    /// Any other cause.
    Other,
}

/// Whether the pod of a target still has its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// The pod keeps the address until the pod terminates.
    Kept,
    /// The pod may have lost the address.
    MayBeLost,
    /// The pod has lost the address.
    Lost,
}

/// The implications of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Implies {
    /// The kind of the cause.
    pub kind: Kind,
    /// Whether the pod still has its address.
    pub address: Address,
    /// Whether the pod still runs after a deregistration for this cause and can be registered again.
    pub comes_back: bool,
}

impl Implies {
    const OTHER: Self = Self::of(Kind::Other);

    const fn of(kind: Kind) -> Self {
        Self { kind, address: Address::Kept, comes_back: false }
    }

    const fn and_may_come_back(self) -> Self {
        Self { comes_back: true, ..self }
    }

    const fn with_address(self, address: Address) -> Self {
        Self { address, ..self }
    }
}

impl Cause {
    /// Returns the implications of a cause from a table that lists every cause.
    pub const fn implies(self) -> Implies {
        match self {
            Self::NotSelected => Implies::of(Kind::Written).and_may_come_back(),
            Self::StaleTarget => Implies::of(Kind::Written).with_address(Address::MayBeLost),
            Self::LimitExceeded
            | Self::PortChanged
            | Self::BindingRemoved
            | Self::NamespaceNotSelected
            | Self::NotGranted => Implies::of(Kind::Written),

            Self::NotReady => Implies::of(Kind::Readiness).and_may_come_back(),
            Self::NotReadyYet => Implies::of(Kind::Readiness),

            Self::NodeDying | Self::NodeDeleted => Implies::of(Kind::NodeEnds),

            Self::ZoneAllows | Self::ReplacementTooSlow | Self::ZoneHasNoRoom => Implies::of(Kind::Zones),

            Self::EvictionWaitsForBudget | Self::EvictionWaitsForDeparture => Implies::of(Kind::Budgets),

            Self::PodEvicting => Implies::OTHER.and_may_come_back(),
            Self::IpChanged => Implies::OTHER.with_address(Address::Lost),
            Self::PodHasIp
            | Self::PodListed
            | Self::PodReady
            | Self::BindingAdded
            | Self::TargetMissing
            | Self::NoIp
            | Self::WrongIpFamily
            | Self::NoSuchPort
            | Self::WaitsForHostNetworkPod
            | Self::PodTerminating
            | Self::PodDeleted
            | Self::PodMissing
            | Self::PodFinished
            | Self::EvictionGivenUp
            | Self::NodeDisrupted
            | Self::NodeStays
            | Self::LastHealthyTarget
            | Self::TooManyLeaveEarly
            | Self::ManyNodesMarked
            | Self::AddressContested
            | Self::ForeignTarget
            | Self::TargetsHealthy
            | Self::ZonalShift
            | Self::TargetGroupUnused
            | Self::NothingBound
            | Self::HealthUnreadable
            | Self::NotRegisteredYet
            | Self::RegistrationPaused
            | Self::HealthUnread
            | Self::TargetInitial
            | Self::TargetUnhealthy
            | Self::TargetUnused
            | Self::ZoneNotServed
            | Self::TargetUnavailable
            | Self::BindingMissing
            | Self::BindingUnreadable
            | Self::RegisteredAgain
            | Self::NoSelector
            | Self::TargetGroupNotFound
            | Self::TargetGroupUnsupported
            | Self::NotATarget
            | Self::EvictionAllowed
            | Self::EvictionWaitsForZone
            | Self::DeregistrationTooSlow
            | Self::EvictionUncheckable
            | Self::RemovalsFail
            | Self::WatchesFail
            | Self::AwsUnreachable
            | Self::NoAwsCredentials
            | Self::AccessDenied
            | Self::HoldIsEnough
            | Self::HoldOff
            | Self::HoldMissing
            | Self::OwnPreStop
            | Self::HoldTooShort
            | Self::GraceTooShort
            | Self::HoldAllows
            | Self::HoldNotWanted
            | Self::Paused
            | Self::NamespaceNotServed
            | Self::BindingsUnknown
            | Self::EvictionRecorded
            | Self::EvictionWaitsForLoadBalancer
            | Self::HeadgateBusy
            | Self::GraceCutsHold
            | Self::NobodyDecides
            | Self::LeavingNotRecorded
            | Self::LeavingNotCredible => Implies::OTHER,
        }
    }

    /// Whether the pod still runs at its address after a deregistration for this cause.
    pub const fn spares_the_pod(self) -> bool {
        matches!(self.implies().kind, Kind::Written)
    }

    /// Whether the pod still runs after a deregistration for this cause and can be registered again.
    pub const fn may_come_back(self) -> bool {
        self.implies().comes_back
    }

    /// Whether the pod has lost the address of the target.
    pub const fn loses_the_address(self) -> bool {
        matches!(self.implies().address, Address::Lost)
    }

    /// Whether the pod has lost, or may have lost, the target's address.
    pub const fn may_lose_the_address(self) -> bool {
        !matches!(self.implies().address, Address::Kept)
    }

    /// Whether the pod is less ready than the Service requires.
    pub const fn is_of_readiness(self) -> bool {
        matches!(self.implies().kind, Kind::Readiness)
    }

    /// Whether the pod's node was removed or will be removed.
    pub const fn ends_the_node(self) -> bool {
        matches!(self.implies().kind, Kind::NodeEnds)
    }

    /// Whether the cause concerns the zones of the pod.
    pub const fn is_of_zones(self) -> bool {
        matches!(self.implies().kind, Kind::Zones)
    }

    /// Whether a `PodDisruptionBudget` blocks the eviction for now.
    pub const fn is_of_budgets(self) -> bool {
        matches!(self.implies().kind, Kind::Budgets)
    }
}

impl From<Cause> for Reason {
    fn from(cause: Cause) -> Self {
        cause.reason()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_cause_is_written_by_its_own_name() {
        for cause in Cause::ALL {
            assert_eq!(format!("{cause:?}"), cause.as_str());
            assert_eq!(Cause::of_word(cause.as_str()), Some(*cause));
        }
    }

    #[test]
    fn causes_that_have_one_word_are_told_apart_by_their_details() {
        let mut seen = BTreeSet::new();
        for cause in Cause::ALL {
            assert!(seen.insert((cause.reason(), cause.detail())), "{cause:?}");
        }
        let shared =
            |cause: &&Cause| Cause::ALL.iter().filter(|it| it.reason() == cause.reason()).count() > 1;
        let unsaid: Vec<_> =
            Cause::ALL.iter().filter(shared).filter(|cause| cause.detail().is_none()).collect();
        assert!(unsaid.is_empty(), "{unsaid:?}");
    }

    #[test]
    fn what_each_question_is_answered_with_yes_for() {
        let those = |asks: fn(Cause) -> bool| {
            Cause::ALL.iter().copied().filter(|cause| asks(*cause)).collect::<Vec<_>>()
        };
        for (asks, yes) in [
            (
                Cause::spares_the_pod as fn(Cause) -> bool,
                &[
                    Cause::NotSelected,
                    Cause::PortChanged,
                    Cause::BindingRemoved,
                    Cause::NamespaceNotSelected,
                    Cause::StaleTarget,
                    Cause::LimitExceeded,
                    Cause::NotGranted,
                ][..],
            ),
            (Cause::may_come_back, &[Cause::PodEvicting, Cause::NotReady, Cause::NotSelected]),
            (Cause::loses_the_address, &[Cause::IpChanged]),
            (Cause::may_lose_the_address, &[Cause::IpChanged, Cause::StaleTarget]),
            (Cause::is_of_readiness, &[Cause::NotReadyYet, Cause::NotReady]),
            (Cause::ends_the_node, &[Cause::NodeDying, Cause::NodeDeleted]),
            (Cause::is_of_zones, &[Cause::ZoneAllows, Cause::ReplacementTooSlow, Cause::ZoneHasNoRoom]),
            (Cause::is_of_budgets, &[Cause::EvictionWaitsForBudget, Cause::EvictionWaitsForDeparture]),
        ] {
            assert_eq!(those(asks), yes);
        }
    }
}
