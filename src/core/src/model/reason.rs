//! The reasons, which are identical in conditions, Events, logs, metrics and answers.
//!
//! A reason names the kind of a problem or decision, and the message next to the reason gives the details. No code
//! depends on a reason. Code depends on a [`Cause`](super::cause::Cause); several causes can have the same reason.

use std::fmt;

use super::words::words;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        words! {
            /// Why Headgate acted or did not act. Alerts and scripts may rely on the name of a reason.
            Reason { $($(#[$doc])* $name = stringify!($name)),* }
        }
    };
}

reasons! {
    // Reasons about targets.
    /// The pod is registered, because a binding selects it and it has its IP and the required readiness.
    PodSelected,
    /// The pod has no IP yet, is less ready than the Service requires, or was not ready for too long.
    NotReady,
    /// No bound Service or TargetBinding selects the pod, or a TargetBinding selects no pod.
    NotSelected,
    /// Headgate does not manage the namespace, or no longer manages it.
    NamespaceNotServed,
    /// Headgate has not yet read all objects that the decision needs.
    NotListedYet,
    /// Another pod has the address that this pod reports.
    AddressContested,
    /// The pod has lost or changed its IP, or the Service's port now maps to another port of the pod.
    AddressChanged,
    /// The pod has a `deletionTimestamp`.
    PodTerminating,
    /// The pod does not exist or was deleted.
    PodDeleted,
    /// The pod's phase is `Succeeded` or `Failed`.
    PodFinished,
    /// The pod will be evicted and has no hold, so Headgate deregisters it before the eviction.
    PodEvicting,
    /// The pod's node is shutting down or its Node object was deleted, so Headgate deregisters the target immediately.
    NodeDying,
    /// The pod's node will be drained and the pod has no hold, so Headgate deregisters the pod before the drain.
    NodeDisrupted,
    /// The Service or TargetBinding was deleted, or no longer names the target group.
    BindingRemoved,
    /// Headgate has registered the target again after a deregistration.
    RegisteredAgain,
    /// The ledger lists the target as registered by Headgate, but no pod needs the target any more.
    StaleTarget,
    /// Another writer has registered the target, or a pod of another cluster may have the target's address.
    ForeignTarget,
    /// AWS no longer lists a target that Headgate registered and has not deregistered.
    UnknownWriter,
    /// A deregistration waits for replacements, for a zone, or for the deregistration of other targets.
    RemovalHeld,
    /// Deregistrations wait, because the Service, the TargetBinding or Headgate is paused.
    RemovalsPaused,
    /// Deregistrations wait, because most objects of a kind disappeared at once and a second list must confirm the
    /// result.
    ListDoubted,
    /// AWS has accepted the registration of a pod's target.
    TargetRegistered,
    /// AWS has accepted the deregistration of a pod's target.
    TargetDeregistered,

    // Reasons about Services, TargetBindings and target groups.
    /// The configuration of a Service or TargetBinding is invalid, or does not fit the Service or its pods.
    InvalidBinding,
    /// A part of an object exceeds a limit (`docs/reference/limits.md`) and is ignored.
    LimitExceeded,
    /// AWS has no target group with the given name or ARN.
    TargetGroupNotFound,
    /// The target group does not support the pods as targets.
    TargetGroupUnsupported,
    /// Two Services or TargetBindings bind the same target.
    TargetClaimedTwice,
    /// Headgate makes no changes, because the Service or TargetBinding is paused.
    Paused,
    /// Headgate makes no changes, because it runs with `--read-only`.
    ReadOnly,
    /// Headgate registers no targets in the target group, because it cannot read or write the group's TargetLedger.
    LedgerUnreadable,
    /// The namespace is not allowed to bind the target group.
    NotGranted,
    /// Foreign targets remain despite `ownership: exclusive`, because no grant allows exclusive ownership.
    ExclusiveNotGranted,
    /// No grant names the target group.
    NoGrant,
    /// A part of a grant is invalid, or names a target group that no object binds.
    InvalidGrant,

    // Reasons about health and the readiness gate.
    /// The targets of the pod are healthy.
    TargetsHealthy,
    /// AWS has not accepted the registration yet, or the load balancer has not checked the target yet.
    TargetPending,
    /// At least one target fails its health checks or is not healthy yet.
    TargetUnhealthy,
    /// A target has never been healthy, although it was registered at least `--never-healthy-after` ago.
    NeverHealthy,
    /// Headgate does not know the health of the target.
    HealthUnread,
    /// The load balancer does not use the target, because no listener forwards to the target group.
    TargetUnused,
    /// The target's Availability Zone is not enabled for the load balancer.
    ZoneNotServed,
    /// A zone that has had healthy targets has no healthy target, while other zones have healthy targets.
    ZoneWithoutHealthyTarget,
    /// The readiness gate of a pod with an IP has been closed for 5 minutes.
    GateDelayed,
    /// The readiness gate is open, because Headgate was removed from the namespace or the cluster.
    HeadgateLeft,

    // Reasons about holds and evictions.
    /// No hold keeps a container running while its pod terminates.
    HoldMissing,
    /// The pod terminated, or would terminate, before its load balancers have stopped sending requests.
    HoldTooShort,
    /// The eviction is allowed, because no load balancer sends requests to the pod or the pod has its hold.
    EvictionAllowed,
    /// The eviction waits until the pod is deregistered and its load balancers have stopped sending requests.
    EvictionWaits,
    /// The eviction waits for a PodDisruptionBudget.
    EvictionWaitsForBudget,
    /// The eviction waits, because a zone would have too few healthy targets.
    EvictionWaitsForZone,
    /// The eviction is allowed, although load balancers may still send requests to the pod.
    EvictionUnsafe,
    /// The eviction is allowed although a zone has too few healthy targets, because no replacement became healthy in
    /// time.
    ReplacementTooSlow,
    /// Headgate removed an implausible annotation about the pod's eviction.
    LeavingNotCredible,

    // Reasons about IngressDaemonSets.
    /// The nodes of an IngressDaemonSet get pods of a newer template, one node after the other.
    NodesInTurn,
    /// The rollout of an IngressDaemonSet has stopped, because the pods of a node did not become available in time.
    ProgressDeadlineExceeded,
    /// The API server rejects pods of an IngressDaemonSet.
    PodsRefused,

    // Reasons about AWS.
    /// Headgate cannot reach AWS, because the API endpoint does not answer.
    AwsUnreachable,
    /// Headgate has no AWS credentials, or AWS does not accept them.
    NoAwsCredentials,
    /// The IAM policy does not allow the call.
    AccessDenied,
    /// AWS throttles calls.
    Throttled,
    /// An AWS call timed out or failed with a server error; Headgate retries.
    Unavailable,
    /// AWS rejects a target.
    TargetRefused,
    /// An AWS quota is exhausted.
    QuotaExceeded,

    // Reasons about Headgate itself.
    /// Headgate reports no problem.
    AsExpected,
    /// No replica is the leader, or `headgate daemonsets` does not work.
    NoLeader,
    /// The leader cannot do its work, so it releases the Lease if another replica can take over.
    CannotLead,
    /// AWS has accepted no deregistration for too long.
    RemovalsFail,
    /// A watch of the Kubernetes API fails repeatedly.
    WatchesFail,
    /// Headgate lacks a Kubernetes permission that it needs.
    RightMissing,
    /// A part of Headgate is not installed: a CRD, an admission policy or a webhook configuration.
    NotInstalled,
    /// The webhook does not work, or its certificate expires soon.
    WebhookFails,
    /// `headgate doctor` could not complete a check.
    CheckFailed,
    /// The configuration of a workload allows a rollout, an eviction or a quota to remove healthy targets.
    RiskyWorkload,
    /// A setting of the target group can cause dropped requests.
    RiskyTargetGroup,
}

impl Reason {
    /// Whether the reason reports no problem, so that its Event has the type Normal.
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
