//! Bugs that the simulation must catch: switched on by its tests alone, and compiled away everywhere else.
//!
//! Each stands where somebody could make the mistake. A simulation that does not notice them would not notice the
//! real ones.

macro_rules! bugs {
    ($($(#[doc = $doc:literal])* $name:ident),* $(,)?) => {
        /// A mistake somebody could make.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(not(test), allow(dead_code, reason = "some stand in code of the tests alone"))]
        pub enum Bug { $($(#[doc = $doc])* $name),* }

        impl Bug {
            /// All of them.
            #[cfg(test)]
            pub const ALL: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

bugs! {
    /// A late DELETED of an old pod is taken for its successor of the same name.
    LateDeletedRemovesTheSuccessor,
    /// Calls are sent before every watch has listed.
    ActsBeforeSync,
    /// A relist forgets to look for what is missing.
    RelistMissesTheMissing,
    /// A lost answer of DeregisterTargets is taken for success, and never looked at again.
    LostAnswerIsSuccess,
    /// A lost answer of RegisterTargets is taken for failure, and never looked at again.
    LostAnswerIsFailure,
    /// One group's backoff holds up every group.
    OneBackoffForAll,
    /// A draining target counts as registered.
    DrainingCountsAsPresent,
    /// A target that was never registered from here is removed.
    ForeignTargetsAreRemoved,
    /// A removed target is forgotten before a late Register has landed.
    TombstonesAreDroppedAtOnce,
    /// Register and Deregister of one target are in flight together.
    RegisterRacesDeregister,
    /// Halving a refused call loses the half without the bad target.
    HalvingDropsTheGoodHalf,
    /// The older holder of an IP keeps it.
    OlderHolderKeepsTheIp,
    /// A terminating pod stays a target until it is gone.
    TerminatingStaysTarget,
    /// A finished pod stays a target.
    FinishedStaysTarget,
    /// A Register takes a token while a removal waits for one.
    RegistrationsGoFirst,
    /// An unreadable annotation ends the bindings it had.
    BadAnnotationEndsBindings,
    /// The ledger is written after the call.
    LedgerIsWrittenAfterwards,
    /// What the ledger says of the time before is ignored.
    LedgerIsIgnored,
    /// A new leader acts before the ledgers are loaded.
    ActsBeforeLedgers,
    /// A replica that no longer leads goes on.
    DeposedLeaderGoesOn,
    /// A ledger is written over whatever is there.
    LedgerIsWrittenOver,
    /// A tombstone is dropped although a call of the leader before may still land.
    LateCallsAreForgotten,
    /// What was intended counts as registered after a restart.
    IntendedCountsAsRegistered,
    /// A read is believed although it may be older than the last call.
    StaleReadIsBelieved,
    /// A healthy target at an address that nobody here has is removed after a restart.
    SuspectsAreRemoved,
    /// A stale target of a living pod is removed although a Service may yet want it.
    DoubtIsIgnored,
    /// The removal of a stale target that waits goes out although a Service may want it by now.
    LateDoubtIsIgnored,
    /// A set that is replaced as a whole is removed before one of the new targets is healthy.
    ReplacedSetGoesAtOnce,
    /// A target is held whose pod goes.
    HoldOutlivesThePod,
    /// What is held is held for ever.
    HoldNeverEnds,
    /// A call that does not fit as a whole is not tried in parts.
    QuotaRefusesAll,
    /// A full group is tried again and again.
    QuotaIsTriedAgainAtOnce,
    /// A readiness gate opens on what was read before the pod's own registration.
    GateOpensOnOldHealth,
    /// A readiness gate stays open though the pod has another IP.
    GateKeptThroughIpChange,
    /// A readiness gate opens before all that could bind its pod is known.
    GateOpensBeforeSync,
    /// A target in a zone that the load balancer does not serve counts as one of a group that nobody uses.
    UnservedZoneIsUnused,
    /// A readiness gate opens when one of two targets is healthy.
    GateOpensForOneOfTwo,
    /// An open readiness gate closes when the load balancer calls the pod unhealthy.
    GateFollowsTheLoadBalancer,
    /// A write to a readiness gate is not repeated when somebody else has written over it.
    GateIsWrittenOnce,
    /// What is known of a pod's readiness gate is taken for the next pod of its name.
    GateOutlivesThePod,
    /// A target that was taken out from here is registered again before the readiness gate of its pod is closed.
    PutBackGoesFirst,
    /// That a target was taken out from here is forgotten while its pod lives with an open readiness gate.
    PutBackIsForgotten,
    /// A list that would take most of a Service's pods away is believed at once.
    DoubtfulListIsBelieved,
    /// A list is doubted however many others say the same.
    DoubtNeverEnds,
    /// A deleted Service loses its targets at once.
    GraceIsIgnored,
    /// A Service that is made again loses its targets when the grace of the old one is over.
    RecreatedServiceLosesItsTargets,
    /// A pod that is not ready for a moment is deregistered where that is asked for.
    FlapDeregisters,
    /// A pod that is not ready any more stays where its removal is asked for.
    WhenNotReadyIsIgnored,
    /// A pod is registered before it is as ready as is asked for.
    RegisterWhenIsIgnored,
    /// Removals go out although the target group is paused.
    PausedIsWritten,
    /// A target group is taken for Headgate's alone although it is shared.
    SharedIsTakenForExclusive,
    /// A deleted TargetBinding is let go while its targets are still there.
    BindingIsReleasedEarly,
    /// What was written on a pod about an earlier leaving counts for a later one.
    OldMarksCount,
    /// A pod whose target group is still looked up counts as no target.
    UnknownIsNoTarget,
    /// A pod that was readier before a replica has seen it counts as no target there.
    UnreadyIsNoTarget,
    /// An eviction does not wait for a removal that is under way for another reason.
    OtherRemovalsAreNotWaitedFor,
    /// A pod is let go as soon as AWS has taken its removal.
    BoundIsNotWaitedFor,
    /// That a removal was decided counts as AWS's having taken it.
    DecidedIsRemoved,
    /// Those that are on their way out are not taken off what a budget allows.
    DeparturesAreForgotten,
    /// The zone guard counts those that are on their way out as staying.
    ZoneCountsTheLeaving,
    /// The zone guard is not asked.
    ZoneIsIgnored,
    /// A pod waits for its zone without end.
    ZoneHoldsForEver,
    /// A removal that was decided and not written down outlives the term.
    DecisionOutlivesTheTerm,
    /// A pod that nobody asks to leave any more stays out.
    GivenUpStaysOut,
    /// A request that cuts a pod's hold short has it taken out.
    RequestsAreProof,
    /// Pods leave together on the word of requests alone.
    TurnsAreNotTaken,
    /// What is written on pods about their leaving is believed, whatever it is.
    AllIsBelieved,
    /// When a leader before has taken a target out is not remembered.
    RemovalsBeforeAreForgotten,
    /// The targets of a node that is about to die stay.
    DyingNodeIsIgnored,
    /// What was done for a node that stays after all is not undone.
    StayingNodeIsForgotten,
    /// The last healthy target leaves early.
    LastHealthyLeavesEarly,
    /// Each call that AWS refuses for its limits halves the rate, however few tokens were left.
    RefusalsAlwaysHalve,
    /// However often AWS refuses calls, the rate stays what it is.
    RefusalsNeverHalve,
    /// A token is refilled as if its call had arrived when it was sent.
    RefillsBeforeTheAnswer,
    /// A Lease is taken before it has run out.
    LeaseTakenEarly,
    /// A Lease that somebody deleted is taken while its holder may still act.
    DeletedLeaseIsFree,
    /// A term counts from the answer to a renewal, not from its sending.
    TermCountsFromAnswer,
    /// A term goes on when nothing can be renewed.
    TermNeverLapses,
}

#[cfg(test)]
impl Bug {
    /// Those that tests of the engine catch, each its own, because chance seldom brings them about.
    pub const OF_THE_ENGINE: &'static [Self] =
        &[Self::LateDoubtIsIgnored, Self::RemovalsBeforeAreForgotten, Self::UnservedZoneIsUnused];

    /// Those that the simulation of bursts behind AWS's limits must catch.
    pub const OF_THE_LIMITS: &'static [Self] =
        &[Self::RefusalsAlwaysHalve, Self::RefusalsNeverHalve, Self::RefillsBeforeTheAnswer];

    /// Those that the simulation of the Lease must catch; all others are for that of the engine.
    pub const OF_THE_LEASE: &'static [Self] =
        &[Self::LeaseTakenEarly, Self::DeletedLeaseIsFree, Self::TermCountsFromAnswer, Self::TermNeverLapses];
}

/// Whether this bug is planted: never, outside of the simulation's tests.
#[cfg(not(test))]
pub const fn planted(_: Bug) -> bool {
    false
}

#[cfg(test)]
pub use switch::{planted, with};

#[cfg(test)]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Whether this bug is planted in this thread.
    pub fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// Runs with the bug planted.
    pub fn with<T>(bug: Bug, run: impl FnOnce() -> T) -> T {
        PLANTED.set(Some(bug));
        let result = run();
        PLANTED.set(None);
        result
    }
}
