//! One DNS question over UDP: the A records of a name.
//!
//! Never caches, and asks for nothing but A. A lost datagram is sent once more; a server that stays silent is an
//! error after half a second.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// How often a question is sent.
const ATTEMPTS: u32 = 2;
/// How long an answer may take, for each time that it is asked for.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(250);

/// The addresses of a name: at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// In the order of the answer.
    pub addresses: Vec<IpAddr>,
    /// For how long the answer may be used; the shortest of its records.
    pub ttl: Duration,
}

/// Asks `server` for the A records of `name`. Nothing if there are none, or if the server does not answer, or
/// answers with an error: to a client, these are the same.
pub async fn look_up(server: SocketAddr, name: &str) -> Option<Found> {
    let mut question = Message::query();
    question.metadata.recursion_desired = true;
    question.add_query(Query::query(Name::from_ascii(name).ok()?, RecordType::A));
    let bytes = question.to_vec().ok()?;
    // A port of its own for each question: a late answer cannot be taken for the answer to another one.
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

/// The answer with this number; nothing if there is no server at all.
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
    // Those of aliases on the way count too.
    let ttl = answer.answers.iter().map(|record| record.ttl).min()?;
    (!addresses.is_empty()).then(|| Found { addresses, ttl: Duration::from_secs(ttl.into()) })
}
