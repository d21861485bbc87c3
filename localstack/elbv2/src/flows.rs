//! Stores open connections and requests by target, so that a node can close them when the model decides so.
//!
//! A flow is added under the model's lock at the moment when its target is chosen. Cuts use the same lock, so a cut
//! reaches each flow that was chosen earlier.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::model::{Cut, GroupId, Route};

type Key = (GroupId, SocketAddr);

/// All open flows.
#[derive(Debug, Clone, Default)]
pub struct Flows {
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    flows: HashMap<Key, HashMap<u64, Flow>>,
    last: u64,
}

#[derive(Debug)]
struct Flow {
    node: usize,
    registration: u64,
    cut: CancellationToken,
}

/// An open flow. Dropping the entry removes the flow.
#[derive(Debug)]
pub struct Entry {
    flows: Flows,
    key: Key,
    number: u64,
    cut: CancellationToken,
}

impl Entry {
    /// Returns a token that is cancelled when the node closes the flow.
    pub fn cut(&self) -> &CancellationToken {
        &self.cut
    }
}

impl Flows {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a flow from a node to a target.
    pub fn enter(&self, group: GroupId, node: usize, route: Route) -> Entry {
        let mut open = self.open();
        open.last += 1;
        let (key, number, cut) = ((group, route.target), open.last, CancellationToken::new());
        let flow = Flow { node, registration: route.registration, cut: cut.clone() };
        open.flows.entry(key).or_default().insert(number, flow);
        Entry { flows: self.clone(), key, number, cut }
    }

    /// Closes the flows that match any of the cuts.
    pub fn cut(&self, cuts: &[Cut]) {
        let open = self.open();
        for cut in cuts {
            let flows = open.flows.get(&(cut.group, cut.target)).into_iter().flat_map(HashMap::values);
            for flow in flows {
                if cut.node.is_none_or(|node| node == flow.node) && flow.registration <= cut.up_to {
                    flow.cut.cancel();
                }
            }
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut open = self.flows.open();
        if let Some(flows) = open.flows.get_mut(&self.key) {
            flows.remove(&self.number);
            if flows.is_empty() {
                open.flows.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::settings::Settings;

    #[test]
    fn a_cut_ends_the_flows_it_names_and_no_others() {
        let group = Model::new(Settings::default()).some_group_id();
        let flows = Flows::default();
        let target = SocketAddr::from(([127, 0, 0, 1], 80));
        let enter = |node, registration| flows.enter(group, node, Route { target, registration });
        let (old, new, elsewhere) = (enter(0, 1), enter(0, 2), enter(1, 1));
        flows.cut(&[Cut { group, target, node: Some(0), up_to: 1 }]);
        let cut = [&old, &new, &elsewhere].map(|entry| entry.cut().is_cancelled());
        assert_eq!(cut, [true, false, false]);
        drop((old, new, elsewhere));
        assert!(flows.open().flows.is_empty());
    }
}
