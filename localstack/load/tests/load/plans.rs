//! Plans for the tests.

use std::time::Duration;

use localstack_load::{Client, Plan, Target};

use crate::name_server::NameServer;
use crate::server::Server;

/// Requests per second, unless a test needs another rate.
pub const RATE: f64 = 100.0;

/// `requests` requests to a server.
pub fn to(server: &Server, requests: u32) -> Plan {
    Plan { duration: Some(duration(requests)), ..endless(server) }
}

/// Requests to a server until the run is stopped.
pub fn endless(server: &Server) -> Plan {
    // Much longer than a correct answer takes on a busy machine.
    let timeout = Duration::from_secs(5);
    Plan { timeout, ..Plan::new(Target::Address(server.ip()), server.port(), RATE) }
}

/// Requests of `clients` to the addresses of the name server, until the run is stopped.
pub fn by_name(dns: &NameServer, port: u16, clients: Vec<Client>) -> Plan {
    let target = Target::Name { name: "edge.example".into(), dns: dns.address() };
    Plan { timeout: Duration::from_secs(5), clients, ..Plan::new(target, port, RATE) }
}

/// How long `requests` take at [`RATE`].
pub fn duration(requests: u32) -> Duration {
    Duration::from_secs_f64(f64::from(requests) / RATE)
}
