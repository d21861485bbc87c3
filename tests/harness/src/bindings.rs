//! TargetBindings as users write and see them.

use kube::{
    Api,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::{cluster::Cluster, scenario::Scenario, wait};

fn kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("headgate.dev", "v1alpha1", "TargetBinding"))
}

/// The TargetBindings of the test.
pub fn api(s: &Scenario) -> Api<DynamicObject> {
    of(&s.cluster)
}

fn of(cluster: &Cluster) -> Api<DynamicObject> {
    Api::namespaced_with(cluster.client.clone(), &cluster.namespace, &kind())
}

/// Creates a TargetBinding.
///
/// # Errors The error of the API server.
pub async fn write(s: &Scenario, name: &str, spec: Value) -> Result<DynamicObject, kube::Error> {
    write_in(&s.cluster, name, spec).await
}

/// The same in a namespace.
///
/// # Errors The error of the API server.
pub async fn write_in(cluster: &Cluster, name: &str, spec: Value) -> Result<DynamicObject, kube::Error> {
    let object = DynamicObject::new(name, &kind()).data(json!({ "spec": spec }));
    of(cluster).create(&PostParams::default(), &object).await
}

/// Changes a TargetBinding by a merge patch.
pub async fn change(cluster: &Cluster, name: &str, patch: &Value) {
    of(cluster).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// A spec for pods with the label `app: APP` at port 8080.
pub fn pods_of(app: &str, group: &str) -> Value {
    json!({"targetGroup": {"name": group}, "podSelector": {"matchLabels": {"app": app}}, "port": 8080})
}

/// Status and reason of a condition: `True AllHealthy`.
pub fn condition(object: &DynamicObject, kind: &str) -> String {
    let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    found.map_or_else(String::new, |found| {
        format!("{} {}", found["status"].as_str().unwrap(), found["reason"].as_str().unwrap())
    })
}

/// Waits until the only TargetBinding meets the condition `is`.
pub async fn wait_binding(s: &Scenario, what: &str, is: impl Fn(&DynamicObject) -> bool) -> DynamicObject {
    wait::until(&format!("a TargetBinding {what}"), || async {
        let all = api(s).list(&ListParams::default()).await.unwrap().items;
        match &all[..] {
            [only] if is(only) => Ok(only.clone()),
            _ => Err(format!("{all:?}")),
        }
    })
    .await
}
