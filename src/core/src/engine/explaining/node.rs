//! Collects all information about one node and its pods.

use crate::{
    engine::{Engine, explaining::words},
    explanation::NodeExplanation,
    model::{Moment, ObjectKey},
};

impl Engine {
    /// Returns all information about the node of this name.
    pub fn explain_node(&mut self, name: &str, now: Moment) -> NodeExplanation {
        let here = self.known.index.pods().all().filter(|pod| pod.node.as_deref() == Some(name));
        let has_to_do_with = |pod: &ObjectKey| {
            let left = || {
                self.groups.values().any(|group| group.registrations().left_by(pod, None).next().is_some())
            };
            !self.known.index.pods().bound(pod).is_empty() || left()
        };
        let here: Vec<ObjectKey> = here.map(|pod| pod.key.clone()).filter(has_to_do_with).collect();
        let node = name.into();
        let goes = self.known.nodes.signal(&node);
        let goes =
            goes.map(|(signal, since)| ((signal.fate.cause().reason(), words::node_goes(signal)), since));
        NodeExplanation {
            seen: self.known.nodes.last_seen().named(name).cloned(),
            goes,
            pods: here.iter().map(|pod| self.explain(pod, now)).collect(),
            node,
        }
    }
}
