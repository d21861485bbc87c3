//! The API server and the kubelets of a world: the truth.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use headgate_core::model::{Change, Labels, ObjectKey, Scope, Uid, WallTime};
use headgate_daemonset::{
    Input,
    model::{
        Amount, BudgetFacts, Noted, Owner, Placement, Remembered, RevisionFacts, SetFacts, SetNode, SetPod,
        SetSpec, Strategy,
        ask::{Ask, Asked, Outcome},
    },
};

/// The namespace, and the name of the set.
pub const NAMESPACE: &str = "ingress";
pub const SET: &str = "edge";

/// Seconds since the world began, which is 1970 there.
pub fn wall(seconds: f64) -> WallTime {
    WallTime::since_1970(Duration::from_secs_f64(seconds))
}

/// A pod.
#[derive(Clone, Debug)]
pub struct Pod {
    pub facts: SetPod,
    /// When it is ready; never: nothing.
    pub ready_at: Option<f64>,
    /// When it is scheduled.
    pub scheduled_at: f64,
    /// When nothing is left of it.
    pub gone_at: Option<f64>,
}

impl Pod {
    pub fn is_live(&self) -> bool {
        !self.facts.terminating && !self.facts.finished
    }

    pub fn is_available(&self, now: f64, min_ready: Duration) -> bool {
        self.is_live() && self.facts.ready.is_some_and(|since| since + min_ready <= wall(now))
    }
}

/// The API server.
pub struct Api {
    pub set: SetFacts,
    pub pods: BTreeMap<Arc<str>, Pod>,
    pub nodes: BTreeMap<Arc<str>, SetNode>,
    pub revisions: BTreeMap<Arc<str>, RevisionFacts>,
    pub budgets: BTreeMap<Arc<str>, BudgetFacts>,
    /// Revisions that never get ready.
    pub bad: BTreeSet<Arc<str>>,
    /// What the watches have to say.
    pub news: Vec<Input>,
    serial: u64,
}

fn key(name: impl Into<Arc<str>>) -> ObjectKey {
    ObjectKey::new(NAMESPACE, name)
}

impl Api {
    pub fn new(spec: SetSpec) -> Self {
        let set = SetFacts {
            key: key(SET),
            uid: Uid::new("set-0"),
            version: "0".into(),
            generation: 1,
            deleting: false,
            spec,
            remembered: Remembered::default(),
            beyond: None,
        };
        Self {
            set,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            revisions: BTreeMap::new(),
            budgets: BTreeMap::new(),
            bad: BTreeSet::new(),
            news: Vec::new(),
            serial: 0,
        }
    }

    pub fn spec(labels: &Labels) -> SetSpec {
        SetSpec {
            pods_per_node: 1,
            revision: "r1".into(),
            placement: Placement::default(),
            strategy: Strategy::RollingUpdate { surge: 1, unavailable: 0 },
            nodes_at_once: Amount::Number(1),
            deadline: Duration::from_secs(300),
            handshake: None,
            min_ready: Duration::from_secs(5),
            history: 2,
            paused: false,
            may_miss: Some(Amount::Percent(25)),
            labels: labels.clone(),
        }
    }

    fn next(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn owner(&self) -> Owner {
        Owner { name: SET.into(), uid: self.set.uid.clone() }
    }

    /// The set is another one from now on.
    pub fn change_set(&mut self, change: impl FnOnce(&mut SetSpec)) {
        change(&mut self.set.spec);
        self.set.generation += 1;
        self.set.version = self.next().to_string().into();
        self.news.push(Input::Set(Change::Applied(self.set.clone())));
    }

    pub fn put_node(&mut self, node: SetNode) {
        self.nodes.insert(node.name.clone(), node.clone());
        self.news.push(Input::Node(Change::Applied(node)));
    }

    pub fn drop_node(&mut self, name: &Arc<str>) {
        if let Some(node) = self.nodes.remove(name) {
            self.news.push(Input::Node(Change::Deleted(node)));
        }
    }

    pub fn put_budget(&mut self, budget: BudgetFacts) {
        self.budgets.insert(budget.key.name.clone(), budget.clone());
        self.news.push(Input::Budget(Change::Applied(budget)));
    }

    pub fn drop_budget(&mut self, name: &str) {
        if let Some(budget) = self.budgets.remove(name) {
            self.news.push(Input::Budget(Change::Deleted(budget)));
        }
    }

    /// All there is, as lists say it.
    pub fn lists(&self) -> [Input; 5] {
        let scope = || Scope::Cluster;
        let pods = self.pods.values().map(|pod| pod.facts.clone()).collect();
        [
            Input::Set(Change::Relisted(scope(), vec![self.set.clone()])),
            Input::Pod(Change::Relisted(scope(), pods)),
            Input::Node(Change::Relisted(scope(), self.nodes.values().cloned().collect())),
            Input::Revision(Change::Relisted(scope(), self.revisions.values().cloned().collect())),
            Input::Budget(Change::Relisted(scope(), self.budgets.values().cloned().collect())),
        ]
    }

    /// Carries out what is asked. `hold`: for how long a pod that ends is there; `ready`: how long a new one takes.
    pub fn carry_out(&mut self, asked: &Asked, now: f64, hold: f64, ready: f64) -> Outcome {
        if asked.uid != self.set.uid {
            return Outcome::Gone;
        }
        match &asked.ask {
            Ask::Make { name, node, revision } => {
                if self.pods.contains_key(name) {
                    return Outcome::Exists;
                }
                let uid = Uid::new(format!("pod-{}", self.next()));
                let facts = SetPod {
                    key: key(name.clone()),
                    uid: uid.clone(),
                    version: self.next().to_string().into(),
                    controller: Some(self.owner()),
                    set: Some(SET.into()),
                    revision: revision.clone(),
                    node: node.clone(),
                    scheduled: false,
                    created: wall(now),
                    terminating: false,
                    finished: false,
                    ready: None,
                };
                let ready_at = (!self.bad.contains(revision)).then_some(now + ready);
                let scheduled_at = now + ready / 3.0;
                self.news.push(Input::Pod(Change::Applied(facts.clone())));
                self.pods.insert(name.clone(), Pod { facts, ready_at, scheduled_at, gone_at: None });
                Outcome::Done(Some(uid))
            }
            Ask::Delete { name, uid, version, .. } => {
                let is_as_seen = |pod: &Pod| version.as_ref().is_none_or(|seen| *seen == pod.facts.version);
                let is_it = |pod: &&Pod| pod.facts.uid == *uid;
                if self.pods.get(name).filter(is_it).is_some_and(|pod| !is_as_seen(pod)) {
                    return Outcome::Conflict;
                }
                self.end_pod(name, uid, now + hold)
            }
            Ask::Evict { name, uid, .. } => self.evict(name, Some(uid), now + hold),
            Ask::Adopt { name, uid } => {
                let owner = self.owner();
                self.change_pod(name, uid, |pod| pod.controller = Some(owner))
            }
            Ask::Release { name, uid } => self.change_pod(name, uid, |pod| pod.controller = None),
            Ask::KeepRevision { revision, number } => {
                let name: Arc<str> = format!("{SET}-{revision}").into();
                if self.revisions.contains_key(&name) {
                    return Outcome::Exists;
                }
                let facts = RevisionFacts {
                    key: key(name.clone()),
                    uid: Uid::new(format!("revision-{}", self.next())),
                    controller: Some(self.owner()),
                    set: Some(SET.into()),
                    revision: revision.clone(),
                    number: *number,
                };
                self.put_revision(name, facts)
            }
            Ask::RenumberRevision { name, uid, number } => match self.revisions.get(name) {
                Some(facts) if facts.uid == *uid => {
                    let facts = RevisionFacts { number: *number, ..facts.clone() };
                    self.put_revision(name.clone(), facts)
                }
                _ => Outcome::Gone,
            },
            Ask::AdoptRevision { name, uid } => match self.revisions.get(name) {
                Some(facts) if facts.uid == *uid => {
                    let facts = RevisionFacts { controller: Some(self.owner()), ..facts.clone() };
                    self.put_revision(name.clone(), facts)
                }
                _ => Outcome::Gone,
            },
            Ask::DropRevision { name, uid } => match self.revisions.remove(name) {
                Some(facts) if facts.uid == *uid => {
                    self.news.push(Input::Revision(Change::Deleted(facts)));
                    Outcome::Done(None)
                }
                Some(facts) => {
                    self.revisions.insert(name.clone(), facts);
                    Outcome::Gone
                }
                None => Outcome::Gone,
            },
            Ask::KeepBudget { least, uid } => {
                let before = self.budgets.get(SET).map(|budget| budget.uid.clone());
                if before != *uid {
                    return if before.is_some() { Outcome::Exists } else { Outcome::Gone };
                }
                let uid = before.unwrap_or_else(|| Uid::new("budget"));
                self.put_budget(BudgetFacts {
                    key: key(SET),
                    uid,
                    controller: Some(self.owner()),
                    set: Some(SET.into()),
                    selector: Vec::new(),
                    min_available: Some(*least),
                    beyond: None,
                });
                Outcome::Done(None)
            }
            Ask::AdoptBudget { name, uid } => {
                let budget = self.budgets.get(&**name).filter(|budget| budget.uid == *uid).cloned();
                let Some(budget) = budget else { return Outcome::Gone };
                self.put_budget(BudgetFacts { controller: Some(self.owner()), ..budget });
                Outcome::Done(None)
            }
            Ask::DropBudget(uid) => {
                let is_it = self.budgets.get(SET).is_some_and(|budget| budget.uid == *uid);
                if is_it {
                    self.drop_budget(SET);
                }
                if is_it { Outcome::Done(None) } else { Outcome::Gone }
            }
            Ask::Annotate { node, key, value } => {
                let Some(node) = self.nodes.get(node) else { return Outcome::Gone };
                let mut node = node.clone();
                node.annotations.retain(|noted| *noted.key != **key);
                let noted =
                    |value: &Arc<str>| Noted { key: (&**key).into(), value: (&**value).into(), time: None };
                node.annotations.extend(value.as_ref().map(noted));
                self.put_node(node);
                Outcome::Done(None)
            }
            Ask::Write { version, status } => {
                if *version != self.set.version {
                    return Outcome::Conflict;
                }
                self.set.remembered = status.remembered.clone();
                self.set.version = self.next().to_string().into();
                self.news.push(Input::Set(Change::Applied(self.set.clone())));
                Outcome::Done(None)
            }
        }
    }

    fn put_revision(&mut self, name: Arc<str>, facts: RevisionFacts) -> Outcome {
        self.news.push(Input::Revision(Change::Applied(facts.clone())));
        self.revisions.insert(name, facts);
        Outcome::Done(None)
    }

    pub fn change_pod(&mut self, name: &Arc<str>, uid: &Uid, change: impl FnOnce(&mut SetPod)) -> Outcome {
        let version = self.next().to_string().into();
        match self.pods.get_mut(name).filter(|pod| pod.facts.uid == *uid) {
            None => Outcome::Gone,
            Some(pod) => {
                change(&mut pod.facts);
                pod.facts.version = version;
                self.news.push(Input::Pod(Change::Applied(pod.facts.clone())));
                Outcome::Done(None)
            }
        }
    }

    fn end_pod(&mut self, name: &Arc<str>, uid: &Uid, gone_at: f64) -> Outcome {
        match self.pods.get_mut(name).filter(|pod| pod.facts.uid == *uid) {
            None => Outcome::Gone,
            Some(pod) if pod.facts.terminating => Outcome::Done(None),
            Some(pod) if !pod.facts.scheduled => {
                let facts = pod.facts.clone();
                self.pods.remove(name);
                self.news.push(Input::Pod(Change::Deleted(facts)));
                Outcome::Done(None)
            }
            Some(pod) => {
                pod.gone_at = Some(gone_at);
                self.change_pod(name, uid, |pod| pod.terminating = true)
            }
        }
    }

    /// As the eviction API has it: of pods that are ready as many are left as the budgets say.
    pub fn evict(&mut self, name: &Arc<str>, uid: Option<&Uid>, gone_at: f64) -> Outcome {
        let Some(pod) = self.pods.get(name).filter(|pod| uid.is_none_or(|uid| pod.facts.uid == *uid)) else {
            return Outcome::Gone;
        };
        let uid = pod.facts.uid.clone();
        if pod.facts.ready.is_some() && pod.is_live() {
            let healthy = |pod: &&Pod| pod.is_live() && pod.facts.ready.is_some();
            let healthy = self.pods.values().filter(healthy).count();
            if self.budgets.len() > 1 {
                return Outcome::Refused("two budgets select it".into());
            }
            let least = self.budgets.values().find_map(|budget| budget.min_available);
            if least.is_some_and(|least| healthy <= least) {
                return Outcome::NotNow("the budget".into());
            }
        }
        self.end_pod(name, &uid, gone_at)
    }

    /// Whoever detaches nodes that are annotated says when it has, and takes that back when they are not any more.
    pub fn detach(&mut self, name: &Arc<str>, now: f64) {
        let Some(handshake) = self.set.spec.handshake.clone() else { return };
        let Some(wait) = &handshake.wait else { return };
        let Some(mut node) = self.nodes.get(name).cloned() else { return };
        let is_asked = node.says(&handshake.key).is_some_and(|said| *said.value == *handshake.value);
        if is_asked == node.says(&wait.key).is_some() {
            return;
        }
        node.annotations.retain(|noted| *noted.key != *wait.key);
        // In whole seconds, as times are written.
        let at = wall(now.floor());
        node.annotations.extend(is_asked.then(|| Noted {
            key: (&*wait.key).into(),
            value: "a time".into(),
            time: Some(at),
        }));
        self.put_node(node);
    }

    /// What kubelets, the scheduler and the garbage collector do by themselves.
    pub fn pass(&mut self, now: f64) {
        let names: Vec<Arc<str>> = self.pods.keys().cloned().collect();
        for name in names {
            let pod = &self.pods[&name];
            let node = self.nodes.get(&pod.facts.node);
            let (uid, scheduled) = (pod.facts.uid.clone(), pod.facts.scheduled);
            // A node that is gone takes what is left of its pods along, some time after they are to end.
            let gone_at = pod.gone_at.map(|at| if node.is_none() { at.min(now) } else { at });
            if gone_at.is_some_and(|at| at <= now) {
                let facts = pod.facts.clone();
                self.pods.remove(&name);
                self.news.push(Input::Pod(Change::Deleted(facts)));
            } else if !scheduled && pod.scheduled_at <= now && node.is_some_and(|node| !node.cordoned) {
                self.change_pod(&name, &uid, |pod| pod.scheduled = true);
            } else if scheduled
                && pod.is_live()
                && pod.facts.ready.is_none()
                && pod.ready_at.is_some_and(|at| at <= now)
                && node.is_some_and(|node| node.ready)
            {
                self.change_pod(&name, &uid, |pod| pod.ready = Some(wall(now)));
            }
        }
    }
}
