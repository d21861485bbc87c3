//! The readiness probe of one container, run for real against the pod's own server.
//!
//! Owns when a probe runs and what counts as a success. A failed probe is a result like any other; what
//! cannot be probed (a port that no container declares) fails each time, as on a real node. `exec` has no
//! image to run in: it answers what the control API set.

use crate::container::http::Get;
use crate::container::server::Readiness;
use crate::container::threshold::Threshold;
use crate::pod::object::ContainerSpec;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

/// What a probe does.
#[derive(Clone, Debug, PartialEq)]
pub enum Check {
    /// A GET; 200 to 399 is a success.
    Get(Get),
    /// A connection; that it opens is a success.
    Connect(SocketAddr),
    /// The flag of the control API.
    Flag,
    /// A probe whose port does not exist.
    Impossible,
}

/// A readiness probe with its defaults filled in.
#[derive(Clone, Debug)]
pub struct Probe {
    check: Check,
    initial_delay: Duration,
    period: Duration,
    limit: Duration,
    success: u32,
    failure: u32,
}

impl Probe {
    /// The readiness probe of a container whose pod has this address, or `None` if it declares none.
    pub fn readiness(spec: &ContainerSpec, ip: Ipv4Addr) -> Option<Self> {
        let probe = spec.readiness_probe.as_ref()?;
        let check = if let Some(get) = &probe.http_get {
            Get::resolve(spec, get, ip).map_or(Check::Impossible, Check::Get)
        } else if let Some(tcp) = &probe.tcp_socket {
            let host = tcp.host.as_deref().and_then(|host| host.parse().ok()).unwrap_or(IpAddr::V4(ip));
            spec.resolve_port(&tcp.port)
                .map_or(Check::Impossible, |port| Check::Connect(SocketAddr::new(host, port)))
        } else if let Some(grpc) = &probe.grpc {
            // Only that something listens: the server here speaks no gRPC.
            u16::try_from(grpc.port)
                .map_or(Check::Impossible, |port| Check::Connect(SocketAddr::new(ip.into(), port)))
        } else {
            Check::Flag
        };
        let seconds = |given: Option<i32>, default: u64| {
            Duration::from_secs(given.and_then(|given| u64::try_from(given).ok()).unwrap_or(default))
        };
        let count = |given: Option<i32>, default| {
            given.and_then(|given| u32::try_from(given).ok()).unwrap_or(default)
        };
        Some(Self {
            check,
            initial_delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds, 10).max(Duration::from_secs(1)),
            limit: seconds(probe.timeout_seconds, 1).max(Duration::from_secs(1)),
            success: count(probe.success_threshold, 1),
            failure: count(probe.failure_threshold, 3),
        })
    }

    /// Probes until dropped or until nobody listens any more, and sends each change of readiness. The first
    /// probe runs at once (the kubelet triggers one when a container turns running), then one per period;
    /// those before the initial delay are skipped.
    pub async fn run(self, readiness: Arc<Readiness>, changes: mpsc::Sender<bool>) {
        let began = Instant::now();
        let mut ticks = tokio::time::interval(self.period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut threshold = Threshold::new(self.success, self.failure);
        loop {
            let tick = ticks.tick().await;
            if tick.duration_since(began) < self.initial_delay {
                continue;
            }
            let succeeded = self.check.succeeds(&readiness, self.limit).await;
            if let Some(ready) = threshold.observe(succeeded)
                && changes.send(ready).await.is_err()
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
        Probe::readiness(&spec, Ipv4Addr::LOCALHOST).map(|probe| probe.check)
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
