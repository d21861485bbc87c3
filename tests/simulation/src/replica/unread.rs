//! What a replica may know of targets whose health cannot be read: when AWS has said that it took a registration, which reads
//! were answered and which have failed, and which gates were open before.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{aws::Aws, words::Key};
use headgate_core::{
    Failure,
    model::{Call, FailureClass, Moment, PodFacts, TargetGroupArn, Uid, gate::Shown},
    requests::Answer,
};

/// See the module.
#[derive(Debug)]
pub struct Unread {
    /// For how long it must have been so; `None`: no gate opens for that.
    patience: Option<Duration>,
    /// For which pod AWS has said that it took a registration, and when; until any call about the target is sent.
    taken: BTreeMap<Key, (Uid, Moment)>,
    /// Those of them of whose group a read was answered that began since.
    answered: BTreeSet<Key>,
    /// When the last read of each group began that has failed.
    failed: BTreeMap<TargetGroupArn, Moment>,
    /// The pods whose gate was ever seen open, or closed again, or that this replica has closed again.
    opened: BTreeSet<Uid>,
}

impl Unread {
    pub fn new(patience: Option<Duration>) -> Self {
        let (taken, answered) = (BTreeMap::new(), BTreeSet::new());
        Self { patience, taken, answered, failed: BTreeMap::new(), opened: BTreeSet::new() }
    }

    /// Whoever leads anew knows nothing of what was taken before.
    pub fn stands_by(&mut self) {
        self.taken.clear();
        self.answered.clear();
        self.failed.clear();
    }

    /// A call is sent.
    pub fn sends(&mut self, call: &Call) {
        if let Call::Register { group, items } | Call::Deregister { group, items } = call {
            for item in items {
                let key = (group.clone(), item.target);
                self.taken.remove(&key);
                self.answered.remove(&key);
            }
        }
    }

    /// A call has ended; `removed`: a removal of the target is in flight.
    pub fn ended(
        &mut self,
        call: &Call,
        result: &Result<Answer, Failure>,
        sent: Moment,
        now: Moment,
        removed: impl Fn(&Key) -> bool,
    ) {
        match (call, result) {
            (Call::Register { group, items }, Ok(_)) => {
                for item in items {
                    let key = (group.clone(), item.target);
                    if !removed(&key) {
                        self.taken.insert(key, (item.uid.clone(), now));
                    }
                }
            }
            (Call::ReadHealth { group }, Ok(_)) => self.is_answered(group, sent),
            // That there is no such group is an answer.
            (Call::ReadHealth { group }, Err(failure)) if failure.class == FailureClass::Gone => {
                self.is_answered(group, now);
            }
            (Call::ReadHealth { group }, Err(_)) => _ = self.failed.insert(group.clone(), sent),
            _ => {}
        }
    }

    fn is_answered(&mut self, group: &TargetGroupArn, began: Moment) {
        let told = self.taken.iter().filter(|((of, _), (_, since))| of == group && *since <= began);
        self.answered.extend(told.map(|(key, _)| key.clone()));
    }

    /// The replica is told of these pods.
    pub fn told_of(&mut self, pods: &[PodFacts]) {
        for pod in pods {
            let shown = pod.gate.as_deref().map(|gate| gate.shown).unwrap_or_default();
            if matches!(shown, Shown::Open(_) | Shown::ClosedAgain) {
                self.opened.insert(pod.uid.clone());
            }
        }
    }

    /// A gate was open, and this replica has closed it.
    pub fn closed_again(&mut self, pod: Uid) {
        self.opened.insert(pod);
    }

    /// Pods of which nothing is known any more.
    pub fn retain(&mut self, is_known: impl Fn(&Uid) -> bool) {
        self.opened.retain(is_known);
    }

    /// Whether the gate of a pod may open for a target whose health cannot be read.
    pub fn check(&self, key: &Key, pod: &Uid, aws: &Aws, now: Moment) -> Result<(), String> {
        let (group, target) = key;
        let name = group.name();
        let Some(patience) = self.patience else {
            return Err("nobody has asked for that".into());
        };
        if self.opened.contains(pod) {
            return Err("it was open before".into());
        }
        let since = match self.taken.get(key) {
            Some((uid, since)) if uid == pod => *since,
            _ => return Err(format!("AWS has not said that it has {target} in {name} for it")),
        };
        if self.answered.contains(key) {
            return Err(format!("a read of {name} was answered since {target} is there"));
        }
        if self.failed.get(group).is_none_or(|began| *began < since) {
            return Err(format!("no read of {name} has failed since {target} is there"));
        }
        if now.since(since) < patience {
            return Err(format!("{target} is in {name} for {:?} only", now.since(since)));
        }
        if aws.was_taken_out_again(group, target) {
            return Err(format!("{target} was taken out of {name} from here since"));
        }
        Ok(())
    }
}
