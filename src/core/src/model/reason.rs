//! The reasons: the same in conditions, Events, logs, metrics and answers.
//!
//! A reason shows where to look; the sentence next to it gives the details. No code depends on a reason. Code depends
//! on a [`Cause`](super::cause::Cause), and several causes have the same reason.

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
    // Targets.
    /// Registered: a binding selects the pod, and it has its IP and is as ready as the Service asks for.
    PodSelected,
    /// The pod has no IP yet, is not as ready as the Service asks for, or was not ready for too long.
    NotReady,
    /// No Service or TargetBinding that binds selects the pod, or a TargetBinding selects none.
    NotSelected,
    /// Headgate does not manage the namespace, or does not any more.
    NamespaceNotServed,
    /// Headgate has not read everything yet that the decision needs.
    NotListedYet,
    /// Another pod has the address that this pod shows.
    AddressContested,
    /// The pod has lost its IP or got another one, or the Service's port leads to another port of the pod.
    AddressChanged,
    /// The pod has a `deletionTimestamp`.
    PodTerminating,
    /// There is no such pod (any more).
    PodDeleted,
    /// The pod's phase is `Succeeded` or `Failed`.
    PodFinished,
    /// The pod will be evicted, and nothing keeps it alive: it is deregistered before.
    PodEvicting,
    /// The pod's node is shutting down, or its object was deleted: the target is deregistered immediately.
    NodeDying,
    /// The pod's node will be drained, and nothing keeps the pod alive: it is deregistered before.
    NodeDisrupted,
    /// The Service or TargetBinding was deleted, or no longer names the target group.
    BindingRemoved,
    /// Headgate had deregistered the target, and has registered it again.
    RegisteredAgain,
    /// The ledger contains the target as registered by Headgate, and nothing wants it any more.
    StaleTarget,
    /// Another writer has registered the target, or another cluster may have got its address.
    ForeignTarget,
    /// AWS no longer has a target that Headgate registered, and Headgate did not deregister it.
    UnknownWriter,
    /// A removal waits: for replacements, for a zone, or because other targets leave first.
    RemovalHeld,
    /// Removals wait: the Service, the TargetBinding or Headgate is paused.
    RemovalsPaused,
    /// Removals wait: most objects of a kind disappeared at once, and a second list must confirm that.
    ListDoubted,
    /// AWS has accepted the registration of a pod's target.
    TargetRegistered,
    /// AWS has accepted the deregistration of a pod's target.
    TargetDeregistered,

    // Services, TargetBindings and target groups.
    /// What a Service or TargetBinding asks for cannot be read, or does not fit the Service or its pods.
    InvalidBinding,
    /// A part of an object exceeds a limit (`docs/reference/limits.md`) and is ignored.
    LimitExceeded,
    /// AWS has no such target group.
    TargetGroupNotFound,
    /// The target group cannot have these pods as targets.
    TargetGroupUnsupported,
    /// Two Services, or TargetBindings, claim the same target.
    TargetClaimedTwice,
    /// Headgate changes nothing there: the Service or TargetBinding is paused.
    Paused,
    /// Headgate changes nothing: it runs with `--read-only`.
    ReadOnly,
    /// Nothing is registered in the target group: Headgate cannot read or write its TargetLedger.
    LedgerUnreadable,
    /// The namespace may not bind the target group.
    NotGranted,
    /// Foreign targets remain, although `ownership` is `exclusive`: that needs a grant.
    ExclusiveNotGranted,
    /// No grant names the target group.
    NoGrant,
    /// A part of a grant cannot be read, or names a target group that nothing binds.
    InvalidGrant,

    // Health and the readiness gate.
    /// The targets of the pod are healthy.
    TargetsHealthy,
    /// AWS has not accepted the registration yet, or the load balancer has not checked the target yet.
    TargetPending,
    /// Targets fail their health checks, or not all are healthy yet.
    TargetUnhealthy,
    /// A target was registered `--never-healthy-after` ago and was never healthy.
    NeverHealthy,
    /// Headgate does not know how healthy the target is.
    HealthUnread,
    /// The load balancer does not use the target: no listener forwards to the target group.
    TargetUnused,
    /// The target's Availability Zone is not enabled for the load balancer.
    ZoneNotServed,
    /// A zone that has, or had, healthy targets has none, and other zones have.
    ZoneWithoutHealthyTarget,
    /// The readiness gate of a pod that has an IP was closed for 5 minutes.
    GateDelayed,
    /// The readiness gate is open because Headgate has left the namespace or the cluster.
    HeadgateLeft,

    // The hold, and evictions.
    /// Nothing keeps a container alive when the pod ends.
    HoldMissing,
    /// The pod ended, or would end, before its load balancers have stopped sending to it.
    HoldTooShort,
    /// The eviction is allowed: no load balancer sends to the pod, or the pod has its hold.
    EvictionAllowed,
    /// The eviction waits until the pod is deregistered and its load balancers have stopped sending.
    EvictionWaits,
    /// The eviction waits for a PodDisruptionBudget.
    EvictionWaitsForBudget,
    /// The eviction waits: a zone would have too few healthy targets.
    EvictionWaitsForZone,
    /// The eviction is allowed, although load balancers may still send to the pod.
    EvictionUnsafe,
    /// The eviction is allowed although a zone has too few healthy targets: no replacement became healthy in time.
    ReplacementTooSlow,
    /// An annotation about the pod's eviction cannot be true, and was removed.
    LeavingNotCredible,

    // IngressDaemonSets.
    /// Nodes of an IngressDaemonSet get pods of a newer template, one after the other.
    NodesInTurn,
    /// The rollout of an IngressDaemonSet has stopped: the pods of a node are not available in time.
    ProgressDeadlineExceeded,
    /// The API server refuses pods of an IngressDaemonSet.
    PodsRefused,

    // AWS.
    /// AWS cannot be reached: the endpoint of its API does not answer.
    AwsUnreachable,
    /// Headgate has no AWS credentials, or AWS does not accept them.
    NoAwsCredentials,
    /// The IAM policy does not allow the call.
    AccessDenied,
    /// AWS throttles calls.
    Throttled,
    /// AWS did not answer a call, or could not; Headgate retries.
    Unavailable,
    /// AWS rejects a target.
    TargetRefused,
    /// A quota of AWS is reached.
    QuotaExceeded,

    // Headgate itself.
    /// Nothing is wrong.
    AsExpected,
    /// No replica leads, or no `headgate daemonsets` works.
    NoLeader,
    /// A leader cannot do its work. It released the Lease, or would if another replica could lead.
    CannotLead,
    /// AWS has accepted no deregistration for too long.
    RemovalsFail,
    /// A watch of the Kubernetes API fails repeatedly.
    WatchesFail,
    /// Kubernetes does not let Headgate do something that it must do.
    RightMissing,
    /// A part of Headgate is not installed: a CRD, an admission policy or a webhook configuration.
    NotInstalled,
    /// The webhook does not work, or its certificate ends soon.
    WebhookFails,
    /// `headgate doctor` could not check something.
    CheckFailed,
    /// A workload is set up so that a rollout, an eviction or a quota can take healthy targets away.
    RiskyWorkload,
    /// A setting of the target group can lose requests.
    RiskyTargetGroup,
}

impl Reason {
    /// Whether the reason reports that nothing is wrong. Its Event is then a Normal one.
    pub const fn is_good_news(self) -> bool {
        matches!(
            self,
            Self::AsExpected
                | Self::TargetRegistered
                | Self::TargetsHealthy
                | Self::TargetDeregistered
                | Self::NodesInTurn
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        reason.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_few_enough_words_to_know_them() {
        assert!(Reason::ALL.len() <= 75, "{} words", Reason::ALL.len());
    }
}
