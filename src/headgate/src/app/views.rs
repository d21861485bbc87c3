//! What readers may see without asking the engine: one entry per binding and per target group, replaced only when
//! that one has changed.

use std::sync::Arc;

use dashmap::DashMap;
use headgate_core::{
    binding::BindingKey,
    object::{ObjectKey, Uid},
    origin::Origin,
    target_group::TargetGroupArn,
    view::{BindingView, GroupView, OriginView},
};

/// The views. Written by the owner of the engine alone.
#[derive(Debug, Default)]
pub struct Views {
    /// By binding.
    pub bindings: DashMap<BindingKey, Arc<BindingView>>,
    /// By target group.
    pub groups: DashMap<TargetGroupArn, Arc<GroupView>>,
    /// By object that binds.
    pub origins: DashMap<Origin, Arc<OriginView>>,
    /// Deleted TargetBindings that nothing keeps any more. Whoever lets one go takes it out.
    pub released: DashMap<ObjectKey, Uid>,
}
