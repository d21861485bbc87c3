//! The settings of the engine.

use std::time::Duration;

use super::{
    Bounds, Scope, Signals, WallTime,
    eviction::Limits as LeavingLimits,
    rates::{AccountKey, Limits},
    target_group::GroupSettings,
    time::Window,
};

/// Whether TargetGroupGrants decide which namespaces may bind which target groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granting {
    /// Headgate does not watch grants. A target group belongs to the namespace that first has a target there.
    #[default]
    Unwatched,
    /// Grants are optional. If no grant names a target group, it belongs to the namespace that first has a target
    /// there.
    Optional,
    /// A target group can be bound only if a grant names it.
    Required,
}

/// The settings of the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The AWS region of the target groups.
    pub region: Box<str>,
    /// Further accounts with target groups, chosen by ARN.
    pub accounts: Vec<AccountKey>,
    /// The watched scopes of pods and Services. Each must have been listed before the engine sends anything.
    pub scopes: Vec<Scope>,
    /// Whether a watch of namespaces selects the namespaces to manage.
    pub namespaces_are_selected: bool,
    /// Whether grants are watched and required.
    pub grants: Granting,
    /// How long targets remain after a grant no longer allows their namespace to bind the group.
    pub refusal_grace: Duration,
    /// How long a namespace holds a target group that no grant names, after its last binding ended.
    pub holder_patience: Duration,
    /// The rate limits of calls in each account.
    pub limits: Limits,
    /// The interval between reads of an idle target group, to detect changes by others. It becomes longer if reading
    /// all groups would exceed the reads' share of the rate.
    pub read_interval: Duration,
    /// How long a pod must not have been ready before it counts as not ready.
    pub not_ready_for: Duration,
    /// How long the bindings of a deleted Service remain in force, in case it is created again.
    pub service_grace: Duration,
    /// If a change replaces all targets of living pods, the old targets remain at most this long after the last new
    /// target became healthy. Zero: they do not remain.
    pub replacement_grace: Duration,
    /// How long Headgate may doubt that most pods of a binding, TargetBindings, namespaces or nodes are deleted. Zero:
    /// not at all.
    pub relist_patience: Duration,
    /// How long a call that timed out, or that another replica sent, may still take effect. This is the duration of a
    /// Lease, the timeout of a call, and a reserve.
    pub late: Duration,
    /// How long the readiness gate of a pod waits for a missing binding.
    pub binding_patience: Duration,
    /// A readiness gate opens for the first time if AWS has accepted the registration and the health could not be read
    /// for this time. `None`: it waits forever.
    pub gate_patience: Option<Duration>,
    /// A target is reported if it was registered this long ago and was never healthy.
    pub never_healthy_after: Duration,
    /// How long load balancers keep sending to a deregistered target. A pod that stops earlier is reported.
    pub bounds: Bounds,
    /// The timeouts of an eviction.
    pub leaving: LeavingLimits,
    /// The signs that a node will be removed.
    pub signals: Signals,
    /// The wall clock at [`Moment::START`](crate::Moment::START), for stored times.
    /// [`Input::Clock`](crate::Input::Clock) corrects it.
    pub started: WallTime,
    /// How long registrations of one group wait for others, to send them in one call.
    pub add_window: Window,
    /// Whether Headgate writes neither to AWS nor to the ledgers.
    pub read_only: bool,
    /// The seed for the jitter of backoffs.
    pub seed: u64,
}

impl Settings {
    /// The settings for target groups.
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
    /// No scopes, a Lease of 15 s, and calls that time out after 8 s.
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
