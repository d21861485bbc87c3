//! What was asked for and is not seen yet: pods that are being made, and pods that were deleted or evicted.
//!
//! A watch lags behind what was done. What is planned on its word alone would be done twice: a second pod for one that is
//! there already, or a second old pod deleted before the first one's end is seen.
//!
//! ```text
//!  Make ──► Asked ──► Unseen(uid) ──► the watch shows it, or its end
//!             │  ├──► Taken: somebody has the name; it may be ours, and the watch behind
//!             │  └──► nobody knows ──► asked for again, under the same name
//!             └────► refused: forgotten
//! ```
//!
//! * **Owns** these, for one set.
//! * **Guarantees.** A name is asked for again until it is known whether there is a pod of that name. So no answer that was
//!   lost makes a second pod.

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

/// After so long without news a name is asked for again, and a deletion sent again.
const AGAIN: Duration = Duration::from_secs(5);
/// A watch that has not shown by then what was made will not.
const LAG: Duration = Duration::from_secs(60);
/// A name that is somebody else's is tried again after so long.
const FOREIGN: Duration = Duration::from_secs(600);
/// The watch has shown by then how a pod is that was changed.
const CHANGED: Duration = Duration::from_secs(1);
/// Whoever was asked to evict a pod and said no is asked again after this long, as `kubectl drain` does.
const EVICT_AGAIN: Duration = Duration::from_secs(5);

/// A pod that is being made.
#[derive(Clone, Debug)]
pub struct Making {
    /// On this node.
    node: Arc<str>,
    /// Of this revision.
    revision: Revision,
    is: Made,
}

impl Making {
    /// On which node.
    pub const fn node(&self) -> &Arc<str> {
        &self.node
    }

    /// Of which revision.
    pub const fn revision(&self) -> &Revision {
        &self.revision
    }
}

#[derive(Clone, Debug)]
enum Made {
    /// It is asked for; pods of this name that went since then.
    Asked(BTreeSet<Uid>),
    /// Nobody knows whether it was made: it is asked for again then.
    Unknown(Moment),
    /// Nobody knows that, and it is not asked for again: it is not wanted any more. Until then it may be there.
    Doubtful(Moment),
    /// It is made, and the watch should show it by then.
    Unseen(Uid, Moment),
    /// Somebody has the name. Until then it may be a pod of ours.
    Taken(Moment),
    /// Somebody else has the name. It is tried again then.
    Foreign(Moment),
}

/// A pod that was deleted or evicted.
#[derive(Clone, Debug)]
enum Going {
    /// It was asked for.
    Asked,
    /// Nobody knows whether it was done: if nothing is seen by then, it is asked for again.
    Unknown(Moment),
    /// Nobody knows that, and it is not asked for again: the set wants something else by now. Until then it may go.
    Doubtful(Moment),
    /// It is done: if nothing is seen by then, it is asked for again.
    Done(Moment),
    /// It was refused, and is not asked for again before then.
    Refused(Moment),
}

/// A pod whose end was asked for.
#[derive(Clone, Debug)]
struct End {
    ask: Ask,
    /// Of this generation of the set.
    generation: i64,
    /// It was asked for before, and nobody knows whether that was done.
    doubtful: bool,
    is: Going,
}

/// What was asked for a set.
#[derive(Clone, Debug, Default)]
pub struct Asks {
    making: BTreeMap<Arc<str>, Making>,
    going: BTreeMap<Uid, End>,
}

impl Asks {
    /// A pod of this name is asked for.
    pub fn make(&mut self, name: Arc<str>, node: Arc<str>, revision: Revision) {
        self.making.insert(name, Making { node, revision, is: Made::Asked(BTreeSet::new()) });
    }

    /// What became of the pod of this name. Says whether it was made.
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

    /// A pod of this name is there, and is none of ours any more.
    pub fn note_foreign(&mut self, name: &Arc<str>, now: Moment) {
        let is = Made::Foreign(now + FOREIGN);
        let nowhere = Making { node: "".into(), revision: "".into(), is: is.clone() };
        self.making.entry(name.clone()).or_insert(nowhere).is = is;
    }

    /// This deletion or eviction is asked for, because of this generation of the set.
    pub fn end(&mut self, uid: Uid, ask: Ask, generation: i64) {
        self.going.insert(uid, End { ask, generation, doubtful: false, is: Going::Asked });
    }

    /// What became of it.
    pub fn ended(&mut self, uid: &Uid, outcome: &Outcome, now: Moment) {
        let Some(End { ask, doubtful, is, .. }) = self.going.get_mut(uid) else { return };
        *doubtful |= matches!(outcome, Outcome::Unknown(_));
        let was_changed =
            *outcome == Outcome::Conflict && matches!(ask, Ask::Delete { version: Some(_), .. });
        *is = match outcome {
            // The watch will show how it is now.
            Outcome::Conflict if was_changed => Going::Refused(now + CHANGED),
            // What was asked for before may have been done all the same.
            Outcome::Refused(_) | Outcome::NotNow(_) if *doubtful => Going::Doubtful(now + LAG),
            Outcome::Refused(_) | Outcome::NotNow(_) => Going::Refused(now + EVICT_AGAIN),
            Outcome::Done(_) | Outcome::Gone | Outcome::Conflict | Outcome::Exists => Going::Done(now + LAG),
            Outcome::Unknown(_) => Going::Unknown(now + AGAIN),
        };
    }

    /// The watch shows a pod.
    pub fn shows(&mut self, pod: &SetPod) {
        let is_it = |making: &Making| !matches!(&making.is, Made::Unseen(uid, _) if *uid != pod.uid);
        if self.making.get(&pod.key.name).is_some_and(is_it) {
            self.making.remove(&pod.key.name);
        }
        if pod.terminating {
            self.going.remove(&pod.uid);
        }
    }

    /// The watch says that a pod is gone.
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

    /// Forgets what no news has come of, and pods that are not there any more.
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

    /// The pods that count as being there: those that are made, or may be.
    pub fn making(&self) -> impl Iterator<Item = &Making> {
        self.making.values().filter(|making| !matches!(making.is, Made::Foreign(_)))
    }

    /// The names that are asked for once more now, where that is wanted still.
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

    /// Whether pods of this revision are asked for.
    pub fn makes(&self, revision: &Revision) -> bool {
        self.making().any(|making| making.revision == *revision)
    }

    /// Whether a name cannot be given to another pod.
    pub fn is_taken(&self, name: &str) -> bool {
        self.making.contains_key(name)
    }

    /// What a pod counts as, though the watch does not say so.
    pub fn state(&self, uid: &Uid) -> Option<State> {
        match self.going.get(uid)?.is {
            Going::Asked | Going::Unknown(_) | Going::Doubtful(_) => Some(State::Ending),
            Going::Done(_) => Some(State::Leaving),
            Going::Refused(_) => None,
        }
    }

    /// Whether the end of a pod may be asked for now.
    pub fn may_end(&self, uid: &Uid) -> bool {
        !self.going.contains_key(uid)
    }

    /// The ends that are asked for once more, because nothing was seen of them for too long. If the set has changed since then,
    /// it is decided anew.
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

    /// How many pods are asked for and not answered.
    pub fn in_flight(&self) -> usize {
        self.making.values().filter(|making| matches!(making.is, Made::Asked(_))).count()
    }

    /// When there is something to do. Not before now, if everything was done that was due.
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
