//! The rule for the pods of one set on one node.
//!
//! * **Owns** no state. The input is a list of pods, and the output is a list of steps.
//! * **Guarantees.** A node never has more live pods than the wanted number plus the surge. The steps never leave fewer
//!   available pods than the wanted number minus `maxUnavailable`. Because a hold can take minutes, terminating pods
//!   count neither as live nor as available. A pod whose deletion was requested counts as live until it terminates, but
//!   not as available.
//! * **Assumes** that the list of pods includes the effects of earlier steps. A pod that is being created is
//!   [`State::Making`]. A pod whose deletion was sent is [`State::Ending`].

use crate::model::{
    Revision, Strategy,
    node::{NodeTerms, PodNow, Standing, State},
    plan::{Step, Why},
};

/// Returns the steps on a node. `spare`: how many available pods of the whole set may still become unavailable. Each
/// step that makes a pod unavailable reduces `spare`.
pub fn steps(pods: &[PodNow], standing: Standing, terms: &NodeTerms<'_>, spare: &mut usize) -> Vec<Step> {
    let mut node = Node { pods: pods.to_vec(), terms, spare, steps: Vec::new() };
    for pod in pods.iter().filter(|pod| pod.state == State::Finished) {
        node.steps.extend(pod.uid.clone().map(|uid| Step::Delete(uid, Why::Finished)));
    }
    match standing {
        Standing::Gone => node.delete_all(|_| true, Why::NodeDeleted),
        Standing::Keeps => node.delete_all(|pod| !pod.scheduled, Why::NodeTakesNone),
        Standing::Leaves => {
            node.delete_all(|pod| pod.state < State::Ready, Why::NodeNotSelected);
            node.evict_all(|_| true, Why::NodeNotSelected);
        }
        Standing::Takes => node.takes(),
    }
    node.steps
}

struct Node<'a> {
    pods: Vec<PodNow>,
    terms: &'a NodeTerms<'a>,
    spare: &'a mut usize,
    steps: Vec<Step>,
}

impl Node<'_> {
    fn takes(&mut self) {
        self.drop_surplus();
        match self.terms.strategy {
            Strategy::RollingUpdate { unavailable, .. } if self.terms.in_turn => {
                self.roll(unavailable);
                self.make(self.terms.wanted + self.terms.strategy.surge(), self.terms.update);
            }
            Strategy::NodeReplace if self.terms.in_turn => self.replace(),
            _ => {
                let has_turned = self.staying().any(|pod| pod.revision == *self.terms.update);
                let newest = has_turned || self.terms.strategy == Strategy::OnDelete;
                let revision = if newest { self.terms.update } else { self.terms.current };
                self.refill(revision);
            }
        }
    }

    fn staying(&self) -> impl Iterator<Item = &PodNow> {
        self.pods.iter().filter(|pod| pod.state.stays())
    }

    fn live(&self) -> usize {
        self.pods.iter().filter(|pod| pod.state.is_live()).count()
    }

    fn updated(&self) -> usize {
        self.staying().filter(|pod| pod.revision == *self.terms.update).count()
    }

    fn available(&self) -> usize {
        self.pods.iter().filter(|pod| pod.state == State::Available).count()
    }

    /// Returns the maximum number of pods. During an update, the number includes the surge.
    fn most(&self) -> usize {
        let updated = self.updated();
        let is_mixed = updated > 0 && updated < self.staying().count();
        self.terms.wanted + if is_mixed { self.terms.strategy.surge() } else { 0 }
    }

    /// Deletes surplus pods, the least useful pods first. At least the wanted number of updated pods remains.
    fn drop_surplus(&mut self) {
        let (most, wanted) = (self.most(), self.terms.wanted);
        let mut order: Vec<usize> = (0..self.pods.len()).filter(|at| self.pods[*at].uid.is_some()).collect();
        order.sort_by_key(|at| {
            let pod = &self.pods[*at];
            (pod.state, pod.revision == *self.terms.update, std::cmp::Reverse(pod.created), pod.uid.clone())
        });
        for at in order {
            let is_updated = self.pods[at].revision == *self.terms.update;
            let too_many = self.staying().count() > most || (is_updated && self.updated() > wanted);
            if self.pods[at].state.stays() && too_many && self.may_go(at, wanted) {
                self.delete(at, Why::Surplus);
            }
        }
    }

    /// Returns whether at least `least` pods are available without this pod.
    fn may_go(&self, at: usize, least: usize) -> bool {
        match self.pods[at].state {
            State::Making | State::Starting => true,
            State::Ready => self.available() >= least,
            _ => self.available() > least,
        }
    }

    /// Deletes all old pods that are not available. Deletes an available old pod if it has a replacement, or if one
    /// more pod may be unavailable.
    fn roll(&mut self, unavailable: usize) {
        let wanted = self.terms.wanted;
        let mut order: Vec<usize> =
            (0..self.pods.len()).filter(|at| self.pods[*at].revision != *self.terms.update).collect();
        order.sort_by_key(|at| (self.pods[*at].state, self.pods[*at].created, self.pods[*at].uid.clone()));
        for at in order {
            if self.pods[at].uid.is_none() || !self.pods[at].state.stays() {
                continue;
            }
            if self.may_go(at, wanted) {
                self.delete(at, Why::Outdated);
            } else if self.may_go(at, wanted.saturating_sub(unavailable)) && *self.spare > 0 {
                *self.spare -= 1;
                self.delete(at, Why::Outdated);
            }
        }
    }

    /// Evicts all old pods simultaneously. Creates new pods after all evicted pods have terminated. If a
    /// PodDisruptionBudget delays some evictions, only missing pods are created before all evicted pods have
    /// terminated.
    fn replace(&mut self) {
        let update = self.terms.update;
        let leaves = |pod: &&PodNow| matches!(pod.state, State::Ending | State::Leaving);
        if !self.pods.iter().any(|pod| leaves(&pod)) {
            self.refill(update);
        }
        self.delete_all(|pod| pod.revision != *update && pod.state < State::Ready, Why::Outdated);
        self.evict_all(|pod| pod.revision != *update, Why::Outdated);
    }

    /// Creates missing pods of this revision.
    fn refill(&mut self, revision: &Revision) {
        for _ in self.live()..self.terms.wanted {
            self.steps.push(Step::Make(revision.clone()));
        }
    }

    /// Creates updated pods up to the wanted number, without exceeding `most` live pods.
    fn make(&mut self, most: usize, revision: &Revision) {
        let missing = self.terms.wanted.saturating_sub(self.updated());
        let room = most.saturating_sub(self.live());
        for _ in 0..missing.min(room) {
            self.steps.push(Step::Make(revision.clone()));
        }
    }

    fn delete(&mut self, at: usize, why: Why) {
        self.steps.extend(self.pods[at].uid.clone().map(|uid| Step::Delete(uid, why)));
        self.pods[at].state = State::Ending;
    }

    fn delete_all(&mut self, which: impl Fn(&PodNow) -> bool, why: Why) {
        for at in 0..self.pods.len() {
            let pod = &self.pods[at];
            if pod.state.stays() && pod.uid.is_some() && which(pod) {
                self.delete(at, why);
            }
        }
    }

    fn evict_all(&mut self, which: impl Fn(&PodNow) -> bool, why: Why) {
        for pod in self.pods.iter_mut().filter(|pod| pod.state.stays() && which(pod)) {
            self.steps.extend(pod.uid.clone().map(|uid| Step::Evict(uid, why)));
            pod.state = State::Ending;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use headgate_core::model::{Uid, WallTime};

    use super::*;

    /// Creates pods from texts such as `a:available`, which contain the revision and the state.
    fn pods(all: &[&str]) -> Vec<PodNow> {
        let pod = |(at, word): (usize, &&str)| {
            let (revision, state) = word.split_once(':').unwrap();
            let state = match state {
                "making" => State::Making,
                "starting" | "pending" => State::Starting,
                "ready" => State::Ready,
                "available" => State::Available,
                "ending" => State::Ending,
                "leaving" => State::Leaving,
                "finished" => State::Finished,
                _ => panic!("{word}"),
            };
            PodNow {
                uid: (state != State::Making).then(|| Uid::new(format!("u{at}"))),
                revision: revision.into(),
                state,
                created: WallTime::since_1970(Duration::from_secs(at as u64)),
                scheduled: !word.ends_with("pending"),
            }
        };
        all.iter().enumerate().map(pod).collect()
    }

    fn said(steps: &[Step]) -> Vec<String> {
        let word = |step: &Step| match step {
            Step::Make(revision) => format!("make {revision}"),
            Step::Delete(uid, why) => format!("delete {uid} {}", why.as_str()),
            Step::Evict(uid, why) => format!("evict {uid} {}", why.as_str()),
        };
        steps.iter().map(word).collect()
    }

    const ROLL: Strategy = Strategy::RollingUpdate { surge: 1, unavailable: 0 };
    const IN_PLACE: Strategy = Strategy::RollingUpdate { surge: 0, unavailable: 1 };

    fn on(standing: Standing, wanted: usize, strategy: Strategy, in_turn: bool, all: &[&str]) -> Vec<String> {
        with_spare(standing, wanted, strategy, in_turn, all, &mut usize::MAX.clone())
    }

    fn with_spare(
        standing: Standing,
        wanted: usize,
        strategy: Strategy,
        in_turn: bool,
        all: &[&str],
        spare: &mut usize,
    ) -> Vec<String> {
        let (update, current) = ("b".into(), "a".into());
        let terms = NodeTerms { wanted, strategy, update: &update, current: &current, in_turn };
        said(&steps(&pods(all), standing, &terms, spare))
    }

    fn turn(wanted: usize, strategy: Strategy, all: &[&str]) -> Vec<String> {
        on(Standing::Takes, wanted, strategy, true, all)
    }

    #[test]
    fn a_node_whose_turn_has_not_come_gets_what_it_has() {
        let none: [&str; 0] = [];
        assert_eq!(on(Standing::Takes, 2, ROLL, false, &[]), ["make a", "make a"]);
        assert_eq!(on(Standing::Takes, 2, ROLL, false, &["a:making"]), ["make a"]);
        assert_eq!(on(Standing::Takes, 2, ROLL, false, &["a:starting", "a:making"]), none);
        assert_eq!(on(Standing::Takes, 2, ROLL, false, &["a:available", "a:leaving"]), ["make a"]);
        assert_eq!(on(Standing::Takes, 2, ROLL, false, &["b:available"]), ["make b"], "it has had its turn");
        assert_eq!(on(Standing::Takes, 2, ROLL, false, &["a:available", "a:available", "b:ready"]), none);
    }

    #[test]
    fn in_its_turn_a_new_pod_comes_first_and_then_an_old_one_goes() {
        let none: [&str; 0] = [];
        let old = ["a:available", "a:available"];
        let with = |more: &[&'static str]| [&old[..], more].concat();
        assert_eq!(turn(2, ROLL, &old), ["make b"]);
        assert_eq!(turn(2, ROLL, &with(&["b:making"])), none);
        assert_eq!(turn(2, ROLL, &with(&["b:starting"])), none);
        assert_eq!(turn(2, ROLL, &with(&["b:ready"])), none);
        assert_eq!(turn(2, ROLL, &with(&["b:available"])), ["delete u0 OutdatedPod"]);
        assert_eq!(turn(2, ROLL, &["a:ending", "a:available", "b:available"]), none, "is there room?");
        assert_eq!(turn(2, ROLL, &["a:leaving", "a:available", "b:available"]), ["make b"]);
        assert_eq!(turn(2, ROLL, &["a:leaving", "a:available", "b:available", "b:ready"]), none);
        assert_eq!(
            turn(2, ROLL, &["a:leaving", "a:available", "b:available", "b:available"]),
            ["delete u1 OutdatedPod"]
        );
    }

    #[test]
    fn old_pods_that_serve_nobody_go_without_waiting() {
        assert_eq!(turn(1, ROLL, &["a:starting"]), ["delete u0 OutdatedPod", "make b"]);
        assert_eq!(turn(2, ROLL, &["a:starting", "a:available"]), ["delete u0 OutdatedPod", "make b"]);
        assert_eq!(
            turn(2, ROLL, &["a:leaving", "a:available", "b:starting"]),
            ["make b"],
            "one in its place, and one more"
        );
        let none: [&str; 0] = [];
        assert_eq!(turn(1, ROLL, &["a:ready", "b:starting"]), none, "one that is ready may serve");
        assert_eq!(turn(1, ROLL, &["a:ready", "b:available"]), ["delete u0 OutdatedPod"]);
    }

    #[test]
    fn without_a_surge_an_old_pod_goes_first_if_the_set_has_one_to_spare() {
        let old = ["a:available", "a:available"];
        let mut spare = 1;
        let first = with_spare(Standing::Takes, 2, IN_PLACE, true, &old, &mut spare);
        assert_eq!((first, spare), (vec!["delete u0 OutdatedPod".to_owned()], 0));
        let none: [&str; 0] = [];
        assert_eq!(with_spare(Standing::Takes, 2, IN_PLACE, true, &old, &mut spare), none);
        assert_eq!(turn(2, IN_PLACE, &["a:available", "b:starting"]), none);
        assert_eq!(turn(2, IN_PLACE, &["a:leaving", "a:available"]), ["make b"]);
        assert_eq!(turn(2, IN_PLACE, &["a:available", "b:available"]), ["delete u0 OutdatedPod"]);
    }

    #[test]
    fn a_node_without_room_is_replaced_as_a_whole_when_its_old_pods_are_gone() {
        let none: [&str; 0] = [];
        let replace = |all: &[&str]| turn(2, Strategy::NodeReplace, all);
        assert_eq!(
            replace(&["a:available", "a:starting"]),
            ["delete u1 OutdatedPod", "evict u0 OutdatedPod"],
            "one that serves nobody need not be evicted"
        );
        assert_eq!(replace(&["a:leaving", "a:leaving"]), none, "there is no room yet");
        assert_eq!(replace(&["a:leaving"]), none);
        assert_eq!(replace(&[]), ["make b", "make b"]);
        assert_eq!(replace(&["a:finished", "b:starting"]), ["delete u0 PodFinished", "make b"]);
        assert_eq!(
            replace(&["a:available"]),
            ["make b", "evict u0 OutdatedPod"],
            "a budget may have let the other one go, and want a new one before this one goes"
        );
    }

    #[test]
    fn on_delete_only_what_is_missing_is_made_and_of_the_newest() {
        assert_eq!(on(Standing::Takes, 2, Strategy::OnDelete, false, &["a:available"]), ["make b"]);
    }

    #[test]
    fn of_too_many_the_least_useful_go() {
        assert_eq!(
            on(Standing::Takes, 1, ROLL, false, &["a:available", "a:starting", "a:available"]),
            ["delete u1 SurplusPod", "delete u2 SurplusPod"]
        );
        assert_eq!(
            turn(1, ROLL, &["a:available", "b:starting", "b:starting"]),
            ["delete u2 SurplusPod"],
            "one more than wanted, and the old one serves"
        );
        let none: [&str; 0] = [];
        assert_eq!(on(Standing::Takes, 1, ROLL, false, &["a:available", "b:starting"]), none);
        assert_eq!(
            on(Standing::Takes, 1, ROLL, false, &["a:available", "a:ready"]),
            ["delete u1 SurplusPod"]
        );
        assert_eq!(
            on(Standing::Takes, 1, ROLL, false, &["a:ready", "a:ready"]),
            none,
            "either may serve alone"
        );
    }

    #[test]
    fn a_cordoned_node_keeps_what_runs_and_gets_nothing() {
        let none: [&str; 0] = [];
        assert_eq!(on(Standing::Keeps, 2, ROLL, true, &["a:available"]), none);
        assert_eq!(
            on(Standing::Keeps, 2, ROLL, false, &["a:pending", "a:finished"]),
            ["delete u1 PodFinished", "delete u0 NodeTakesNoPods"]
        );
    }

    #[test]
    fn a_node_that_is_not_for_the_set_any_more_is_left_as_in_a_drain() {
        assert_eq!(
            on(Standing::Leaves, 2, ROLL, false, &["a:available", "a:starting", "a:leaving"]),
            ["delete u1 NodeNotSelected", "evict u0 NodeNotSelected"]
        );
    }

    #[test]
    fn a_node_that_is_gone_takes_its_pods_along() {
        assert_eq!(
            on(Standing::Gone, 2, ROLL, false, &["a:available", "a:making", "a:leaving"]),
            ["delete u0 NodeDeleted"]
        );
    }
}
