//! The trace entry of one connection or request. The entry is written once, at the end of the connection or request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Door;
use crate::flows::Entry;
use crate::model::{Choice, RequestFacts, Route};
use crate::trace::{Event, Outcome};

/// An open connection or request. A ticket that is dropped without [`Ticket::finish`] counts as closed by the client.
#[derive(Debug)]
pub struct Ticket {
    door: Arc<Door>,
    client: SocketAddr,
    choice: Option<Choice>,
    flow: Option<Entry>,
    opened: Duration,
    bytes: u64,
    status: Option<u16>,
}

impl Ticket {
    /// Chooses the target. From now on, the connection counts as sent to the target.
    pub fn open(
        door: &Arc<Door>,
        client: SocketAddr,
        flow: Option<u64>,
        request: Option<RequestFacts>,
    ) -> Self {
        let (choice, flow, opened) = door.shared.with(|model, now| {
            let choice = model.choose(door.listener, door.node, flow, request);
            let to = choice.as_ref().and_then(|choice| Some((choice.group?, choice.route?)));
            (choice, to.map(|(group, route)| door.shared.flows.enter(group, door.node, route)), now)
        });
        Self { door: Arc::clone(door), client, choice, flow, opened, bytes: 0, status: None }
    }

    /// Returns a token that is cancelled when the node must close the connection.
    pub fn cut(&self) -> CancellationToken {
        self.flow.as_ref().map(|flow| flow.cut().clone()).unwrap_or_default()
    }

    /// Returns the chosen action and target.
    pub fn choice(&self) -> Option<&Choice> {
        self.choice.as_ref()
    }

    /// Returns the chosen target. `None`: no target was chosen.
    pub fn route(&self) -> Option<Route> {
        self.choice.as_ref()?.route
    }

    /// Adds to the number of payload bytes.
    pub fn add_bytes(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Sets the HTTP status that the client receives.
    pub fn set_status(&mut self, status: u16) {
        self.status = Some(status);
    }

    /// Closes the ticket with an outcome.
    pub fn finish(mut self, outcome: Outcome) {
        self.record(outcome);
    }

    fn record(&mut self, outcome: Outcome) {
        let Some(choice) = self.choice.take() else { return };
        let clock = &self.door.shared.clock;
        let closed = clock.at(clock.now());
        let event = Event::Connection {
            load_balancer: choice.load_balancer,
            target_group: choice.target_group,
            node: self.door.local.ip(),
            port: self.door.local.port(),
            client: self.client,
            target: choice.route.map(|route| route.target),
            opened: clock.at(self.opened),
            closed,
            bytes: self.bytes,
            outcome,
            status: self.status,
        };
        self.door.shared.trace.record(closed, [event]);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let cut = self.door.cut.is_cancelled();
        self.record(if cut { Outcome::Cut } else { Outcome::ClientGone });
    }
}
