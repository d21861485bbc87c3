//! Small views of the engine's state for readers, which the engine replaces only when the state changes.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    BindingKey, HealthState, HoldWanted, Moment, ObjectKey, Origin, PodFacts, Problem, Reason, Target,
    TargetGroupArn, Uid, ZoneName,
    gate::{GateFacts, Shown},
};

/// A new view, or the removal of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Picture {
    /// The view of a binding.
    Binding(BindingView),
    /// The binding was removed.
    BindingGone(BindingKey),
    /// The view of a target group.
    Group(GroupView),
    /// No binding uses the target group any more.
    GroupGone(TargetGroupArn),
    /// The view of an object that defines bindings.
    Origin(OriginView),
    /// The object no longer defines bindings.
    OriginGone(Origin),
}

/// The view of one binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingView {
    /// The identity of the binding.
    pub key: BindingKey,
    /// The targets of the binding.
    pub targets: Vec<TargetView>,
    /// Former targets that are being deregistered or drained.
    pub ending: Vec<EndingView>,
    /// The hold of terminating pods that have no hold annotation of their own.
    pub hold: HoldWanted,
    /// Problems of the binding and its target group, each with a message.
    pub said: Vec<(Reason, String)>,
}

/// The view of one target of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetView {
    /// The target.
    pub target: Target,
    /// The pod of the target.
    pub pod: ObjectKey,
    /// The node of the pod.
    pub node: Option<Arc<str>>,
    /// Whether AWS has accepted the registration.
    pub registered: bool,
    /// The health that the load balancer reports, or `None` until AWS has returned the health.
    pub state: Option<HealthState>,
    /// AWS's reason for the health, or an empty text.
    pub why: &'static str,
    /// The readiness gate of the pod.
    pub gate: GateView,
}

/// The readiness gate of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateView {
    /// The pod has no gate.
    None,
    /// The gate is closed.
    Closed,
    /// The gate is open.
    Open,
    /// The gate is open, although AWS did not return the health of the pod's targets.
    Unread,
}

impl GateView {
    /// The state as text: `none`, `closed` or `open`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Closed => "closed",
            Self::Open | Self::Unread => "open",
        }
    }

    /// The gate of this pod.
    pub fn of(pod: &PodFacts) -> Self {
        match pod.gate.as_deref() {
            None => Self::None,
            Some(GateFacts { unread: true, .. }) => Self::Unread,
            Some(GateFacts { shown: Shown::Open(_), .. }) => Self::Open,
            Some(_) => Self::Closed,
        }
    }
}

/// A former target of a binding, from the time when it should be deregistered until the load balancer has drained it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndingView {
    /// The target.
    pub target: Target,
    /// The pod for which the target was registered.
    pub pod: ObjectKey,
    /// Why the target should be deregistered.
    pub reason: Reason,
    /// Whether AWS has not accepted the deregistration yet.
    pub registered: bool,
    /// The health that the load balancer reports.
    pub state: Option<HealthState>,
}

/// The view of one target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// The ARN.
    pub group: TargetGroupArn,
    /// The zones of the targets, as AWS reports them. Until AWS reports a target's zone, Headgate uses the zone of the
    /// pod's node. The key `None` stands for an unknown zone. The map includes zones in which a target was healthy
    /// within the last hour.
    pub zones: BTreeMap<Option<ZoneName>, ZoneView>,
    /// The number of foreign targets that are not draining.
    pub foreign: usize,
    /// The number of healthy targets that Headgate registered but that no pod of this cluster needs any more. Suspect
    /// targets remain registered, because a pod of another cluster may have the address.
    pub suspects: usize,
    /// The number of targets that another writer removes repeatedly.
    pub contested: usize,
    /// The number of targets that Headgate registered some time ago and that were never healthy.
    pub never_healthy: usize,
    /// If the group is paused, the number of waiting registrations and the number of waiting deregistrations.
    pub paused: Option<(usize, usize)>,
    /// The number of registrations that wait because AWS accepts no more targets.
    pub unplaced: usize,
    /// The number of deregistrations that wait. While all targets of running pods are being replaced, deregistrations
    /// wait for a healthy new target. Deregistrations of unready pods wait while their zones need the pods.
    pub held: usize,
    /// The latest time at which the waiting deregistrations become due. `None`: no new target is healthy yet.
    pub held_until: Option<Moment>,
    /// When the last answered `DescribeTargetHealth` call began.
    pub last_read: Option<Moment>,
    /// The time of the event that caused the oldest pending deregistration.
    pub oldest_removal: Option<Moment>,
}

impl GroupView {
    /// The number of targets that AWS lists in this state.
    pub fn in_state(&self, state: HealthState) -> usize {
        self.zones.values().filter_map(|zone| zone.states.get(&state)).sum()
    }
}

/// The view of one zone of a target group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneView {
    /// The number of desired targets.
    pub wanted: usize,
    /// The number of desired targets that are healthy.
    pub serving: usize,
    /// The number of targets that AWS lists in each state, including foreign targets.
    pub states: BTreeMap<HealthState, usize>,
}

/// An object that defines bindings: a Service with the annotation, or a TargetBinding that a user wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginView {
    /// The kind and name of the object.
    pub origin: Origin,
    /// The UID of the object.
    pub uid: Uid,
    /// Whether the object exists. The bindings of a deleted Service remain active for a while.
    pub exists: bool,
    /// The problems of the object's spec or annotation.
    pub problems: Vec<Problem>,
}

/// Why Headgate deregisters a running pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// The leader deregisters the pod for its eviction.
    pub decided: bool,
    /// The pod's node will be removed, so Headgate deregisters the pod immediately.
    pub node_goes: bool,
    /// The pod has been unready for too long, and its zones do not need it.
    pub let_go: bool,
}
