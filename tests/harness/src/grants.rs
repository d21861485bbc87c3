//! TargetGroupGrants as administrators write them.

use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::cluster::Cluster;

fn kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("headgate.dev", "v1alpha1", "TargetGroupGrant"))
}

/// All TargetGroupGrants of the local world.
pub fn api(cluster: &Cluster) -> Api<DynamicObject> {
    Api::all_with(cluster.client.clone(), &kind())
}

/// Creates a TargetGroupGrant.
///
/// # Errors The error of the API server.
pub async fn write(cluster: &Cluster, name: &str, spec: &Value) -> Result<DynamicObject, kube::Error> {
    let object = DynamicObject::new(name, &kind()).data(json!({ "spec": spec }));
    api(cluster).create(&PostParams::default(), &object).await
}

/// A spec that lets these namespaces bind this target group.
pub fn of(group: &str, namespaces: &[&str]) -> Value {
    json!({"targetGroups": [group], "namespaces": {"names": namespaces}})
}

/// Changes the spec of a TargetGroupGrant.
pub async fn change(cluster: &Cluster, name: &str, spec: &Value) {
    let patch = Patch::Merge(json!({"spec": spec}));
    api(cluster).patch(name, &PatchParams::default(), &patch).await.unwrap();
}
