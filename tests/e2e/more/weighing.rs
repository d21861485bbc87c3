//! From another controller to Headgate by the weights of a listener. The commands of docs/guides/from-hostport.md are
//! typed as printed, under traffic. The test plays the other controller: it registers its targets.

use std::time::Duration;

use aws_sdk_elasticloadbalancingv2::types::{LoadBalancerTypeEnum, ProtocolEnum};
use headgate_harness::{
    aws::Group,
    cluster::pod_spec,
    daemonsets::IngressDaemonSet,
    headgate::Headgate,
    scenario::{Scenario, http_port},
    shared_world::beside_others,
    typed::{Terminal, blocks, has_aws_cli, page},
    wait,
};
use k8s_openapi::{api::apps::v1::DaemonSet, jiff::Timestamp};
use kube::api::DeleteParams;
use localstack_load::{Client, Plan, Run, Target};
use serde_json::{Value, json};

/// A terminal in which kubectl uses the namespace of the test, like a context with that namespace.
async fn terminal(s: &Scenario, variables: &[(&str, &str)]) -> Terminal {
    let mut terminal = Terminal::in_world(s.facts(), variables);
    let own = format!("kubectl() {{ command kubectl --namespace {} \"$@\"; }}", s.cluster.namespace);
    assert_eq!(terminal.run(&own).await.1, 0);
    terminal
}

/// Waits until each node of the load balancer acts on the state that the API shows.
async fn settled(s: &Scenario, name: &str) {
    wait::until("the load balancer acts on it", || async {
        if s.aws.is_settled(name).await { Ok(()) } else { Err(()) }
    })
    .await;
}

async fn wait_healthy(s: &Scenario, arn: &str, count: usize) {
    wait::until("the targets are healthy", || async {
        let targets = s.aws.targets(arn).await;
        let healthy = targets.values().filter(|state| *state == "healthy").count();
        if healthy == count && targets.len() == count { Ok(()) } else { Err(targets) }
    })
    .await;
}

/// The old workload: a pod with hostPort on each node. Returns the number of pods.
async fn deploy_old(s: &Scenario) -> usize {
    let mut spec = on_every_node();
    spec["containers"][0]["ports"][0]["hostPort"] = 8080.into();
    let labels = json!({"app": "old"});
    s.cluster
        .create::<DaemonSet>(json!({
            "metadata": {"name": "old"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }))
        .await;
    nodes(s)
}

/// The new workload: two pods on each node. Returns the number of pods.
async fn deploy_new(s: &Scenario) -> usize {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": on_every_node()});
    s.cluster
        .create::<IngressDaemonSet>(json!({
            "apiVersion": "headgate.dev/v1alpha1", "kind": "IngressDaemonSet", "metadata": {"name": "web"},
            "spec": {"podsPerNode": 2, "template": template},
        }))
        .await;
    2 * nodes(s)
}

async fn end_old(s: &Scenario) {
    s.cluster.api::<DaemonSet>().delete("old", &DeleteParams::background()).await.unwrap();
    wait::until_equal("the old pods are gone", &0, || s.cluster.count("old")).await;
}

fn nodes(s: &Scenario) -> usize {
    s.facts().zones.iter().map(|zone| zone.nodes.len()).sum()
}

/// A node selector for every node that has a kubelet.
fn on_every_node() -> Value {
    let mut spec = pod_spec(&[("http", 8080)]);
    spec["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
    spec
}

/// Runs the page behind a load balancer of a kind.
async fn play(s: &Scenario, kind: LoadBalancerTypeEnum, protocol: ProtocolEnum, port: u16) {
    let balancer = s.name("lb");
    let (balancer_arn, dns_name) = s.aws.balancer(&balancer, kind).await;
    let (old_name, new_name) = (s.name("old"), s.name("new"));
    let old = s.aws.create_ip_group_as(&old_name, protocol.clone(), 8080).await;
    s.aws.listen_as(&balancer_arn, protocol.clone(), port, &old).await;
    let listeners =
        s.aws.client().describe_listeners().load_balancer_arn(&balancer_arn).send().await.unwrap();
    let listener = listeners.listeners()[0].listener_arn().unwrap().to_owned();
    let count = deploy_old(s).await;
    let old_pods = s.cluster.wait_running("old", count).await;
    for ip in old_pods.values() {
        s.aws.register_by_hand(&old, &format!("{ip}:8080")).await;
    }
    wait_healthy(s, &old, count).await;
    settled(s, &balancer).await;
    let count = deploy_new(s).await;
    s.cluster.service("web", "web", http_port(), None).await;
    let headgate = s.headgate().await;
    let only = format!("--namespaces={}", s.cluster.namespace);
    let of_sets = Headgate::start_daemonsets(s.facts(), &s.facts().kubeconfig, &[&only]).await;

    let target = Target::Name { name: dns_name.clone(), dns: s.facts().dns.parse().unwrap() };
    let clients = vec![Client::default(), Client::keep_alive()];
    let load =
        Run::start(Plan { clients, timeout: Duration::from_secs(5), ..Plan::new(target, port, 100.0) })
            .unwrap();
    let variables = [
        ("NAME", &*new_name),
        ("VPC", &s.facts().vpc),
        ("PROTOCOL", protocol.as_str()),
        ("LISTENER", &listener),
        ("OLD", &old),
        ("SERVICE", "web"),
    ];
    let mut terminal = terminal(s, &variables).await;
    let commands = blocks(&page("guides/from-hostport.md", None)).concat();
    let [make, beside, annotate, half, all, alone] = &commands[..] else {
        panic!("expected 6 commands: {commands:#?}")
    };
    terminal.follow(make).await;
    let new = s.aws.client().describe_target_groups().names(&new_name).send().await.unwrap();
    let new = Group {
        name: new_name.clone(),
        arn: new.target_groups()[0].target_group_arn().unwrap().to_owned(),
        dns_name,
        listener_port: port,
    };
    terminal.follow(beside).await;
    terminal.follow(annotate).await;
    s.wait_registered(&new, "web", count, 8080).await;
    wait_healthy(s, &new.arn, count).await;
    settled(s, &balancer).await;
    // When the target of each ended connection or request was chosen.
    let connections = async |group: &str| -> Vec<Timestamp> {
        let trace = s.aws.control("GET", "/trace?since=0", None).await;
        let entries = trace["entries"].as_array().unwrap().iter();
        let its = entries.filter(|entry| entry["kind"] == "connection" && entry["target_group"] == group);
        its.map(|entry| entry["opened"].as_str().unwrap().parse().unwrap()).collect()
    };
    assert_eq!(connections(&new_name).await, [], "weight 0 gets nothing");
    for step in [half, all] {
        terminal.follow(step).await;
        settled(s, &balancer).await;
        wait::until("the new pods get traffic", || async {
            let count = connections(&new_name).await.len();
            if count > 20 { Ok(()) } else { Err(count) }
        })
        .await;
    }
    terminal.follow(alone).await;
    settled(s, &balancer).await;
    let moved = Timestamp::now();
    for ip in old_pods.values() {
        s.aws.deregister_by_hand(&old, &format!("{ip}:8080")).await;
    }
    // Long connections to them are still open behind the NLB, and end with them.
    end_old(s).await;
    let before = connections(&new_name).await.len();
    wait::until("the new pods go on alone", || async {
        let count = connections(&new_name).await.len();
        if count > before + 50 { Ok(()) } else { Err(count) }
    })
    .await;
    let report = load.stop().await.unwrap();
    assert_eq!(report.counts.lost, 0, "{report}");
    let old = connections(&old_name).await;
    assert!(old.iter().all(|opened| *opened <= moved), "only those that were open have ended since");
    headgate.terminate().await;
    // Its budget would block other tests' drains.
    let api = s.cluster.api::<IngressDaemonSet>();
    api.delete("web", &DeleteParams::background()).await.unwrap();
    wait::until_equal("its pods go with the set", &0, || s.cluster.count("web")).await;
    of_sets.terminate().await;
}

#[test]
fn by_weights_from_a_daemon_set_with_host_port_to_two_pods_on_every_node_no_request_is_lost() {
    if !has_aws_cli() {
        eprintln!("there is no AWS CLI here: docs/guides/from-hostport.md is not tested");
        return;
    }
    beside_others(|world| async move {
        let s = Scenario::new(world, "weights-ids").await;
        Box::pin(play(&s, LoadBalancerTypeEnum::Network, ProtocolEnum::Tcp, 30_003)).await;
    });
}
