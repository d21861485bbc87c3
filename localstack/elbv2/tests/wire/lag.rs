//! Propagation delays, the purpose of this stand-in: after the API has answered, each node keeps sending for its own
//! time.

use std::net::{IpAddr, SocketAddr};

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use serde_json::{Value, json};

use crate::nlb::ask;
use crate::pod::Pod;
use crate::stand::{Kind, Stand};

/// RFC 3339 in UTC with microseconds sorts as text.
fn at<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry[key].as_str().unwrap()
}

/// Checks for each node when it stopped sending to the target, and what it sent there after the deregistration.
async fn check_tail(stand: &Stand, leaving: SocketAddr) {
    let calls = stand.trace("call").await;
    let answered = calls.iter().find(|call| call["action"] == "DeregisterTargets").unwrap();
    let answered = at(answered, "answered");
    let routes = stand.trace("route").await;
    let connections = stand.trace("connection").await;
    let mut stops = Vec::new();
    for node in stand.nodes().await {
        let of_node =
            |entry: &&Value| entry["node"] == node.to_string() && entry["target"] == leaving.to_string();
        let stopped =
            routes.iter().filter(of_node).find(|route| route["routing"] == false).expect("the node stopped");
        let tail: Vec<&Value> =
            connections.iter().filter(of_node).filter(|sent| at(sent, "opened") > answered).collect();
        assert!(!tail.is_empty(), "{node} sent nothing after the deregistration had been answered");
        for sent in tail {
            assert!(at(sent, "opened") <= at(stopped, "at"), "{node} sent after it had stopped: {sent}");
            assert_eq!(sent["outcome"], "ok");
        }
        stops.push(at(stopped, "at"));
    }
    stops.sort_unstable();
    stops.dedup();
    assert_eq!(stops.len(), 3, "each node stops at a time of its own");
}

/// Much longer than a busy machine takes to send a few requests: one to three seconds.
async fn slow_deregistration(stand: &Stand) {
    let lag = json!({"deregistration": [100, 300]});
    stand.control("PATCH", "/settings", Some(json!({"network": lag, "application": lag}))).await;
}

async fn two_pods(stand: &Stand, group: &str) -> (Pod, Pod) {
    let pods = (Pod::start((stand.ip(0, 10), 8080)).await, Pod::start((stand.ip(1, 10), 8080)).await);
    stand.register(group, &[pods.0.at, pods.1.at]).await;
    stand.until_settled().await;
    pods
}

async fn still_routed(stand: &Stand, target: SocketAddr) -> bool {
    let balancers = stand.control("GET", "/load-balancers", None).await;
    let nodes = balancers[0]["target_groups"][0]["nodes"].as_array().unwrap().clone();
    nodes.iter().any(|node| node["routes"].as_array().unwrap().contains(&target.to_string().into()))
}

#[tokio::test]
async fn row_05_new_connections_reach_a_deregistered_target_until_each_node_has_learned() {
    let stand = Stand::new().await;
    stand.prompt().await;
    slow_deregistration(&stand).await;
    let (_, group) = stand.edge(Kind::Network).await;
    stand.group_attribute(&group, "load_balancing.cross_zone.enabled", "true").await;
    let (leaving, _staying) = two_pods(&stand, &group).await;
    let nodes: Vec<IpAddr> = stand.nodes().await;
    stand.deregister(&group, &[leaving.at]).await;
    let mut lost = 0;
    while still_routed(&stand, leaving.at).await {
        for node in &nodes {
            for _ in 0..8 {
                lost += usize::from(ask(SocketAddr::new(*node, 8000)).await.is_none());
            }
        }
    }
    assert_eq!(lost, 0, "the pod was alive all the time");
    check_tail(&stand, leaving.at).await;
    let before = leaving.requests();
    for node in nodes {
        for _ in 0..20 {
            assert!(ask(SocketAddr::new(node, 8000)).await.is_some());
        }
    }
    assert_eq!(leaving.requests(), before, "and then it stops");
}

#[tokio::test]
async fn row_05_requests_on_kept_alive_connections_reach_a_deregistered_target_until_each_node_has_learned() {
    let stand = Stand::new().await;
    stand.prompt().await;
    slow_deregistration(&stand).await;
    let (_, group) = stand.edge(Kind::Application).await;
    let (leaving, _staying) = two_pods(&stand, &group).await;
    let nodes: Vec<IpAddr> = stand.nodes().await;
    let get = async |node: IpAddr| {
        let request = Request::get(format!("http://{node}:8000/")).body(Full::<Bytes>::default()).unwrap();
        let response = stand.http.request(request).await.unwrap();
        let status = response.status().as_u16();
        response.into_body().collect().await.unwrap();
        status
    };
    for node in &nodes {
        for _ in 0..4 {
            assert_eq!(get(*node).await, 200);
        }
    }
    stand.deregister(&group, &[leaving.at]).await;
    while still_routed(&stand, leaving.at).await {
        for node in &nodes {
            for _ in 0..2 {
                assert_eq!(get(*node).await, 200);
            }
        }
    }
    check_tail(&stand, leaving.at).await;
    let before = leaving.requests();
    for node in nodes {
        for _ in 0..20 {
            assert_eq!(get(node).await, 200);
        }
    }
    assert_eq!(leaving.requests(), before, "no idle connection is used again");
}

#[tokio::test]
async fn row_05_a_pod_that_ends_with_its_deregistration_loses_connections() {
    let stand = Stand::new().await;
    stand.prompt().await;
    slow_deregistration(&stand).await;
    let (_, group) = stand.edge(Kind::Network).await;
    stand.group_attribute(&group, "load_balancing.cross_zone.enabled", "true").await;
    let (leaving, _staying) = two_pods(&stand, &group).await;
    let gone = leaving.at;
    let nodes = stand.nodes().await;
    stand.deregister(&group, &[gone]).await;
    drop(leaving);
    let mut lost = 0;
    while lost == 0 && still_routed(&stand, gone).await {
        for node in &nodes {
            lost += usize::from(ask(SocketAddr::new(*node, 8000)).await.is_none());
        }
    }
    assert!(lost > 0, "a stand-in that hides this loss proves nothing");
}

#[tokio::test]
async fn a_group_can_have_ranges_of_its_own() {
    let stand = Stand::new().await;
    stand.prompt().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let (leaving, _staying) = two_pods(&stand, &group).await;
    let never = json!({"deregistration": [80_000, 80_000]});
    stand.control("PATCH", "/target-groups/web/settings", Some(never)).await;
    stand.deregister(&group, &[leaving.at]).await;
    stand.group_attribute(&group, "deregistration_delay.timeout_seconds", "0").await;
    assert!(still_routed(&stand, leaving.at).await);
    assert_eq!(stand.health(&group, leaving.at).await, "draining/Target.DeregistrationInProgress");
}
