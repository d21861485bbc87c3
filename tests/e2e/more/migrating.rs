//! From the AWS Load Balancer Controller (LBC) to Headgate and back, with `headgate migrate lbc`, under traffic.
//! `headgate_harness::lbc` simulates LBC.

use std::{path::PathBuf, time::Duration};

use headgate::api::TargetBinding;
use headgate_harness::{
    aws::Group,
    cluster::{OWN_GATE, pod_spec},
    headgate::{Headgate, command_as},
    judge,
    lbc::{self, DEPLOYMENT, FINALIZER, Gates, INJECT, Lbc, bind, fewest_healthy, tgbs},
    recorder::{Recorder, now},
    rights,
    scenario::{Scenario, http_port, targets},
    shared_world::{alone, beside_others},
    wait,
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Pod, Service},
};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams},
};
use localstack_load::{Client, Plan, Run, Target};
use serde_json::{Value, json};

/// Longer than the load balancer's nodes keep sending at the local world's time scale, as careful users of LBC
/// configure it.
const SLEEP: u32 = 7;
/// Requests per second.
const RATE: f64 = 100.0;

/// A Service and a Deployment `web` of such pods, bound by LBC to a target group.
async fn bound_by_lbc(s: &Scenario, pods: u32) -> (Group, Lbc) {
    let namespaces: Api<Namespace> = Api::all(s.cluster.client.clone());
    let label = json!({"metadata": {"labels": {INJECT: "enabled"}}});
    namespaces.patch(&s.cluster.namespace, &PatchParams::default(), &Patch::Merge(&label)).await.unwrap();
    let group = s.group("web").await;
    // The scheduler chooses the zones of a rollout's pods. A zone may have none for a while, so its load balancer node
    // would have no target.
    s.aws.set_attribute(&group.arn, "load_balancing.cross_zone.enabled", "true").await;
    let lbc = Lbc::start(s).await;
    s.cluster.service("web", "web", http_port(), None).await;
    bind(&s.cluster, "web", &group.arn).await;
    let mut spec = pod_spec(&[("http", 8080)]);
    spec["terminationGracePeriodSeconds"] = (SLEEP + 30).into();
    spec["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": SLEEP}}});
    s.cluster
        .create::<Deployment>(json!({
            "metadata": {"name": "web"},
            "spec": {
                "replicas": pods,
                "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec},
            },
        }))
        .await;
    let count = usize::try_from(pods).unwrap();
    wait_healthy(s, &group, count).await;
    wait_rolled_out(s).await;
    (group, lbc)
}

async fn wait_healthy(s: &Scenario, group: &Group, count: usize) {
    wait::until(&format!("{count} targets are healthy, and no others there"), || async {
        let targets = s.aws.targets(&group.arn).await;
        let all_healthy = targets.values().all(|state| state == "healthy");
        if targets.len() == count && all_healthy { Ok(()) } else { Err(targets) }
    })
    .await;
}

async fn wait_rolled_out(s: &Scenario) {
    wait::until("all pods are new and ready, and no others there", || async {
        let web = s.cluster.api::<Deployment>().get("web").await.unwrap();
        let (seen, wanted) = (web.metadata.generation, web.spec.and_then(|spec| spec.replicas));
        let status = web.status.unwrap_or_default();
        let pods = s.cluster.count("web").await;
        let done = status.observed_generation == seen
            && [status.updated_replicas, status.available_replicas, status.replicas] == [wanted; 3]
            && i32::try_from(pods).ok() == wanted;
        if done { Ok(()) } else { Err((status, pods)) }
    })
    .await;
}

/// Replaces all pods by pods with these readiness gates in their template.
async fn roll(s: &Scenario, gates: Value) {
    let marked = json!({"annotations": {"rolled": now().to_string()}});
    let template = json!({"metadata": marked, "spec": {"readinessGates": gates}});
    s.cluster.patch::<Deployment>("web", &json!({"spec": {"template": template}})).await;
    wait_rolled_out(s).await;
}

/// A user who runs `headgate migrate lbc` for the namespace of a test.
struct Mover<'a> {
    s: &'a Scenario,
    lbc: &'a Lbc,
    kubeconfig: PathBuf,
}

impl<'a> Mover<'a> {
    /// An administrator.
    fn new(s: &'a Scenario, lbc: &'a Lbc) -> Self {
        Self { s, lbc, kubeconfig: s.facts().kubeconfig.clone() }
    }

    /// A user with only the needed permissions.
    async fn with_few_rights(s: &'a Scenario, lbc: &'a Lbc) -> Self {
        let kubeconfig = rights::of_movers(s, &s.cluster, &lbc.own, &lbc.webhook).await;
        Self { s, lbc, kubeconfig }
    }

    async fn run(&self, headgate: Option<&Headgate>, more: &[&str]) -> (Option<i32>, String) {
        let namespace = &*self.s.cluster.namespace;
        let own = format!("--own-namespace={namespace}");
        // A Headgate that does not run cannot be called.
        let address = headgate.map_or("127.0.0.1:1", Headgate::debug);
        let address = format!("--address={address}");
        let flags = self.lbc.flags();
        let mut arguments = vec!["migrate", "lbc", "-n", namespace, &own, &address];
        arguments.extend(flags.iter().map(String::as_str));
        arguments.extend(more);
        command_as(self.s.facts(), &self.kubeconfig, &arguments).await
    }
}

async fn annotations(s: &Scenario) -> std::collections::BTreeMap<String, String> {
    s.cluster.api::<Service>().get("web").await.unwrap().annotations().clone()
}

async fn tgb(s: &Scenario) -> Option<DynamicObject> {
    tgbs(&s.cluster).get_opt("web").await.unwrap()
}

async fn scale_lbc(lbc: &Lbc, replicas: u32) {
    lbc.own.scale(DEPLOYMENT, replicas).await;
    let count = usize::try_from(replicas).unwrap();
    wait::until_equal("LBC's pods", &count, || lbc.own.count(DEPLOYMENT)).await;
}

async fn ledgers(s: &Scenario) -> usize {
    s.cluster.api::<headgate::api::TargetLedger>().list(&ListParams::default()).await.unwrap().items.len()
}

#[test]
fn over_to_headgate_and_back_to_lbc_no_request_is_lost_and_no_target_goes() {
    // On a busy machine, health checks are answered late.
    alone(|world| async move { Box::pin(over_and_back(&Scenario::new(world, "over").await)).await });
}

async fn over_and_back(s: &Scenario) {
    let recorder = Recorder::start(&s.aws, &s.cluster, "web");
    let (group, lbc) = bound_by_lbc(s, 3).await;
    wait::until("the load balancer sends", || async {
        if s.aws.is_settled(&group.name).await { Ok(()) } else { Err(()) }
    })
    .await;
    let policies = lbc.failure_policies().await;
    let target = Target::Name { name: group.dns_name.clone(), dns: s.facts().dns.parse().unwrap() };
    let clients = vec![Client::default(), Client::pinned(), Client::keep_alive()];
    let timeout = Duration::from_secs(5);
    let load = Run::start(Plan { clients, timeout, ..Plan::new(target, group.listener_port, RATE) }).unwrap();
    let from = now();
    let gates = Gates::watch(&s.cluster);
    let headgate = s.headgate().await;
    headgate.wait_leads().await;
    let mover = Mover::with_few_rights(s, &lbc).await;

    load.mark("dry run");
    let (code, said) = mover.run(Some(&headgate), &[]).await;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches("  Adopted  PodSelected\n").count(), 3, "{said}");
    assert!(
        said.contains("3 pods have LBC's readiness gate") && said.contains("Nothing was changed."),
        "{said}"
    );
    assert!(annotations(s).await.is_empty());

    load.mark("refused while LBC runs");
    let registered = s.aws.registered(&group.arn).await;
    let calls = s.aws.calls("RegisterTargets", &group.name).await;
    let (code, said) = mover.run(Some(&headgate), &["--apply"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("LBC runs (1 pods of Deployment") && said.contains("--stop-lbc"), "{said}");
    assert_eq!(annotations(s).await["headgate.dev/paused"], "true");
    assert_eq!(tgb(s).await.unwrap().finalizers(), [FINALIZER]);
    assert_eq!(s.aws.calls("RegisterTargets", &group.name).await, calls, "Headgate has written nothing");
    let (code, said) = mover.run(Some(&headgate), &["-o=json"]).await;
    assert_eq!(code, Some(1), "what is in the way is in the way of a dry run, too: {said}");
    let report: Value = serde_json::from_str(said.trim()).unwrap();
    let next = report["steps"].as_array().unwrap().iter().find(|step| step["state"] == "refused").unwrap();
    assert_eq!(next["action"], "RelaxWebhooks", "{report:#}");
    assert_eq!(lbc.failure_policies().await, policies);

    load.mark("over");
    let (code, said) = mover.run(Some(&headgate), &["--apply", "--stop-lbc"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("All steps are done."), "{said}");
    assert!(tgb(s).await.is_none());
    assert!(!annotations(s).await.contains_key("headgate.dev/paused"));
    assert_eq!(lbc.failure_policies().await, policies);
    assert_eq!(lbc.own.count(DEPLOYMENT).await, 1, "LBC runs again");
    assert_eq!(s.aws.registered(&group.arn).await, registered);
    assert_eq!(ledgers(s).await, 1);
    let (code, said) = mover.run(Some(&headgate), &["--apply"]).await;
    assert_eq!(code, Some(0), "it may be done again: {said}");

    load.mark("roll with Headgate");
    let before = s.aws.calls("DeregisterTargets", &group.name).await.len();
    assert_eq!(before, 0, "nobody has removed anything so far");
    roll(s, json!([{"conditionType": OWN_GATE}])).await;
    wait_healthy(s, &group, 3).await;
    assert_eq!(s.aws.registered(&group.arn).await, targets(&s.cluster.running("web").await, 8080));

    load.mark("back");
    let registered = s.aws.registered(&group.arn).await;
    let removed = s.aws.calls("DeregisterTargets", &group.name).await.len();
    let (code, said) = mover.run(Some(&headgate), &["--back"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(tgb(s).await.is_none(), "a dry run");
    let (code, said) = mover.run(Some(&headgate), &["--back", "--apply"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("holds Headgate's Lease") && said.contains("--stop-headgate"), "{said}");
    assert_eq!(tgb(s).await.unwrap().finalizers(), [FINALIZER]);
    assert_eq!(annotations(s).await["headgate.dev/paused"], "true");
    headgate.terminate().await;
    let (code, said) = mover.run(None, &["--back", "--apply"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(annotations(s).await, std::collections::BTreeMap::new());
    assert_eq!(ledgers(s).await, 0);
    let headgate = s.headgate().await;
    headgate.wait_leads().await;
    assert_eq!(s.aws.registered(&group.arn).await, registered);
    let so_far = s.aws.calls("DeregisterTargets", &group.name).await.len();
    assert_eq!(so_far, removed, "nobody has removed anything on the way back");

    load.mark("roll with LBC");
    roll(s, Value::Null).await;
    wait_healthy(s, &group, 3).await;
    assert_eq!(s.aws.registered(&group.arn).await, targets(&s.cluster.running("web").await, 8080));
    headgate.terminate().await;

    let report = load.stop().await.unwrap();
    let record = recorder.stop().await;
    let found = judge::examine(&record, &judge::lost(&report));
    assert_eq!(report.counts.lost, 0, "{report}\n{:?}\n{:#?}", found.unhealthy_alive, found.lost);
    assert!(report.counts.offered > 1_000, "{report}");
    assert_eq!(record.dropped, 0);
    assert!(fewest_healthy(&record, &group.name, from, now()) >= 3, "never fewer than before");
    assert_eq!(gates.closed(), Vec::<String>::new());
    lbc.remove().await;
}

#[test]
fn who_stops_lbc_by_hand_goes_on_from_there_and_no_gate_stays_closed() {
    beside_others(|world| async move { Box::pin(by_hand(&Scenario::new(world, "by-hand").await)).await });
}

async fn by_hand(s: &Scenario) {
    let (group, lbc) = bound_by_lbc(s, 2).await;
    let headgate = s.headgate().await;
    headgate.wait_leads().await;
    let (to, mover) = ("--to=targetbinding", Mover::new(s, &lbc));
    let (code, said) = mover.run(Some(&headgate), &[to, "--apply"]).await;
    assert!(code == Some(1) && said.contains("LBC runs"), "{said}");
    let written = s.cluster.api::<TargetBinding>().get("web").await.unwrap();
    assert_eq!(written.spec.paused, Some(true));
    assert!(annotations(s).await.is_empty());

    scale_lbc(&lbc, 0).await;
    wait::until("nobody answers for LBC, so that its binding cannot be changed", || async {
        let bare = Patch::Merge(json!({"metadata": {"labels": {"tried": now().to_string()}}}));
        match tgbs(&s.cluster).patch("web", &PatchParams::default(), &bare).await {
            Err(kube::Error::Api(status)) if status.message.contains("targetgroupbinding.elbv2.k8s.aws") => {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // A pod whose gate LBC should have opened.
    let mut late = pod_spec(&[("http", 8080)]);
    late["readinessGates"] = json!([{"conditionType": "target-health.elbv2.k8s.aws/web"}]);
    s.cluster.pod_with("late", "web", late).await;
    s.cluster.wait_running("web", 3).await;

    let (code, said) = mover.run(Some(&headgate), &[to, "--apply", "--leave-lbc-stopped"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(tgb(s).await.is_none());
    wait_healthy(s, &group, 3).await;
    let late = s.cluster.api::<Pod>().get("late").await.unwrap();
    let gate = late.status.unwrap().conditions.unwrap();
    let gate = gate.iter().find(|one| one.type_ == "target-health.elbv2.k8s.aws/web").unwrap();
    assert_eq!((&*gate.status, gate.reason.as_deref()), ("True", Some("MovedToHeadgate")));
    assert_eq!(s.cluster.api::<TargetBinding>().get("web").await.unwrap().spec.paused, None);
    assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);

    // LBC runs again: its webhooks are as before, and the target group is Headgate's.
    scale_lbc(&lbc, 1).await;
    let (code, said) = mover.run(Some(&headgate), &["--apply"]).await;
    assert_eq!(code, Some(0), "{said}");
    let strict = lbc.failure_policies().await.into_values().filter(|policy| policy == "Fail").count();
    assert_eq!(strict, 2);
    assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);

    // Back to LBC, from a TargetBinding.
    s.cluster.end_pod("late").await;
    s.wait_quiet("web", 2).await;
    wait_registered_alone(s, &group).await;
    let (code, said) = mover.run(Some(&headgate), &["--back", "--apply"]).await;
    assert!(code == Some(1) && said.contains("--stop-headgate"), "{said}");
    headgate.terminate().await;
    let registered = s.aws.registered(&group.arn).await;
    let (code, said) = mover.run(None, &["--back", "--apply"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(s.cluster.api::<TargetBinding>().get_opt("web").await.unwrap().is_none());
    assert_eq!(s.aws.registered(&group.arn).await, registered);
    assert!(lbc::tgbs(&s.cluster).get("web").await.unwrap().finalizers().contains(&FINALIZER.to_owned()));
    lbc.remove().await;
}

/// Waits until exactly the running pods are the targets.
async fn wait_registered_alone(s: &Scenario, group: &Group) {
    let running = s.cluster.running("web").await;
    s.wait_targets(group, &targets(&running, 8080)).await;
}
