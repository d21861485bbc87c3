//! What the watches say reaches the replicas: late, twice, or not all of it.

use super::World;
use crate::cluster::REPLICAS;
use headgate_core::{
    engine::Input,
    model::{Change, PodFacts},
};

impl World {
    /// The watches that are to list do so; one list in a few leaves out what is there.
    pub(super) fn relist(&mut self, replica: usize) {
        let wrong = self.faults && self.rng.u8(0..6) == 0;
        for event in self.cluster.relist(replica, wrong, &mut self.rng) {
            self.saw(event);
        }
    }

    /// The watches say all that they have not said yet; those that are to list do so soon.
    pub(super) fn say_all(&mut self) -> Result<(), String> {
        for replica in 0..REPLICAS {
            if self.rng.u8(0..8) == 0 {
                self.relist(replica);
            }
            while self.replicas[replica].runs() && !self.cluster.watches[replica].are_silent() {
                self.deliver_binding(replica)?;
                self.deliver_service(replica)?;
                self.deliver_node(replica)?;
                self.deliver_pod(replica)?;
            }
        }
        Ok(())
    }

    pub(super) fn deliver_pod(&mut self, replica: usize) -> Result<(), String> {
        if !self.replicas[replica].runs() {
            return Ok(());
        }
        let unsaid = &mut self.cluster.watches[replica].pods.unsaid;
        let Some(change) = unsaid.pop_front() else { return Ok(()) };
        if !unsaid.is_empty() {
            self.coverage.saw("event: delivered late");
        }
        self.tell_of_pod(replica, change.clone())?;
        // A list that comes twice would be one that is confirmed.
        if self.rng.u8(0..20) == 0 && !matches!(change, Change::Relisted(..)) {
            self.coverage.saw("event: delivered twice");
            self.tell_of_pod(replica, change)?;
        }
        Ok(())
    }

    fn tell_of_pod(&mut self, replica: usize, change: Change<PodFacts>) -> Result<(), String> {
        self.step(replica, Input::Pod { change, seen: self.now })
    }

    pub(super) fn deliver_service(&mut self, replica: usize) -> Result<(), String> {
        if !self.replicas[replica].runs() {
            return Ok(());
        }
        let Some(change) = self.cluster.watches[replica].services.unsaid.pop_front() else { return Ok(()) };
        self.step(replica, Input::Service { change, seen: self.now })
    }

    pub(super) fn deliver_binding(&mut self, replica: usize) -> Result<(), String> {
        if !self.replicas[replica].runs() {
            return Ok(());
        }
        let Some(change) = self.cluster.watches[replica].bindings.unsaid.pop_front() else { return Ok(()) };
        self.step(replica, Input::Binding { change, seen: self.now })
    }

    pub(super) fn deliver_node(&mut self, replica: usize) -> Result<(), String> {
        if !self.replicas[replica].runs() {
            return Ok(());
        }
        let Some(change) = self.cluster.watches[replica].nodes.unsaid.pop_front() else { return Ok(()) };
        self.step(replica, Input::Node { change, seen: self.now })
    }
}
