//! The plan of a run: the target, the rate and the clients.
//!
//! A plan is data. [`crate::Run::start`] checks the plan once. A plan that cannot be recorded completely is rejected
//! before the first request. An example is a plan with more requests than records.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_proto::rr::Name;
use hyper::Uri;
use serde::Serialize;
use thiserror::Error;

use crate::schedule::Schedule;

/// The maximum number of requests that one run can record. Each record needs 120 bytes.
pub const MAX_RECORDS: u32 = 2_000_000;

/// The plan of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The destination of the requests.
    pub target: Target,
    /// The TCP port of the listener, from 1 to 65535.
    pub port: u16,
    /// The number of requests per second, in total over all clients. Must be greater than 0. Request *k* of the run
    /// belongs to client *k* modulo the number of clients.
    pub rate: f64,
    /// How long requests are started. `None`: until [`crate::Run::stop`]. The run has `rate * duration` requests,
    /// rounded up.
    pub duration: Option<Duration>,
    /// The timeout from the start of a request to the last byte of the answer. The timeout includes the lookup, the
    /// connection and the retry, and must be greater than 0.
    pub timeout: Duration,
    /// The maximum delay of a request's start. A request with a longer delay counts as `behind`.
    pub tolerance: Duration,
    /// The path of all requests, which begins with `/` and may have a query. The generator appends `/` and the number
    /// of the request to the path, so that answers to different requests differ.
    pub path: String,
    /// The definition of a correct answer.
    pub answer: Answer,
    /// The clients. At least one is required.
    pub clients: Vec<Client>,
    /// The maximum number of recorded requests, from 1 to [`MAX_RECORDS`]. At this number, a run without a duration
    /// stops with an error.
    pub max_records: u32,
}

/// The destination of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A DNS name, which each client resolves.
    Name {
        /// The name, with or without a trailing dot.
        name: String,
        /// The DNS server, which is queried over UDP for A records.
        dns: SocketAddr,
    },
    /// One address for all clients, such as a node of a load balancer. No name is resolved.
    Address(IpAddr),
}

/// The definition of a correct answer. Every correct answer has the status `200`, a content-length and a complete body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answer {
    /// A correct answer is a simulated pod's answer to the same request. The body is JSON, in which `path` is the
    /// requested path and `pod` equals the header `x-pod`.
    #[default]
    Pod,
    /// A correct answer may have any body.
    Any,
}

/// One client of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Client {
    /// How the client uses DNS answers.
    pub kind: ClientKind,
    /// How the client uses connections.
    pub mode: Mode,
}

/// How a client uses DNS answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientKind {
    /// The client looks up the name again when the TTL is over.
    #[default]
    Following,
    /// The client always uses the first answer that contains addresses, as some runtimes do.
    Pinned,
}

/// How a client uses connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The client opens a new connection for each request.
    #[default]
    New,
    /// The client uses the connection with the shortest idle time. A new connection is opened only if no connection is
    /// idle. Open connections are used even if DNS now returns other addresses.
    KeepAlive,
}

impl Client {
    /// Creates a client that always uses its first DNS answer.
    pub fn pinned() -> Self {
        Self { kind: ClientKind::Pinned, mode: Mode::New }
    }

    /// Creates a client that keeps its connections alive.
    pub fn keep_alive() -> Self {
        Self { kind: ClientKind::Following, mode: Mode::KeepAlive }
    }
}

/// The reason why a plan is invalid.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PlanError {
    /// The rate is invalid.
    #[error("the rate is {0} requests per second; it must be greater than 0")]
    Rate(f64),
    /// A duration is zero.
    #[error("{0} is zero; it must be longer")]
    Zero(&'static str),
    /// The plan has no clients.
    #[error("there is no client; at least one is needed")]
    NoClients,
    /// The port is invalid.
    #[error("port 0 cannot be connected to; give the port of the listener")]
    Port,
    /// The DNS name is invalid.
    #[error("'{0}' is not a DNS name")]
    Name(String),
    /// The path is invalid.
    #[error("'{0}' is not a path; it must begin with '/' and consist of characters that URLs allow")]
    Path(String),
    /// The maximum number of records is invalid.
    #[error("the limit of records is {0}; it must be 1 to {MAX_RECORDS}")]
    MaxRecords(u32),
    /// The plan has more requests than records.
    #[error(
        "{rate} requests per second for {} s are more than the {limit} that can be recorded; \
         lower the rate or the duration",
        duration.as_secs_f64()
    )]
    TooManyRequests {
        /// The number of requests per second.
        rate: f64,
        /// The planned duration.
        duration: Duration,
        /// The maximum number of records.
        limit: u32,
    },
}

impl Plan {
    /// Creates a plan with one client that opens a new connection for each request, until the run is stopped. The
    /// timeout is 2 s and the tolerance 50 ms, and the answers must be from simulated pods.
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

    /// Checks the plan and returns the schedule of its requests.
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
        // The check uses the longest possible path.
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
    /// The path without the query. The answer of a pod contains the same path.
    pub plain: String,
    query: Option<String>,
}

impl Path {
    /// Returns the path of request `index`.
    pub fn of(plan: &Plan, index: u32) -> Self {
        let (base, query) = match plan.path.split_once('?') {
            Some((base, query)) => (base, Some(query.to_owned())),
            None => (plan.path.as_str(), None),
        };
        Self { plain: format!("{}/{index}", base.trim_end_matches('/')), query }
    }

    /// Returns the URI of the request. `None`: the URI is invalid.
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
