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
    /// Headgate does not watch grants. The first namespace with a target in a target group owns the group.
    #[default]
    Unwatched,
    /// Grants are optional. If no grant names a target group, the first namespace with a target in the group owns the
    /// group.
    Optional,
    /// A namespace can bind a target group only if a grant names the group.
    Required,
}

/// The settings of the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The AWS region of the target groups.
    pub region: Box<str>,
    /// Additional AWS accounts. The ARN of a target group determines its account.
    pub accounts: Vec<AccountKey>,
    /// The watched scopes of pods and Services. The engine sends no calls before it has a complete list of every scope.
    pub scopes: Vec<Scope>,
    /// Whether Headgate watches namespaces to select the namespaces that it manages.
    pub namespaces_are_selected: bool,
    /// Whether grants are watched and required.
    pub grants: Granting,
    /// How long targets remain registered after a grant no longer allows their namespace to bind the group.
    pub refusal_grace: Duration,
    /// How long a namespace still owns a target group without a grant after the namespace's last binding was removed.
    pub holder_patience: Duration,
    /// The rate limits of calls in each account.
    pub limits: Limits,
    /// The interval between `DescribeTargetHealth` calls for an idle target group, which detect changes by other
    /// writers. The interval grows if the calls for all groups would exceed their share of the rate limit.
    pub read_interval: Duration,
    /// How long a pod must be unready before Headgate reacts.
    pub not_ready_for: Duration,
    /// How long the bindings of a deleted Service remain active, in case the Service is created again.
    pub service_grace: Duration,
    /// If a change replaces all targets of running pods, the old targets remain at most this long after the last new
    /// target became healthy. If the value is zero, the old targets do not remain.
    pub replacement_grace: Duration,
    /// How long Headgate waits for a second list if most pods of a binding, TargetBindings, namespaces or nodes
    /// disappear. If the value is zero, Headgate accepts the removal immediately.
    pub relist_patience: Duration,
    /// How long a call may still take effect after a timeout, or after another replica sent the call. The value is the
    /// sum of the Lease duration, the call timeout and a reserve.
    pub late: Duration,
    /// How long the readiness gate of a pod waits for a missing binding.
    pub binding_patience: Duration,
    /// A readiness gate opens for the first time if AWS does not return the health of a registered target for this
    /// long. `None`: the gate waits forever.
    pub gate_patience: Option<Duration>,
    /// Headgate reports a target that has never been healthy this long after its registration.
    pub never_healthy_after: Duration,
    /// The propagation delays of the load balancers. Headgate reports a pod that stops before the delay has passed.
    pub bounds: Bounds,
    /// The timeouts of an eviction.
    pub leaving: LeavingLimits,
    /// The signs that a node will be removed.
    pub signals: Signals,
    /// The wall-clock time at [`Moment::START`](crate::Moment::START), for stored times.
    /// [`Input::Clock`](crate::Input::Clock) corrects the wall-clock time.
    pub started: WallTime,
    /// How long Headgate collects registrations of one target group, to send them in one call.
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
    /// The defaults have no scopes, a Lease duration of 15 s and a call timeout of 8 s.
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
