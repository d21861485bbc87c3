//! The data from which the status of a TargetBinding is computed.

use headgate_core::{
    Reason,
    view::{BindingView, GroupView},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The known state of a TargetBinding.
#[derive(Debug)]
pub struct Known<'a> {
    /// The name or ARN of the target group in the spec.
    pub named: &'a str,
    /// The binding, if it is active.
    pub binding: Option<&'a BindingView>,
    /// The target group of the binding.
    pub group: Option<&'a GroupView>,
    /// The time of the last successful `DescribeTargetHealth` request.
    pub last_read: Option<Time>,
    /// The problems of the TargetBinding, most severe first.
    pub said: &'a [(Reason, String)],
    /// The generation of the spec that the status describes.
    pub generation: Option<i64>,
    /// Whether the TargetBinding is being deleted.
    pub ending: bool,
}
