//! The write operations of a migration. Each write contains the version or UID of the object that was read, so a write
//! never overwrites an unseen change. Each write can be repeated.

use anyhow::{Context, bail};
use headgate::{
    api::{TargetBinding, target_binding::FINALIZER},
    kube::ledger::Ledgers,
    runtime::within::within,
};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        apps::v1::Deployment,
        core::v1::{Pod as KubePod, Service},
    },
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
    core::ApiResource,
};
use serde_json::{Value, json};

use super::{
    diff::port_of,
    facts::{Binding, Place, Pod, Told},
    gather::{REPLICAS, STRICT, is_part_of},
    lbc::{self, Tgb},
    record::{self, Record},
};

const MANAGER: &str = "headgate-migrate";
/// The timeout of a request for TargetLedgers.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

fn parameters() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

/// Writes a paused Headgate binding of the target group, and a record of the TargetGroupBinding.
pub async fn write(client: &Client, binding: &Binding, to: Place) -> anyhow::Result<()> {
    let Some(tgb) = &binding.tgb else { return Ok(()) };
    let record = Record { name: binding.key.name.to_string(), object: tgb.again.clone() };
    match binding.told.place().unwrap_or(to) {
        Place::Annotation => annotate(client, binding, Some(record)).await,
        Place::TargetBinding => write_target_binding(client, binding, &record).await,
    }
}

/// Updates the annotations of the Service. With a record, adds the binding and the record. Without a record, removes
/// the binding and its record.
async fn annotate(client: &Client, binding: &Binding, record: Option<Record>) -> anyhow::Result<()> {
    let (namespace, name) = (&binding.key.namespace, &binding.spec.service_ref.name);
    let Some(service) = &binding.service else { bail!("there is no Service {namespace}/{name}") };
    let mut records = service.records.clone().map_err(anyhow::Error::msg)?;
    records.retain(|one| *one.name != *binding.key.name);
    let text = service.facts.target_groups.as_deref().unwrap_or_default();
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let mut parts: Vec<String> = parts.filter(|part| !is_part_of(binding, part)).map(str::to_owned).collect();
    let adds = record.is_some();
    if let Some(record) = record {
        records.push(record);
        let port = port_of(binding).map_or_else(|| binding.spec.service_ref.port(), ToString::to_string);
        let group = binding.arn().or(binding.spec.target_group()).unwrap_or_default();
        parts.push(format!("{port}={group}"));
    }
    let mut annotations = json!({
        "headgate.dev/target-groups": (!parts.is_empty()).then(|| parts.join(",")),
        record::ANNOTATION: record::written(&records),
    });
    // Adding a record does not pause an active binding.
    if adds && binding.told == Told::Nothing {
        annotations["headgate.dev/paused"] = "true".into();
    } else if !adds {
        annotations["headgate.dev/paused"] = Value::Null;
    }
    patch_service(client, binding, annotations).await
}

async fn patch_service(client: &Client, binding: &Binding, annotations: Value) -> anyhow::Result<()> {
    let (namespace, name) = (&binding.key.namespace, &binding.spec.service_ref.name);
    // If two bindings use the same Service, the first write has already changed the version of the Service.
    let api: Api<Service> = Api::namespaced(client.clone(), namespace);
    let version = binding.service.as_ref().map(|service| service.version.clone());
    let patch = json!({"metadata": {"annotations": annotations, "resourceVersion": version}});
    api.patch(name, &parameters(), &Patch::Merge(&patch)).await.map(|_| ()).with_context(|| {
        format!("cannot annotate Service {namespace}/{name}. Grant yourself patch on services")
    })
}

async fn write_target_binding(client: &Client, binding: &Binding, record: &Record) -> anyhow::Result<()> {
    let api: Api<TargetBinding> = Api::namespaced(client.clone(), &binding.key.namespace);
    let annotations = json!({record::ANNOTATION: record::written(std::slice::from_ref(record))});
    let done = if binding.told == Told::Nothing {
        let spec = &binding.spec;
        let group = match (binding.arn(), &spec.name) {
            (Some(arn), _) => json!({"arn": arn}),
            (None, name) => json!({"name": name}),
        };
        let object = json!({
            "apiVersion": "headgate.dev/v1alpha1", "kind": "TargetBinding",
            "metadata": {"name": &*binding.key.name, "annotations": annotations},
            "spec": {
                "targetGroup": group, "paused": true,
                "serviceRef": {"name": spec.service_ref.name, "port": spec.service_ref.port},
            },
        });
        let object = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object).await.map(|_| ())
    } else {
        let patch = json!({"metadata": {"annotations": annotations}});
        api.patch(&binding.key.name, &parameters(), &Patch::Merge(&patch)).await.map(|_| ())
    };
    done.with_context(|| {
        format!(
            "cannot write TargetBinding {}. Grant yourself create and patch on targetbindings",
            binding.key
        )
    })
}

/// Sets or removes the pause of Headgate's binding.
pub async fn pause(client: &Client, binding: &Binding, is: bool) -> anyhow::Result<()> {
    match binding.told.place() {
        None => Ok(()),
        Some(Place::Annotation) => {
            patch_service(client, binding, json!({"headgate.dev/paused": is.then_some("true")})).await
        }
        Some(Place::TargetBinding) => {
            let api: Api<TargetBinding> = Api::namespaced(client.clone(), &binding.key.namespace);
            let patch = json!({"spec": {"paused": is.then_some(true)}});
            api.patch(&binding.key.name, &parameters(), &Patch::Merge(&patch)).await.map(|_| ()).with_context(
                || {
                    format!(
                        "cannot patch TargetBinding {}. Grant yourself patch on targetbindings",
                        binding.key
                    )
                },
            )
        }
    }
}

/// Removes Headgate's binding. The caller must stop Headgate first.
pub async fn unwrite(client: &Client, binding: &Binding) -> anyhow::Result<()> {
    if binding.told.place() != Some(Place::TargetBinding) {
        return annotate(client, binding, None).await;
    }
    let api: Api<TargetBinding> = Api::namespaced(client.clone(), &binding.key.namespace);
    let name = &*binding.key.name;
    let said = || {
        format!(
            "cannot delete TargetBinding {}. Grant yourself patch and delete on targetbindings",
            binding.key
        )
    };
    let Some(object) = api.get_opt(name).await.with_context(said)? else { return Ok(()) };
    let others: Vec<&String> = object.finalizers().iter().filter(|one| *one != FINALIZER).collect();
    let patch = json!({"metadata": {"finalizers": others, "resourceVersion": object.resource_version()}});
    api.patch(name, &parameters(), &Patch::Merge(&patch)).await.with_context(said)?;
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error).with_context(said),
    }
}

fn tgbs(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &lbc::kind())
}

/// Removes LBC's finalizer if the object still has this version. Other finalizers remain.
pub async fn take_finalizer(client: &Client, tgb: &Tgb) -> anyhow::Result<()> {
    let others: Vec<&String> = tgb.finalizers.iter().filter(|name| *name != lbc::FINALIZER).collect();
    let patch = json!({"metadata": {"finalizers": others, "resourceVersion": tgb.version}});
    let done =
        tgbs(client, &tgb.key.namespace).patch(&tgb.key.name, &parameters(), &Patch::Merge(&patch)).await;
    done.map(|_| ()).with_context(|| {
        format!(
            "cannot remove the finalizer from TargetGroupBinding {}. Grant yourself patch on \
             targetgroupbindings, and remove webhooks that reject it while LBC is stopped (--lbc-webhook \
             names LBC's own)",
            tgb.key
        )
    })
}

/// Deletes the object if it still has this version.
pub async fn delete(client: &Client, tgb: &Tgb) -> anyhow::Result<()> {
    let only = Preconditions { uid: Some(tgb.uid.clone()), resource_version: Some(tgb.version.clone()) };
    let parameters = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
    match tgbs(client, &tgb.key.namespace).delete(&tgb.key.name, &parameters).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error).with_context(|| {
            format!(
                "cannot delete TargetGroupBinding {}. Grant yourself delete on targetgroupbindings",
                tgb.key
            )
        }),
    }
}

/// Creates the TargetGroupBinding again from its record.
pub async fn create(client: &Client, binding: &Binding) -> anyhow::Result<()> {
    let Some(record) = &binding.record else { bail!("there is no record of {}", binding.key) };
    let object: DynamicObject = serde_json::from_value(record.object.clone())?;
    match tgbs(client, &binding.key.namespace).create(&PostParams::default(), &object).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(error) => Err(error).with_context(|| {
            format!(
                "cannot create TargetGroupBinding {}. Grant yourself create on targetgroupbindings",
                binding.key
            )
        }),
    }
}

/// Opens LBC's readiness gate on the pod with this UID.
pub async fn open_gate(client: &Client, binding: &Binding, pod: &Pod) -> anyhow::Result<()> {
    let key = &pod.facts.key;
    let api: Api<KubePod> = Api::namespaced(client.clone(), &key.namespace);
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let patch = json!({
        "metadata": {"uid": pod.facts.uid.as_str()},
        "status": {"conditions": [{
            "type": lbc::gate_of(&binding.key.name), "status": "True", "reason": "MovedToHeadgate",
            "message": "the load balancer reports the pod as healthy, and the TargetGroupBinding was deleted",
            "lastTransitionTime": now,
        }]},
    });
    match api.patch_status(&key.name, &parameters(), &Patch::Strategic(&patch)).await {
        Ok(_) => Ok(()),
        // The pod was deleted or replaced.
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
        Err(error) => Err(error).with_context(|| {
            format!("cannot open the readiness gate of pod {key}. Grant yourself patch on pods/status")
        }),
    }
}

/// Scales a Deployment to 0, and records the number of replicas in an annotation.
pub async fn stop(client: &Client, namespace: &str, name: &str, wanted: i32) -> anyhow::Result<()> {
    let note = json!({"metadata": {"annotations": {REPLICAS: wanted.to_string()}}});
    scale(client, namespace, name, &note, 0).await
}

/// Scales a Deployment to the recorded number of replicas, and removes the annotation.
pub async fn start(client: &Client, namespace: &str, name: &str, before: i32) -> anyhow::Result<()> {
    let said = || {
        format!(
            "cannot scale Deployment {namespace}/{name}. Grant yourself patch on deployments and \
             deployments/scale"
        )
    };
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let up = Patch::Merge(json!({"spec": {"replicas": before}}));
    api.patch_scale(name, &parameters(), &up).await.with_context(said)?;
    let forget = json!({"metadata": {"annotations": {REPLICAS: null}}});
    api.patch(name, &parameters(), &Patch::Merge(&forget)).await.map(|_| ()).with_context(said)
}

async fn scale(client: &Client, namespace: &str, name: &str, note: &Value, to: i32) -> anyhow::Result<()> {
    let said = || {
        format!(
            "cannot scale Deployment {namespace}/{name}. Grant yourself patch on deployments and \
             deployments/scale"
        )
    };
    let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    api.patch(name, &parameters(), &Patch::Merge(note)).await.with_context(said)?;
    let to = Patch::Merge(json!({"spec": {"replicas": to}}));
    api.patch_scale(name, &parameters(), &to).await.map(|_| ()).with_context(said)
}

/// Relaxes or restores both webhook configurations with this name. Relaxing sets `failurePolicy: Ignore` and records
/// the changed entries in an annotation.
pub async fn set_webhooks(client: &Client, name: &str, relaxed: bool) -> anyhow::Result<()> {
    for kind in [
        ApiResource::erase::<MutatingWebhookConfiguration>(&()),
        ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
    ] {
        let said = || format!("cannot change {} {name}. Grant yourself get and update on it", kind.kind);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        let Some(object) = api.get_opt(name).await.with_context(said)? else { continue };
        let Some(changed) = changed(object, relaxed) else { continue };
        // The `resourceVersion` prevents this write from overwriting a change by another client.
        api.replace(name, &PostParams::default(), &changed).await.with_context(said)?;
    }
    Ok(())
}

/// Returns the changed configuration. `None`: no change is needed.
fn changed(mut object: DynamicObject, relaxed: bool) -> Option<DynamicObject> {
    let noted = object.annotations().get(STRICT).cloned().unwrap_or_default();
    let mut noted: Vec<String> =
        noted.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let mut any = false;
    for entry in object.data["webhooks"].as_array_mut().into_iter().flatten() {
        let name = entry["name"].as_str().unwrap_or_default().to_owned();
        let is_strict = entry["failurePolicy"].as_str().is_none_or(|policy| policy == "Fail");
        if relaxed && is_strict {
            entry["failurePolicy"] = "Ignore".into();
            any = true;
            if !noted.contains(&name) {
                noted.push(name);
            }
        } else if !relaxed && noted.contains(&name) {
            entry["failurePolicy"] = "Fail".into();
            any = true;
        }
    }
    let annotations = object.annotations_mut();
    if relaxed {
        annotations.insert(STRICT.to_owned(), noted.join(","));
    } else {
        any |= annotations.remove(STRICT).is_some();
    }
    any.then_some(object)
}

/// Deletes the TargetLedger of the binding's target group. When Headgate starts again, it has no own targets in the
/// target group.
pub async fn forget(client: &Client, namespace: &str, lease: &str, binding: &Binding) -> anyhow::Result<()> {
    let ledgers = Ledgers::new(client.clone(), namespace, lease);
    let said = |failure: headgate_core::Failure| {
        anyhow::anyhow!(
            "cannot delete the TargetLedger of target group {} in namespace {namespace}: {}. Grant yourself \
             list and delete on targetledgers",
            binding.group_name(),
            failure.message
        )
    };
    for stored in within(PATIENCE, ledgers.load_all()).await.map_err(said)? {
        let Ok((group, _)) = stored.open() else { continue };
        if Some(group.as_str()) == binding.arn() {
            within(PATIENCE, ledgers.delete(&group, &stored.version)).await.map_err(said)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_refuse_nothing_meanwhile_and_are_as_before_afterwards() {
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "lbc"},
            "webhooks": [{"name": "pods", "failurePolicy": "Ignore"}, {"name": "bindings", "failurePolicy": "Fail"}, {"name": "services"}],
        });
        let before: DynamicObject = serde_json::from_value(configuration).unwrap();
        let policies = |object: &DynamicObject| -> Vec<Value> {
            let entries = object.data["webhooks"].as_array().unwrap().iter();
            entries.map(|entry| entry["failurePolicy"].clone()).collect()
        };
        let relaxed = changed(before.clone(), true).unwrap();
        assert_eq!(policies(&relaxed), ["Ignore", "Ignore", "Ignore"]);
        assert_eq!(relaxed.annotations()[STRICT], "bindings,services");
        assert!(changed(relaxed.clone(), true).is_none(), "again, it is as it should be");
        let restored = changed(relaxed, false).unwrap();
        assert_eq!(policies(&restored), ["Ignore", "Fail", "Fail"]);
        assert!(restored.annotations().is_empty());
        assert!(changed(before, false).is_none(), "nothing was changed, so nothing is undone");
    }
}
