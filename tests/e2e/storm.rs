//! A thousand evictions at once, while the API server takes its time.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use futures::{StreamExt, future::join_all, stream};
use headgate_harness::{
    aws::Group,
    cluster::{Cluster, client_without_retries, pod_spec},
    evictions::{Answer, try_evict},
    gateway::Gateway,
    headgate::Headgate,
    scenario::Scenario,
    shared_world::alone,
    wait,
    webhook::Configuration,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::PartialObjectMeta,
};
use localstack_world::Facts;
use serde_json::{Value, json};
use tokio::time::sleep;

const PODS: usize = 1000;
const NODES: usize = 50;
const GROUPS: usize = 4;
/// What a PATCH of Headgate takes.
const SLOW: Duration = Duration::from_millis(300);
/// Far more than all notes take on a slow machine.
const NOTED_WITHIN: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Requests of the test at a time while it sets the scene.
const AT_ONCE: usize = 32;

fn pod_name(at: usize) -> String {
    format!("web-{at}")
}

fn app(at: usize) -> String {
    format!("web{}", at % GROUPS)
}

/// Nodes without a kubelet, which take no pods: they are drained.
async fn cordoned_nodes(client: &Client, s: &Scenario) -> Vec<String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let names: Vec<String> = (0..NODES).map(|at| s.name(&format!("node{at}"))).collect();
    for name in &names {
        let node = json!({"metadata": {"name": name}, "spec": {"unschedulable": true}});
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    }
    names
}

/// A pod that nothing runs: the test says what it is.
async fn dry_pod(pods: &Cluster, at: usize, node: &str, ip: &str) {
    let mut spec = pod_spec(&[("http", 8080)]);
    spec["nodeName"] = node.into();
    pods.pod_with(&pod_name(at), &app(at), spec).await;
    let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}});
    let (api, patch) = (pods.api::<Pod>(), Patch::Merge(&status));
    api.patch_status(&pod_name(at), &PatchParams::default(), &patch).await.unwrap();
}

/// What Headgate has written on the pods: who was asked to leave, and who went without having been let go.
struct Written {
    asked: usize,
    went: Vec<String>,
}

async fn written(pods: &Cluster) -> Written {
    let all = pods.api::<Pod>().list_metadata(&ListParams::default()).await.unwrap().items;
    let has = |pod: &PartialObjectMeta<Pod>, word: &str| {
        pod.annotations().contains_key(&format!("headgate.dev/{word}"))
    };
    let went = all.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some() && !has(pod, "may-go"));
    Written {
        asked: all.iter().filter(|pod| has(pod, "leaving")).count(),
        went: went.filter_map(|pod| pod.metadata.name.clone()).collect(),
    }
}

/// What the API server says of the reviews for which it got no answer in time.
fn unasked(facts: &Facts) -> Vec<String> {
    let log = std::fs::read_to_string(facts.logs.join("kube-apiserver.log")).unwrap_or_default();
    log.lines().filter(|line| line.contains("failing open")).map(str::to_owned).collect()
}

#[test]
fn of_a_thousand_evictions_at_once_none_passes_without_its_decision() {
    alone(|world| async move {
        let s = Scenario::new(world, "storm").await;
        let pods = s.cluster.within(&s.name("pods"));
        pods.create_namespace(&pods.namespace, &[(&s.name("mine"), "")]).await;
        let mut groups = Vec::new();
        for at in 0..GROUPS {
            let name = s.name(&app(at));
            let arn = s.aws.create_ip_group(&name, 8080).await;
            let group = Group { name, arn, dns_name: String::new(), listener_port: 0 };
            pods.write_binding(&app(at), &group).await;
            groups.push(group);
        }
        let nodes = cordoned_nodes(&s.cluster.client, &s).await;
        let network = s.facts().vpc_cidr.replace(".0.0/16", "");
        let ips: Vec<String> =
            (0..PODS).map(|at| format!("{network}.{}.{}", 24 + at / 250, at % 250 + 1)).collect();
        let made = stream::iter(0..PODS).map(|at| dry_pod(&pods, at, &nodes[at % NODES], &ips[at]));
        made.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;

        let gateway = Gateway::to(s.cluster.client.clone()).await;
        let serves = format!("--namespace-selector=kubernetes.io/metadata.name={}", pods.namespace);
        let own = format!("--own-namespace={}", s.cluster.namespace);
        let configuration = format!("--webhook-configuration={}", s.name("webhook"));
        let arguments = [
            "--webhook-address=127.0.0.1:0",
            "--webhook-names=127.0.0.1",
            "--nlb-propagation-bound=3s",
            &configuration,
            &serves,
            &own,
        ];
        let headgate = Headgate::start(s.facts(), &gateway.kubeconfig(&s.facts().folder), &arguments).await;
        for (at, group) in groups.iter().enumerate() {
            let targets: BTreeSet<String> =
                ips.iter().skip(at).step_by(GROUPS).map(|ip| format!("{ip}:8080")).collect();
            s.wait_targets(group, &targets).await;
        }
        let configuration = Configuration::install(&s, &[&headgate]).await;
        configuration.wait_trusted().await;
        let client = client_without_retries(s.facts()).await;
        let ask = async |at: usize, options: Value| {
            try_evict(&client, &pods.namespace, &pod_name(at), &options).await
        };
        wait::until("the API server asks about evictions", || async {
            ask(0, json!({"dryRun": ["All"]})).await.unwrap();
            let asked = headgate.logged(|line| line["reason"] == "DryRun");
            if asked.is_empty() { Err("not yet") } else { Ok(()) }
        })
        .await;

        gateway.slow_patches(SLOW);
        let began = Instant::now();
        let answers = join_all((0..PODS).map(|at| ask(at, json!({})))).await;
        let took = began.elapsed();
        let (mut passed, mut odd) = (0, Vec::new());
        for answer in answers {
            match answer {
                Ok(Answer::Done) => passed += 1,
                Ok(Answer::Wait(1..=5, _)) => {}
                other => odd.push(other),
            }
        }
        eprintln!("{PODS} evictions at once: {passed} passed, after {took:?}");
        assert_eq!(passed, 0, "nobody has decided on one of them yet");
        assert!(odd.is_empty(), "{odd:?}");

        // Whoever drains a node asks again and again.
        let (tell, told) = tokio::sync::watch::channel(false);
        let drain = async |at: usize| {
            let mut told = told.clone();
            while !*told.borrow_and_update() {
                let Ok(Answer::Wait(seconds, _)) = ask(at, json!({})).await else { return };
                let retry = Duration::from_secs(seconds.into());
                let _ = tokio::time::timeout(retry, told.wait_for(|all| *all)).await;
            }
        };
        let watch = async {
            // However long that takes, and seldom enough not to be what takes long.
            let asked =
                wait::within(NOTED_WITHIN, "it is noted on all pods that they are to leave", || async {
                    sleep(LOOK_EVERY).await;
                    let written = written(&pods).await;
                    if written.asked == PODS || !written.went.is_empty() {
                        Ok(began.elapsed())
                    } else {
                        Err(written.asked)
                    }
                })
                .await;
            tell.send_replace(true);
            asked
        };
        let (asked, _) = futures::join!(watch, join_all((0..PODS).map(drain)));
        let went = written(&pods).await.went;
        eprintln!("noted after {asked:?}; {} went without a decision", went.len());
        let of_them = |line: &Value| {
            went.iter().any(|pod| line["pod"].as_str().is_some_and(|of| of.ends_with(pod.as_str())))
        };
        assert!(
            went.is_empty(),
            "{went:?} went without having been let go; Headgate: {:#?}; the API server: {:#?}",
            headgate.logged(of_them),
            unasked(s.facts())
        );
        configuration.remove().await;
        let gone = DeleteParams::default().grace_period(0);
        let _ = pods.api::<Pod>().delete_collection(&gone, &ListParams::default()).await;
        let all: Api<Node> = Api::all(s.cluster.client.clone());
        for node in &nodes {
            all.delete(node, &DeleteParams::default()).await.unwrap();
        }
    });
}
