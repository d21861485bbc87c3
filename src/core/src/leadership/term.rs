//! Decides whether this replica is the leader and has the data that it needs to act: all initial lists, and the
//! ledgers.
//!
//! ```text
//!  Standby ──► Loading ──────► Listing ────► Acting ──► Standby
//!     │        the ledgers     every watch     └─ reads the ledgers again when no late write can take effect:
//!     │                                           neither of the previous leader nor of this replica
//!     └─ reads the ledgers when every watch has listed, and whenever a watch lists again,
//!        to find out which pods were targets before or in the meantime
//! ```
//! * **Owns** the watches that have not listed yet, the role, and the current and next request for the ledgers.
//! * **Guarantees.** No replica acts before it has all data. The answer to a request from an earlier term has no
//!   effect.
//! * **Caveat.** A replica that cannot read the ledgers is still ready, and works without the data from the ledgers.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    backoff::Backoff,
    model::{Moment, RequestId, Scope},
};

/// A watch. A replica acts only when all watches except the watch of nodes have listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watch {
    /// The watch of pods.
    Pods,
    /// The watch of Services.
    Services,
    /// The watch of TargetBindings.
    Bindings,
    /// The watch of namespaces, if Headgate watches namespaces.
    Namespaces,
    /// The watch of grants, if Headgate watches grants.
    Grants,
    /// The watch of nodes, if Headgate watches nodes.
    Nodes,
}

impl Watch {
    /// The resource name in Kubernetes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Services => "services",
            Self::Bindings => "targetbindings",
            Self::Namespaces => "namespaces",
            Self::Nodes => "nodes",
            Self::Grants => "targetgroupgrants",
        }
    }
}

/// The permissions of this replica. Each role includes the permissions of all earlier roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The replica may watch.
    Standby,
    /// The replica may report to users and load the ledgers.
    Loading,
    /// The replica has the ledgers and may take over target groups, but not every watch has listed.
    Listing,
    /// The replica may do everything, including calls to AWS.
    Acting,
}

/// How the result of a request for the ledgers is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// This replica becomes the leader and takes over the content of the ledgers.
    TakesOver,
    /// The leader reads the ledgers again.
    LooksAgain,
    /// The standby finds out which pods were targets before it saw the pods.
    Learns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The request for the ledgers, if a request is in flight.
    Standby(Option<RequestId>),
    /// The request for the ledgers, if a request is in flight.
    Loading(Option<RequestId>),
    Leading(LookAgain),
}

/// Whether this replica has read the ledgers after it had seen every pod. If a watch lists again, the replica has
/// missed changes and must read the ledgers again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Learnt {
    /// The first request has not been answered yet.
    Unanswered,
    /// The ledgers could not be read, or were read before this replica had seen every pod.
    Unknown,
    Known,
}

/// Whether the leader has read the ledgers again after the last possible late write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookAgain {
    Never,
    At(Moment),
    Asked(RequestId),
}

/// The role of this replica, and its progress. See the module docs.
#[derive(Clone, Debug)]
pub struct Term {
    unseen: BTreeSet<(Watch, Option<Scope>)>,
    state: State,
    learnt: Learnt,
    /// The backoff between two attempts to load the ledgers.
    backoff: Backoff,
    /// The time within which a timed-out request may still take effect.
    late: Duration,
}

impl Term {
    /// Creates a standby whose watches have not listed yet. `scopes`: the scopes of the namespaced watches. `besides`:
    /// the cluster-wide watches.
    pub fn new(scopes: &[Scope], besides: &[Watch], late: Duration, seed: u64) -> Self {
        let watches = [Watch::Pods, Watch::Services, Watch::Bindings];
        let of = |watch| scopes.iter().map(move |scope| (watch, Some(scope.clone())));
        let mut unseen: BTreeSet<_> = watches.into_iter().flat_map(of).collect();
        unseen.extend(besides.iter().map(|watch| (*watch, None)));
        let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5), seed);
        Self { unseen, state: State::Standby(None), learnt: Learnt::Unanswered, backoff, late }
    }

    /// Records that a watch has listed. Returns whether all watches have listed.
    pub fn listed(&mut self, watch: Watch, scope: Option<&Scope>) -> bool {
        let is_first = self.unseen.remove(&(watch, scope.cloned()));
        let says_who_is_bound = matches!(watch, Watch::Pods | Watch::Services | Watch::Bindings);
        if says_who_is_bound && !is_first && self.learnt != Learnt::Unanswered {
            // This replica has not seen the changes before this list.
            self.learnt = Learnt::Unknown;
            if let State::Standby(asked) = &mut self.state {
                *asked = None;
            }
        }
        self.has_listed()
    }

    /// Whether every watch has listed, and a request for the ledgers was answered.
    pub fn is_synced(&self) -> bool {
        self.has_listed() && self.learnt != Learnt::Unanswered
    }

    fn has_listed(&self) -> bool {
        self.unseen.is_empty()
    }

    /// The role of this replica.
    pub fn role(&self) -> Role {
        match self.state {
            State::Standby(_) => Role::Standby,
            State::Loading(_) => Role::Loading,
            State::Leading(_) if self.has_listed() => Role::Acting,
            State::Leading(_) => Role::Listing,
        }
    }

    /// Records whether this replica is the leader. A new leader must load the ledgers. Returns whether the value has
    /// changed.
    pub fn leads(&mut self, leads: bool) -> bool {
        let did = !matches!(self.state, State::Standby(_));
        if did == leads {
            return false;
        }
        self.state = if leads { State::Loading(None) } else { State::Standby(None) };
        if leads {
            self.backoff.succeeded();
        }
        true
    }

    /// The time at which this replica must load the ledgers. The leader loads the ledgers again when no earlier write
    /// can still take effect.
    pub fn next_load(&self) -> Option<Moment> {
        match self.state {
            State::Standby(None) if self.has_listed() && self.learnt != Learnt::Known => {
                Some(self.backoff.until())
            }
            State::Loading(None) => Some(self.backoff.until()),
            State::Leading(LookAgain::At(due)) => Some(due.max(self.backoff.until())),
            _ => None,
        }
    }

    /// Records that the ledgers were requested.
    pub fn loads(&mut self, id: RequestId) {
        self.state = match self.state {
            State::Standby(_) => State::Standby(Some(id)),
            State::Loading(_) => State::Loading(Some(id)),
            State::Leading(_) => State::Leading(LookAgain::Asked(id)),
        };
    }

    /// Handles the end of a request for the ledgers. Returns how to use the result. `None`: the result is not used.
    pub fn loaded(&mut self, id: RequestId, succeeded: bool, now: Moment) -> Option<Load> {
        let (load, failed) = match self.state {
            State::Standby(Some(own)) if own == id => (Load::Learns, State::Standby(None)),
            State::Loading(Some(own)) if own == id => (Load::TakesOver, State::Loading(None)),
            State::Leading(LookAgain::Asked(own)) if own == id => {
                (Load::LooksAgain, State::Leading(LookAgain::At(now)))
            }
            _ => return None,
        };
        if succeeded && self.has_listed() {
            self.learnt = Learnt::Known;
        } else if self.learnt == Learnt::Unanswered {
            self.learnt = Learnt::Unknown;
        }
        if !succeeded {
            self.backoff.failed(now);
            self.state = failed;
            return None;
        }
        self.state =
            if load == Load::Learns { State::Standby(None) } else { State::Leading(LookAgain::Never) };
        if load == Load::TakesOver {
            self.may_land_late(now);
        } else {
            self.backoff.succeeded();
        }
        Some(load)
    }

    /// Records that Kubernetes may still execute a timed-out request. The leader reads the ledgers again when the
    /// request can no longer take effect.
    pub fn may_land_late(&mut self, now: Moment) {
        if let State::Leading(look_again) = &mut self.state {
            *look_again = LookAgain::At(now + self.late);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn alone() -> Term {
        Term::new(&[], &[], LATE, 1)
    }

    #[test]
    fn what_is_watched_is_called_as_kubernetes_calls_it() {
        let all = [Watch::Pods, Watch::Services, Watch::Bindings, Watch::Namespaces, Watch::Nodes];
        let names = ["pods", "services", "targetbindings", "namespaces", "nodes"];
        assert_eq!(all.map(Watch::as_str), names);
    }

    #[test]
    fn it_acts_when_every_watch_has_listed_and_it_has_the_ledgers() {
        let scope = Scope::Cluster;
        let mut term = Term::new(std::slice::from_ref(&scope), &[Watch::Namespaces, Watch::Grants], LATE, 1);
        assert!(term.leads(true) && !term.leads(true));
        term.loads(RequestId(1));
        for watch in [Watch::Pods, Watch::Services, Watch::Bindings] {
            term.listed(watch, Some(&scope));
        }
        for watch in [Watch::Namespaces, Watch::Grants] {
            assert!(!term.has_listed(), "{watch:?}");
            term.listed(watch, None);
        }
        assert_eq!((term.is_synced(), term.role()), (false, Role::Loading));
        assert_eq!(term.loaded(RequestId(1), true, at(0)), Some(Load::TakesOver));
        assert_eq!((term.is_synced(), term.role()), (true, Role::Acting));
        assert!(term.leads(false) && !term.leads(false));
        assert_eq!(term.role(), Role::Standby);
    }

    #[test]
    fn the_ledgers_are_tried_again_after_a_failure_and_an_answer_to_the_term_before_is_none() {
        let mut term = alone();
        term.leads(true);
        assert_eq!(term.next_load(), Some(Moment::START));
        term.loads(RequestId(1));
        assert_eq!(term.next_load(), None, "it is on its way");
        assert_eq!(term.loaded(RequestId(1), false, at(1)), None);
        assert!(term.next_load().is_some_and(|due| due > at(1) && due < at(2)));
        term.loads(RequestId(2));
        term.leads(false);
        term.leads(true);
        term.loads(RequestId(3));
        assert_eq!(term.loaded(RequestId(2), true, at(2)), None);
        assert_eq!(term.loaded(RequestId(3), true, at(3)), Some(Load::TakesOver));
    }

    #[test]
    fn a_standby_reads_the_ledgers_once_when_it_has_seen_every_pod_and_again_only_if_it_could_not() {
        let scope = Scope::Cluster;
        let mut term = Term::new(std::slice::from_ref(&scope), &[], LATE, 1);
        for watch in [Watch::Pods, Watch::Services, Watch::Bindings] {
            assert_eq!(term.next_load(), None, "{watch:?} has not listed");
            term.listed(watch, Some(&scope));
        }
        assert_eq!((term.next_load(), term.is_synced()), (Some(Moment::START), false));
        term.loads(RequestId(1));
        assert_eq!(term.next_load(), None, "it is on its way");
        assert_eq!(term.loaded(RequestId(1), false, at(1)), None);
        assert!(term.is_synced(), "it is ready without them");
        assert!(term.next_load().is_some_and(|due| due > at(1) && due < at(2)));
        term.loads(RequestId(2));
        assert_eq!(term.loaded(RequestId(7), true, at(2)), None, "that was not asked");
        assert_eq!(term.loaded(RequestId(2), true, at(2)), Some(Load::Learns));
        assert_eq!((term.next_load(), term.role()), (None, Role::Standby));
        term.leads(true);
        term.loads(RequestId(3));
        assert_eq!(term.loaded(RequestId(3), true, at(3)), Some(Load::TakesOver));
        term.leads(false);
        assert_eq!(term.next_load(), None, "it has seen since what becomes of whom");
    }

    #[test]
    fn a_standby_whose_watch_lists_again_reads_the_ledgers_again_and_no_answer_from_before_counts() {
        let scope = Scope::Cluster;
        let mut term = Term::new(std::slice::from_ref(&scope), &[Watch::Grants], LATE, 1);
        let bound = [Watch::Pods, Watch::Services, Watch::Bindings];
        for watch in bound {
            term.listed(watch, Some(&scope));
        }
        term.listed(Watch::Grants, None);
        term.loads(RequestId(1));
        term.loaded(RequestId(1), true, at(1));
        term.listed(Watch::Grants, None);
        assert_eq!(term.next_load(), None, "that says of no pod whether it was bound");
        for (id, watch) in (2..).step_by(2).map(RequestId).zip(bound) {
            term.listed(watch, Some(&scope));
            assert!(term.next_load().is_some() && term.is_synced(), "{watch:?}");
            term.loads(id);
            term.listed(watch, Some(&scope));
            assert_eq!(term.loaded(id, true, at(2)), None, "it was asked before");
            let again = RequestId(id.0 + 1);
            term.loads(again);
            assert_eq!(term.loaded(again, true, at(2)), Some(Load::Learns));
            assert_eq!(term.next_load(), None);
        }
    }

    #[test]
    fn one_that_led_before_it_had_seen_every_pod_has_not_learnt_whose_targets_there_were() {
        let mut term = Term::new(&[], &[Watch::Grants], LATE, 1);
        term.leads(true);
        term.loads(RequestId(1));
        assert_eq!(term.loaded(RequestId(1), true, at(0)), Some(Load::TakesOver));
        term.listed(Watch::Grants, None);
        term.leads(false);
        assert!(term.next_load().is_some() && term.is_synced());
    }

    #[test]
    fn what_may_have_been_written_late_is_looked_for_once() {
        let mut term = alone();
        term.leads(true);
        term.loads(RequestId(1));
        term.loaded(RequestId(1), true, at(0));
        assert_eq!(term.next_load(), Some(at(30)));
        term.loads(RequestId(2));
        assert_eq!(term.loaded(RequestId(2), false, at(31)), None);
        assert!(term.next_load().is_some_and(|due| due > at(31) && due < at(32)));
        term.loads(RequestId(3));
        assert_eq!(term.loaded(RequestId(3), true, at(32)), Some(Load::LooksAgain));
        assert_eq!(term.next_load(), None);
        term.may_land_late(at(40));
        assert_eq!(term.next_load(), Some(at(70)), "a request of its own was given up");
    }

    #[test]
    fn an_answer_to_another_request_for_the_ledgers_is_none() {
        let mut term = alone();
        term.leads(true);
        term.loads(RequestId(1));
        assert_eq!(term.loaded(RequestId(7), true, at(0)), None);
        assert_eq!(
            (term.role(), term.loaded(RequestId(1), true, at(0))),
            (Role::Loading, Some(Load::TakesOver))
        );
        term.loads(RequestId(2));
        assert_eq!(term.loaded(RequestId(1), true, at(31)), None);
        assert_eq!(term.loaded(RequestId(2), true, at(31)), Some(Load::LooksAgain));
    }
}
