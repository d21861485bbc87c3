//! Serves DNS over UDP for the names of load balancers.
//!
//! The answer to an A query contains the nodes that see a healthy target. If no node sees a healthy target, the answer
//! contains all nodes. `ZONE.NAME` queries one zone of a load balancer. Other query types for an existing name get an
//! empty answer. Unknown names get NXDOMAIN. The TTL is 60 AWS seconds, and at least one real second.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tokio::net::UdpSocket;

use crate::model::Model;
use crate::shared::Shared;

/// The TTL of AWS, in AWS seconds.
const TTL: f64 = 60.0;

/// Answers queries until the task is cancelled.
pub async fn run(shared: Arc<Shared>, socket: UdpSocket) {
    let mut buffer = [0_u8; 4096];
    loop {
        let (length, peer) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                // The next receive fails if a client has closed its socket. The server's socket still works.
                tracing::debug!(%error, "cannot receive a DNS query");
                continue;
            }
        };
        let Some(answer) = buffer.get(..length).and_then(|query| answer(&shared, query)) else { continue };
        send(&socket, &answer, peer).await;
    }
}

async fn send(socket: &UdpSocket, answer: &[u8], peer: SocketAddr) {
    if let Err(error) = socket.send_to(answer, peer).await {
        tracing::debug!(%peer, %error, "cannot send a DNS answer");
    }
}

/// Returns the answer to a query. `None`: the packet is not a query.
fn answer(shared: &Shared, query: &[u8]) -> Option<Vec<u8>> {
    let query = Message::from_vec(query).ok()?;
    if query.metadata.message_type != MessageType::Query {
        return None;
    }
    let mut response = Message::response(query.metadata.id, query.metadata.op_code);
    response.metadata.recursion_desired = query.metadata.recursion_desired;
    response.metadata.authoritative = true;
    let question = query.queries.first().filter(|_| query.metadata.op_code == OpCode::Query);
    let Some(question) = question else {
        response.metadata.response_code = ResponseCode::NotImp;
        return response.to_vec().ok();
    };
    response.add_query(question.clone());
    let name = question.name();
    let (addresses, ttl) =
        shared.with(|model, _| (addresses(model, name), model.behaviour().scaled(TTL).as_secs().max(1)));
    match addresses {
        None => response.metadata.response_code = ResponseCode::NXDomain,
        Some(addresses) if matches!(question.query_type(), RecordType::A | RecordType::ANY) => {
            let ttl = u32::try_from(ttl).unwrap_or(u32::MAX);
            let records =
                addresses.into_iter().map(|ip| Record::from_rdata(name.clone(), ttl, RData::A(A(ip))));
            response.add_answers(records);
        }
        Some(_) => {}
    }
    response.to_vec().ok()
}

/// Returns the addresses of a name. `None`: the name belongs to no load balancer.
fn addresses(model: &Model, name: &Name) -> Option<Vec<Ipv4Addr>> {
    let name = name.to_ascii().to_ascii_lowercase();
    let name = name.trim_end_matches('.');
    let balancer = model.balancers().find(|balancer| {
        name.strip_suffix(&balancer.dns_name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })?;
    let zone = name.strip_suffix(&balancer.dns_name)?.trim_end_matches('.');
    if !zone.is_empty() && !balancer.nodes.iter().any(|node| node.zone == zone) {
        return None;
    }
    let in_dns = model.addresses_in_dns(balancer);
    let nodes = balancer.nodes.iter().filter(|node| zone.is_empty() || node.zone == zone);
    let addresses = nodes.map(|node| node.address).filter(|address| in_dns.contains(address));
    Some(
        addresses
            .filter_map(|address| match address {
                IpAddr::V4(ip) => Some(ip),
                IpAddr::V6(_) => None,
            })
            .collect(),
    )
}
