//! The writes of a pod's task to the API server, and their results.
//!
//! The module decides which write is due. Only one write is in progress at a time, and each write contains the current
//! state.

use super::{LONGEST_PAUSE, Object, SHORTEST_PAUSE, Worker};
use crate::clock::Moment;
use crate::object::Pod;
use crate::pod::lifecycle::Input;
use crate::pod::write::Outcome;
use crate::pod::{patch, status};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::time::Instant;

impl Worker {
    pub(super) fn forsake(&mut self) {
        if self.object == Object::Present {
            self.object = Object::Deleted;
        }
    }

    /// Returns the next due write.
    pub(super) fn next_write(&mut self) -> Option<BoxFuture<'static, Outcome>> {
        if self.object != Object::Present || self.pause_until.is_some() || self.dark {
            return None;
        }
        let (namespace, name) = (self.pod.namespace().to_owned(), self.pod.name().to_owned());
        if self.stale && !self.lifecycle.is_settled() {
            let wanted = status::desired(&self.pod, &self.lifecycle, self.place.node, &self.began);
            self.stale = false;
            let now = Moment::now().timestamp();
            let patch = if self.lifecycle.rejection().is_some() { patch::clearing } else { patch::between };
            if let Some(patch) = patch(self.pod.uid(), &self.pod.status, &wanted, &now) {
                return Some(self.writer.clone().patch(namespace, name, patch).boxed());
            }
        }
        // The last status is stored and no container runs, so the object can be deleted.
        if self.lifecycle.has_ended() && self.pod.metadata.deletion_timestamp.is_some() {
            let uid = self.pod.uid().to_owned();
            return Some(self.writer.clone().delete(namespace, name, uid).boxed());
        }
        None
    }

    pub(super) fn learn(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Written(pod) => {
                self.pause = SHORTEST_PAUSE;
                self.adopt(pod);
            }
            Outcome::Deleted => self.forsake(),
            Outcome::Gone => {
                self.forsake();
                self.step(Input::Vanished);
            }
            Outcome::Refused(message) => {
                tracing::error!(message, "the API server refuses this status; it is not sent again");
                self.pause_until = Some(Instant::now() + LONGEST_PAUSE);
            }
            Outcome::Failed(message) => {
                tracing::debug!(message, pause = ?self.pause, "a write failed and is repeated");
                self.stale = true;
                self.pause_until = Some(Instant::now() + self.pause);
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    /// Adopts the object that resulted from this kubelet's own write.
    pub(super) fn adopt(&mut self, mut pod: Box<Pod>) {
        if pod.version() > self.pod.version() {
            pod.metadata.managed_fields = None;
            // Another writer may have changed a readiness gate in the meantime. The watch will not report this change
            // as newer.
            self.notice_gates(&pod);
            self.pod = Arc::from(pod);
            self.heed_deletion();
        }
    }
}
