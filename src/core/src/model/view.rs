//! The views of the engine for readers: small, and replaced only when they change.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    BindingKey, HealthState, HoldWanted, Moment, ObjectKey, Origin, PodFacts, Problem, Reason, Target,
    TargetGroupArn, Uid, ZoneName,
    gate::{GateFacts, Shown},
};

/// A new view, or the end of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Picture {
    /// The view of a binding.
    Binding(BindingView),
    /// The binding has ended.
    BindingGone(BindingKey),
    /// The view of a target group.
    Group(GroupView),
    /// No binding uses this target group any more.
    GroupGone(TargetGroupArn),
    /// The view of an object that binds.
    Origin(OriginView),
    /// The object binds nothing any more.
    OriginGone(Origin),
}

/// One binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingView {
    /// The identity of the binding.
    pub key: BindingKey,
    /// The targets of the binding.
    pub targets: Vec<TargetView>,
    /// Former targets that are being deregistered or drained.
    pub ending: Vec<EndingView>,
    /// How long terminating pods should be held if they have no value of their own.
    pub hold: HoldWanted,
    /// Problems of the binding and its target group, each with a sentence.
    pub said: Vec<(Reason, String)>,
}

/// One target of a binding.
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
    /// The health that the load balancer reports. `None`: not read yet.
    pub state: Option<HealthState>,
    /// AWS's reason for this health. Empty: none.
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
    /// The gate is open, although the health of the pod's targets could not be read.
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

/// A former target of a binding, from the moment when it should be deregistered until the load balancer has finished
/// draining it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndingView {
    /// The target.
    pub target: Target,
    /// The pod it was registered for.
    pub pod: ObjectKey,
    /// Why it should be deregistered.
    pub reason: Reason,
    /// Whether AWS has not accepted the deregistration yet.
    pub registered: bool,
    /// The health that the load balancer reports.
    pub state: Option<HealthState>,
}

/// One target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// The ARN.
    pub group: TargetGroupArn,
    /// The zones as AWS reports them, or before that as the pods' nodes do. `None`: the zone is unknown. Includes zones
    /// in which a target was healthy within the last hour.
    pub zones: BTreeMap<Option<ZoneName>, ZoneView>,
    /// The number of foreign targets that are not draining.
    pub foreign: usize,
    /// The number of targets that Headgate registered, that belong to no pod of this cluster any more, and that remain
    /// because they are healthy. Another cluster may have got their addresses.
    pub suspects: usize,
    /// The number of targets that another writer removes repeatedly.
    pub contested: usize,
    /// The number of targets that Headgate registered some time ago and that were never healthy.
    pub never_healthy: usize,
    /// If the group is paused, the number of registrations and of deregistrations that wait.
    pub paused: Option<(usize, usize)>,
    /// The number of registrations that wait because AWS accepts no more targets.
    pub unplaced: usize,
    /// The number of deregistrations that wait. Either all targets are being replaced, their pods still run, and no new
    /// target is healthy yet; or pods that are no longer ready remain for their zones.
    pub held: usize,
    /// Until when they wait at most. `None`: no new target is healthy yet.
    pub held_until: Option<Moment>,
    /// When the last answered read began.
    pub last_read: Option<Moment>,
    /// When the oldest pending deregistration was caused.
    pub oldest_removal: Option<Moment>,
}

impl GroupView {
    /// The number of targets that AWS shows in this state.
    pub fn in_state(&self, state: HealthState) -> usize {
        self.zones.values().filter_map(|zone| zone.states.get(&state)).sum()
    }
}

/// One zone of a target group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneView {
    /// The number of desired targets.
    pub wanted: usize,
    /// How many of these are healthy.
    pub serving: usize,
    /// The number of targets that AWS shows in each state, including foreign ones.
    pub states: BTreeMap<HealthState, usize>,
}

/// An object that binds: a Service with the annotation, or a TargetBinding that a user wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginView {
    /// The kind and name of the object.
    pub origin: Origin,
    /// The UID of the object.
    pub uid: Uid,
    /// Whether the object exists; the bindings of a deleted Service remain in force for a while.
    pub exists: bool,
    /// The problems of its spec or annotation.
    pub problems: Vec<Problem>,
}

/// Why a living pod is deregistered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// The leader deregisters it for its eviction.
    pub decided: bool,
    /// Its node will be removed, and it is deregistered at once.
    pub node_goes: bool,
    /// It has not been ready for too long, and its zones do not need it.
    pub let_go: bool,
}
