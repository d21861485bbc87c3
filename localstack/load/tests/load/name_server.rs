//! A name server with predefined answers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{RData, Record};
use tokio::net::UdpSocket;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The answer to all queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Addresses with their TTL in seconds.
    Addresses(Vec<Ipv4Addr>, u32),
    /// An error.
    Code(ResponseCode),
    /// No answer.
    Silence,
}

/// The server. It ends when this value is dropped.
pub struct NameServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    _stop: DropGuard,
}

/// One query, sent once or more.
struct Question {
    /// Its sender and ID.
    id: (SocketAddr, u16),
    at: Instant,
    name: String,
}

struct State {
    reply: Reply,
    /// The queries in order.
    questions: Vec<Question>,
    /// The number of received datagrams. A query without an answer is sent again.
    datagrams: usize,
    /// How many queries to ignore before the reply.
    ignore: u32,
}

impl NameServer {
    pub async fn start(reply: Reply) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = socket.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State { reply, questions: Vec::new(), datagrams: 0, ignore: 0 }));
        let stop = CancellationToken::new();
        let (answering, stopped) = (Arc::clone(&state), stop.clone());
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            loop {
                let received = tokio::select! {
                    received = socket.recv_from(&mut buffer) => received,
                    () = stopped.cancelled() => return,
                };
                // The error is about an earlier answer whose client has closed its socket.
                let Ok((length, peer)) = received else { continue };
                let answer = answering.lock().unwrap().answer(&buffer[..length], peer);
                if let Some(answer) = answer {
                    socket.send_to(&answer, peer).await.unwrap();
                }
            }
        });
        Self { address, state, _stop: stop.drop_guard() }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the answer from now on.
    pub fn reply(&self, reply: Reply) {
        self.state.lock().unwrap().reply = reply;
    }

    /// Ignores the next queries.
    pub fn ignore(&self, questions: u32) {
        self.state.lock().unwrap().ignore = questions;
    }

    /// The times of the queries.
    pub fn questions(&self) -> Vec<Instant> {
        self.state.lock().unwrap().questions.iter().map(|question| question.at).collect()
    }

    /// The name in the last query.
    pub fn last_name(&self) -> Option<String> {
        self.state.lock().unwrap().questions.last().map(|question| question.name.clone())
    }

    /// The number of received datagrams.
    pub fn datagrams(&self) -> usize {
        self.state.lock().unwrap().datagrams
    }
}

impl State {
    fn answer(&mut self, question: &[u8], peer: SocketAddr) -> Option<Vec<u8>> {
        let question = Message::from_vec(question).unwrap();
        let query = question.queries[0].clone();
        self.datagrams += 1;
        let id = (peer, question.metadata.id);
        if self.questions.iter().all(|known| known.id != id) {
            self.questions.push(Question { id, at: Instant::now(), name: query.name().to_ascii() });
        }
        if self.ignore > 0 {
            self.ignore -= 1;
            return None;
        }
        let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
        answer.add_query(query.clone());
        match &self.reply {
            Reply::Silence => return None,
            Reply::Code(code) => answer.metadata.response_code = *code,
            Reply::Addresses(addresses, ttl) => {
                for address in addresses {
                    let data = RData::A(A(*address));
                    answer.add_answer(Record::from_rdata(query.name().clone(), *ttl, data));
                }
            }
        }
        Some(answer.to_vec().unwrap())
    }
}
