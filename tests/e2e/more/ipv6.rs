//! Pods with IPv6 addresses, alone or in addition to IPv4, and target groups for them.

use std::{collections::BTreeSet, net::IpAddr};

use headgate_harness::{
    aws::Group,
    cluster::{OWN_GATE, pod_spec},
    http,
    scenario::{Scenario, http_port},
    shared_world::on,
    wait,
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod, node::v1::RuntimeClass};
use kube::{Api, api::PostParams};
use localstack_world::Nodes;
use serde_json::json;

/// A Deployment whose pods have the readiness gate and this runtime class's address families.
async fn deploy(s: &Scenario, app: &str, class: &str) {
    let mut spec = pod_spec(&[("http", 8080)]);
    spec["runtimeClassName"] = class.into();
    spec["readinessGates"] = json!([{"conditionType": OWN_GATE}]);
    let labels = json!({"app": app});
    s.cluster
        .create::<Deployment>(json!({
            "metadata": {"name": app},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
        }))
        .await;
}

/// The addresses of an app's running pods, of both families.
async fn addresses(s: &Scenario, app: &str) -> Vec<IpAddr> {
    let alive = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
    let pods = s.cluster.pods_of(app).await.into_iter().filter(alive);
    let ips = pods.flat_map(|pod| pod.status.and_then(|status| status.pod_ips).unwrap_or_default());
    ips.map(|ip| ip.ip.parse().unwrap()).collect()
}

/// Waits until a group has exactly the addresses of its family, all of them healthy.
async fn wait_healthy(s: &Scenario, group: &Group, app: &str, is_of_it: fn(&IpAddr) -> bool) {
    wait::until(&format!("{} has the pods of {app}", group.name), || async {
        let ips = addresses(s, app).await.into_iter().filter(is_of_it);
        let wanted: BTreeSet<_> = ips.map(|ip| (format!("{ip}:8080"), "healthy".to_owned())).collect();
        let mut targets: BTreeSet<_> = s.aws.targets(&group.arn).await.into_iter().collect();
        targets.retain(|(_, state)| state != "draining");
        if wanted.len() == 2 && targets == wanted { Ok(()) } else { Err((targets, wanted)) }
    })
    .await;
}

/// Waits until both pods have answered through the load balancer.
async fn wait_served(s: &Scenario, group: &Group, app: &str) {
    wait::until(&format!("both pods answer through {}", group.name), || async {
        let pods: BTreeSet<_> =
            s.cluster.pods_of(app).await.into_iter().filter_map(|pod| pod.metadata.name).collect();
        let mut seen = BTreeSet::new();
        for node in headgate_harness::dns::resolve(s.facts(), &group.dns_name).await {
            for _ in 0..10 {
                let address = format!("{node}:{}", group.listener_port);
                let (_, said) = http::request("GET", &address, "/", None).await?;
                let said: serde_json::Value =
                    serde_json::from_str(&said).map_err(|error| error.to_string())?;
                seen.insert(said["pod"].as_str().unwrap_or_default().to_owned());
            }
        }
        if seen == pods && pods.len() == 2 { Ok(()) } else { Err(format!("{seen:?} of {pods:?}")) }
    })
    .await;
}

#[test]
fn pods_with_ipv6_addresses_are_targets_of_ipv6_groups_and_serve_on_real_nodes() {
    on(Nodes::Real, "pods with IPv6 addresses", |world| async move {
        let s = Scenario::new(world, "ipv6").await;
        let classes: Api<RuntimeClass> = Api::all(s.cluster.client.clone());
        for handler in ["dual-stack", "ipv6"] {
            let class = json!({"metadata": {"name": s.name(handler)}, "handler": handler});
            classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
        }
        let (v4, v6, alone) = (s.group("v4").await, s.ipv6_group("v6").await, s.ipv6_group("alone").await);
        deploy(&s, "both", &s.name("dual-stack")).await;
        deploy(&s, "alone", &s.name("ipv6")).await;
        s.cluster
            .service("both", "both", http_port(), Some(&format!("http={},http={}", v4.name, v6.name)))
            .await;
        s.cluster.service("alone", "alone", http_port(), Some(&alone.name)).await;
        let headgate = s.headgate().await;

        wait_healthy(&s, &v4, "both", IpAddr::is_ipv4).await;
        wait_healthy(&s, &v6, "both", IpAddr::is_ipv6).await;
        wait_healthy(&s, &alone, "alone", |_| true).await;
        assert!(addresses(&s, "alone").await.iter().all(IpAddr::is_ipv6), "they have no other address");
        for (app, groups) in [("both", &[&v4, &v6][..]), ("alone", &[&alone])] {
            // A pod with two targets needs both to be healthy.
            s.cluster.wait_gates(app, 2, "True", "TargetsHealthy").await;
            for group in groups {
                wait_served(&s, group, app).await;
            }
        }

        for app in ["both", "alone"] {
            s.cluster.restart(app).await;
        }
        let known: BTreeSet<_> = addresses(&s, "both").await.into_iter().collect();
        wait::until("new pods have taken the place of all", || async {
            let now: BTreeSet<_> = addresses(&s, "both").await.into_iter().collect();
            if now.len() == 4 && now.is_disjoint(&known) { Ok(()) } else { Err(now) }
        })
        .await;
        wait_healthy(&s, &v4, "both", IpAddr::is_ipv4).await;
        wait_healthy(&s, &v6, "both", IpAddr::is_ipv6).await;
        wait_healthy(&s, &alone, "alone", |_| true).await;
        drop(headgate);
        for handler in ["dual-stack", "ipv6"] {
            classes.delete(&s.name(handler), &kube::api::DeleteParams::default()).await.unwrap();
        }
    });
}
