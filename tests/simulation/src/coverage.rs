//! How often everything occurred. What never occurred was never tested.

use std::{collections::BTreeMap, fmt};

use headgate_core::model::{Cause, Notice, Reason, notice::LONGEST};

/// Everything that must occur in a run, besides the causes and what is told.
const MUST: &[&str] = &[
    "aws: applied",
    "clock: set to another time",
    "aws: a zone is served or not any more",
    "aws: applied late, after it was given up",
    "aws: answer lost",
    "aws: denied",
    "aws: a read shows the past",
    "aws: applied in part, and failed",
    "aws: group made again",
    "aws: group removed",
    "aws: group unused",
    "aws: group used",
    "aws: a look-up failed",
    "aws: a target vanishes again and again",
    "aws: health unavailable",
    "aws: health unavailable for a while",
    "aws: look-ups fail for a while",
    "aws: never arrived",
    "aws: no place for more",
    "aws: other hands deregister",
    "aws: other hands register",
    "aws: quota",
    "aws: refused",
    "aws: refused for one bad target",
    "aws: target turned unhealthy",
    "aws: throttled",
    "aws: zonal shift begins or ends",
    "event: all ports changed",
    "event: annotation bad",
    "event: a watch says that bindings are gone",
    "event: a watch says that nodes are gone",
    "event: a watch says that services are gone",
    "event: binding changed",
    "event: binding deleted",
    "event: binding written",
    "event: bindings left out of a list",
    "event: containers ready",
    "event: paused",
    "event: pause ends",
    "event: pod not ready any more",
    "event: pod ready",
    "event: pods are not ready for long",
    "event: pods are not selected for long",
    "event: pods come back",
    "event: pods left out of a list",
    "event: policy changed",
    "event: service made again",
    "event: services left out of a list",
    "event: annotation changed",
    "event: annotation taken away",
    "event: another cluster gets an ip",
    "event: another cluster gives an ip back",
    "event: delivered late",
    "event: delivered twice",
    "event: gate closed by hand",
    "event: gate set by hand",
    "event: gate wiped out",
    "event: gate wiped out again and again",
    "event: ip changed",
    "event: ip given",
    "event: ip reused",
    "event: sandbox gone",
    "event: status shows the address of a pod on another node",
    "event: label changed",
    "event: late word of an old pod's end",
    "event: port changed",
    "event: pod created",
    "event: pod deleted",
    "event: pod finished",
    "event: pod followed by another of its name",
    "event: pod terminating",
    "event: relist",
    "event: sandbox changed",
    "event: sandbox changed while the gate is open",
    "event: selector changed",
    "event: service created",
    "event: service deleted",
    "event: watch cut",
    "check: answered",
    "check: no answer",
    "check: pod gone",
    "check: refused",
    "drain: given up",
    "drain: of a node",
    "drain: of a node, and nothing goes wrong",
    "drain: of a pod",
    "drain: of all pods of an app, whose nodes stay",
    "drain: of a pod that was just unbound",
    "drain: of a pod that was given up, and late words land",
    "event: a node is about to go, and nothing goes wrong",
    "event: budget changed",
    "event: it stays after all",
    "event: nobody is ready, and a standby starts",
    "event: node about to die",
    "event: node comes again",
    "event: node cordoned",
    "event: node deleted",
    "event: node disrupted",
    "event: node not ready",
    "event: node shuts down",
    "event: node stays",
    "event: nodes left out of a list",
    "eviction: refused by a budget",
    "eviction: noted when that had waited",
    "eviction: the pod goes",
    "eviction: the pod is gone",
    "eviction: the webhook does not answer",
    "gate: answer lost",
    "gate: closed",
    "gate: explained",
    "gate: opened",
    "gate: pod gone",
    "gate: refused",
    "gate: write never arrived",
    "gate: written late, after it was given up",
    "mark: answer lost",
    "mark: forged",
    "mark: pod gone",
    "mark: refused",
    "mark: write never arrived",
    "mark: written",
    "mark: written late, after it was given up",
    "node: answer lost",
    "node: cannot be read",
    "node: gone",
    "node: read, and it goes",
    "node: read, and it remains",
    "node: refused",
    "node: write never arrived",
    "node: written",
    "node: written late, after it was given up",
    "ledger: answer lost",
    "ledger: answered",
    "ledger: conflict",
    "ledger: refused",
    "ledger: request never arrived",
    "ledger: written late, after it was given up",
    "replica: a call held back after the lease",
    "replica: a gate held back after the lease",
    "replica: a mark held back after the lease",
    "replica: a word on a node held back after the lease",
    "replica: crashed",
    "replica: crashed when it had taken a target out",
    "replica: crashed while targets are put back",
    "replica: deposed",
    "replica: elected",
    "replica: elected after a clean exit",
    "replica: gives the lease up",
    "replica: its renewals get no answer",
    "replica: paused",
    "effect: CheckEviction",
    "effect: Deregister",
    "effect: Detached",
    "effect: Detached no more",
    "effect: DropLedger",
    "effect: FindGroups",
    "effect: LoadLedger",
    "effect: LoadLedgers",
    "effect: Mark Asked",
    "effect: Mark Disbelieved",
    "effect: Mark Deregistered",
    "effect: Mark MayGo",
    "effect: Mark Stays",
    "effect: Mark Undone",
    "effect: Mark Waits",
    "effect: Notice",
    "effect: ReadAttributes",
    "effect: ReadHealth",
    "effect: Planned",
    "effect: Register",
    "effect: Released",
    "effect: Relist",
    "effect: WriteGate",
    "effect: WriteLedger",
    "effect: view",
];

/// Causes that a world of the simulation has no way to bring about.
const NOT_HERE: &[Cause] = &[
    // Health checks are never off.
    Cause::TargetUnavailable,
    // The worlds have one address family and numeric ports.
    Cause::WrongIpFamily,
    Cause::NoSuchPort,
    Cause::TargetGroupUnsupported,
    // No pods of the host network.
    Cause::WaitsForHostNetworkPod,
    // Everything is granted here; see the worlds of tenants.
    Cause::NotGranted,
    // All namespaces count.
    Cause::NamespaceNotSelected,
    Cause::NamespaceNotServed,
    // Said of AWS as a whole, outside of the engine; see the program's aws/reach.rs.
    Cause::AwsUnreachable,
    Cause::NoAwsCredentials,
    // Of replicas at the Lease; see lease.rs.
    Cause::RemovalsFail,
    Cause::WatchesFail,
    // Said by the webhook, whose places and queues are not played here.
    Cause::HeadgateBusy,
    // Too few pods and nodes for these to hold one up for long; or only said when somebody asks why.
    Cause::ManyNodesMarked,
    Cause::TooManyLeaveEarly,
    // Adapters apply the bounds.
    Cause::LimitExceeded,
    // Of how pods end; see lifespan.rs.
    Cause::HoldIsEnough,
    Cause::HoldOff,
    Cause::HoldNotWanted,
    Cause::OwnPreStop,
    Cause::GraceTooShort,
];

/// What users must be told by Events in a run: the word, and a part of the sentence.
const TOLD: &[(Reason, &str)] = &[
    (Reason::UnknownWriter, ""),
    (Reason::ForeignTarget, "unless another cluster uses the address"),
    (Reason::RemovalHeld, ""),
    (Reason::RemovalsPaused, ""),
    (Reason::BindingRemoved, ""),
    (Reason::ListDoubted, ""),
    (Reason::LedgerUnreadable, ""),
    (Reason::GateDelayed, "gate has been closed for"),
    (Reason::GateDelayed, "gate opened after"),
    (Reason::RightMissing, "Kubernetes rejects the update"),
    (Reason::NotSelected, "opened without a health check"),
    (Reason::HealthUnread, "--gate-patience"),
    (Reason::InvalidBinding, "headgate.dev/target-groups"),
    (Reason::InvalidBinding, "There is no Service"),
    (Reason::TargetClaimedTwice, ""),
    (Reason::NeverHealthy, ""),
    (Reason::HoldTooShort, ""),
    (Reason::AccessDenied, ""),
    (Reason::TargetRefused, ""),
    (Reason::QuotaExceeded, ""),
    (Reason::RegisteredAgain, "eviction was abandoned"),
    (Reason::RegisteredAgain, "no longer about to be removed"),
    (Reason::LeavingNotCredible, ""),
    (Reason::EvictionUnsafe, "AWS has not accepted the deregistration"),
    (Reason::EvictionUnsafe, "without deregistration"),
    (Reason::EvictionUnsafe, "not written to the pod"),
];

/// Counts by what happened.
#[derive(Clone, Debug, Default)]
pub struct Coverage(BTreeMap<String, u64>);

impl Coverage {
    pub fn saw(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }

    pub fn count(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }

    pub fn cause(&mut self, cause: Cause) {
        self.saw(format!("cause: {}", cause.as_str()));
    }

    /// A user was told this.
    pub fn told(&mut self, notice: &Notice) {
        assert!(notice.note.chars().count() <= LONGEST, "too long for an Event: {notice:?}");
        self.saw(format!("told: {}", notice.reason));
        for (reason, part) in TOLD {
            if *reason == notice.reason && !part.is_empty() && notice.note.contains(part) {
                self.saw(format!("told: {reason}: {part}"));
            }
        }
    }

    pub fn add(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            *self.0.entry(what.clone()).or_default() += count;
        }
    }

    /// What should have occurred and did not.
    pub fn never(&self) -> Vec<String> {
        let causes = Cause::ALL.iter().filter(|cause| !NOT_HERE.contains(cause)).map(|cause| cause.as_str());
        // A cause that no decision is seen to have may have been told by its name.
        let causes = causes.filter(|cause| !self.0.contains_key(&format!("told: {cause}")));
        let told = TOLD.iter().map(|(reason, part)| match *part {
            "" => format!("told: {reason}"),
            part => format!("told: {reason}: {part}"),
        });
        let must = MUST.iter().map(|what| (*what).to_owned());
        must.chain(causes.map(|cause| format!("cause: {cause}")))
            .chain(told)
            .filter(|what| !self.0.contains_key(what))
            .collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(what, count)| writeln!(f, "{count:>12}  {what}"))
    }
}
