//! Where a pod runs, and its address there.
//!
//! Owns how the pod's task gets an address and gives it back, and the annotation that the simulated CNI
//! writes of it: on the way in before the sandbox is reported, so always earlier than `status.podIP`; on the
//! way out emptied, as the VPC CNI does (`AnnotatePod` in its `ipamd.go`). An annotation that cannot be
//! written keeps no pod from running; a zone without addresses does, until one is free.

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

/// How often a pod asks again for an address when its zone has none left.
const ADDRESS_RETRY: Duration = Duration::from_secs(1);

/// The annotation of the VPC CNI (with `ANNOTATE_POD_IP=true`).
const POD_IPS: &str = "vpc.amazonaws.com/pod-ips";

/// Where a pod runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// The node's own address.
    pub node: Ipv4Addr,
    /// What the node does.
    pub state: watch::Receiver<NodeState>,
    /// The addresses of its zone.
    pub pool: Arc<Mutex<IpPool>>,
    /// An address of an earlier run, already claimed from the pool.
    pub kept: Option<Ipv4Addr>,
}

/// How the CNI's write has ended, and the address that was waiting for it.
pub(super) type Annotated = (Option<Ipv4Addr>, Outcome);

impl Worker {
    /// Gets the pod an address. A new sandbox never has the address of the one before it.
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

    /// The CNI's write has ended.
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

    /// The pod's last container has ended: address and annotation go.
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

    /// The address goes back to the zone.
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
