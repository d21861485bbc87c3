//! The eviction gate: a pod that nothing keeps alive is taken out of its target groups before its eviction.
//!
//! Kubernetes ends an evicted pod at once, and a load balancer goes on sending to it for up to two minutes. A pod with a
//! hold answers for so long; one without is evicted only when the load balancer has stopped. Evictions are asked for
//! again and again by whoever drains a node, so nobody has to wait for anything: each request is answered at once, by
//! whichever replica is asked, from what is written on the pod.
//!
//! ```text
//!  a request      ruling      any replica: let it through, or answer 429 and note on the pod that it is to leave
//!  headgate.dev/leaving       ──► the leader: do its PodDisruptionBudgets allow one more departure?
//!                                 DeregisterTargets
//!  headgate.dev/deregistered-at ◄─ AWS has taken it; the load balancer may go on sending for the bound
//!  headgate.dev/may-go        ◄── the bound has passed
//!  the next request           ──► let through
//! ```
//!
//! * **Who is asked never decides.** A replica that is asked reads, and notes; only the leader takes pods out.
//! * **One departure more than a budget allows is none.** A dry run of the eviction reserves nothing, so the leader also
//!   counts the departures that it has under way: they are taken off what the budget allows.
//! * **Nothing is delayed without end.** Each wait has a bound of its own, after which the eviction is let through, with
//!   a word why. What a budget refuses is refused by Kubernetes, not here.
//! * **A zone keeps a healthy target** while one can come, see `zone.rs`: also a pod with its hold waits for that.
//! * **A node that goes says so first** (see [`signal`](crate::signal)): then the leader asks by itself, see `early.rs`.
//! * **What is given up is undone.** A pod that nobody has asked to leave for a while is put back.
//! * **What is written is enough.** A new leader goes on from there. All of it names the UID of the pod.

mod departures;
mod early;
mod ruling;
mod zone;

use std::time::Duration;

pub use departures::{Budget, Case, CheckFailure, Checked, Decision, Departures, Marked, Next, Verdict};
pub use early::{Concerned, Early};
pub use ruling::{BoundTo, Request, Rules, Ruling, leaves_early, propagation, rule};
pub use zone::{Zone, may_leave};

use crate::{
    input::CallId,
    object::{Labels, ObjectKey, Uid},
    reason::Reason,
    time::WallTime,
};

/// The annotation that notes that a pod is asked to leave: its UID, since when, and when last.
pub const LEAVING: &str = "headgate.dev/leaving";
/// The annotation that says why the leader lets it wait: the UID, when that was looked at, and the reason.
pub const WAITS: &str = "headgate.dev/leaving-waits";
/// The annotation that notes that AWS has taken its removal: the UID, when, and for how long the load balancer may go on
/// sending.
pub const DEREGISTERED_AT: &str = "headgate.dev/deregistered-at";
/// The annotation that lets the eviction through: the UID, since when, and why.
pub const MAY_GO: &str = "headgate.dev/may-go";

/// The annotations of this module.
pub const ALL: [&str; 4] = [LEAVING, WAITS, DEREGISTERED_AT, MAY_GO];

/// Clients wait so long at most until they ask again. They do so silently, ten times within one call.
pub const LONGEST_RETRY: Duration = Duration::from_secs(5);
/// What a request's grace period must leave besides the hold.
pub const ROOM: Duration = Duration::from_secs(5);

/// For how long is waited for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For AWS to take a removal, and for the API server to say what the budgets allow: then the eviction is let
    /// through without.
    pub patience: Duration,
    /// A pod that nobody has asked to leave for so long is put back.
    pub given_up_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { patience: Duration::from_secs(60), given_up_after: Duration::from_secs(15 * 60) }
    }
}

impl Limits {
    /// How often it is noted that somebody still asks, or still waits.
    pub fn refresh(&self) -> Duration {
        self.patience.min(self.given_up_after / 3)
    }

    /// Without a word of a leader for so long, an eviction is let through: longer than any leader is missed, and longer
    /// than one that is there is silent.
    pub fn silence(&self) -> Duration {
        self.patience.saturating_mul(3)
    }
}

/// What is written on a pod about its leaving. Only of its own UID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeavingFacts {
    /// Whether it keeps itself alive for long enough, and need not be taken out before: only its zones are looked at.
    pub held: bool,
    /// Whether nobody has asked for its eviction yet: its node is about to go.
    pub early: bool,
    /// When it was asked to leave for the first time.
    pub since: WallTime,
    /// When somebody asked last, give or take [`Limits::refresh`].
    pub asked: WallTime,
    /// When the leader looked last, and why it has to wait.
    pub waits: Option<(WallTime, Reason)>,
    /// When AWS had taken the removal of its targets, and for how long the load balancer may go on sending.
    pub deregistered: Option<(WallTime, Duration)>,
    /// It may be evicted, for this reason.
    pub may_go: Option<Reason>,
}

impl LeavingFacts {
    /// Asked to leave, and nothing more.
    pub const fn asked(since: WallTime, asked: WallTime) -> Self {
        Self { held: false, early: false, since, asked, waits: None, deregistered: None, may_go: None }
    }

    /// Whether it is out of its target groups, and stays out.
    pub const fn is_out(&self) -> bool {
        self.deregistered.is_some() || (self.may_go.is_some() && !self.was_let_go_by_zone())
    }

    /// Why it may be evicted, if it may. One that is held may when its zones allow; if it is not held after all, because
    /// a request cuts the hold short, that does not count.
    pub const fn let_go(&self) -> Option<Reason> {
        if self.was_let_go_by_zone() && !self.held { None } else { self.may_go }
    }

    const fn was_let_go_by_zone(&self) -> bool {
        matches!(self.may_go, Some(Reason::ZoneAllows | Reason::ReplacementTooSlow | Reason::ZoneHasNoRoom))
    }

    /// Whether this was written.
    pub const fn shows(&self, mark: Mark) -> bool {
        match mark {
            Mark::Deregistered { .. } => self.deregistered.is_some(),
            Mark::MayGo { .. } => self.may_go.is_some(),
            Mark::Asked { .. } | Mark::Early { .. } | Mark::Waits { .. } | Mark::Undone | Mark::Stays => {
                false
            }
        }
    }

    /// With this written as well.
    #[must_use]
    pub fn with(mut self, mark: Mark) -> Option<Self> {
        match mark {
            Mark::Asked { held, since, asked } => {
                (self.held, self.early, self.since, self.asked) = (held, false, since, asked);
            }
            Mark::Early { at } => (self.held, self.early, self.since, self.asked) = (false, true, at, at),
            Mark::Waits { at, reason } => self.waits = Some((at, reason)),
            Mark::Deregistered { at, bound } => self.deregistered = Some((at, bound)),
            Mark::MayGo { reason, .. } => self.may_go = Some(reason),
            Mark::Undone | Mark::Stays => return None,
        }
        Some(self)
    }
}

/// What is to be written on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// [`LEAVING`].
    Asked {
        /// Whether only its zones are to be looked at.
        held: bool,
        /// When it was asked to leave for the first time.
        since: WallTime,
        /// When last.
        asked: WallTime,
    },
    /// [`LEAVING`], because its node is about to go.
    Early {
        /// When that was seen.
        at: WallTime,
    },
    /// [`WAITS`].
    Waits {
        /// When that was looked at.
        at: WallTime,
        /// Why.
        reason: Reason,
    },
    /// [`DEREGISTERED_AT`].
    Deregistered {
        /// When AWS had taken it.
        at: WallTime,
        /// For how long the load balancer may go on sending.
        bound: Duration,
    },
    /// [`MAY_GO`].
    MayGo {
        /// Since when.
        at: WallTime,
        /// Why.
        reason: Reason,
    },
    /// All of them are taken away: nobody asks any more.
    Undone,
    /// The same, because its node stays.
    Stays,
}

/// Something that is to be written on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkWrite {
    /// To be given back with the answer.
    pub id: CallId,
    /// The pod.
    pub pod: ObjectKey,
    /// This life of it, and no other, is written to: a precondition of the request.
    pub uid: Uid,
    /// What.
    pub mark: Mark,
}

/// Why it could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkFailure {
    /// The pod is gone, or another one has its name.
    Gone,
    /// Kubernetes does not allow it.
    Denied(Box<str>),
    /// No answer, or none that helps.
    Unavailable(Box<str>),
}

/// A question to the API server: may this pod be evicted?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// To be given back with the answer.
    pub id: CallId,
    /// The pod.
    pub pod: ObjectKey,
    /// This life of it.
    pub uid: Uid,
    /// Its labels: which budgets are about it.
    pub labels: Labels,
    /// Those of the pods of its namespace that are on their way out already.
    pub departing: Vec<Labels>,
}
