//! Leaving a cluster.

use std::collections::BTreeSet;

use headgate_tests::{
    headgate::command,
    scenario::{Scenario, targets},
    shared_world::beside_others,
    wait,
    webhook::Configuration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::json;

fn api(s: &Scenario, kind: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("headgate.dev", "v1alpha1", kind));
    Api::namespaced_with(s.cluster.client.clone(), &s.cluster.namespace, &kind)
}

/// What there is of a kind, each with its finalizers.
async fn all(s: &Scenario, kind: &str) -> Vec<(String, Vec<String>)> {
    let all = api(s, kind).list(&ListParams::default()).await.unwrap();
    all.iter().map(|object| (object.name_any(), object.finalizers().to_vec())).collect()
}

async fn uninstall(s: &Scenario, more: &[&str]) -> (Option<i32>, String) {
    let own = format!("--own-namespace={}", s.cluster.namespace);
    let only = format!("--namespaces={}", s.cluster.namespace);
    let arguments: Vec<&str> = ["uninstall", &own, &only].into_iter().chain(more.iter().copied()).collect();
    command(s.facts(), &arguments).await
}

#[test]
fn uninstall_removes_exactly_what_is_headgates_own_and_lets_the_bindings_go() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "uninstall").await;
        let group = s.web(2).await;
        let stranger = s.stranger(&group).await;
        let headgate = s.headgate().await;
        s.cluster.deploy("mine", 1, &[("http", 8080)]).await;
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("headgate.dev", "v1alpha1", "TargetBinding"));
        let written = DynamicObject::new("mine", &kind).data(json!({"spec": {
            "targetGroup": {"name": group.name}, "podSelector": {"matchLabels": {"app": "mine"}}, "port": 8080}}));
        api(&s, "TargetBinding").create(&PostParams::default(), &written).await.unwrap();
        let mut wanted = targets(&s.cluster.wait_running("web", 2).await, 8080);
        wanted.extend(targets(&s.cluster.wait_running("mine", 1).await, 8080));
        wanted.insert(stranger.clone());
        s.wait_targets(&group, &wanted).await;
        wait::until("both bindings are shown, and the written one is kept by a finalizer", || async {
            let all = all(&s, "TargetBinding").await;
            let kept = all.iter().any(|(name, finalizers)| name == "mine" && !finalizers.is_empty());
            if all.len() == 2 && kept { Ok(()) } else { Err(all) }
        })
        .await;

        let (code, said) = uninstall(&s, &[]).await;
        assert_eq!(code, Some(1), "a Headgate runs: {said}");
        assert!(said.contains("scale `headgate run` down to 0 first"), "{said}");
        assert_eq!(s.aws.registered(&group.arn).await, wanted);

        headgate.terminate().await;
        let (code, said) = uninstall(&s, &[]).await;
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("3 targets are removed"), "{said}");
        s.wait_targets(&group, &BTreeSet::from([stranger])).await;
        assert_eq!(all(&s, "TargetLedger").await, []);
        assert_eq!(all(&s, "TargetBinding").await, [("mine".to_owned(), vec![])]);

        let (code, said) = uninstall(&s, &[]).await;
        assert_eq!(code, Some(0), "it may be done again: {said}");
    });
}

#[test]
fn uninstall_can_leave_the_targets_for_another_controller() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "keep").await;
        let group = s.web(2).await;
        let headgate = s.headgate().await;
        let running = s.wait_registered(&group, "web", 2, 8080).await;
        headgate.terminate().await;
        let (code, said) = uninstall(&s, &["--keep-targets"]).await;
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(all(&s, "TargetLedger").await, []);
        assert_eq!(all(&s, "TargetBinding").await, []);
        assert_eq!(s.aws.registered(&group.arn).await, targets(&running, 8080));
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);
    });
}

#[test]
fn uninstall_removes_the_certificate_that_headgate_has_made_and_no_other() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "leave-hook").await;
        let configuration = format!("--webhook-configuration={}", s.name("webhook"));
        let serving = ["--webhook-address=127.0.0.1:0", "--webhook-names=127.0.0.1", &configuration];
        let headgate = s.headgate_with(&serving).await;
        let configuration = Configuration::install(&s, &[&headgate]).await;
        configuration.wait_trusted().await;
        let own = "headgate-webhook-tls";
        let secrets = s.cluster.api::<Secret>();
        assert!(secrets.get(own).await.unwrap().data.unwrap().contains_key("tls.key"));
        let theirs = json!({"metadata": {"name": "theirs"}, "stringData": {"tls.key": "a key"}});
        s.cluster.create::<Secret>(theirs).await;
        headgate.terminate().await;

        let (code, said) = uninstall(&s, &["--webhook-secret=theirs"]).await;
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("/theirs stays: Headgate has not made it"), "{said}");
        assert!(secrets.get_opt("theirs").await.unwrap().is_some());
        assert!(secrets.get_opt(own).await.unwrap().is_some(), "nobody named it");

        let (code, said) = uninstall(&s, &[]).await;
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains(&format!("/{own} is removed")), "{said}");
        assert!(secrets.get_opt(own).await.unwrap().is_none());
        let (code, said) = uninstall(&s, &[]).await;
        assert_eq!(code, Some(0), "it may be done again: {said}");
        assert!(!said.contains("Secret"), "{said}");
        configuration.remove().await;
    });
}
