//! What must hold of each word on a node: whether a load balancer may send to a pod there.

use super::{Around, Replica};
use crate::oracle::Told;
use headgate_core::model::node::DetachedWrite;

impl Replica {
    /// It is to be written on a node that no load balancer sends to a pod there, or not any more.
    pub fn check_detached(&self, write: &DetachedWrite, around: &Around<'_>) -> Result<(), String> {
        let name = &write.node;
        if !self.leads || self.loaded.is_none() || !self.oracle.has_seen_all() {
            return Err(format!("node {name} is written to, and not all is known"));
        }
        let Some(node) = self.oracle.node(name).filter(|node| node.uid == write.uid) else {
            return Err(format!("node {name} is written to, and there is no such node"));
        };
        let goes = self.oracle.goes_away(name);
        let is_here = |pod: &&Told| {
            pod.facts.node.as_ref() == Some(name) && !pod.facts.ips.is_empty() && !pod.facts.finished
        };
        let mut here = self.oracle.all_pods().filter(is_here);
        if write.at.is_none() {
            return match here.next() {
                _ if !node.detached => Err(format!("node {name} is not detached, and that is taken away")),
                None if goes => Err(format!("node {name} goes without a pod, and counts as used")),
                _ => Ok(()),
            };
        }
        if !goes {
            return Err(format!("node {name} is said to be detached, and stays"));
        }
        here.try_for_each(|pod| {
            self.check_is_out(&format!("node {name} of {}", pod.facts.key.name), &pod.facts.uid, around)
        })
    }
}
