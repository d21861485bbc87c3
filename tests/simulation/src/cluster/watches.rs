//! What the watches of a replica have not said yet.

use std::{collections::VecDeque, net::IpAddr};

use headgate_core::{
    leadership,
    model::{BindingFacts, Change, NodeFacts, ObjectKey, PodFacts, Scope, ServiceFacts},
};

/// One watch: what it has not said yet, and whether it is to list all there is.
#[derive(Debug)]
pub struct Watch<T> {
    pub unsaid: VecDeque<Change<T>>,
    /// It is interrupted, and says nothing until it has listed.
    cut: bool,
    /// It is asked to list although it goes on, or its last list was wrong.
    again: bool,
    /// There is none.
    missing: bool,
}

impl<T: Clone> Watch<T> {
    fn new() -> Self {
        Self { unsaid: VecDeque::new(), cut: true, again: false, missing: false }
    }

    pub fn say(&mut self, change: Change<T>) {
        if !self.cut {
            self.unsaid.push_back(change);
        }
    }

    /// What was not said yet is lost.
    pub fn cut(&mut self) {
        self.unsaid.clear();
        self.cut = true;
    }

    /// It is to list all there is once more.
    fn ask_again(&mut self) {
        self.again = true;
    }

    /// It says that these are gone, which is not so; a later list corrects that.
    pub fn says_gone(&mut self, all: Vec<T>) {
        if !self.cut && !self.missing {
            self.unsaid.extend(all.into_iter().map(Change::Deleted));
            self.again = true;
        }
    }

    /// Whether it has said all there is, and nothing else.
    pub fn is_right(&self) -> bool {
        self.unsaid.is_empty() && !self.is_to_list()
    }

    /// Whether it has said all there is about these, and nothing else.
    pub fn is_right_about(&self, these: impl Fn(&T) -> bool) -> bool {
        let is_about = |change: &Change<T>| match change {
            Change::Applied(it) | Change::Deleted(it) => these(it),
            Change::Relisted(..) => true,
        };
        !self.is_to_list() && !self.unsaid.iter().any(is_about)
    }

    pub fn is_to_list(&self) -> bool {
        (self.cut || self.again) && !self.missing
    }

    /// Lists `all`, and goes on from there; a list that is wrong is corrected by a later one.
    pub fn relist(&mut self, all: Vec<T>, wrong: bool) {
        (self.cut, self.again) = (false, wrong);
        self.unsaid.push_back(Change::Relisted(Scope::Cluster, all));
    }
}

/// The watches of one replica.
#[derive(Debug)]
pub struct Watches {
    pub pods: Watch<PodFacts>,
    pub services: Watch<ServiceFacts>,
    pub bindings: Watch<BindingFacts>,
    pub nodes: Watch<NodeFacts>,
}

impl Watches {
    pub fn new(with_nodes: bool) -> Self {
        let nodes = Watch { missing: !with_nodes, ..Watch::new() };
        Self { pods: Watch::new(), services: Watch::new(), bindings: Watch::new(), nodes }
    }

    /// One of them is to list all there is once more.
    pub fn ask_again(&mut self, watch: leadership::Watch) {
        match watch {
            leadership::Watch::Pods => self.pods.ask_again(),
            leadership::Watch::Services => self.services.ask_again(),
            leadership::Watch::Bindings => self.bindings.ask_again(),
            leadership::Watch::Nodes => self.nodes.ask_again(),
            leadership::Watch::Namespaces | leadership::Watch::Grants => {}
        }
    }

    /// Whether they have said all that is true, and nothing else.
    pub fn are_right(&self) -> bool {
        let Self { pods, services, bindings, nodes } = self;
        pods.is_right() && services.is_right() && bindings.is_right() && nodes.is_right()
    }

    /// Whether they have said all that is true of a pod of this name, of all that show this address, and of all but pods.
    pub fn are_right_about(&self, name: &ObjectKey, ip: Option<&IpAddr>) -> bool {
        let Self { pods, services, bindings, nodes } = self;
        let is_it = |pod: &PodFacts| pod.key == *name || ip.is_some_and(|ip| pod.ips.contains(ip));
        pods.is_right_about(is_it) && services.is_right() && bindings.is_right() && nodes.is_right()
    }

    /// Whether everything has been said.
    pub fn are_silent(&self) -> bool {
        let Self { pods, services, bindings, nodes } = self;
        pods.unsaid.is_empty()
            && services.unsaid.is_empty()
            && bindings.unsaid.is_empty()
            && nodes.unsaid.is_empty()
    }
}

/// A list that leaves objects out which are there: all, those of one kind, or some.
pub fn leave_out<T: Clone>(
    all: &[T],
    rng: &mut fastrand::Rng,
    is_of_one_kind: impl Fn(&T) -> bool,
) -> Vec<T> {
    let how = rng.u8(0..4);
    let stays = |item: &&T, chance: bool| match how {
        0 => false,
        1 => !is_of_one_kind(item),
        _ => chance,
    };
    all.iter()
        .filter(|item| {
            let chance = rng.bool();
            stays(item, chance)
        })
        .cloned()
        .collect()
}
