//! One DNS query over UDP for the A records of a name.
//!
//! The module has no cache and supports only A records. A query without an answer is sent once more. A server that does
//! not answer causes an error after half a second.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// The number of attempts per query.
const ATTEMPTS: u32 = 2;
/// The timeout of each attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(250);

/// The addresses of a name. The list is not empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The addresses, in the order of the answer.
    pub addresses: Vec<IpAddr>,
    /// How long the answer may be used, which is the lowest TTL of all records.
    pub ttl: Duration,
}

/// Queries `server` for the A records of `name`. `None`: the name has no A records, the server does not answer, or the
/// server returns an error. A client treats the three cases in the same way.
pub async fn look_up(server: SocketAddr, name: &str) -> Option<Found> {
    let mut question = Message::query();
    question.metadata.recursion_desired = true;
    question.add_query(Query::query(Name::from_ascii(name).ok()?, RecordType::A));
    let bytes = question.to_vec().ok()?;
    // Each query uses a separate port, so that a late answer does not count for another query.
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await.ok()?;
    socket.connect(server).await.ok()?;
    for _ in 0..ATTEMPTS {
        if socket.send(&bytes).await.is_err() {
            continue;
        }
        if let Ok(answer) = timeout(ATTEMPT_TIMEOUT, answer(&socket, question.metadata.id)).await {
            return found(&answer?);
        }
    }
    None
}

/// Returns the answer with this ID. `None`: no server listens.
async fn answer(socket: &UdpSocket, id: u16) -> Option<Message> {
    let mut buffer = [0_u8; 4096];
    loop {
        let length = socket.recv(&mut buffer).await.ok()?;
        let message = buffer.get(..length).and_then(|bytes| Message::from_vec(bytes).ok());
        let ours = |message: &Message| {
            message.metadata.id == id && message.metadata.message_type == MessageType::Response
        };
        if let Some(message) = message.filter(ours) {
            return Some(message);
        }
    }
}

fn found(answer: &Message) -> Option<Found> {
    if answer.metadata.response_code != ResponseCode::NoError {
        return None;
    }
    let addresses = answer.answers.iter().filter_map(|record| match &record.data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        _ => None,
    });
    let addresses: Vec<IpAddr> = addresses.collect();
    // The TTLs of alias records count too.
    let ttl = answer.answers.iter().map(|record| record.ttl).min()?;
    (!addresses.is_empty()).then(|| Found { addresses, ttl: Duration::from_secs(ttl.into()) })
}
