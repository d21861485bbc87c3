//! Several replicas: one leads, and its state survives its end.

use std::collections::BTreeSet;

use headgate_harness::{
    cluster::pod_spec,
    headgate::Headgate,
    pods,
    proxy::Proxy,
    rights::{OWN_NAMESPACE, ROLE, grant, let_read_grants, rules_of, service_account},
    scenario::{Scenario, targets},
    shared_world::{alone, beside_others, on},
    wait,
};
use k8s_openapi::{
    ByteString, api::core::v1::Pod,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use localstack_world::Nodes;
use serde_json::{Value, json};

/// A Lease that expires while a test waits.
const QUICK: [&str; 3] = ["--lease-duration=4s", "--lease-renew-deadline=3s", "--lease-retry-period=500ms"];

/// A Lease that outlasts every wait of a test.
const LONG: [&str; 3] = ["--lease-duration=120s", "--lease-renew-deadline=60s", "--lease-retry-period=500ms"];

/// A replica for this test's namespace, ready.
async fn replica(s: &Scenario) -> Headgate {
    replica_through(s, &s.facts().kubeconfig).await
}

async fn replica_through(s: &Scenario, kubeconfig: &std::path::Path) -> Headgate {
    s.headgate_that_sees_all(kubeconfig, &QUICK).await
}

/// Two replicas. The first one leads.
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

/// Waits until the ledger has `count` claims.
async fn wait_noted(s: &Scenario, arn: &str, count: usize) {
    wait::until(&format!("the ledger has {count} claims"), || async {
        let ledger = ledgers(s).get(&ledger_name(arn)).await.map_err(|error| error.to_string())?;
        let bytes: ByteString = serde_json::from_value(ledger.data["spec"]["claims"].clone())
            .map_err(|_| format!("{:?}", ledger.data))?;
        if bytes.0.len() == 16 * count { Ok(()) } else { Err(format!("{:?}", ledger.data)) }
    })
    .await;
}

/// Every target in calls of this action, once per call.
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

/// A pod without a kubelet. The test writes its status.
async fn bare_pod(s: &Scenario, name: &str) {
    let mut spec = pod_spec(&[("http", 8080)]);
    spec["schedulerName"] = "nobody".into();
    s.cluster.create::<Pod>(json!({"metadata": {"name": name}, "spec": spec})).await;
}

/// Writes a kubelet's status of a container that has ended and has not been restarted yet.
async fn write_ended(s: &Scenario, pod: &str, reason: &str, message: &str) {
    let ended = json!({"terminated": {"exitCode": 137, "reason": reason, "message": message}});
    let waits = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    let container = json!({
        "name": "web", "image": "x", "imageID": "x", "ready": false, "restartCount": 1, "state": waits,
        "lastState": ended,
    });
    let status = json!({"status": {"phase": "Running", "containerStatuses": [container]}});
    let pods = s.cluster.api::<Pod>();
    pods.patch_status(pod, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
}

/// A bare, ready pod with the labels of a replica of Headgate.
async fn ready_replica(s: &Scenario, name: &str) {
    let mut spec = pod_spec(&[("http", 8080)]);
    spec["schedulerName"] = "nobody".into();
    let labels = json!({"app": "headgate", "pod-template-hash": name});
    s.cluster.create::<Pod>(json!({"metadata": {"name": name, "labels": labels}, "spec": spec})).await;
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let pods = s.cluster.api::<Pod>();
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn what_proves_that_its_leader_is_dead_lets_a_standby_take_over_at_once_and_nothing_else_does() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "proof").await;
            let group = s.web(2).await;
            grant(&s, "headgate", &rules_of(ROLE)).await;
            grant(&s, "headgate-own-namespace", &rules_of(OWN_NAMESPACE)).await;
            let_read_grants(&s).await;
            let kubeconfig = service_account(&s).await;
            let only = format!("--namespaces={}", s.cluster.namespace);
            let log = s.facts().folder.join(s.name("termination-log"));
            std::fs::write(&log, "").unwrap();
            let leaves = format!("--termination-log={}", log.display());
            let start = async |pod: &'static str, more: &[&str]| {
                let arguments = [&[&*only], &LONG[..], more].concat();
                let named = [("POD_NAME", pod)];
                let headgate = Headgate::start_within(s.facts(), &kubeconfig, &arguments, &named).await;
                wait::until("it is ready", || headgate.probe("/readyz")).await;
                headgate
            };
            let leader = start("lead-a", &[&*leaves]).await;
            leader.wait_leads().await;
            let standby = start("lead-b", &[]).await;
            let identity = std::fs::read_to_string(&log).unwrap();
            assert!(identity.starts_with("lead-a_"), "{identity}");

            bare_pod(&s, "lead-a").await;
            bare_pod(&s, "lead-c").await;
            write_ended(&s, "lead-c", "Error", &identity).await;
            for (reason, message) in
                [("ContainerStatusUnknown", &*identity), ("Error", ""), ("Error", "lead-a_0")]
            {
                write_ended(&s, "lead-a", reason, message).await;
            }
            s.wait_registered(&group, "web", 2, 8080).await;
            assert!(leader.leads().await && !standby.leads().await);
            leader.kill().await;
            write_ended(&s, "lead-a", "Error", &identity).await;
            standby.wait_leads().await;
            s.cluster.scale("web", 1).await;
            s.wait_registered(&group, "web", 1, 8080).await;
            let said = |line: &Value| {
                line["message"]
                    .as_str()
                    .is_some_and(|said| said.contains("container of the leader has terminated"))
            };
            let said = standby.logged(said);
            assert!(said.len() == 1 && said[0]["holder"] == *identity, "{said:?}");
        });
    }

    #[test]
    fn a_leader_that_does_not_reach_aws_gives_the_lease_to_a_replica_that_does() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "unable").await;
            let group = s.web(2).await;
            grant(&s, "headgate", &rules_of(ROLE)).await;
            grant(&s, "headgate-own-namespace", &rules_of(OWN_NAMESPACE)).await;
            let_read_grants(&s).await;
            let kubeconfig = service_account(&s).await;
            let only = format!("--namespaces={}", s.cluster.namespace);
            let arguments = [&[&*only], &LONG[..]].concat();
            let start = async |environment: &[(&str, &str)]| {
                let headgate = Headgate::start_within(s.facts(), &kubeconfig, &arguments, environment).await;
                wait::until("it is ready", || headgate.probe("/readyz")).await;
                headgate
            };
            let nowhere = ("AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2", "http://127.0.0.1:1");
            ready_replica(&s, "lead-a").await;
            let unable = start(&[("POD_NAME", "lead-a"), nowhere]).await;
            unable.wait_leads().await;
            wait::until("it says that it leads on because it is alone", || async {
                let text = unable.probe("/readyz").await?;
                if text.starts_with("ok\nCannotLead, AwsUnreachable") && text.contains("still leader") {
                    Ok(())
                } else {
                    Err(text)
                }
            })
            .await;
            let able = start(&[("POD_NAME", "lead-b")]).await;
            ready_replica(&s, "lead-b").await;
            able.wait_leads().await;
            s.wait_registered(&group, "web", 2, 8080).await;
            let text = unable.probe("/readyz").await.unwrap();
            assert!(text.contains("Lease released; this replica can lead again"), "{text}");
            assert!(unable.probe("/livez").await.unwrap().contains("CannotLead"));
            s.cluster.wait_warning("lead-a", "CannotLead", "Lease released").await;
            let given = "headgate_lease_given_back_total{reason=\"AwsUnreachable\"}";
            assert_eq!(
                (unable.metric(given).await, unable.metric("headgate_cannot_lead").await),
                (Some(1.0), Some(1.0))
            );
            wait::until("it stands by again", || async {
                let text = unable.probe("/readyz").await?;
                if text.contains("CannotLead") { Err(text) } else { Ok(()) }
            })
            .await;
            assert!(able.leads().await && !unable.leads().await);
        });
    }

    #[test]
    fn a_leader_whose_container_is_killed_is_followed_before_its_lease_runs_out_on_real_nodes() {
        on(Nodes::Real, "a leader whose container is killed", |world| async move {
            let s = Scenario::new(world, "killed-pod").await;
            let group = s.web(2).await;
            grant(&s, "headgate", &rules_of(ROLE)).await;
            grant(&s, "headgate-own-namespace", &rules_of(OWN_NAMESPACE)).await;
            service_account(&s).await;
            pods::load_image(s.facts()).await;
            pods::deploy(s.facts(), &s.cluster, 2, &LONG).await;
            s.wait_registered(&group, "web", 2, 8080).await;
            let (pod, first) = pods::holder(&s.cluster, "").await;
            pods::kill(&pod).await;
            pods::holder(&s.cluster, &first).await;
            s.cluster.scale("web", 1).await;
            s.wait_registered(&group, "web", 1, 8080).await;
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
                line["error"]
                    .as_str()
                    .is_some_and(|error| error.contains("headgate crd | kubectl apply -f -"))
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
}
