//! One run of a container, as the pod's task holds it.
//!
//! Owns a process and the probe that goes with it, and turns what both say into reports that carry the run's
//! number. Dropping it ends both; a report that nobody takes any more ends it too.

use crate::container::http::Get;
use crate::container::probe::Probe;
use crate::container::process::Process;
use crate::container::server::{Identity, Readiness};
use crate::pod::lifecycle::ContainerEvent;
use crate::pod::object::{ContainerSpec, Pod};
use crate::pod::registry::Entry;
use futures::FutureExt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tracing::Instrument;

/// Something that happened to a container.
#[derive(Debug)]
pub struct Report {
    /// Position in the spec.
    pub index: usize,
    /// Which run reports.
    pub run: u32,
    /// What happened.
    pub event: ContainerEvent,
}

/// A run that has been started.
#[derive(Debug)]
pub struct Run {
    /// Its process.
    pub process: Process,
    relay: AbortHandle,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.relay.abort();
    }
}

/// Starts run `run` of a container, on the pod's address.
pub fn start(
    pod: &Pod,
    (index, run): (usize, u32),
    ip: Ipv4Addr,
    entry: &Entry,
    reports: mpsc::Sender<Report>,
) -> Option<Run> {
    let spec = pod.spec.containers.get(index)?;
    let identity = Identity {
        name: pod.name().into(),
        uid: pod.uid().into(),
        ip,
        readiness_paths: readiness_paths(pod),
        readiness: Arc::clone(&entry.readiness),
        served: Arc::clone(&entry.served),
    };
    let (sender, events) = mpsc::channel(2);
    let process = Process::spawn(Arc::new(identity), spec.tcp_ports(), sender);
    let probe = Probe::readiness(spec, ip);
    let relay = relay(events, probe, Arc::clone(&entry.readiness), move |event| {
        let reports = reports.clone();
        async move { reports.send(Report { index, run, event }).await.is_ok() }
    });
    let relay = tokio::spawn(relay.in_current_span()).abort_handle();
    Some(Run { process, relay })
}

/// Passes on what the process says; the probe begins when the process has started.
async fn relay<F: Future<Output = bool>>(
    mut events: mpsc::Receiver<ContainerEvent>,
    mut probe: Option<Probe>,
    readiness: Arc<Readiness>,
    report: impl Fn(ContainerEvent) -> F,
) {
    let (changes, mut probed) = mpsc::channel(1);
    let mut probing = futures::future::pending().boxed();
    loop {
        let event = tokio::select! {
            Some(event) = events.recv() => event,
            Some(ready) = probed.recv() => ContainerEvent::Ready(ready),
            () = &mut probing => {
                probing = futures::future::pending().boxed();
                continue;
            }
        };
        let (started, ended) =
            (event == ContainerEvent::Started, matches!(event, ContainerEvent::Exited { .. }));
        if !report(event).await || ended {
            return;
        }
        if started && let Some(probe) = probe.take() {
            probing = probe.run(Arc::clone(&readiness), changes.clone()).boxed();
        }
    }
}

/// Sends the HTTP request of a container's preStop hook and reports its end, however it ended.
pub fn call_hook(
    spec: &ContainerSpec,
    (index, run): (usize, u32),
    ip: Ipv4Addr,
    reports: mpsc::Sender<Report>,
) {
    let get = spec.lifecycle.as_ref().and_then(|hooks| hooks.pre_stop.as_ref()?.http_get.as_ref());
    let request = get.and_then(|get| Get::resolve(spec, get, ip));
    let call = async move {
        // The state machine cuts the hook at the end of the grace period; the limit only ends this task.
        if let Some(request) = request
            && let Err(error) = request.send(Duration::from_hours(1)).await
        {
            tracing::warn!(%error, "the preStop hook failed; the container is stopped all the same");
        }
        let _ = reports.send(Report { index, run, event: ContainerEvent::HookEnded }).await;
    };
    tokio::spawn(call.in_current_span());
}

/// The readiness paths of a pod: those of its HTTP readiness probes, or where it has none, `/healthz` and
/// `/readyz` on every port.
fn readiness_paths(pod: &Pod) -> Vec<(u16, String)> {
    let containers = &pod.spec.containers;
    let probed: Vec<_> = containers
        .iter()
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
    let ports = containers.iter().flat_map(ContainerSpec::tcp_ports);
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
