//! Grants, as administrators write them.

use k8s_openapi::api::core::v1::ConfigMap;
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

/// All TargetGroupGrants of the world.
pub fn api(cluster: &Cluster) -> Api<DynamicObject> {
    Api::all_with(cluster.client.clone(), &kind())
}

/// Writes a TargetGroupGrant.
///
/// # Errors
/// What the API server said against it.
pub async fn write(cluster: &Cluster, name: &str, spec: &Value) -> Result<DynamicObject, kube::Error> {
    let object = DynamicObject::new(name, &kind()).data(json!({ "spec": spec }));
    api(cluster).create(&PostParams::default(), &object).await
}

/// Lets these namespaces bind this target group.
pub fn of(group: &str, namespaces: &[&str]) -> Value {
    json!({"targetGroups": [group], "namespaces": {"names": namespaces}})
}

/// Changes the spec of a TargetGroupGrant.
pub async fn change(cluster: &Cluster, name: &str, spec: &Value) {
    let patch = Patch::Merge(json!({"spec": spec}));
    api(cluster).patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// Writes the ConfigMap with grants in this namespace, for a Headgate with the usual Lease.
pub async fn write_table(cluster: &Cluster, text: &str) {
    let api = cluster.api::<ConfigMap>();
    let object = json!({"metadata": {"name": "headgate-grants"}, "data": {"grants.yaml": text}});
    let (post, object) = (PostParams::default(), serde_json::from_value(object).unwrap());
    if api.get_opt("headgate-grants").await.unwrap().is_some() {
        api.replace("headgate-grants", &post, &object).await.unwrap();
    } else {
        api.create(&post, &object).await.unwrap();
    }
}
