//! Checks whether the API server creates the pods to which the webhook has added a hold.
//!
//! A policy that limits grace periods rejects a pod after the webhook has answered, so the webhook does not learn about
//! the rejection. Headgate therefore counts pods that never appear in the watch. If an owner, such as a ReplicaSet,
//! requests three pods and no pod appears within 5 s, the next pod gets no hold.
//!
//! If the pod without a hold appears, the owner's pods get no hold for an hour. If the pod without a hold does not
//! appear, the rejection has another cause, such as a quota. The owner's pods then get holds again.
//!
//! Each replica counts only the requests that it received.

use std::{collections::BTreeMap, time::Duration};

use crate::model::{Change, Moment, PodFacts, object::Uid};

/// After this many requests without a created pod, the next pod gets no hold.
const ASKED: usize = 3;
/// How long Headgate waits for a requested pod to appear in the watch.
const APPEARS: Duration = Duration::from_secs(5);
/// How long pods of the owner get no hold.
const REFUSED: Duration = Duration::from_secs(3600);
/// The maximum number of owners that Headgate tracks. Pods of other owners get a hold.
const OWNERS: usize = 1_000;

#[derive(Clone, Debug, Default)]
struct Owner {
    /// When Headgate received the requests since the last created pod.
    asked: Vec<Moment>,
    /// When Headgate received the last request.
    last: Moment,
    /// Set if the API server did not create pods with a hold.
    refused: Option<Refused>,
}

#[derive(Clone, Copy, Debug)]
struct Refused {
    since: Moment,
    /// Whether a pod without a hold was created.
    is_proven: bool,
}

/// Tracks for each owner whether the requested pods were created.
#[derive(Clone, Debug, Default)]
pub struct Creations {
    owners: BTreeMap<Uid, Owner>,
}

impl Creations {
    /// Creates the state without any requests.
    pub const fn new() -> Self {
        Self { owners: BTreeMap::new() }
    }

    /// Records a change from the watch. `is_known` returns whether Headgate has seen the pod before.
    pub fn saw(&mut self, change: &Change<PodFacts>, is_known: impl Fn(&PodFacts) -> bool) {
        let pods = match change {
            Change::Applied(pod) => std::slice::from_ref(pod),
            Change::Relisted(_, pods) => pods,
            Change::Deleted(_) => return,
        };
        if self.owners.is_empty() {
            return;
        }
        for pod in pods.iter().filter(|pod| !is_known(pod)) {
            if let Some(owner) = &pod.owner {
                self.appeared(owner, pod.ending.sleeps > 0);
            }
        }
    }

    /// Records the request for a pod of this owner. Returns whether to omit the hold, because earlier pods with a hold
    /// were not created.
    pub fn ask(&mut self, owner: &Uid, now: Moment) -> bool {
        if !self.owners.contains_key(owner) {
            self.make_room(now);
            if self.owners.len() >= OWNERS {
                return false;
            }
        }
        let owner = self.owners.entry(owner.clone()).or_default();
        owner.last = now;
        if let Some(refused) = &owner.refused {
            let patience = if refused.is_proven { REFUSED } else { APPEARS };
            if now.since(refused.since) <= patience {
                return true;
            }
            owner.refused = None;
        }
        if owner.asked.len() < ASKED {
            owner.asked.push(now);
            return false;
        }
        if owner.asked.iter().any(|asked| now.since(*asked) <= APPEARS) {
            return false;
        }
        owner.asked.clear();
        owner.refused = Some(Refused { since: now, is_proven: false });
        true
    }

    /// Records that a new pod of this owner has appeared, with or without a hold.
    pub fn appeared(&mut self, owner: &Uid, is_held: bool) {
        let Some(known) = self.owners.get_mut(owner) else { return };
        known.asked.clear();
        match &mut known.refused {
            Some(refused) if !is_held => refused.is_proven = true,
            _ => _ = self.owners.remove(owner),
        }
    }

    /// If the maximum number of owners is reached, drops the owners without a request in the last hour.
    fn make_room(&mut self, now: Moment) {
        if self.owners.len() >= OWNERS {
            self.owners.retain(|_, owner| now.since(owner.last) <= REFUSED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Moment {
        Moment::START + Duration::from_secs_f64(seconds)
    }

    /// Returns for each request at these times whether the pod should get no hold.
    fn asked(creations: &mut Creations, owner: &Uid, times: &[f64]) -> Vec<bool> {
        times.iter().map(|time| creations.ask(owner, at(*time))).collect()
    }

    #[test]
    fn after_three_pods_that_never_appeared_the_next_is_not_held_and_if_it_appears_none_is_for_an_hour() {
        let (mut creations, owner) = (Creations::default(), Uid::new("rs"));
        // A ReplicaSet retries at these times.
        let early = [0.0, 0.01, 0.02, 0.04, 2.6, 5.0];
        assert_eq!(asked(&mut creations, &owner, &early), [false; 6]);
        assert!(!creations.ask(&Uid::new("other"), at(5.2)));
        assert!(creations.ask(&owner, at(5.2)));
        creations.appeared(&owner, false);
        assert_eq!(asked(&mut creations, &owner, &[5.3, 100.0, 3605.2]), [true; 3]);
        assert_eq!(asked(&mut creations, &owner, &[3605.3, 3605.4, 3605.5, 3606.0]), [false; 4]);
        assert!(creations.ask(&owner, at(3611.0)));
    }

    #[test]
    fn pods_that_appear_late_or_some_of_them_are_held() {
        let (mut creations, owner) = (Creations::default(), Uid::new("rs"));
        for round in 0..10 {
            let began = f64::from(round) * 4.0;
            assert_eq!(asked(&mut creations, &owner, &[began, began, began, began + 3.9]), [false; 4]);
            creations.appeared(&owner, true);
        }
        assert!(creations.owners.is_empty(), "nothing is remembered of those who appear");
        assert_eq!(asked(&mut creations, &owner, &[50.0, 50.0, 50.0, 56.0]), [false, false, false, true]);
        creations.appeared(&owner, true);
        assert!(!creations.ask(&owner, at(56.1)), "it was only late");
    }

    #[test]
    fn if_pods_without_a_hold_do_not_appear_either_it_was_something_else() {
        let (mut creations, owner) = (Creations::default(), Uid::new("rs"));
        let times = [0.0, 0.1, 0.2, 6.0, 7.0, 11.5, 12.0, 13.0, 18.0, 20.0];
        let refused = [false, false, false, true, true, false, false, false, false, true];
        assert_eq!(asked(&mut creations, &owner, &times), refused);
    }

    #[test]
    fn a_thousand_owners_are_remembered_and_room_is_made_after_an_hour() {
        let mut creations = Creations::default();
        for number in 0..=OWNERS {
            asked(&mut creations, &Uid::new(format!("{number}")), &[0.0, 0.0, 0.0]);
        }
        assert_eq!(creations.owners.len(), OWNERS);
        assert!(creations.ask(&Uid::new("1"), at(6.0)));
        assert!(!creations.ask(&Uid::new(format!("{OWNERS}")), at(6.0)), "it is not remembered");
        assert!(!creations.ask(&Uid::new("new"), at(3601.0)));
        assert_eq!(creations.owners.len(), 2, "the one that was asked about last, and the new one");
    }
}
