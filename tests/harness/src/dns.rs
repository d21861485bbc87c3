//! Queries the stand-in's name server, and serves a name.

use std::net::{IpAddr, Ipv4Addr};

use hickory_proto::{
    op::{Message, Query, ResponseCode},
    rr::{Name, RData, Record, RecordType, rdata::A},
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

/// Serves DNS on port 53 of this address until the runtime ends. It knows one name, which has that address.
pub async fn serve(address: Ipv4Addr, name: &str) {
    let socket = UdpSocket::bind((address, 53)).await.unwrap();
    let known = Name::from_ascii(format!("{name}.")).unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 4096];
        loop {
            let (length, peer) = socket.recv_from(&mut buffer).await.unwrap();
            let answer = answer(&buffer[..length], &known, address);
            socket.send_to(&answer, peer).await.unwrap();
        }
    });
}

fn answer(query: &[u8], known: &Name, address: Ipv4Addr) -> Vec<u8> {
    let query = Message::from_vec(query).unwrap();
    let question = query.queries[0].clone();
    let mut response = Message::response(query.metadata.id, query.metadata.op_code);
    response.metadata.recursion_desired = query.metadata.recursion_desired;
    if question.name() != known {
        response.metadata.response_code = ResponseCode::NXDomain;
    } else if question.query_type() == RecordType::A {
        response.add_answers([Record::from_rdata(known.clone(), 60, RData::A(A(address)))]);
    }
    response.add_query(question);
    response.to_vec().unwrap()
}
