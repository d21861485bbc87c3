//! The reason words: one for each decision, the same in Events, logs, metrics and answers. They are only told: what code
//! decides by is a [`Cause`](super::cause::Cause).

use std::fmt;

use super::words::words;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        words! {
            /// Why Headgate did something, or did not. The name is stable: alerts and scripts may rely on it.
            Reason { $($(#[$doc])* $name = stringify!($name)),* }
        }
    };
}

reasons! {
    /// Registered: the pod has got its IP, or has come to be selected.
    PodHasIp,
    /// Registered: the pod was there when the watch listed what there is.
    PodListed,
    /// Registered: the pod has become as ready as the Service asks for.
    PodReady,
    /// Registered: a Service has come to bind the pod to the target group.
    BindingAdded,

    /// Registered again: AWS no longer had it, though nobody here removed it.
    TargetMissing,

    /// Not a target: the pod has no IP yet.
    NoIp,
    /// Not a target yet: the pod is not as ready as the Service asks for.
    NotReadyYet,
    /// Not a target: the pod has no IP of the family that the target group takes.
    WrongIpFamily,
    /// Not a target: the Service's `targetPort` is a name, and the pod has no container port of that name.
    NoSuchPort,
    /// Not a target: another pod of the host network has the same IP and port, and had it first.
    WaitsForHostNetworkPod,
    /// Not a target: no pod of this name is known.
    PodNotFound,
    /// Nothing is decided: not every watch has listed all there is yet, or the ledgers were not read.
    NotListedYet,

    /// Removed: the pod has a `deletionTimestamp`.
    PodTerminating,
    /// Removed: the pod object is gone.
    PodDeleted,
    /// Removed: the pod was missing after the watch was interrupted.
    PodMissing,
    /// Removed: the pod's phase is `Succeeded` or `Failed`.
    PodFinished,
    /// Removed: the pod is to be evicted, and nothing keeps it alive; it goes when the load balancer has stopped sending.
    PodEvicting,
    /// Registered again: the pod was to be evicted, and nobody has asked for that for a while.
    EvictionGivenUp,
    /// Removed at once: the pod's node is about to die.
    NodeDying,
    /// Removed at once: the object of the pod's node is gone.
    NodeDeleted,
    /// Removed early: the pod's node is to be drained, and nothing keeps the pod alive.
    NodeDisrupted,
    /// Registered again: the pod's node was about to go, and stays.
    NodeStays,
    /// Not removed early: no other target of the target group is healthy.
    LastHealthyTarget,
    /// A pod that nobody evicts is not removed early: as many of its target group are out as may be at a time.
    TooManyLeaveEarly,
    /// A pod that nobody evicts is not removed early: too many nodes are marked alike for it to say which goes now.
    ManyNodesMarked,
    /// Removed: the pod has lost its IP or got another one.
    IpChanged,
    /// Not a target: a pod on another node has the address that this pod shows. Both are told.
    AddressContested,
    /// Removed: the pod has not been ready for too long, and the Service asks for that.
    NotReady,
    /// Removed, or not a target: no selector of a Service or TargetBinding that binds matches the pod's labels (any
    /// more).
    NotSelected,
    /// Removed: the Service's port leads to another port of the pod.
    PortChanged,
    /// Removed: the Service or its annotation no longer names the target group.
    BindingRemoved,
    /// Removed, or not a target: the namespace is not selected (any more).
    NamespaceNotSelected,

    /// Somebody else has registered it: it stays, or is removed if the target group is Headgate's alone.
    ForeignTarget,
    /// Removed again: AWS had it once more, because of a call that landed late.
    TargetReappeared,

    /// Removed: the ledger says that it was registered from here, and nothing wants it any more.
    StaleTarget,
    /// Not removed, though the ledger says that it was registered from here and no pod of this cluster has the address:
    /// it is healthy, so another cluster may have got the address.
    SuspectTarget,
    /// Nothing is registered in the target group: its ledger makes no sense.
    LedgerUnreadable,
    /// Nothing is registered in the target group: Kubernetes does not let Headgate read or write its ledger.
    LedgerRefused,

    /// The readiness gate is open: every target of the pod is healthy.
    TargetsHealthy,
    /// The readiness gate is open: the target is healthy, though a zonal shift keeps new traffic away from it.
    ZonalShift,
    /// The readiness gate is open: no listener uses the target group.
    TargetGroupUnused,
    /// The readiness gate is open: what should bind the pod was waited for and did not come.
    NothingBound,
    /// The readiness gate is open, and the user is told: AWS has taken the pod's registration, and its health could not be
    /// read for as long as `--gate-patience` says.
    HealthUnreadable,
    /// The readiness gate is closed: AWS has not taken the pod's registration yet.
    NotRegisteredYet,
    /// The readiness gate is closed: the pod is not registered, because what binds it there is paused.
    RegistrationPaused,
    /// The readiness gate is closed: no read since the pod's registration says how healthy it is.
    HealthUnread,
    /// The readiness gate is closed: the load balancer has not checked the target yet.
    TargetInitial,
    /// The readiness gate is closed: the target fails its health checks.
    TargetUnhealthy,
    /// The readiness gate is closed: the load balancer still drains the target's address.
    TargetDraining,
    /// The readiness gate is closed: the load balancer does not use the target.
    TargetUnused,
    /// The readiness gate is closed, and the user is told: the target's zone is not enabled for the load balancer.
    ZoneNotServed,
    /// The readiness gate is closed: the load balancer does not say how healthy the target is.
    TargetUnavailable,
    /// The readiness gate is closed: nothing binds the pod to a target group that it should be bound to.
    BindingMissing,
    /// The readiness gate is closed: what is written on a Service that selects the pod cannot be followed.
    BindingUnreadable,
    /// The readiness gate is closed again: Headgate had taken the target out, and has registered it again.
    RegisteredAgain,
    /// The readiness gate of a pod that has an IP has been closed for long.
    GateStillClosed,
    /// The readiness gate of a pod, which had been closed for long, is open.
    GateOpenedLate,
    /// Kubernetes does not let Headgate write the readiness gate of pods.
    GateRefused,

    /// A part of the annotation cannot be read, or names a port the Service does not have.
    InvalidAnnotation,
    /// Something of an object exceeds a bound (`docs/reference/limits.md`) and is not read.
    LimitExceeded,
    /// An annotation begins with `headgate.dev/` and is none that Headgate knows.
    UnknownAnnotation,
    /// Not a target, or not registered: the namespace may not bind the target group.
    NotGranted,
    /// Several namespaces have targets in a target group that no grant names, such as one whose grant was deleted.
    SharedWithoutGrant,
    /// Targets of others stay, though `ownership` is `exclusive`: that needs a grant.
    ExclusiveNotGranted,
    /// A part of a grant cannot be read: the others count, and what was valid before stays in force.
    InvalidGrant,
    /// A TargetBinding names a port that the Service does not have, or a target group that cannot be one.
    InvalidBinding,
    /// The Service that a TargetBinding names does not exist.
    ServiceNotFound,
    /// Targets that should go stay, because nothing is written while the Service or Headgate is paused.
    RemovalsPaused,
    /// Targets that should go stay for a while: all are being replaced, and not as many new ones are healthy yet; or they
    /// are not ready any more, and their zone needs them.
    RemovalHeld,
    /// The Service has no selector, so it has no pods.
    NoSelector,
    /// The Service was deleted; its pods stay targets for a while.
    ServiceDeleted,
    /// AWS knows no such target group.
    TargetGroupNotFound,
    /// The target group cannot have these pods as targets.
    TargetGroupUnsupported,
    /// Two Services, or TargetBindings, claim the same target.
    TargetClaimedTwice,
    /// Not registered again for a while: targets vanish again and again soon after they were registered, so somebody
    /// else removes them.
    UnknownWriter,
    /// Not removed yet: a list of pods left out most of a binding's, and a second one is awaited.
    ListDoubted,
    /// Nothing is written about these targets: the Service or TargetBinding is paused.
    Paused,
    /// Nothing is written: Headgate runs with `--read-only`.
    ReadOnly,

    /// AWS has taken the registration of a pod's target.
    TargetRegistered,
    /// The load balancer shows a pod's target healthy, and it was being registered before.
    TargetHealthy,
    /// AWS has taken the removal of a pod's target.
    TargetDeregistered,

    /// A target has been registered for long and was never healthy.
    NeverHealthy,
    /// A zone in which a target group has, or had a while ago, healthy targets has none, and others have.
    ZoneWithoutHealthyTarget,
    /// A pod has ended, or would end, before its load balancers have stopped sending to it: requests may be lost.
    HoldTooShort,

    /// A new pod was given the readiness gate.
    GateAdded,
    /// A new pod has the readiness gate already.
    GatePresent,
    /// Containers of a new pod were given a `preStop` that keeps them alive while a load balancer may still send.
    HoldAdded,
    /// The `sleep` of a container's own `preStop` was raised to that time.
    OwnSleepRaised,
    /// A container was not given one: it has a `preStop` of its own.
    OwnPreStop,
    /// The `preStop` of a container is run after that time.
    OwnPreStopWrapped,
    /// That was asked for, and cannot be.
    OwnPreStopNotWrapped,
    /// No container was given one: that is not wanted.
    HoldOff,
    /// A new pod is held for less than it needs: an annotation, a flag or another webhook limits its grace period.
    HoldShortened,
    /// A new pod is not held: pods of its owner that were held were not created, as by a policy that limits grace periods.
    HoldRefused,
    /// A new pod of a labelled namespace was given nothing: it is a Job's, or no binding selects it, nor has for a while.
    HoldNotNeeded,
    /// The grace period of a new pod was raised by the time that its containers are held.
    GraceRaised,
    /// The probes that end a container of a new pod were given a grace period of their own, so that it starts again about
    /// as soon as without a hold.
    ProbeGraceAdded,
    /// A new pod was given nothing: its label says so.
    InjectionOff,
    /// A new pod was given nothing: this Headgate does not look after its namespace.
    NamespaceNotServed,
    /// A new pod was looked at, or an eviction let through, without knowing what binds the pod: not everything was seen
    /// yet, or it took too long.
    BindingsUnknown,

    /// A pod lives on for long enough when it ends, for its load balancers; its eviction is let through.
    HoldIsEnough,
    /// A pod does not: nothing keeps a container of it alive. Its eviction is let through if its node remains.
    HoldMissing,
    /// A pod does not: its grace period ends before.
    GraceTooShort,
    /// An eviction is let through: no load balancer sends to the pod, as far as is known here.
    NotATarget,
    /// An eviction is let through: the pod was deregistered, and its load balancers have stopped sending.
    EvictionAllowed,
    /// An eviction is let through: the pod has its hold, and its zones keep enough healthy targets without it.
    ZoneAllows,
    /// An eviction is let through although a zone is left with fewer healthy targets than is asked for: no replacement has
    /// become healthy there for too long.
    ReplacementTooSlow,
    /// The same, and no node of the zone takes new pods.
    ZoneHasNoRoom,
    /// An eviction waits: without the pod a zone would have fewer healthy targets than is asked for.
    EvictionWaitsForZone,
    /// An eviction is let through: it is a dry run.
    DryRun,
    /// An eviction waits: it is noted on the pod that it is to leave.
    EvictionRecorded,
    /// An eviction waits: Headgate had too much to do to look at it in time.
    HeadgateBusy,
    /// An eviction waits: Kubernetes refuses it for now, as a PodDisruptionBudget asks for.
    EvictionWaitsForBudget,
    /// An eviction waits: as many pods of a PodDisruptionBudget as it allows are on their way out.
    EvictionWaitsForDeparture,
    /// An eviction is let through although its grace period cuts the pod's hold short.
    GraceCutsHold,
    /// What is written on a pod about its leaving cannot be true, and was taken away.
    LeavingNotCredible,
    /// An eviction waits: the pod was deregistered, and its load balancers may go on sending.
    EvictionWaitsForLoadBalancer,
    /// An eviction is let through too early: AWS has not taken the pod's removal for too long.
    DeregistrationTooSlow,
    /// An eviction is let through without having looked at PodDisruptionBudgets: Kubernetes does not say what they allow.
    EvictionUncheckable,
    /// An eviction is let through: no leader has said a word about it for too long.
    NobodyDecides,
    /// An eviction is let through: that the pod is to leave could not be written on it.
    LeavingNotRecorded,

    /// A leader could not lead and has given the Lease back, or would have if another replica could lead.
    CannotLead,
    /// A leader cannot lead: AWS has taken no removal for too long, though some were sent.
    RemovalsFail,
    /// A leader cannot lead: a watch has failed again and again.
    WatchesFail,

    /// Nodes of an IngressDaemonSet get pods of a newer template, one after the other.
    NodesInTurn,
    /// All nodes of an IngressDaemonSet have pods of the newest template, and they are available.
    RollComplete,
    /// The roll of an IngressDaemonSet has stopped: the pods of a node are not available in time.
    ProgressDeadlineExceeded,
    /// The API server makes no pod of an IngressDaemonSet.
    PodsRefused,

    /// The wall clock of this replica's node was set to another time.
    ClockStepped,

    /// AWS asks to slow down.
    Throttled,
    /// AWS did not answer, or could not; tried again.
    Unavailable,
    /// AWS cannot be reached: the endpoint of its API does not answer.
    AwsUnreachable,
    /// There are no AWS credentials, or none that AWS accepts.
    NoAwsCredentials,
    /// AWS can be reached again.
    AwsReachable,
    /// The IAM policy does not allow the call.
    AccessDenied,
    /// AWS refuses a target.
    TargetRefused,
    /// A quota of AWS is reached.
    QuotaExceeded,
}

impl Reason {
    /// Whether nothing is wrong where this is said: the Event is a Normal one.
    pub const fn is_good_news(self) -> bool {
        matches!(
            self,
            Self::AwsReachable
                | Self::TargetRegistered
                | Self::TargetHealthy
                | Self::TargetDeregistered
                | Self::NodesInTurn
                | Self::RollComplete
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
