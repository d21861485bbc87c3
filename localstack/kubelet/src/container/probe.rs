//! The probes of one container, which connect to the pod's own server.
//!
//! The module decides when a probe runs and which results are successes. As on a real node, a probe always fails if no
//! container declares its port. `exec` probes have no image to run a command in. An `exec` readiness probe returns the
//! value from the control API. Other `exec` probes always succeed.

use crate::container::http::Get;
use crate::container::server::Readiness;
use crate::container::threshold::Threshold;
use crate::object::ContainerSpec;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

/// The check of a probe.
#[derive(Clone, Debug, PartialEq)]
pub enum Check {
    /// Sends a GET request. The statuses 200 to 399 are successes.
    Get(Get),
    /// Opens a connection. An open connection is a success.
    Connect(SocketAddr),
    /// Returns the readiness that the control API set.
    Flag,
    /// Always succeeds.
    Nothing,
    /// Always fails, because the port of the probe does not exist.
    Impossible,
}

/// The kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The probe determines whether the container is ready.
    Readiness,
    /// The probe determines whether the container keeps running.
    Liveness,
    /// The probe determines whether the startup of the container is complete.
    Startup,
}

/// A probe with all defaults.
#[derive(Clone, Debug)]
pub struct Probe {
    kind: Kind,
    check: Check,
    initial_delay: Duration,
    period: Duration,
    limit: Duration,
    success: u32,
    failure: u32,
}

impl Probe {
    /// Returns the probe of this kind. `None`: the container has no such probe.
    pub fn of(kind: Kind, spec: &ContainerSpec, ip: Ipv4Addr) -> Option<Self> {
        let probe = match kind {
            Kind::Readiness => spec.readiness_probe.as_ref()?,
            Kind::Liveness => spec.liveness_probe.as_ref()?,
            Kind::Startup => spec.startup_probe.as_ref()?,
        };
        let check = if let Some(get) = &probe.http_get {
            Get::resolve(spec, get, ip).map_or(Check::Impossible, Check::Get)
        } else if let Some(tcp) = &probe.tcp_socket {
            let host = tcp.host.as_deref().and_then(|host| host.parse().ok()).unwrap_or(IpAddr::V4(ip));
            spec.resolve_port(&tcp.port)
                .map_or(Check::Impossible, |port| Check::Connect(SocketAddr::new(host, port)))
        } else if let Some(grpc) = &probe.grpc {
            // The simulated server has no gRPC, so the probe only checks that the port is open.
            u16::try_from(grpc.port)
                .map_or(Check::Impossible, |port| Check::Connect(SocketAddr::new(ip.into(), port)))
        } else if kind == Kind::Readiness {
            Check::Flag
        } else {
            Check::Nothing
        };
        let seconds = |given: Option<i32>, default: u64| {
            Duration::from_secs(given.and_then(|given| u64::try_from(given).ok()).unwrap_or(default))
        };
        let count = |given: Option<i32>, default| {
            given.and_then(|given| u32::try_from(given).ok()).unwrap_or(default)
        };
        Some(Self {
            kind,
            check,
            initial_delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds, 10).max(Duration::from_secs(1)),
            limit: seconds(probe.timeout_seconds, 1).max(Duration::from_secs(1)),
            success: count(probe.success_threshold, 1),
            failure: count(probe.failure_threshold, 3),
        })
    }

    /// Probes until the task or the receiver is dropped, or until the result is final, and sends each change. A failure
    /// of a liveness probe is final. Any result of a startup probe is final. The first probe runs immediately, because
    /// the kubelet triggers a probe when a container starts. Further probes run once per period. Probes during the
    /// initial delay are skipped.
    pub async fn run(self, readiness: Arc<Readiness>, changes: mpsc::Sender<bool>) {
        let began = Instant::now();
        let mut ticks = tokio::time::interval(self.period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let until_known = match self.kind {
            Kind::Readiness => Some(false),
            Kind::Liveness => Some(true),
            Kind::Startup => None,
        };
        let mut threshold = Threshold::new(self.success, self.failure, until_known);
        loop {
            let tick = ticks.tick().await;
            if tick.duration_since(began) < self.initial_delay {
                continue;
            }
            let succeeded = self.check.succeeds(&readiness, self.limit).await;
            if let Some(verdict) = threshold.observe(succeeded)
                && (changes.send(verdict).await.is_err() || self.kind != Kind::Readiness)
            {
                return;
            }
        }
    }
}

impl Check {
    async fn succeeds(&self, readiness: &Readiness, limit: Duration) -> bool {
        match self {
            Self::Get(get) => get.send(limit).await.is_ok_and(|status| (200..400).contains(&status.as_u16())),
            Self::Connect(to) => {
                matches!(tokio::time::timeout(limit, TcpStream::connect(to)).await, Ok(Ok(_)))
            }
            Self::Flag => readiness.is_ready(),
            Self::Nothing => true,
            Self::Impossible => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(probe: &serde_json::Value) -> Option<Check> {
        let spec: ContainerSpec = serde_json::from_value(
            json!({"name": "app", "ports": [{"containerPort": 80, "name": "web"}], "readinessProbe": probe}),
        )
        .unwrap();
        Probe::of(Kind::Readiness, &spec, Ipv4Addr::LOCALHOST).map(|probe| probe.check)
    }

    #[test]
    fn a_command_of_a_liveness_probe_has_nothing_to_fail_with() {
        let spec: ContainerSpec =
            serde_json::from_value(json!({"name": "app", "livenessProbe": {"exec": {"command": ["false"]}}}))
                .unwrap();
        let probe = Probe::of(Kind::Liveness, &spec, Ipv4Addr::LOCALHOST).unwrap();
        assert_eq!((probe.check, probe.period.as_secs(), probe.failure), (Check::Nothing, 10, 3));
        assert!(Probe::of(Kind::Startup, &spec, Ipv4Addr::LOCALHOST).is_none());
    }

    #[test]
    fn each_kind_of_probe_knows_its_check() {
        let web: SocketAddr = "127.0.0.1:80".parse().unwrap();
        assert_eq!(check(&json!(null)), None);
        assert_eq!(check(&json!({"tcpSocket": {"port": 80}})), Some(Check::Connect(web)));
        assert_eq!(check(&json!({"exec": {"command": ["true"]}})), Some(Check::Flag));
        assert_eq!(check(&json!({"tcpSocket": {"port": "nowhere"}})), Some(Check::Impossible));
        let get = Check::Get(Get { to: web, path: "/healthz".into(), headers: vec![] });
        assert_eq!(check(&json!({"httpGet": {"port": "web", "path": "/healthz"}})), Some(get));
    }
}
