//! What is known of a TargetBinding when its status is written.

use headgate_core::{
    Reason,
    view::{BindingView, GroupView},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What is known of a TargetBinding.
#[derive(Debug)]
pub struct Known<'a> {
    /// How the user named the target group.
    pub named: &'a str,
    /// The binding, if it is in force.
    pub binding: Option<&'a BindingView>,
    /// The target group that it binds.
    pub group: Option<&'a GroupView>,
    /// When that was last read.
    pub last_read: Option<Time>,
    /// Its problems, most severe first.
    pub said: &'a [(Reason, String)],
    /// The generation of the spec that this is about.
    pub generation: Option<i64>,
    /// Somebody has deleted it.
    pub ending: bool,
}
