//! One run of a container.
//!
//! The module manages a process and its probes, and sends their events as reports with the number of the run. A startup
//! probe delays all other probes. Liveness and startup probes stop when the pod terminates, but readiness probes
//! continue (`StopLivenessAndStartup`). The process and the probes stop when the run is dropped, or when the reports
//! have no receiver.

use crate::container::event::ContainerEvent;
use crate::container::http::Get;
use crate::container::probe::{Kind, Probe};
use crate::container::process::Process;
use crate::container::server::{Identity, Readiness};
use crate::object::{ContainerSpec, Pod, Role};
use crate::pod::behaviour::Behaviour;
use crate::pod::registry::Entry;
use futures::FutureExt;
use futures::future::{BoxFuture, FusedFuture};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// An event of a container, with the container and the run.
#[derive(Debug)]
pub struct Report {
    /// The number of the container.
    pub index: usize,
    /// The number of the run.
    pub run: u32,
    /// The event.
    pub event: ContainerEvent,
}

/// A started run.
#[derive(Debug)]
pub struct Run {
    /// The process of the run.
    pub process: Process,
    relay: AbortHandle,
    terminating: CancellationToken,
}

impl Run {
    /// Stops the liveness and startup probes, because the pod is terminating.
    pub fn stop_liveness(&self) {
        self.terminating.cancel();
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.relay.abort();
    }
}

/// Starts run `run` of a container on the pod's address.
pub fn start(
    pod: &Pod,
    (index, run): (usize, u32),
    ip: Ipv4Addr,
    entry: &Entry,
    behaviour: &Behaviour,
    reports: mpsc::Sender<Report>,
) -> Option<Run> {
    let (role, spec) = pod.spec.container(index)?;
    let identity = Identity {
        name: pod.name().into(),
        uid: pod.uid().into(),
        ip,
        readiness_paths: readiness_paths(pod),
        readiness: Arc::clone(&entry.readiness),
        served: Arc::clone(&entry.served),
        received: AtomicU64::new(0),
        conduct: behaviour.conduct(role),
        hanging: Arc::default(),
    };
    let (sender, events) = mpsc::channel(2);
    // An ordinary init container has no ports.
    let ports = if role == Role::Init { Vec::new() } else { spec.tcp_ports() };
    let process = Process::spawn(Arc::new(identity), ports, sender);
    let terminating = CancellationToken::new();
    let relay = Relay {
        events,
        probe: [Kind::Startup, Kind::Readiness, Kind::Liveness].map(|kind| Probe::of(kind, spec, ip)),
        readiness: Arc::clone(&entry.readiness),
        terminating: terminating.clone(),
    };
    let relay = relay.run(move |event| {
        let reports = reports.clone();
        async move { reports.send(Report { index, run, event }).await.is_ok() }
    });
    let relay = tokio::spawn(relay.in_current_span()).abort_handle();
    Some(Run { process, relay, terminating })
}

/// Forwards the reports of the process and of the probes.
struct Relay {
    events: mpsc::Receiver<ContainerEvent>,
    /// The startup, readiness and liveness probes.
    probe: [Option<Probe>; 3],
    readiness: Arc<Readiness>,
    terminating: CancellationToken,
}

impl Relay {
    async fn run<F: Future<Output = bool>>(mut self, report: impl Fn(ContainerEvent) -> F) {
        let (startup_says, mut startup) = mpsc::channel(1);
        let (readiness_says, mut ready) = mpsc::channel(1);
        let (liveness_says, mut alive) = mpsc::channel(1);
        let [startup_probe, readiness_probe, liveness_probe] = self.probe.each_mut().map(Option::take);
        let waits = startup_probe.is_some();
        let probing = |probe: Option<Probe>, says: mpsc::Sender<bool>| match probe {
            Some(probe) => probe.run(Arc::clone(&self.readiness), says).boxed(),
            None => futures::future::pending().boxed(),
        };
        let mut starting = std::pin::pin!(unless(&self.terminating, probing(startup_probe, startup_says)));
        let mut living = std::pin::pin!(unless(&self.terminating, probing(liveness_probe, liveness_says)));
        let mut readying = std::pin::pin!(probing(readiness_probe, readiness_says).fuse());
        let (mut runs, mut is_up) = (false, false);
        loop {
            let event = tokio::select! {
                Some(event) = self.events.recv() => event,
                Some(up) = startup.recv() => if up { ContainerEvent::Up } else { ContainerEvent::Unhealthy },
                Some(ready) = ready.recv() => ContainerEvent::Ready(ready),
                Some(_) = alive.recv() => ContainerEvent::Unhealthy,
                () = &mut starting, if runs && !starting.is_terminated() => continue,
                () = &mut living, if is_up && !living.is_terminated() => continue,
                () = &mut readying, if is_up && !readying.is_terminated() => continue,
            };
            runs |= event == ContainerEvent::Started;
            is_up |= event == ContainerEvent::Up || (runs && !waits);
            let ended = matches!(event, ContainerEvent::Exited { .. });
            if !report(event).await || ended {
                return;
            }
        }
    }
}

/// Runs `probing` until the pod terminates.
fn unless<'a>(
    terminating: &'a CancellationToken,
    probing: BoxFuture<'a, ()>,
) -> impl FusedFuture<Output = ()> + 'a {
    async move {
        tokio::select! {
            () = terminating.cancelled() => {}
            () = probing => {}
        }
    }
    .fuse()
}

/// Sends the HTTP request of a container's preStop hook, and reports the completion after a success or a failure.
pub fn call_hook(
    spec: &ContainerSpec,
    (index, run): (usize, u32),
    ip: Ipv4Addr,
    reports: mpsc::Sender<Report>,
) {
    let get = spec.lifecycle.as_ref().and_then(|hooks| hooks.pre_stop.as_ref()?.http_get.as_ref());
    let request = get.and_then(|get| Get::resolve(spec, get, ip));
    let call = async move {
        // The state machine ends the hook at the end of the grace period. The timeout of one hour only stops the task.
        if let Some(request) = request
            && let Err(error) = request.send(Duration::from_hours(1)).await
        {
            tracing::warn!(%error, "the preStop hook failed; the container is stopped all the same");
        }
        let _ = reports.send(Report { index, run, event: ContainerEvent::HookEnded }).await;
    };
    tokio::spawn(call.in_current_span());
}

/// Returns the readiness paths of a pod, which are the paths of its HTTP readiness probes. Without HTTP readiness
/// probes, returns `/healthz` and `/readyz` on every port.
fn readiness_paths(pod: &Pod) -> Vec<(u16, String)> {
    let containers = || pod.spec.all_containers().map(|(_, spec)| spec);
    let probed: Vec<_> = containers()
        .filter_map(|spec| {
            let get = spec.readiness_probe.as_ref()?.http_get.as_ref()?;
            let path = get.path.as_deref().unwrap_or("/");
            let path = path.split('?').next().unwrap_or(path);
            let slash = if path.starts_with('/') { "" } else { "/" };
            Some((spec.resolve_port(&get.port)?, format!("{slash}{path}")))
        })
        .collect();
    if !probed.is_empty() {
        return probed;
    }
    let ports = containers().flat_map(ContainerSpec::tcp_ports);
    ports.flat_map(|port| ["/healthz", "/readyz"].map(|path| (port, path.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(container: &serde_json::Value) -> Vec<(u16, String)> {
        readiness_paths(
            &serde_json::from_value(json!({"metadata": {}, "spec": {"containers": [container]}})).unwrap(),
        )
    }

    #[test]
    fn a_probes_own_path_is_the_readiness_path_and_else_the_usual_ones() {
        let port = json!([{"containerPort": 80, "name": "web"}]);
        let probe = json!({"httpGet": {"port": "web", "path": "ready?full=1"}});
        let probed = paths(&json!({"name": "app", "ports": port, "readinessProbe": probe}));
        assert_eq!(probed, [(80, "/ready".to_owned())]);
        let usual = paths(&json!({"name": "app", "ports": port}));
        assert_eq!(usual, [(80, "/healthz".to_owned()), (80, "/readyz".to_owned())]);
    }
}
