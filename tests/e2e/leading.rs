//! Several replicas: one leads, and what it knew survives it.

use std::collections::BTreeSet;

use headgate_harness::{
    headgate::Headgate,
    proxy::Proxy,
    scenario::{Scenario, targets},
    shared_world::{alone, beside_others},
    wait,
};
use k8s_openapi::{
    ByteString, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

/// Leases that run out while a test waits.
const QUICK: [&str; 3] = ["--lease-duration=4s", "--lease-renew-deadline=3s", "--lease-retry-period=500ms"];

/// A replica for this test's namespace, ready.
async fn replica(s: &Scenario) -> Headgate {
    replica_through(s, &s.facts().kubeconfig).await
}

async fn replica_through(s: &Scenario, kubeconfig: &std::path::Path) -> Headgate {
    s.headgate_that_sees_all(kubeconfig, &QUICK).await
}

/// Two replicas, of which the first leads.
async fn leader_and_standby(s: &Scenario) -> (Headgate, Headgate) {
    let leader = replica(s).await;
    leader.wait_leads().await;
    let standby = replica(s).await;
    assert!(!standby.leads().await);
    (leader, standby)
}

fn ledgers(s: &Scenario) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("headgate.dev", "v1alpha1", "TargetLedger");
    Api::namespaced_with(
        s.cluster.client.clone(),
        &s.cluster.namespace,
        &ApiResource::from_gvk_with_plural(&kind, "targetledgers"),
    )
}

/// The name of the ledger of a target group.
fn ledger_name(arn: &str) -> String {
    let mut parts = arn.rsplit('/');
    let (id, name) = (parts.next().unwrap(), parts.next().unwrap());
    format!("{name}-{id}").to_lowercase()
}

/// Waits until the ledger says that AWS has taken `count` targets.
async fn wait_noted(s: &Scenario, arn: &str, count: usize) {
    wait::until(&format!("the ledger has {count} registered targets"), || async {
        let ledger = ledgers(s).get(&ledger_name(arn)).await.map_err(|error| error.to_string())?;
        let bytes: ByteString = serde_json::from_value(ledger.data["spec"]["registered"].clone())
            .map_err(|_| format!("{:?}", ledger.data))?;
        if bytes.0.len() == 14 * count { Ok(()) } else { Err(format!("{:?}", ledger.data)) }
    })
    .await;
}

/// Every target that was ever named in a call of this action, once for each call.
async fn named(s: &Scenario, action: &str, group: &str) -> Vec<String> {
    let calls = s.aws.calls(action, group).await;
    calls.into_iter().flat_map(|(targets, _)| targets).collect()
}

#[test]
fn a_standby_takes_over_from_a_leader_that_ends_without_a_needless_call() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "handover").await;
        let group = s.web(2).await;
        let (leader, standby) = leader_and_standby(&s).await;
        let before = s.wait_registered(&group, "web", 2, 8080).await;
        wait_noted(&s, &group.arn, 2).await;
        leader.terminate().await;
        standby.wait_leads().await;
        s.cluster.scale("web", 3).await;
        let after = s.wait_registered(&group, "web", 3, 8080).await;
        let all: Vec<String> = targets(&before, 8080).union(&targets(&after, 8080)).cloned().collect();
        let mut registered = named(&s, "RegisterTargets", &group.name).await;
        registered.sort();
        assert_eq!(registered, all, "each target is registered once");
        assert_eq!(named(&s, "DeregisterTargets", &group.name).await, Vec::<String>::new());
        s.cluster.scale("web", 1).await;
        s.wait_registered(&group, "web", 1, 8080).await;
    });
}

#[test]
fn what_went_while_nobody_led_is_removed_by_the_next_leader() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "killed").await;
        let group = s.web(3).await;
        let (leader, standby) = leader_and_standby(&s).await;
        s.wait_registered(&group, "web", 3, 8080).await;
        leader.kill().await;
        s.cluster.scale("web", 1).await;
        s.wait_registered(&group, "web", 1, 8080).await;
        assert!(standby.leads().await);
    });
}

#[test]
fn a_pod_that_ended_while_no_headgate_ran_is_removed_by_the_next_one() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "nobody").await;
        let group = s.web(3).await;
        let foreign_target = s.foreign_target(&group).await;
        let headgate = replica(&s).await;
        let before = s.cluster.wait_running("web", 3).await;
        let mut wanted = targets(&before, 8080);
        wanted.insert(foreign_target.clone());
        s.wait_targets(&group, &wanted).await;
        headgate.kill().await;
        for pod in before.keys() {
            s.cluster.end_pod(pod).await;
        }
        wait::until("three others run", || async {
            let now = s.cluster.running("web").await;
            if now.len() == 3 && now.keys().all(|pod| !before.contains_key(pod)) { Ok(()) } else { Err(now) }
        })
        .await;
        let _next = replica(&s).await;
        let mut wanted = targets(&s.cluster.running("web").await, 8080);
        wanted.insert(foreign_target);
        s.wait_targets(&group, &wanted).await;
    });
}

#[test]
fn a_leader_that_was_stopped_for_longer_than_its_lease_does_no_harm_when_it_goes_on() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "stopped").await;
        let group = s.web(3).await;
        let (leader, standby) = leader_and_standby(&s).await;
        s.wait_registered(&group, "web", 3, 8080).await;
        leader.signal("STOP").await;
        s.cluster.scale("web", 0).await;
        standby.wait_leads().await;
        s.wait_targets(&group, &BTreeSet::new()).await;
        s.cluster.scale("web", 4).await;
        s.wait_registered(&group, "web", 4, 8080).await;
        leader.signal("CONT").await;
        wait::until("it has noticed", || async {
            if leader.leads().await { Err(leader.text()) } else { Ok(()) }
        })
        .await;
        s.cluster.scale("web", 2).await;
        s.wait_registered(&group, "web", 2, 8080).await;
        let foreign = format!("headgate_foreign_targets{{target_group=\"{}\"}}", group.name);
        wait::until_equal("no target is foreign", &Some(0.0), || standby.metric(&foreign)).await;
        assert!(standby.leads().await);
    });
}

#[test]
fn a_leader_whose_api_server_hangs_stops_and_another_one_takes_over() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "hang").await;
        let group = s.web(3).await;
        let proxy = Proxy::to_api_server(s.facts()).await;
        let leader = replica_through(&s, &proxy.kubeconfig(s.facts(), &s.facts().folder)).await;
        leader.wait_leads().await;
        let standby = replica(&s).await;
        s.wait_registered(&group, "web", 3, 8080).await;
        proxy.hang();
        wait::until("it leads no more", || async {
            if leader.leads().await { Err(leader.text()) } else { Ok(()) }
        })
        .await;
        standby.wait_leads().await;
        s.cluster.scale("web", 1).await;
        s.wait_registered(&group, "web", 1, 8080).await;
        proxy.heal();
        standby.terminate().await;
        leader.wait_leads().await;
        s.cluster.scale("web", 2).await;
        s.wait_registered(&group, "web", 2, 8080).await;
    });
}

#[test]
fn a_kill_in_the_middle_of_a_burst_leaves_nothing_wrong_behind() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "burst").await;
        let group = s.web(0).await;
        let foreign_target = s.foreign_target(&group).await;
        let headgate = replica(&s).await;
        s.cluster.scale("web", 25).await;
        wait::until("the burst has begun", || async {
            if s.aws.calls("RegisterTargets", &group.name).await.len() > 1 { Ok(()) } else { Err(()) }
        })
        .await;
        headgate.kill().await;
        s.cluster.scale("web", 10).await;
        s.cluster.wait_running("web", 10).await;
        let _next = replica(&s).await;
        let running = s.cluster.wait_running("web", 10).await;
        let mut wanted = targets(&running, 8080);
        wanted.insert(foreign_target);
        s.wait_targets(&group, &wanted).await;
    });
}

#[test]
fn a_ledger_that_is_garbage_is_left_as_it_is_and_nothing_is_registered_until_it_is_gone() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "garbage").await;
        let group = s.web(2).await;
        let name = ledger_name(&group.arn);
        let garbage: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "headgate.dev/v1alpha1", "kind": "TargetLedger", "metadata": {"name": name},
            "spec": {"targetGroupARN": group.arn, "ipFamily": "IPv4", "registered": ByteString(vec![7; 15])},
        }))
        .unwrap();
        ledgers(&s).create(&PostParams::default(), &garbage).await.unwrap();
        let _headgate = replica(&s).await;
        s.cluster.wait_warning("web", "LedgerUnreadable", &name).await;
        let now = ledgers(&s).get(&name).await.unwrap();
        assert_eq!(now.data["spec"], garbage.data["spec"]);
        assert_eq!(named(&s, "RegisterTargets", &group.name).await, Vec::<String>::new());
        ledgers(&s).delete(&name, &DeleteParams::default()).await.unwrap();
        s.wait_registered(&group, "web", 2, 8080).await;
    });
}

#[test]
fn without_the_kind_target_ledger_it_says_what_to_do_and_goes_on_when_it_is_there() {
    alone(|world| async move {
        let s = Scenario::new(world, "no-kind").await;
        let group = s.web(1).await;
        let kinds: Api<CustomResourceDefinition> = Api::all(s.cluster.client.clone());
        let name = "targetledgers.headgate.dev";
        let kind = kinds.get(name).await.unwrap();
        kinds.delete(name, &DeleteParams::default()).await.unwrap();
        wait::until("the kind is gone", || async {
            if kinds.get_opt(name).await.unwrap().is_none() { Ok(()) } else { Err(()) }
        })
        .await;
        let headgate = replica(&s).await;
        let said = |line: &Value| {
            line["error"].as_str().is_some_and(|error| error.contains("headgate crd | kubectl apply -f -"))
        };
        wait::until("it says what to do", || async {
            if headgate.logged(said).is_empty() { Err(headgate.text()) } else { Ok(()) }
        })
        .await;
        assert_eq!(named(&s, "RegisterTargets", &group.name).await, Vec::<String>::new());
        let again = CustomResourceDefinition { spec: kind.spec, ..CustomResourceDefinition::default() };
        let mut again = again;
        again.metadata.name = Some(name.into());
        kinds.create(&PostParams::default(), &again).await.unwrap();
        s.wait_registered(&group, "web", 1, 8080).await;
    });
}
