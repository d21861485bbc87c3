//! Queries the stand-in's name server.

use std::net::{IpAddr, Ipv4Addr};

use hickory_proto::{
    op::{Message, Query},
    rr::{Name, RData, RecordType},
};
use localstack_world::Facts;
use tokio::net::UdpSocket;

/// The addresses of a load balancer's nodes.
pub async fn resolve(facts: &Facts, name: &str) -> Vec<IpAddr> {
    let mut question = Message::query();
    question.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    socket.send_to(&question.to_vec().unwrap(), &facts.dns).await.unwrap();
    let mut buffer = [0; 4096];
    let read = tokio::time::timeout(crate::wait::DEADLINE, socket.recv(&mut buffer)).await;
    let length = read.expect("the name server answers").unwrap();
    let answer = Message::from_vec(&buffer[..length]).unwrap();
    let addresses = answer.answers.iter().filter_map(|record| match &record.data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        _ => None,
    });
    addresses.collect()
}
