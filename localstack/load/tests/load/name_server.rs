//! A name server that answers what it is told to.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{RData, Record};
use tokio::net::UdpSocket;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What is answered to every question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Addresses and their TTL in seconds.
    Addresses(Vec<Ipv4Addr>, u32),
    /// An error.
    Code(ResponseCode),
    /// Nothing at all.
    Silence,
}

/// The server; it ends with this value.
pub struct NameServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    _stop: DropGuard,
}

/// A question, as often as it was sent.
struct Question {
    /// Its sender and number.
    id: (SocketAddr, u16),
    at: Instant,
    name: String,
}

struct State {
    reply: Reply,
    /// In order.
    questions: Vec<Question>,
    /// How many datagrams came; a question that stays unanswered for a while is sent again.
    datagrams: usize,
    /// How many questions are left unanswered before the reply.
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
                // An error concerns an earlier answer whose client has gone.
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

    /// Answers differently from now on.
    pub fn reply(&self, reply: Reply) {
        self.state.lock().unwrap().reply = reply;
    }

    /// Does not answer the next questions.
    pub fn ignore(&self, questions: u32) {
        self.state.lock().unwrap().ignore = questions;
    }

    /// When questions came.
    pub fn questions(&self) -> Vec<Instant> {
        self.state.lock().unwrap().questions.iter().map(|question| question.at).collect()
    }

    /// What was asked for last.
    pub fn last_name(&self) -> Option<String> {
        self.state.lock().unwrap().questions.last().map(|question| question.name.clone())
    }

    /// How many datagrams came.
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
