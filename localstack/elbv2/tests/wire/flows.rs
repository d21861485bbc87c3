//! What happens to open connections through a Network Load Balancer.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use aws_sdk_elasticloadbalancingv2::types::{ListenerAttribute, ProtocolEnum};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::nlb::exchange;
use crate::pod::Pod;
use crate::stand::{Kind, PATIENCE, Stand, code};

/// A load balancer without delays, with targets in the first zone that decide on their own health.
async fn with_pods(stand: &Stand, count: u8) -> (String, Vec<Pod>) {
    stand.set(json!({"profile": "instant"})).await;
    let (_, group) = stand.edge(Kind::Network).await;
    let change = stand.aws.modify_target_group().target_group_arn(&group);
    change.health_check_protocol(ProtocolEnum::Http).health_check_path("/health").send().await.unwrap();
    let mut pods = Vec::new();
    for n in 0..count {
        pods.push(Pod::start((stand.ip(0, 10 + n), 8080)).await);
    }
    stand.register(&group, &pods.iter().map(|pod| pod.at).collect::<Vec<_>>()).await;
    stand.until_settled().await;
    (group, pods)
}

/// Opens connections, at least one to each pod. The client does not see which pod a connection has.
async fn flows(stand: &Stand, pods: &[Pod]) -> Vec<TcpStream> {
    let node = SocketAddr::new(stand.nodes().await[0], 8000);
    let mut flows = Vec::new();
    while pods.iter().any(|pod| pod.connections() == 0) {
        let mut stream = TcpStream::connect(node).await.unwrap();
        assert!(exchange(&mut stream).await.is_some());
        flows.push(stream);
    }
    flows
}

/// How many of them still carry data.
async fn alive(flows: &mut [TcpStream]) -> usize {
    let mut alive = 0;
    for flow in flows {
        alive += usize::from(exchange(flow).await.is_some());
    }
    alive
}

async fn terminated(stand: &Stand) -> usize {
    stand.trace("connection").await.iter().filter(|entry| entry["outcome"] == "terminated").count()
}

#[tokio::test]
async fn row_07_flows_are_reset_at_the_end_of_draining_where_the_attribute_says_so() {
    let stand = Stand::new().await;
    let (group, pods) = with_pods(&stand, 1).await;
    stand.group_attribute(&group, "deregistration_delay.connection_termination.enabled", "true").await;
    stand.group_attribute(&group, "deregistration_delay.timeout_seconds", "300").await;
    let mut flows = flows(&stand, &pods).await;
    stand.deregister(&group, &[pods[0].at]).await;
    assert_eq!(alive(&mut flows).await, flows.len(), "not before the end");
    stand.until_health(&group, pods[0].at, "unused/Target.NotRegistered").await;
    assert_eq!(alive(&mut flows).await, 0);
    assert_eq!(terminated(&stand).await, flows.len());
}

#[tokio::test]
async fn row_08_flows_of_a_target_that_turns_unhealthy_are_reset_and_others_are_not() {
    let stand = Stand::new().await;
    let (group, pods) = with_pods(&stand, 2).await;
    let mut flows = flows(&stand, &pods).await;
    let ill = pods[0].connections();
    pods[0].fall_ill();
    stand.until_health(&group, pods[0].at, "unhealthy/Target.FailedHealthChecks").await;
    stand.until_settled().await;
    assert_eq!(alive(&mut flows).await, flows.len() - ill);
    assert_eq!(terminated(&stand).await, ill);
}

#[tokio::test]
async fn row_08_flows_of_an_unhealthy_target_are_kept_where_the_attribute_says_so() {
    let stand = Stand::new().await;
    let (group, pods) = with_pods(&stand, 2).await;
    let set = async |key: &str, value: &str| stand.group_attribute(&group, key, value).await;
    set("target_health_state.unhealthy.connection_termination.enabled", "false").await;
    set("target_health_state.unhealthy.draining_interval_seconds", "360000").await;
    let mut flows = flows(&stand, &pods).await;
    pods[0].fall_ill();
    stand.until_health(&group, pods[0].at, "unhealthy.draining/Target.FailedHealthChecks").await;
    stand.until_settled().await;
    assert_eq!(alive(&mut flows).await, flows.len());
    let before = pods[0].connections();
    let node = SocketAddr::new(stand.nodes().await[0], 8000);
    for _ in 0..20 {
        let mut stream = TcpStream::connect(node).await.unwrap();
        assert!(exchange(&mut stream).await.is_some());
    }
    assert_eq!(pods[0].connections(), before, "no new connection to it");
    pods[0].recover();
    stand.until_health(&group, pods[0].at, "healthy").await;
}

#[tokio::test]
async fn row_08_the_last_target_of_a_zone_keeps_its_flows_and_gets_new_ones_when_it_turns_unhealthy() {
    let stand = Stand::new().await;
    let (group, pods) = with_pods(&stand, 1).await;
    let mut flows = flows(&stand, &pods).await;
    pods[0].fall_ill();
    stand.until_health(&group, pods[0].at, "unhealthy/Target.FailedHealthChecks").await;
    stand.until_settled().await;
    assert_eq!(alive(&mut flows).await, flows.len());
    let mut new = TcpStream::connect(SocketAddr::new(stand.nodes().await[0], 8000)).await.unwrap();
    assert!(exchange(&mut new).await.is_some());
}

#[tokio::test]
async fn row_11_old_flows_are_reset_by_the_next_owner_of_the_address_where_the_switch_says_so() {
    for (switch, kept) in [("keep", 1), ("reset", 0)] {
        let stand = Stand::new().await;
        let (group, pods) = with_pods(&stand, 1).await;
        stand.control("PATCH", "/target-groups/web/settings", Some(json!({"on_reuse": switch}))).await;
        stand.group_attribute(&group, "deregistration_delay.timeout_seconds", "0").await;
        let mut flow = flows(&stand, &pods).await.remove(0);
        stand.deregister(&group, &[pods[0].at]).await;
        stand.until_health(&group, pods[0].at, "unused/Target.NotRegistered").await;
        stand.register(&group, &[pods[0].at]).await;
        stand.until_health(&group, pods[0].at, "healthy").await;
        assert_eq!(alive(std::slice::from_mut(&mut flow)).await, kept, "{switch}");
        stand.running.shutdown().await;
    }
}

#[tokio::test]
async fn row_11_a_draining_target_can_be_revived_ignored_or_rejected() {
    let stand = Stand::new().await;
    let (group, pods) = with_pods(&stand, 1).await;
    let target = pods[0].at;
    stand.deregister(&group, &[target]).await;
    let draining = "draining/Target.DeregistrationInProgress";
    let mode = async |mode: &str| {
        stand.control("PATCH", "/target-groups/web/settings", Some(json!({"on_draining": mode}))).await;
    };
    mode("reject").await;
    let call = stand.aws.register_targets().target_group_arn(&group).targets(crate::stand::describe(&target));
    assert_eq!(code(call.send().await), "ValidationError");
    mode("ignore").await;
    stand.register(&group, &[target]).await;
    assert_eq!(stand.health(&group, target).await, draining);
    mode("revive").await;
    stand.register(&group, &[target]).await;
    assert_ne!(stand.health(&group, target).await, draining);
    stand.until_health(&group, target, "healthy").await;
}

#[tokio::test]
async fn row_18_an_idle_flow_is_forgotten_in_silence_and_reset_when_somebody_speaks() {
    let stand = Stand::new().await;
    let (_, pods) = with_pods(&stand, 1).await;
    let listeners = stand.aws.describe_load_balancers().send().await.unwrap();
    let balancer = listeners.load_balancers()[0].load_balancer_arn().unwrap();
    let listeners = stand.aws.describe_listeners().load_balancer_arn(balancer).send().await.unwrap();
    let shortest = ListenerAttribute::builder().key("tcp.idle_timeout.seconds").value("60").build();
    let listener = listeners.listeners()[0].listener_arn().unwrap();
    let call = stand.aws.modify_listener_attributes().listener_arn(listener).attributes(shortest);
    call.send().await.unwrap();
    let mut flow = flows(&stand, &pods).await.remove(0);
    // Longer than the timeout, which is at least one real second.
    let silence = timeout(Duration::from_secs(3), flow.read_u8()).await;
    assert!(silence.is_err(), "{silence:?}");
    assert_eq!(exchange(&mut flow).await, None);
    stand
        .until("the flow is traced", async |stand| {
            stand.trace("connection").await.iter().any(|entry| entry["outcome"] == "idle")
        })
        .await;
}

/// A connection from a given client address.
async fn connect_from(source: IpAddr, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(source, 0)).unwrap();
    socket.connect(to).await.unwrap()
}

#[tokio::test]
async fn row_18_a_preserved_client_address_reaches_the_target_and_hairpins_time_out() {
    let stand = Stand::new().await;
    stand.set(json!({"profile": "instant"})).await;
    let (_, group) = stand.edge(Kind::Network).await;
    stand.group_attribute(&group, "preserve_client_ip.enabled", "true").await;
    let target = TcpListener::bind((stand.ip(0, 10), 8080)).await.unwrap();
    let at = target.local_addr().unwrap();
    stand.register(&group, &[at]).await;
    let node = SocketAddr::new(stand.nodes().await[0], 8000);
    let client = stand.ip(2, 77);
    let peers = tokio::spawn(async move {
        loop {
            let (mut stream, peer) = target.accept().await.unwrap();
            // Probes arrive too.
            if peer.ip() == client {
                return stream.write_all(b"hello").await.unwrap();
            }
        }
    });
    stand.until_settled().await;
    let mut stream = connect_from(client, node).await;
    assert_eq!(timeout(PATIENCE, stream.read_u8()).await.unwrap().unwrap(), b'h');
    peers.await.unwrap();
    let mut stream = connect_from(at.ip(), node).await;
    assert!(timeout(PATIENCE, stream.read_u8()).await.unwrap().is_err());
    let connections = stand.trace("connection").await;
    assert_eq!(connections.last().unwrap()["outcome"], "timeout");
}
