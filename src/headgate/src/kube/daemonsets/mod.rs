//! The Kubernetes side of IngressDaemonSets: the watched objects, and the requests that change them.
//!
//! ```text
//!  watches ──► set, pod, node, revision, budget     an object, converted for the core
//!  shown                                            the status of a set, for readers
//!  requests ◄── template, status                    a request of the core, converted to an object
//! ```

pub mod budget;
pub mod node;
pub mod pod;
pub mod requests;
pub mod revision;
pub mod set;
pub mod shown;
pub mod status;
pub mod template;
pub mod watches;

use std::time::Duration;

use headgate_core::{WallTime, model::object::Uid};
use headgate_daemonset::model::Owner;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::OwnerReference, jiff::Timestamp};

/// The API version of IngressDaemonSets.
pub const API: &str = "headgate.dev/v1alpha1";
/// The kind `IngressDaemonSet`.
pub const KIND: &str = "IngressDaemonSet";

/// The set that controls an object, according to the object's owner references. If the controller is not an
/// IngressDaemonSet, the returned set has an empty name and cannot exist.
fn owner(owners: Option<&Vec<OwnerReference>>) -> Option<Owner> {
    let owner = owners?.first()?;
    let is_set = owner.kind == KIND
        && owner.api_version.split_once('/').is_some_and(|(group, _)| group == "headgate.dev");
    let name = if is_set { owner.name.as_str().into() } else { "".into() };
    Some(Owner { name, uid: Uid::new(owner.uid.as_str()) })
}

/// Converts a Kubernetes time to a wall clock time.
fn time(at: Timestamp) -> WallTime {
    let millis = u64::try_from(at.as_millisecond()).unwrap_or_default();
    WallTime::since_1970(Duration::from_millis(millis))
}
