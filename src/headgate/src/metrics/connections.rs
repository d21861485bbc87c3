//! The metrics of connections to the program's servers.

use prometheus_client::metrics::{family::Family, gauge::Gauge};

use super::{
    Metrics,
    labels::{ClosedLabels, ServerLabel},
    page::{Counters, Page},
};

#[derive(Debug)]
pub(super) struct Connections {
    open: Family<ServerLabel, Gauge>,
    closed: Counters<ClosedLabels>,
}

impl Connections {
    pub(super) fn register(page: &mut Page) -> Self {
        Self {
            open: page.gauges("connections", "Open connections by server: admin, debug, webhook"),
            closed: page.counters(
                "connections_closed",
                "Connections that Headgate closed by server and reason: crowd (too many connections), or a \
                 timeout of handshake, header, request or idle",
            ),
        }
    }
}

impl Metrics {
    /// Counts an open connection to this server.
    pub fn connection_opened(&self, server: &'static str) {
        self.connections.open.get_or_create(&ServerLabel { server }).inc();
    }

    /// Counts the end of a connection.
    pub fn connection_ended(&self, server: &'static str) {
        self.connections.open.get_or_create(&ServerLabel { server }).dec();
    }

    /// Counts a connection that this server closes.
    pub fn connection_closed(&self, server: &'static str, reason: &'static str) {
        self.connections.closed.get_or_create(&ClosedLabels { server, reason }).inc();
    }
}
