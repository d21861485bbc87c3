//! The patch from a stored status to the desired status.
//!
//! The patch is a strategic merge patch on `pods/status` that contains the UID, as the kubelet's patches do. The patch
//! contains only changes. Conditions merge by type, so conditions of other writers never change. The module is pure.
//! Without a difference, the result is `None`.

use crate::pod::condition::OWNED;
use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Returns the patch from `stored` to `wanted`. `None`: all fields of `wanted` match. A condition with a changed status
/// gets `now` as its transition time. All other conditions keep their transition times.
pub fn between(uid: &str, stored: &PodStatus, wanted: &PodStatus, now: &Time) -> Option<Value> {
    let mut status = Map::new();
    changed(&mut status, "phase", stored.phase.as_ref(), wanted.phase.as_ref());
    changed(&mut status, "reason", stored.reason.as_ref(), wanted.reason.as_ref());
    changed(&mut status, "message", stored.message.as_ref(), wanted.message.as_ref());
    changed(&mut status, "hostIP", stored.host_ip.as_ref(), wanted.host_ip.as_ref());
    changed(&mut status, "podIP", stored.pod_ip.as_ref(), wanted.pod_ip.as_ref());
    changed(&mut status, "startTime", stored.start_time.as_ref(), wanted.start_time.as_ref());
    changed(
        &mut status,
        "observedGeneration",
        stored.observed_generation.as_ref(),
        wanted.observed_generation.as_ref(),
    );
    changed(
        &mut status,
        "initContainerStatuses",
        stored.init_container_statuses.as_ref(),
        wanted.init_container_statuses.as_ref(),
    );
    changed(
        &mut status,
        "containerStatuses",
        stored.container_statuses.as_ref(),
        wanted.container_statuses.as_ref(),
    );
    addresses(
        &mut status,
        "hostIPs",
        &stored.host_ips.iter().flatten().map(|host| host.ip.as_str()).collect::<Vec<_>>(),
        wanted.host_ips.as_ref().map(|ips| ips.iter().map(|host| host.ip.as_str()).collect()),
    );
    addresses(
        &mut status,
        "podIPs",
        &stored.pod_ips.iter().flatten().map(|pod| pod.ip.as_str()).collect::<Vec<_>>(),
        wanted.pod_ips.as_ref().map(|ips| ips.iter().map(|pod| pod.ip.as_str()).collect()),
    );
    let conditions: Vec<Value> = wanted
        .conditions
        .iter()
        .flatten()
        .filter_map(|wanted| {
            let stored = stored.conditions.iter().flatten().find(|stored| stored.type_ == wanted.type_);
            condition(stored, wanted, now)
        })
        .collect();
    if !conditions.is_empty() {
        status.insert("conditions".into(), Value::Array(conditions));
    }
    (!status.is_empty()).then(|| json!({"metadata": {"uid": uid}, "status": status}))
}

/// Returns a patch that also removes the kubelet's own fields which `wanted` does not contain: addresses, container
/// statuses and conditions. Conditions of other writers remain.
pub fn clearing(uid: &str, stored: &PodStatus, wanted: &PodStatus, now: &Time) -> Option<Value> {
    let empty = PodStatus { pod_ips: Some(Vec::new()), host_ips: Some(Vec::new()), ..wanted.clone() };
    let mut patch =
        between(uid, stored, &empty, now).unwrap_or_else(|| json!({"metadata": {"uid": uid}, "status": {}}));
    let status = patch.get_mut("status")?.as_object_mut()?;
    let present = [
        ("hostIP", stored.host_ip.is_some()),
        ("podIP", stored.pod_ip.is_some()),
        ("containerStatuses", stored.container_statuses.as_ref().is_some_and(|all| !all.is_empty())),
        ("initContainerStatuses", stored.init_container_statuses.as_ref().is_some_and(|all| !all.is_empty())),
    ];
    for (field, _) in present.into_iter().filter(|(_, present)| *present) {
        status.insert(field.into(), Value::Null);
    }
    let gone: Vec<Value> = stored
        .conditions
        .iter()
        .flatten()
        .filter(|condition| OWNED.contains(&condition.type_.as_str()))
        .map(|condition| json!({"$patch": "delete", "type": condition.type_}))
        .collect();
    if !gone.is_empty() {
        status.insert("conditions".into(), Value::Array(gone));
    }
    (!status.is_empty()).then_some(patch)
}

fn changed<T: PartialEq + Serialize>(
    status: &mut Map<String, Value>,
    field: &str,
    stored: Option<&T>,
    wanted: Option<&T>,
) {
    if let Some(wanted) = wanted
        && stored != Some(wanted)
    {
        status.insert(field.into(), json!(wanted));
    }
}

/// Adds the changes of an address list. Address lists merge by `ip`, so a removed address needs an explicit deletion.
fn addresses(status: &mut Map<String, Value>, field: &str, stored: &[&str], wanted: Option<Vec<&str>>) {
    let Some(wanted) = wanted.filter(|wanted| *wanted != stored) else {
        return;
    };
    let gone =
        stored.iter().filter(|ip| !wanted.contains(ip)).map(|ip| json!({"$patch": "delete", "ip": ip}));
    let kept = wanted.iter().map(|ip| json!({"ip": ip}));
    status.insert(field.into(), kept.chain(gone).collect());
}

fn condition(stored: Option<&PodCondition>, wanted: &PodCondition, now: &Time) -> Option<Value> {
    let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if let Some(stored) = stored
        && stored.status == wanted.status
        && text(&stored.reason) == text(&wanted.reason)
        && text(&stored.message) == text(&wanted.message)
        && (wanted.observed_generation.is_none() || stored.observed_generation == wanted.observed_generation)
    {
        return None;
    }
    let since = stored
        .filter(|stored| stored.status == wanted.status)
        .and_then(|stored| stored.last_transition_time.clone())
        .unwrap_or_else(|| now.clone());
    let mut value = json!({
        "type": wanted.type_,
        "status": wanted.status,
        "lastProbeTime": null,
        "lastTransitionTime": since,
        // A null value removes the stored value.
        "reason": wanted.reason,
        "message": wanted.message,
    });
    if let (Some(generation), Some(fields)) = (wanted.observed_generation, value.as_object_mut()) {
        fields.insert("observedGeneration".into(), json!(generation));
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;
    use k8s_openapi::api::core::v1::PodIP;

    fn status(value: Value) -> PodStatus {
        serde_json::from_value(value).unwrap()
    }

    fn ready(status: &str, reason: Option<&str>) -> Value {
        json!({"type": "Ready", "status": status, "reason": reason,
               "lastTransitionTime": "2026-01-02T03:04:05Z"})
    }

    #[test]
    fn an_unchanged_status_needs_no_patch() {
        let stored = status(json!({"phase": "Running", "qosClass": "Burstable",
            "conditions": [ready("True", None), {"type": "example.com/gate", "status": "False"}]}));
        let wanted = status(json!({"phase": "Running", "conditions": [ready("True", None)]}));
        assert_eq!(between("u", &stored, &wanted, &Moment::now().timestamp()), None);
    }

    #[test]
    fn a_patch_carries_the_uid_and_only_what_changed() {
        let stored = status(json!({"phase": "Pending", "hostIP": "127.101.0.10"}));
        let wanted = status(json!({"phase": "Running", "hostIP": "127.101.0.10"}));
        let patch = between("u-1", &stored, &wanted, &Moment::now().timestamp()).unwrap();
        assert_eq!(patch, json!({"metadata": {"uid": "u-1"}, "status": {"phase": "Running"}}));
    }

    #[test]
    fn a_condition_that_turns_true_loses_its_reason_and_gets_a_new_time() {
        let stored = status(json!({"conditions": [ready("False", Some("ContainersNotReady"))]}));
        let wanted = status(json!({"conditions": [{"type": "Ready", "status": "True"}]}));
        let now = Moment::now().timestamp();
        let patch = between("u", &stored, &wanted, &now).unwrap();
        let written = &patch["status"]["conditions"][0];
        assert_eq!(written["reason"], Value::Null);
        assert!(written.as_object().unwrap().contains_key("reason"));
        assert_eq!(written["lastTransitionTime"], json!(now));
    }

    #[test]
    fn a_new_reason_alone_keeps_the_transition_time() {
        let stored = status(json!({"conditions": [ready("False", Some("ContainersNotReady"))]}));
        let wanted = status(json!({"conditions": [ready("False", Some("PodFailed"))]}));
        let patch = between("u", &stored, &wanted, &Moment::now().timestamp()).unwrap();
        assert_eq!(patch["status"]["conditions"][0]["lastTransitionTime"], "2026-01-02T03:04:05Z");
    }

    #[test]
    fn a_clearing_patch_removes_what_a_kubelet_owns_and_leaves_the_conditions_of_others() {
        let gate = json!({"type": "example.com/gate", "status": "True"});
        let stored = status(json!({"phase": "Running", "podIP": "127.101.0.10",
            "podIPs": [{"ip": "127.101.0.10"}], "conditions": [ready("True", None), gate],
            "containerStatuses": [{"name": "app", "ready": true, "restartCount": 0, "image": "", "imageID": ""}]}));
        let wanted = status(json!({"phase": "Failed", "reason": "Evicted"}));
        let now = Moment::now().timestamp();
        let patch = clearing("u", &stored, &wanted, &now).unwrap();
        let expected = json!({"phase": "Failed", "reason": "Evicted", "podIP": null,
            "podIPs": [{"$patch": "delete", "ip": "127.101.0.10"}], "containerStatuses": null,
            "conditions": [{"$patch": "delete", "type": "Ready"}]});
        assert_eq!(patch["status"], expected);
        let after = status(json!({"phase": "Failed", "reason": "Evicted", "conditions": [gate]}));
        assert_eq!(clearing("u", &after, &wanted, &now), None);
    }

    #[test]
    fn a_new_address_replaces_the_old_one_although_the_list_merges() {
        let stored = status(json!({"podIPs": [{"ip": "127.101.0.10"}]}));
        let wanted =
            PodStatus { pod_ips: Some(vec![PodIP { ip: "127.101.0.11".into() }]), ..PodStatus::default() };
        let patch = between("u", &stored, &wanted, &Moment::now().timestamp()).unwrap();
        let expected = json!([{"ip": "127.101.0.11"}, {"$patch": "delete", "ip": "127.101.0.10"}]);
        assert_eq!(patch["status"]["podIPs"], expected);
    }
}
