//! Whoever leads: what it will be shown, and what it has sent.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use headgate_core::model::{Scope, Uid};
use headgate_daemonset::{
    Daemonsets, Input,
    model::{
        SetNode, SetPod, SetSpec,
        ask::{Ask, Asked, Outcome},
    },
};

use super::{
    api::Api,
    oracle::{self, Known, takes},
};

/// A request that is on its way.
pub struct Sent {
    /// What.
    pub asked: Asked,
    /// What was known then.
    pub known: Known,
    /// When it is carried out; never: it is lost.
    pub at: Option<f64>,
    /// What is answered instead.
    pub fails: Option<Outcome>,
    /// It was carried out, and this is answered then.
    pub answer: Option<(f64, Outcome)>,
}

/// Whoever leads.
pub struct Controller {
    /// The machine itself.
    pub machine: Daemonsets,
    /// What each watch will say, and when.
    pub watches: [VecDeque<(f64, Input)>; 5],
    /// What is on its way.
    pub sent: Vec<Sent>,
    /// The set and the nodes as the watches have shown them.
    pub spec: Option<SetSpec>,
    nodes: BTreeMap<Arc<str>, SetNode>,
    pods: BTreeMap<Arc<str>, SetPod>,
    /// Pods that it has asked to leave, on nodes that were detached: nobody knows of some whether they do.
    let_go: BTreeSet<Uid>,
}

/// Which watch says it.
pub fn watch(input: &Input) -> usize {
    match input {
        Input::Set(_) => 0,
        Input::Pod(_) => 1,
        Input::Node(_) => 2,
        Input::Revision(_) => 3,
        _ => 4,
    }
}

impl Controller {
    pub fn new(api: &Api) -> Self {
        let mut watches: [VecDeque<(f64, Input)>; 5] = Default::default();
        for list in api.lists() {
            watches[watch(&list)].push_back((0.0, list));
        }
        let machine = Daemonsets::new(&[Scope::Cluster]);
        let (nodes, pods) = (BTreeMap::new(), BTreeMap::new());
        Self { machine, watches, sent: Vec::new(), spec: None, nodes, pods, let_go: BTreeSet::new() }
    }

    /// Follows what the watches show, to be able to say what was known when something was asked. That a node is gone need not
    /// be believed at once.
    pub fn follow(&mut self, input: &Input) {
        use headgate_core::model::Change::{Applied, Deleted, Relisted};
        match input {
            Input::Set(Applied(set)) => self.spec = Some(set.spec.clone()),
            Input::Set(Relisted(_, sets)) => self.spec = sets.first().map(|set| set.spec.clone()),
            Input::Node(Applied(node)) => _ = self.nodes.insert(node.name.clone(), node.clone()),
            Input::Node(Relisted(_, nodes)) => {
                self.nodes.extend(nodes.iter().map(|node| (node.name.clone(), node.clone())));
            }
            Input::Pod(Applied(pod)) => _ = self.pods.insert(pod.key.name.clone(), pod.clone()),
            Input::Pod(Deleted(pod)) => _ = self.pods.remove(&pod.key.name),
            Input::Pod(Relisted(_, pods)) => {
                self.pods = pods.iter().map(|pod| (pod.key.name.clone(), pod.clone())).collect();
            }
            _ => {}
        }
    }

    /// Whether a pod may be asked to leave once more, as its node was detached when that was asked first.
    pub fn goes_again(&mut self, ask: &Ask, known: &Known) -> bool {
        let (Ask::Delete { uid, name, .. } | Ask::Evict { uid, name, .. }) = ask else { return false };
        let node = self.pods.get(name).map(|pod| &pod.node);
        let may = known.detached.as_ref().zip(node).is_some_and(|(detached, node)| detached.contains(node));
        if may {
            self.let_go.insert(uid.clone());
        }
        self.let_go.contains(uid)
    }

    pub fn known(&self, now: f64) -> Known {
        let took = self.nodes.values().filter(|node| takes(node)).map(|node| node.name.clone()).collect();
        let serves = |pod: &&SetPod| pod.ready.is_some() && !pod.terminating && !pod.finished;
        let serve: BTreeSet<&Arc<str>> = self.pods.values().filter(serves).map(|pod| &pod.node).collect();
        let down = self.nodes.keys().filter(|name| !serve.contains(name)).cloned().collect();
        let spec = self.spec.clone().unwrap();
        let detached = oracle::detached(&spec, self.nodes.values(), now);
        Known { most: oracle::most(&spec), least: oracle::least(&spec), spec, took, down, detached }
    }
}
