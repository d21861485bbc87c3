//! DNS for load balancers.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use tokio::net::UdpSocket;

use crate::pod::Pod;
use crate::stand::{Kind, Stand};

async fn resolve(stand: &Stand, name: &str, kind: RecordType) -> Message {
    let mut query = Message::query();
    query.metadata.id = 7;
    query.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    socket.send_to(&query.to_vec().unwrap(), stand.running.addresses().dns).await.unwrap();
    let mut buffer = [0; 4096];
    let length =
        tokio::time::timeout(Duration::from_secs(10), socket.recv(&mut buffer)).await.unwrap().unwrap();
    let answer = Message::from_vec(&buffer[..length]).unwrap();
    assert_eq!(answer.metadata.id, 7);
    answer
}

fn addresses(answer: &Message) -> Vec<IpAddr> {
    let addresses = answer.answers.iter().filter_map(|record| match &record.data {
        RData::A(a) => Some(IpAddr::V4(a.0)),
        _ => None,
    });
    addresses.collect()
}

async fn name(stand: &Stand) -> String {
    let found = stand.aws.describe_load_balancers().send().await.unwrap();
    found.load_balancers()[0].dns_name().unwrap().to_owned()
}

#[tokio::test]
async fn a_name_has_all_nodes_until_a_zone_has_a_healthy_target() {
    let stand = Stand::new().await;
    stand.prompt().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let (name, nodes) = (name(&stand).await, stand.nodes().await);
    assert_eq!(addresses(&resolve(&stand, &name, RecordType::A).await), nodes);
    let pod = Pod::start((stand.ip(1, 10), 8080)).await;
    stand.register(&group, &[pod.at]).await;
    stand.until_settled().await;
    stand.until_health(&group, pod.at, "healthy").await;
    let answer = resolve(&stand, &name.to_uppercase(), RecordType::A).await;
    assert_eq!(addresses(&answer), [nodes[1]]);
    assert_eq!(answer.answers[0].ttl, 1, "60 s at a hundredth, but at least 1");
}

#[tokio::test]
async fn a_zone_can_be_asked_for() {
    let stand = Stand::new().await;
    stand.edge(Kind::Network).await;
    let (name, nodes) = (name(&stand).await, stand.nodes().await);
    let answer = resolve(&stand, &format!("us-east-1c.{name}"), RecordType::A).await;
    assert_eq!(addresses(&answer), [nodes[2]]);
}

#[tokio::test]
async fn other_names_do_not_exist_and_other_types_are_empty() {
    let stand = Stand::new().await;
    stand.edge(Kind::Application).await;
    let name = name(&stand).await;
    let empty = resolve(&stand, &name, RecordType::AAAA).await;
    assert_eq!((empty.metadata.response_code, empty.answers.len()), (ResponseCode::NoError, 0));
    for other in ["example.com".to_owned(), format!("x.{name}"), format!("x{name}")] {
        let answer = resolve(&stand, &other, RecordType::A).await;
        assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain, "{other}");
    }
}
