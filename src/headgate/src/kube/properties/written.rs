//! Property tests with a list of TargetBindings, one of which is randomly changed.

use headgate_core::model::target_binding::Pods;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::listed;
use crate::{
    kube::written::{AnyBinding, SlimBinding},
    properties::{LONGEST_MESSAGE, changed, holds},
};

fn binding(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "headgate.dev/v1alpha1", "kind": "TargetBinding",
        "metadata": {"name": name, "namespace": "shop", "uid": format!("u-{name}"), "resourceVersion": "7"},
        "spec": spec,
        "status": {"wanted": 2, "targetGroup": "web", "lastRead": "2026-01-02T03:04:05Z", "conditions": [{
            "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z",
        }]},
    })
}

fn of_service() -> Value {
    binding(
        "service",
        &json!({"targetGroup": {"name": "web", "arn": null}, "serviceRef": {"name": "web", "port": "http"},
            "registerWhen": "ready", "paused": false, "hold": "45s", "minHealthyPerZone": 2}),
    )
}

fn of_pods() -> Value {
    binding(
        "pods",
        &json!({"targetGroup": {"name": "dns"}, "podSelector": {"matchLabels": {"app": "dns", "tier": "a"}},
            "port": 53, "protocol": "UDP", "whenNotReady": "keep", "ownership": "shared", "gateWhenUnused": "wait"}),
    )
}

fn odd() -> impl Strategy<Value = Value> {
    let below = |root| prop_oneof![changed(of_service(), root), changed(of_pods(), root)];
    prop_oneof![4 => below("/spec"), 1 => below("/status")]
}

#[test]
fn whatever_stands_in_one_binding_the_others_of_its_list_are_read_and_it_is_read_or_says_why_not() {
    holds(odd(), |odd| {
        let all: Vec<SlimBinding> = listed(&[of_service(), odd, of_pods()]).map_err(TestCaseError::fail)?;
        let facts: Vec<_> = all.into_iter().map(|one| one.into_facts().unwrap()).collect();
        prop_assert!(matches!(&facts[0].pods, Pods::OfService(name, _) if &**name == "web"));
        prop_assert!(
            matches!(&facts[2].pods, Pods::Selected(labels, ..) if labels.get("app") == Some("dns"))
        );
        if let Pods::Unreadable(why) = &facts[1].pods {
            prop_assert!(why.ends_with('.') && why.len() <= LONGEST_MESSAGE, "{why}");
        }
        Ok(())
    });
}

#[test]
fn whatever_stands_in_one_binding_its_status_and_finalizers_and_those_of_the_others_can_be_kept() {
    holds(odd(), |odd| {
        let all: Vec<AnyBinding> = listed(&[of_service(), odd, of_pods()]).map_err(TestCaseError::fail)?;
        let all: Vec<crate::api::TargetBinding> = all.into_iter().map(Into::into).collect();
        prop_assert_eq!(all[0].spec.target_group.name.as_deref(), Some("web"));
        prop_assert_eq!(all[2].status.as_ref().map(|status| status.wanted), Some(2));
        prop_assert!(all[1].metadata.name.is_some());
        Ok(())
    });
}

#[test]
fn a_null_in_a_binding_counts_as_nothing_written() {
    let mut odd = of_service();
    for field in ["port", "podSelector", "paused", "hold", "ownership"] {
        odd["spec"][field] = Value::Null;
    }
    odd["spec"]["serviceRef"]["port"] = Value::Null;
    let all: Vec<SlimBinding> = listed(&[odd]).unwrap();
    let facts = all.into_iter().next().unwrap().into_facts().unwrap();
    assert!(matches!(facts.pods, Pods::OfService(..)), "{facts:?}");
    for field in ["targetGroup", "serviceRef"] {
        let mut odd = of_service();
        odd["spec"][field] = Value::Null;
        let all: Vec<SlimBinding> = listed(&[odd]).unwrap();
        let facts = all.into_iter().next().unwrap().into_facts().unwrap();
        assert!(matches!(facts.pods, Pods::Unreadable(_)), "{field}: {facts:?}");
    }
}
