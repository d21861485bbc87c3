//! Why the machine does what it does: what its decisions hang on.
//!
//! ```text
//!  verdict, watches, AWS, zones ──► Cause ──► implies: what becomes of a target or a pod for that
//!                                     └─────► reason: the word in Events, logs, metrics, answers
//! ```
//!
//! A [`Cause`] is kept and decided by; a [`Reason`] is only told. Each cause has a reason of the same name, and the reasons
//! that nothing hangs on have no cause. What a cause implies stands in one table, [`Cause::implies`]. A new cause needs a
//! row there, or nothing compiles.

use std::fmt;

use super::{reason::Reason, words::words};

macro_rules! causes {
    ($($name:ident),* $(,)?) => {
        words! {
            /// Why a target or a pod is as it is, and why a replica cannot lead. See the module.
            Cause {
                $(#[doc = concat!("[`Reason::", stringify!($name), "`].")] $name = Reason::$name.as_str()),*
            }
        }

        impl Cause {
            /// The word that is told.
            pub const fn reason(self) -> Reason {
                match self { $(Self::$name => Reason::$name),* }
            }
        }
    };
}

causes! {
    // A target is wanted.
    PodHasIp, PodListed, PodReady, BindingAdded, TargetMissing,
    // It is not possible.
    NoIp, NotReadyYet, WrongIpFamily, NoSuchPort, WaitsForHostNetworkPod,
    // It is not wanted any more, or again.
    PodTerminating, PodDeleted, PodMissing, PodFinished,
    PodEvicting, EvictionGivenUp, NodeDying, NodeDeleted, NodeDisrupted, NodeStays,
    LastHealthyTarget, TooManyLeaveEarly, ManyNodesMarked,
    IpChanged, AddressContested, NotReady,
    NotSelected, PortChanged, BindingRemoved, NamespaceNotSelected,
    // It is there, and nobody here wants it.
    ForeignTarget, TargetReappeared, StaleTarget,
    // A readiness gate is open.
    TargetsHealthy, ZonalShift, TargetGroupUnused, NothingBound, HealthUnreadable,
    // It is closed.
    NotRegisteredYet, RegistrationPaused, HealthUnread, TargetInitial, TargetUnhealthy, TargetDraining, TargetUnused,
    ZoneNotServed, TargetUnavailable, BindingMissing, BindingUnreadable, RegisteredAgain,
    // What is written cannot be followed.
    LimitExceeded, NotGranted, NoSelector, TargetGroupNotFound, TargetGroupUnsupported,
    // An eviction, or a removal, is let through or waits.
    NotATarget, EvictionAllowed, ZoneAllows, ReplacementTooSlow, ZoneHasNoRoom, EvictionWaitsForZone,
    EvictionWaitsForBudget, EvictionWaitsForDeparture, DeregistrationTooSlow, EvictionUncheckable,
    // A replica cannot lead, or AWS does not say what a target group is.
    RemovalsFail, WatchesFail, AwsUnreachable, NoAwsCredentials, AccessDenied,
}

/// What a cause is about, as far as that makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What is written has changed, and not what became of the pod: a target that goes for this leaves a pod that lives on
    /// at its address.
    Written,
    /// The pod is not as ready as is asked for.
    Readiness,
    /// The pod's node ends soon, or has.
    NodeEnds,
    /// The zones of the pod let it go.
    Zones,
    /// Kubernetes, or what it is told of a `PodDisruptionBudget`, keeps the pod for now.
    Budgets,
    /// Anything else.
    Other,
}

/// What becomes of the address of the pod that has a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// It keeps it, or goes with it.
    Kept,
    /// It may have lost it.
    MayBeLost,
    /// It has lost it.
    Lost,
}

/// What a cause implies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Implies {
    /// What it is about.
    pub kind: Kind,
    /// What becomes of the pod's address.
    pub address: Address,
    /// Whether a pod whose target goes for this lives on, and may come back to the same registration.
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
    /// What it implies: the table. One row for each cause, and none for the rest.
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
            | Self::TargetReappeared
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
            | Self::TargetDraining
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
            | Self::AccessDenied => Implies::OTHER,
        }
    }

    /// Whether a target that goes for this leaves a pod that lives on at its address: for what is written, and not for what
    /// became of the pod.
    pub const fn spares_the_pod(self) -> bool {
        matches!(self.implies().kind, Kind::Written)
    }

    /// Whether a pod whose target goes for this lives on, and may come back to the same registration.
    pub const fn may_come_back(self) -> bool {
        self.implies().comes_back
    }

    /// Whether the pod has lost the address of the target.
    pub const fn loses_the_address(self) -> bool {
        matches!(self.implies().address, Address::Lost)
    }

    /// Whether it has, or may have.
    pub const fn may_lose_the_address(self) -> bool {
        !matches!(self.implies().address, Address::Kept)
    }

    /// Whether the pod is not as ready as is asked for.
    pub const fn is_of_readiness(self) -> bool {
        matches!(self.implies().kind, Kind::Readiness)
    }

    /// Whether the pod's node ends soon, or has.
    pub const fn ends_the_node(self) -> bool {
        matches!(self.implies().kind, Kind::NodeEnds)
    }

    /// Whether it is its zones that let the pod go.
    pub const fn is_of_zones(self) -> bool {
        matches!(self.implies().kind, Kind::Zones)
    }

    /// Whether a `PodDisruptionBudget` keeps the pod for now.
    pub const fn is_of_budgets(self) -> bool {
        matches!(self.implies().kind, Kind::Budgets)
    }
}

impl From<Cause> for Reason {
    fn from(cause: Cause) -> Self {
        cause.reason()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_by_its_own_name_and_sorts_like_its_reason() {
        for cause in Cause::ALL {
            let word = cause.as_str();
            assert_eq!((&*format!("{cause:?}"), cause.reason().as_str()), (word, word));
            assert_eq!((Cause::of_word(word), Reason::from(*cause)), (Some(*cause), cause.reason()));
        }
        assert!(Cause::ALL.is_sorted() && Cause::ALL.is_sorted_by_key(|cause| cause.reason()));
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
