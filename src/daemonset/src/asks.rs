//! Stores requests whose effect the watch does not show yet: created, deleted and evicted pods.
//!
//! A watch lags behind the API server. A plan that used only the watch would repeat requests. For example, the plan
//! could create a second pod, or delete a second old pod before the watch shows the first deletion.
//!
//! ```text
//!  Make ──► Asked ──► Unseen(uid) ──► the watch shows the pod, or its end
//!             │  ├──► Taken: the name exists; it may be a pod of the set that the watch does not show yet
//!             │  └──► Unknown ──► requested again, under the same name
//!             └────► rejected: forgotten
//! ```
//!
//! * **Owns** the requests of one set.
//! * **Guarantees.** The controller repeats the creation of a pod under the same name until it knows whether the pod
//!   exists. A lost answer therefore never results in a second pod.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use headgate_core::model::{Moment, Uid};

use crate::model::{
    Revision, SetPod,
    ask::{Ask, Outcome},
    node::State,
};

/// The delay after which a creation or deletion with an unknown result is sent again.
const AGAIN: Duration = Duration::from_secs(5);
/// The maximum time until the watch shows a created pod.
const LAG: Duration = Duration::from_secs(60);
/// The delay after which the controller tries a name again that belonged to another pod.
const FOREIGN: Duration = Duration::from_secs(600);
/// The maximum time until the watch shows a changed pod.
const CHANGED: Duration = Duration::from_secs(1);
/// The delay after which a rejected eviction is sent again. `kubectl drain` uses the same delay.
const EVICT_AGAIN: Duration = Duration::from_secs(5);

/// A pod that is being created.
#[derive(Clone, Debug)]
pub struct Making {
    node: Arc<str>,
    revision: Revision,
    is: Made,
}

impl Making {
    pub const fn node(&self) -> &Arc<str> {
        &self.node
    }

    pub const fn revision(&self) -> &Revision {
        &self.revision
    }
}

#[derive(Clone, Debug)]
enum Made {
    /// The creation was sent. Contains the UIDs of pods with this name that were deleted in the meantime.
    Asked(BTreeSet<Uid>),
    /// The result is unknown. The creation is sent again at this time.
    Unknown(Moment),
    /// The result is unknown. The creation is not sent again, because the pod is no longer wanted. Until this time, the
    /// pod may still appear.
    Doubtful(Moment),
    /// The pod was created. The watch should show the pod by this time.
    Unseen(Uid, Moment),
    /// A pod with this name exists. Until this time, the pod may turn out to belong to the set.
    Taken(Moment),
    /// A pod with this name exists that does not belong to the set. The creation is tried again after this time.
    Foreign(Moment),
}

/// A pod that was deleted or evicted.
#[derive(Clone, Debug)]
enum Going {
    /// The deletion or eviction was sent.
    Asked,
    /// The result is unknown. If the watch does not show the effect by this time, the request is sent again.
    Unknown(Moment),
    /// The result is unknown. The request is not sent again, because the set has changed. Until this time, the pod may
    /// still terminate.
    Doubtful(Moment),
    /// The request succeeded. If the watch does not show the effect by this time, the request is sent again.
    Done(Moment),
    /// The request was rejected. The request is not sent again before this time.
    Refused(Moment),
}

/// A deletion or eviction of a pod.
#[derive(Clone, Debug)]
struct End {
    ask: Ask,
    /// The generation of the set at the time of the request.
    generation: i64,
    /// Whether the result of an earlier request is unknown.
    doubtful: bool,
    is: Going,
}

/// The requests of a set whose effect the watch does not show yet.
#[derive(Clone, Debug, Default)]
pub struct Asks {
    making: BTreeMap<Arc<str>, Making>,
    going: BTreeMap<Uid, End>,
}

impl Asks {
    /// Records that the creation of a pod with this name was sent.
    pub fn make(&mut self, name: Arc<str>, node: Arc<str>, revision: Revision) {
        self.making.insert(name, Making { node, revision, is: Made::Asked(BTreeSet::new()) });
    }

    /// Records the result of the creation. Returns whether the pod was created.
    pub fn made(&mut self, name: &Arc<str>, outcome: &Outcome, now: Moment) -> bool {
        let Some(making) = self.making.get_mut(name) else { return matches!(outcome, Outcome::Done(_)) };
        match outcome {
            Outcome::Done(Some(uid)) => {
                let has_gone = matches!(&making.is, Made::Asked(gone) if gone.contains(uid));
                if has_gone {
                    self.making.remove(name);
                } else {
                    making.is = Made::Unseen(uid.clone(), now + LAG);
                }
                return true;
            }
            Outcome::Exists if matches!(making.is, Made::Foreign(_)) => {}
            Outcome::Exists => making.is = Made::Taken(now + LAG),
            Outcome::Done(None) | Outcome::Unknown(_) | Outcome::Conflict => {
                making.is = Made::Unknown(now + AGAIN);
            }
            Outcome::Gone | Outcome::Refused(_) | Outcome::NotNow(_) => {
                self.making.remove(name);
            }
        }
        false
    }

    /// Records that a pod with this name exists but does not belong to the set.
    pub fn note_foreign(&mut self, name: &Arc<str>, now: Moment) {
        let is = Made::Foreign(now + FOREIGN);
        let nowhere = Making { node: "".into(), revision: "".into(), is: is.clone() };
        self.making.entry(name.clone()).or_insert(nowhere).is = is;
    }

    /// Records that this deletion or eviction was sent for this generation of the set.
    pub fn end(&mut self, uid: Uid, ask: Ask, generation: i64) {
        self.going.insert(uid, End { ask, generation, doubtful: false, is: Going::Asked });
    }

    /// Records the result of a deletion or eviction.
    pub fn ended(&mut self, uid: &Uid, outcome: &Outcome, now: Moment) {
        let Some(End { ask, doubtful, is, .. }) = self.going.get_mut(uid) else { return };
        *doubtful |= matches!(outcome, Outcome::Unknown(_));
        let was_changed =
            *outcome == Outcome::Conflict && matches!(ask, Ask::Delete { version: Some(_), .. });
        *is = match outcome {
            // The watch will soon show the new version of the pod.
            Outcome::Conflict if was_changed => Going::Refused(now + CHANGED),
            // An earlier request with an unknown result may still have succeeded.
            Outcome::Refused(_) | Outcome::NotNow(_) if *doubtful => Going::Doubtful(now + LAG),
            Outcome::Refused(_) | Outcome::NotNow(_) => Going::Refused(now + EVICT_AGAIN),
            Outcome::Done(_) | Outcome::Gone | Outcome::Conflict | Outcome::Exists => Going::Done(now + LAG),
            Outcome::Unknown(_) => Going::Unknown(now + AGAIN),
        };
    }

    /// Records that the watch shows a pod.
    pub fn shows(&mut self, pod: &SetPod) {
        let is_it = |making: &Making| !matches!(&making.is, Made::Unseen(uid, _) if *uid != pod.uid);
        if self.making.get(&pod.key.name).is_some_and(is_it) {
            self.making.remove(&pod.key.name);
        }
        if pod.terminating {
            self.going.remove(&pod.uid);
        }
    }

    /// Records that the watch shows a pod as deleted.
    pub fn gone(&mut self, pod: &SetPod) {
        self.going.remove(&pod.uid);
        if let Some(making) = self.making.get_mut(&pod.key.name) {
            match &mut making.is {
                Made::Asked(gone) => {
                    gone.insert(pod.uid.clone());
                }
                Made::Unseen(uid, _) if *uid == pod.uid => {
                    self.making.remove(&pod.key.name);
                }
                _ => {}
            }
        }
    }

    /// Drops requests whose wait is over, and requests for pods that no longer exist.
    pub fn pass(&mut self, now: Moment, is_there: impl Fn(&Uid) -> bool) {
        let over = |is: &Made| match is {
            Made::Unseen(_, until) | Made::Doubtful(until) | Made::Foreign(until) => *until <= now,
            Made::Asked(_) | Made::Unknown(_) | Made::Taken(_) => false,
        };
        for making in self.making.values_mut() {
            if matches!(making.is, Made::Taken(until) if until <= now) {
                making.is = Made::Foreign(now + FOREIGN);
            }
        }
        self.making.retain(|_, making| !over(&making.is));
        let is_over =
            |is: &Going| matches!(is, Going::Doubtful(until) | Going::Refused(until) if *until <= now);
        self.going.retain(|uid, end| is_there(uid) && !is_over(&end.is));
    }

    /// Returns the pods that were created, or may be created, but that the watch does not show yet.
    pub fn making(&self) -> impl Iterator<Item = &Making> {
        self.making.values().filter(|making| !matches!(making.is, Made::Foreign(_)))
    }

    /// Returns the pods whose creation must be sent again now. Pods that are no longer wanted are skipped.
    pub fn again(&mut self, now: Moment, is_wanted: impl Fn(&str) -> bool) -> Vec<(Arc<str>, Making)> {
        let due = |making: &Making| matches!(making.is, Made::Unknown(at) if at <= now);
        for making in self.making.values_mut().filter(|making| due(making) && !is_wanted(&making.node)) {
            making.is = Made::Doubtful(now + LAG);
        }
        let again = self.making.iter_mut().filter(|(_, making)| due(making));
        again
            .map(|(name, making)| {
                making.is = Made::Asked(BTreeSet::new());
                (name.clone(), making.clone())
            })
            .collect()
    }

    /// Returns whether a pod of this revision is being created.
    pub fn makes(&self, revision: &Revision) -> bool {
        self.making().any(|making| making.revision == *revision)
    }

    /// Returns whether a name cannot be used for a new pod.
    pub fn is_taken(&self, name: &str) -> bool {
        self.making.contains_key(name)
    }

    /// Returns the state of a pod that results from a sent request. `None`: the state from the watch applies.
    pub fn state(&self, uid: &Uid) -> Option<State> {
        match self.going.get(uid)?.is {
            Going::Asked | Going::Unknown(_) | Going::Doubtful(_) => Some(State::Ending),
            Going::Done(_) => Some(State::Leaving),
            Going::Refused(_) => None,
        }
    }

    /// Returns whether a deletion or eviction of the pod may be sent now.
    pub fn may_end(&self, uid: &Uid) -> bool {
        !self.going.contains_key(uid)
    }

    /// Returns the deletions and evictions to send again, because the watch did not show their effect in time. If the
    /// set has changed in the meantime, the next plan decides again.
    pub fn end_again(&mut self, now: Moment, generation: i64) -> Vec<Ask> {
        let is_due = |end: &End| matches!(end.is, Going::Unknown(at) | Going::Done(at) if at <= now);
        for end in self.going.values_mut().filter(|end| is_due(end) && end.generation != generation) {
            end.is = Going::Doubtful(now + LAG);
        }
        let due = self.going.values_mut().filter(|end| is_due(end));
        due.map(|end| {
            end.is = Going::Asked;
            end.ask.clone()
        })
        .collect()
    }

    /// The number of creations in flight.
    pub fn in_flight(&self) -> usize {
        self.making.values().filter(|making| matches!(making.is, Made::Asked(_))).count()
    }

    /// Returns the time of the next retry or expiry. The time is in the future after all due requests were sent.
    pub fn due(&self) -> Option<Moment> {
        let making = self.making.values().filter_map(|making| match making.is {
            Made::Asked(_) => None,
            Made::Unknown(at)
            | Made::Doubtful(at)
            | Made::Unseen(_, at)
            | Made::Taken(at)
            | Made::Foreign(at) => Some(at),
        });
        let going = self.going.values().filter_map(|end| match &end.is {
            Going::Unknown(at) | Going::Doubtful(at) | Going::Done(at) | Going::Refused(at) => Some(*at),
            Going::Asked => None,
        });
        making.chain(going).min()
    }
}
