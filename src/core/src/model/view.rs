//! What others may read of the engine: small pictures, replaced only when they change.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    BindingKey, HealthState, HoldWanted, Moment, ObjectKey, Origin, PodFacts, Problem, Reason, Target,
    TargetGroupArn, Uid, ZoneName,
    gate::{GateFacts, Shown},
};

/// Something that is shown, or not any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Picture {
    /// This binding looks like this now.
    Binding(BindingView),
    /// This binding is no more.
    BindingGone(BindingKey),
    /// This target group looks like this now.
    Group(GroupView),
    /// Nothing is bound to this target group any more.
    GroupGone(TargetGroupArn),
    /// An object that binds looks like this now.
    Origin(OriginView),
    /// It binds nothing any more.
    OriginGone(Origin),
}

/// One binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingView {
    /// Its name.
    pub key: BindingKey,
    /// Its targets, each with what is known of it.
    pub targets: Vec<TargetView>,
    /// Those that were, and are on their way out.
    pub ending: Vec<EndingView>,
    /// How long its terminating pods should be held, if they have no value themselves.
    pub hold: HoldWanted,
    /// What a user should know of it and of its target group, each with a sentence.
    pub said: Vec<(Reason, String)>,
}

/// One target of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetView {
    /// The target.
    pub target: Target,
    /// Its pod.
    pub pod: ObjectKey,
    /// The node of the pod.
    pub node: Option<Arc<str>>,
    /// Whether AWS has taken its registration.
    pub registered: bool,
    /// The health that the load balancer reports; `None` until it was read.
    pub state: Option<HealthState>,
    /// The reason that AWS gives for it; empty: none.
    pub why: &'static str,
    /// The readiness gate of the pod.
    pub gate: GateView,
}

/// The readiness gate of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateView {
    /// It has none.
    None,
    /// It is closed.
    Closed,
    /// It is open.
    Open,
    /// It is open, though the health of the pod's targets could not be read.
    Unread,
}

impl GateView {
    /// In a word: `none`, `closed` or `open`.
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

/// A target of a binding, from the moment when it should be deregistered until the load balancer has finished
/// draining it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndingView {
    /// The target.
    pub target: Target,
    /// The pod it was registered for.
    pub pod: ObjectKey,
    /// Why it should be deregistered.
    pub reason: Reason,
    /// Whether AWS has yet to take its removal.
    pub registered: bool,
    /// The health that the load balancer reports.
    pub state: Option<HealthState>,
}

/// One target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// The ARN.
    pub group: TargetGroupArn,
    /// By zone, as AWS reports it, or that of the pod's Node before; `None`: neither is known. Also those in which a
    /// target was healthy within the last hour.
    pub zones: BTreeMap<Option<ZoneName>, ZoneView>,
    /// How many of them were not registered from here and are not draining.
    pub foreign: usize,
    /// How many targets that Headgate registered belong to no pod of this cluster any more, and remain because they
    /// are healthy. Another cluster may have got their addresses.
    pub suspects: usize,
    /// How many targets somebody else removes again and again.
    pub contested: usize,
    /// How many targets that Headgate registered some time ago were never healthy.
    pub never_healthy: usize,
    /// If nothing may be written to it: how many registrations and removals wait for the end of the pause.
    pub paused: Option<(usize, usize)>,
    /// How many registrations wait because AWS accepts no more targets, in its last answer.
    pub unplaced: usize,
    /// How many removals are held. The targets are being replaced as a whole, their pods still run, and none of the
    /// new ones is healthy yet. Also those of pods that are no longer ready and remain for their zones.
    pub held: usize,
    /// Until when they are held at most; `None`: AWS has taken none of the new ones yet.
    pub held_until: Option<Moment>,
    /// When the last answered read began.
    pub last_read: Option<Moment>,
    /// When the oldest pending removal was caused.
    pub oldest_removal: Option<Moment>,
}

impl GroupView {
    /// How many targets AWS shows in this state.
    pub fn in_state(&self, state: HealthState) -> usize {
        self.zones.values().filter_map(|zone| zone.states.get(&state)).sum()
    }
}

/// One zone of a target group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneView {
    /// How many targets should be there.
    pub wanted: usize,
    /// How many of these are healthy.
    pub serving: usize,
    /// How many targets AWS shows in each state, including foreign ones.
    pub states: BTreeMap<HealthState, usize>,
}

/// An object that binds: a Service with the annotation, or a written TargetBinding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginView {
    /// Its kind and name.
    pub origin: Origin,
    /// This life of that name.
    pub uid: Uid,
    /// Whether the object exists; the bindings of a deleted Service remain in force for a while.
    pub exists: bool,
    /// The problems of its spec or annotation.
    pub problems: Vec<Problem>,
}

/// What stands between a living pod and its targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// The leader takes it out, for its eviction.
    pub decided: bool,
    /// Its node is about to be removed, and it at once with it.
    pub node_goes: bool,
    /// It has not been ready for too long, and its zones do not need it.
    pub let_go: bool,
}
