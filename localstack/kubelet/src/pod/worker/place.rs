//! The node and the address of a pod.
//!
//! The module gets and returns the pod's address, and writes the address into an annotation as the CNI does. The
//! annotation is set before the sandbox is reported, so the annotation always precedes `status.podIP`. At the end of
//! the pod, the annotation becomes empty, because the VPC CNI empties it too (`AnnotatePod` in `ipamd.go`). If the
//! write of the annotation fails, the pod runs without the annotation. If the zone has no free address, the pod waits
//! for an address.

use super::Worker;
use crate::address::IpPool;
use crate::node::state::NodeState;
use crate::pod::lifecycle::Input;
use crate::pod::write::Outcome;
use futures::FutureExt;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The interval at which a pod requests an address while its zone has no free address.
const ADDRESS_RETRY: Duration = Duration::from_secs(1);

/// The annotation that the VPC CNI writes with `ANNOTATE_POD_IP=true`.
const POD_IPS: &str = "vpc.amazonaws.com/pod-ips";

/// The node of a pod and its resources.
#[derive(Clone, Debug)]
pub struct Place {
    /// The address of the node.
    pub node: Ipv4Addr,
    /// The state of the node.
    pub state: watch::Receiver<NodeState>,
    /// The address pool of the zone.
    pub pool: Arc<Mutex<IpPool>>,
    /// The address of an earlier run, which was already claimed from the pool.
    pub kept: Option<Ipv4Addr>,
}

/// The result of the CNI's write, and the address that waited for the write.
pub(super) type Annotated = (Option<Ipv4Addr>, Outcome);

impl Worker {
    /// Gets an address for the pod. A new sandbox never has the address of the previous sandbox.
    pub(super) fn prepare(&mut self) {
        if self.lifecycle.has_ended() {
            return;
        }
        if self.pod.spec.uses_host_network() {
            return self.step(Input::Sandbox(self.place.node));
        }
        let kept = self.place.kept.filter(|_| !self.renewing);
        let Some(ip) = kept.or_else(|| self.pool(|pool| pool.allocate(Instant::now()))) else {
            tracing::warn!("the zone has no free address; the pod waits in ContainerCreating");
            self.ask_again = Some(Instant::now() + ADDRESS_RETRY);
            return;
        };
        self.renewing = false;
        if let Some(old) = self.place.kept.replace(ip).filter(|old| *old != ip) {
            self.pool(|pool| pool.release(old, Instant::now()));
        }
        if self.behaviour.cni_annotation && self.pod.annotation(POD_IPS) != Some(ip.to_string().as_str()) {
            self.annotate(Some(ip));
        } else {
            self.step(Input::Sandbox(ip));
        }
    }

    /// Handles the result of the CNI's write.
    pub(super) fn annotated(&mut self, (waiting, outcome): Annotated) {
        match outcome {
            Outcome::Written(pod) => self.adopt(pod),
            Outcome::Gone | Outcome::Deleted => {}
            Outcome::Refused(message) | Outcome::Failed(message) => {
                tracing::warn!(message, "the annotation {POD_IPS} could not be written; the pod goes on");
            }
        }
        if let Some(ip) = waiting {
            self.step(Input::Sandbox(ip));
        }
    }

    /// Returns the address to the pool and empties the annotation, after the pod's last container has terminated.
    pub(super) fn release(&mut self) {
        self.ask_again = None;
        let shown = self.place.kept.map(|ip| ip.to_string());
        if self.behaviour.cni_annotation
            && shown.is_some()
            && self.pod.annotation(POD_IPS) == shown.as_deref()
        {
            self.annotate(None);
        }
        self.give_back();
    }

    /// Returns the address to the pool of the zone.
    pub(super) fn give_back(&mut self) {
        if let Some(ip) = self.place.kept.take() {
            self.pool(|pool| pool.release(ip, Instant::now()));
        }
    }

    fn annotate(&mut self, ip: Option<Ipv4Addr>) {
        let value = ip.map(|ip| ip.to_string()).unwrap_or_default();
        let write = self.writer.clone().annotate(Arc::clone(&self.pod), POD_IPS, value);
        self.annotating = Some(write.map(move |outcome| (ip, outcome)).boxed());
    }

    fn pool<T>(&self, act: impl FnOnce(&mut IpPool) -> T) -> T {
        act(&mut self.place.pool.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
