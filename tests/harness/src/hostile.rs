//! Objects of a hostile tenant in its namespace, and a hostile reader of metrics.

use std::{collections::BTreeMap, net::SocketAddr};

use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpSocket, TcpStream},
};

use crate::{
    cluster::{Cluster, pod_spec},
    scenario::http_port,
};

/// `count` labels of seven bytes each.
pub fn many(count: usize) -> BTreeMap<String, String> {
    (0..count).map(|at| (format!("k{at:05}"), "x".to_owned())).collect()
}

/// A pod that is never started, with these labels.
pub fn never_started(name: &str, labels: &BTreeMap<String, String>) -> Value {
    let mut spec = pod_spec(&[("http", 8080)]);
    spec["schedulingGates"] = json!([{"name": "example.com/never"}]);
    json!({"metadata": {"name": name, "labels": labels}, "spec": spec})
}

/// A pod and a Service with 50,000 labels, and a selector with as many entries. The Service names this target group.
pub async fn large_selector(tenant: &Cluster, group: &str) {
    let labels = many(50_000);
    tenant.create::<Pod>(never_started("large-pod", &labels)).await;
    tenant
        .create::<Service>(json!({
            "metadata": {"name": "large", "annotations": {"headgate.dev/target-groups": group}},
            "spec": {"selector": labels, "ports": http_port()},
        }))
        .await;
}

/// Updates both, so that every replica gets two events.
pub async fn touch_large_selector(tenant: &Cluster, at: usize) {
    let annotations = json!({"metadata": {"annotations": {"example.com/at": at.to_string()}}});
    tenant.patch::<Pod>("large-pod", &annotations).await;
    tenant.patch::<Service>("large", &annotations).await;
}

/// Eight Services that name 200 missing target groups each.
pub async fn names_that_do_not_exist(tenant: &Cluster) {
    let ports: Vec<Value> = (1..=200).map(|port| json!({"name": format!("p{port}"), "port": port})).collect();
    for service in 0..8 {
        let names: Vec<String> = (1..=200).map(|port| format!("p{port}=aaa-{service}-{port}")).collect();
        tenant.service(&format!("s{service}"), "web", json!(ports), Some(&names.join(","))).await;
    }
}

/// Creates and deletes a pod with 0.9 MB of labels, each time of a new workload.
pub async fn large_pod(tenant: &Cluster, at: usize) {
    let mut labels = many(70_000);
    let name = format!("large-{at}");
    labels.insert("app".to_owned(), name.clone());
    tenant.create::<Pod>(never_started(&name, &labels)).await;
    tenant.delete_pod(&name, 0).await;
}

/// A connection that requests metrics and does not read the answer. Its address differs from that of probes.
pub async fn slow_reader(admin: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut reader = socket.connect(admin).await.unwrap();
    // The server may have closed the connection, which is fine.
    let _ = reader.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
    reader
}
