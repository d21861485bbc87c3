//! What is known about a TargetBinding when its status is written.

use headgate_core::{
    Reason,
    view::{BindingView, GroupView},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What is known about a TargetBinding.
#[derive(Debug)]
pub struct Known<'a> {
    /// How the user named the target group.
    pub named: &'a str,
    /// The binding, if it is in force.
    pub binding: Option<&'a BindingView>,
    /// The target group that it binds.
    pub group: Option<&'a GroupView>,
    /// When the target group was last read.
    pub last_read: Option<Time>,
    /// Its problems, most severe first.
    pub said: &'a [(Reason, String)],
    /// The generation of the spec that the status describes.
    pub generation: Option<i64>,
    /// Whether the TargetBinding is being deleted.
    pub ending: bool,
}
