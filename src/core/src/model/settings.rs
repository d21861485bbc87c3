//! What the engine needs to know from the start.

use std::time::Duration;

use super::{
    Bounds, Scope, Signals, WallTime,
    eviction::Limits as LeavingLimits,
    rates::{AccountKey, Limits},
    target_group::GroupSettings,
    time::Window,
};

/// Whether TargetGroupGrants decide which namespaces may bind what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granting {
    /// No grant ever comes. A target group is the namespace's that was first to have a target there.
    #[default]
    Unwatched,
    /// The same holds of a target group that no grant names.
    Optional,
    /// A target group can be bound only if a grant names it.
    Required,
}

/// What the engine needs to know from the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The AWS region whose target groups are served.
    pub region: Box<str>,
    /// Further accounts whose target groups are served, by their ARNs.
    pub accounts: Vec<AccountKey>,
    /// The scopes that are watched for pods and for Services: each must have been listed before anything is sent.
    pub scopes: Vec<Scope>,
    /// Whether only selected namespaces count, by a watch of namespaces.
    pub namespaces_are_selected: bool,
    /// What grants there are, and what is bound without one.
    pub grants: Granting,
    /// How long targets remain after their namespace may no longer bind their group.
    pub refusal_grace: Duration,
    /// For how long a namespace holds a target group that no grant names, after it has bound it last.
    pub holder_patience: Duration,
    /// How many calls AWS may be sent in each account.
    pub limits: Limits,
    /// The interval at which a quiet target group is read, to see what others did there. It is longer if reading all
    /// groups would exceed their share.
    pub read_interval: Duration,
    /// How long a pod must have been not ready before it counts, where that counts.
    pub not_ready_for: Duration,
    /// How long what was in force for a deleted Service remains so, in case it is created again.
    pub service_grace: Duration,
    /// When all targets of living pods are replaced, the old ones are held at most this long after AWS has accepted
    /// one of the new. Zero: not at all.
    pub replacement_grace: Duration,
    /// How long Headgate may doubt that most of a binding's pods, or of the TargetBindings, namespaces or nodes, are
    /// deleted; zero: not at all.
    pub relist_patience: Duration,
    /// How long a call may still take effect that was given up, or that another replica sent. That is the duration of
    /// a lease, the time-out of a call, and a reserve.
    pub late: Duration,
    /// How long the readiness gate of a pod waits for a binding that is not there.
    pub binding_patience: Duration,
    /// A readiness gate opens for the first time when AWS has accepted the registration and the health could not be
    /// read for this time. `None`: it waits for that without end.
    pub gate_patience: Option<Duration>,
    /// A target that was registered this long ago and was never healthy is reported.
    pub never_healthy_after: Duration,
    /// How long load balancers keep sending to a deregistered target: a pod that stops sooner is reported.
    pub bounds: Bounds,
    /// For how long the steps of a pod's leaving may take.
    pub leaving: LeavingLimits,
    /// The signs that a node is about to be removed.
    pub signals: Signals,
    /// The wall clock at [`Moment::START`](crate::Moment::START), for what is written down;
    /// [`Input::Clock`](crate::Input::Clock) corrects it.
    pub started: WallTime,
    /// How long registrations of one group wait for more that could travel with them.
    pub add_window: Window,
    /// Nothing is written to AWS, nor to the ledgers.
    pub read_only: bool,
    /// For the jitter of backoffs.
    pub seed: u64,
}

impl Settings {
    /// What concerns target groups.
    pub(crate) const fn groups(&self) -> GroupSettings {
        let Self { late, replacement_grace, holder_patience, add_window, read_only, bounds, seed, .. } =
            *self;
        let dates_registrations = self.gate_patience.is_some();
        GroupSettings {
            late,
            replacement_grace,
            holder_patience,
            dates_registrations,
            add_window,
            read_only,
            bounds,
            seed,
        }
    }
}

impl Default for Settings {
    /// No scopes: nothing is watched. A lease of 15 s and calls that are given up after 8 s.
    fn default() -> Self {
        Self {
            region: "us-east-1".into(),
            accounts: Vec::new(),
            scopes: Vec::new(),
            namespaces_are_selected: false,
            grants: Granting::Unwatched,
            refusal_grace: Duration::from_mins(10),
            holder_patience: Duration::from_hours(1),
            limits: Limits::default(),
            read_interval: Duration::from_secs(60),
            not_ready_for: Duration::from_secs(10),
            service_grace: Duration::from_secs(60),
            replacement_grace: Duration::from_secs(300),
            relist_patience: Duration::from_secs(30),
            late: Duration::from_secs(30),
            binding_patience: Duration::from_secs(30),
            gate_patience: None,
            never_healthy_after: Duration::from_secs(300),
            bounds: Bounds::default(),
            leaving: LeavingLimits::default(),
            signals: Signals::default(),
            started: WallTime::default(),
            add_window: Window { idle: Duration::from_millis(50), most: Duration::from_millis(250) },
            read_only: false,
            seed: 0,
        }
    }
}
