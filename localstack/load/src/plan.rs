//! What a run is to do: whom to ask, how often, as which clients.
//!
//! A plan is data. It is checked once, by [`crate::Run::start`]; a plan that could not be accounted for (no end
//! to its numbers, more requests than can be recorded) is refused there, before the first request.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_proto::rr::Name;
use hyper::Uri;
use serde::Serialize;
use thiserror::Error;

use crate::schedule::Schedule;

/// The most requests that one run can record, 120 bytes each.
pub const MAX_RECORDS: u32 = 2_000_000;

/// A plan of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Where the requests go.
    pub target: Target,
    /// The TCP port of the listener, 1 to 65535.
    pub port: u16,
    /// Requests per second of all clients together, greater than 0. Request *k* of the run belongs to client
    /// *k* modulo the number of clients.
    pub rate: f64,
    /// For how long requests start; without it, until [`crate::Run::stop`]. `rate * duration` requests, rounded
    /// up, are offered.
    pub duration: Option<Duration>,
    /// How long a request may take from its start to the last byte of the answer, look-up, connect and retry
    /// included. Greater than 0.
    pub timeout: Duration,
    /// How much later than intended a request may start before it counts as `behind`.
    pub tolerance: Duration,
    /// The path of all requests, beginning with `/`, perhaps with a query. `/` and the number of the request are
    /// added to the path, so that an answer can be told from the answer to another request.
    pub path: String,
    /// Which answers are right.
    pub answer: Answer,
    /// The clients, at least one.
    pub clients: Vec<Client>,
    /// How many requests may be recorded, 1 to [`MAX_RECORDS`]. A run without a duration ends with an error when
    /// they are used up.
    pub max_records: u32,
}

/// Where requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A DNS name, resolved by each client on its own.
    Name {
        /// The name; a trailing dot is optional.
        name: String,
        /// The DNS server, asked over UDP for A records.
        dns: SocketAddr,
    },
    /// One address for all clients, such as one node of a load balancer. Nothing is resolved.
    Address(IpAddr),
}

/// Which answers are right. All must be `200` with a content-length and a complete body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answer {
    /// The answer of a simulated pod to this very request: JSON whose `path` is the path that was asked for, and
    /// whose `pod` is the header `x-pod`.
    #[default]
    Pod,
    /// Any body.
    Any,
}

/// One client of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Client {
    /// What it makes of DNS answers.
    pub kind: ClientKind,
    /// What it does with connections.
    pub mode: Mode,
}

/// What a client makes of DNS answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientKind {
    /// Asks again when the TTL of the answer is over.
    #[default]
    Following,
    /// Keeps its first answer with addresses for ever, as some runtimes do.
    Pinned,
}

/// What a client does with connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A new connection for each request.
    #[default]
    New,
    /// Uses the connection that was idle for the shortest time, and a new one only if none is idle. As usual, an
    /// open connection is used whatever DNS says meanwhile.
    KeepAlive,
}

impl Client {
    /// A client that keeps its first DNS answer for ever.
    pub fn pinned() -> Self {
        Self { kind: ClientKind::Pinned, mode: Mode::New }
    }

    /// A client that keeps its connections.
    pub fn keep_alive() -> Self {
        Self { kind: ClientKind::Following, mode: Mode::KeepAlive }
    }
}

/// Why a plan cannot be run.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PlanError {
    /// Not a usable rate.
    #[error("the rate is {0} requests per second; it must be greater than 0")]
    Rate(f64),
    /// No time at all.
    #[error("{0} is zero; it must be longer")]
    Zero(&'static str),
    /// Nobody to ask.
    #[error("there is no client; at least one is needed")]
    NoClients,
    /// Not a port.
    #[error("port 0 cannot be connected to; give the port of the listener")]
    Port,
    /// Not a DNS name.
    #[error("'{0}' is not a DNS name")]
    Name(String),
    /// Not a path.
    #[error("'{0}' is not a path; it must begin with '/' and consist of characters that URLs allow")]
    Path(String),
    /// Not a usable limit of records.
    #[error("the limit of records is {0}; it must be 1 to {MAX_RECORDS}")]
    MaxRecords(u32),
    /// The plan has more requests than can be recorded.
    #[error(
        "{rate} requests per second for {} s are more than the {limit} that can be recorded; \
         lower the rate or the duration",
        duration.as_secs_f64()
    )]
    TooManyRequests {
        /// Requests per second.
        rate: f64,
        /// The planned duration.
        duration: Duration,
        /// How many can be recorded.
        limit: u32,
    },
}

impl Plan {
    /// One client that makes a new connection for each request, until it is stopped: 2 s per request, 50 ms of
    /// tolerance, answers of simulated pods.
    pub fn new(target: Target, port: u16, rate: f64) -> Self {
        Self {
            target,
            port,
            rate,
            duration: None,
            timeout: Duration::from_secs(2),
            tolerance: Duration::from_millis(50),
            path: "/load".to_owned(),
            answer: Answer::default(),
            clients: vec![Client::default()],
            max_records: MAX_RECORDS,
        }
    }

    /// Whether it can be run, and when its requests start.
    pub(crate) fn schedule(&self) -> Result<Schedule, PlanError> {
        let schedule = Schedule::new(self.rate).ok_or(PlanError::Rate(self.rate))?;
        if self.port == 0 {
            return Err(PlanError::Port);
        }
        if self.timeout.is_zero() {
            return Err(PlanError::Zero("the time-out"));
        }
        if self.duration.is_some_and(|duration| duration.is_zero()) {
            return Err(PlanError::Zero("the duration"));
        }
        if self.clients.is_empty() {
            return Err(PlanError::NoClients);
        }
        if self.max_records == 0 || self.max_records > MAX_RECORDS {
            return Err(PlanError::MaxRecords(self.max_records));
        }
        if let Target::Name { name, .. } = &self.target
            && (name.is_empty() || Name::from_ascii(name).is_err())
        {
            return Err(PlanError::Name(name.clone()));
        }
        // The longest one stands for all.
        if !self.path.starts_with('/') || Path::of(self, u32::MAX).uri().is_none() {
            return Err(PlanError::Path(self.path.clone()));
        }
        if let Some(duration) = self.duration
            && schedule.offset(self.max_records) < duration
        {
            return Err(PlanError::TooManyRequests { rate: self.rate, duration, limit: self.max_records });
        }
        Ok(schedule)
    }
}

/// The path of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    /// Without the query: what a pod says it was asked for.
    pub plain: String,
    query: Option<String>,
}

impl Path {
    /// The path of request `index`.
    pub fn of(plan: &Plan, index: u32) -> Self {
        let (base, query) = match plan.path.split_once('?') {
            Some((base, query)) => (base, Some(query.to_owned())),
            None => (plan.path.as_str(), None),
        };
        Self { plain: format!("{}/{index}", base.trim_end_matches('/')), query }
    }

    /// What is asked for; nothing if URLs do not allow it.
    pub fn uri(&self) -> Option<Uri> {
        match &self.query {
            Some(query) => format!("{}?{query}", self.plain).parse().ok(),
            None => self.plain.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn plan() -> Plan {
        Plan::new(Target::Address(Ipv4Addr::LOCALHOST.into()), 80, 10.0)
    }

    #[test]
    fn a_plain_plan_is_accepted() {
        assert!(plan().schedule().is_ok());
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_its_reason() {
        let name = Target::Name { name: "a..b".into(), dns: (Ipv4Addr::LOCALHOST, 53).into() };
        let minute = Some(Duration::from_secs(60));
        let cases = [
            (Plan { rate: 0.0, ..plan() }, "the rate is 0 "),
            (Plan { rate: f64::NAN, ..plan() }, "the rate is NaN "),
            (Plan { rate: f64::INFINITY, ..plan() }, "the rate is inf "),
            (Plan { port: 0, ..plan() }, "port 0"),
            (Plan { timeout: Duration::ZERO, ..plan() }, "the time-out is zero"),
            (Plan { duration: Some(Duration::ZERO), ..plan() }, "the duration is zero"),
            (Plan { clients: vec![], ..plan() }, "no client"),
            (Plan { max_records: 0, ..plan() }, "the limit of records is 0"),
            (Plan { max_records: MAX_RECORDS + 1, ..plan() }, "the limit of records is 2000001"),
            (Plan { target: name, ..plan() }, "'a..b' is not a DNS name"),
            (Plan { path: "load".into(), ..plan() }, "'load' is not a path"),
            (Plan { path: "/a b".into(), ..plan() }, "'/a b' is not a path"),
            (
                Plan { duration: minute, max_records: 599, ..plan() },
                "10 requests per second for 60 s are more",
            ),
        ];
        for (plan, reason) in cases {
            let error = plan.schedule().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn every_request_has_a_path_of_its_own_before_the_query() {
        let path = |path: &str| Path::of(&Plan { path: path.into(), ..plan() }, 7);
        assert_eq!(path("/load").uri(), Some(Uri::from_static("/load/7")));
        assert_eq!(path("/").uri(), Some(Uri::from_static("/7")));
        let slow = path("/slow?delay-ms=5");
        assert_eq!(
            (slow.plain.as_str(), slow.uri()),
            ("/slow/7", Some(Uri::from_static("/slow/7?delay-ms=5")))
        );
    }

    #[test]
    fn a_plan_that_just_fits_is_accepted() {
        let plan = Plan { duration: Some(Duration::from_secs(60)), max_records: 600, ..plan() };
        assert!(plan.schedule().is_ok());
    }
}
