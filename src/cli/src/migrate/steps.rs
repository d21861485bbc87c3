//! What is done, one after the other, and how far it is.

use std::collections::BTreeSet;

use serde::Serialize;

/// What was asked for beside the bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// Stop LBC, and start it again in the end.
    StopLbc,
    /// It is somebody else's word that LBC does not run.
    LbcIsStopped,
    /// Leave LBC stopped in the end.
    LeaveLbcStopped,
    /// Rules for security groups that LBC keeps may go with it.
    AcceptNetworking,
    /// LBC may remove targets that are nobody's pods.
    LbcMayRemove,
}

/// What was asked for.
pub type Wishes = BTreeSet<Wish>;

/// What is done in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Action {
    /// See whether it can be moved at all.
    Check,
    /// Write it for Headgate, paused.
    Write,
    /// Wait until Headgate shows the binding and has read the target group.
    Compare,
    /// LBC's webhooks refuse nothing while it is stopped.
    RelaxWebhooks,
    /// Wait until no pod comes or goes.
    Quiet,
    /// LBC does not run.
    StopLbc,
    /// LBC's finalizer goes.
    TakeFinalizer,
    /// The TargetGroupBinding goes.
    Delete,
    /// Headgate writes from now on.
    Unpause,
    /// Wait until Headgate has registered what it wants.
    Settle,
    /// LBC's readiness gates that nobody opens any more are opened.
    OpenGates,
    /// LBC runs again.
    StartLbc,
    /// LBC's webhooks refuse as before.
    RestoreWebhooks,
    /// LBC runs, for what it is given back.
    LbcRuns,
    /// The TargetGroupBinding is made again.
    Create,
    /// Wait until LBC has gone through it.
    Taken,
    /// Headgate writes nothing any more.
    Pause,
    /// Headgate does not run, so that it can be made to forget.
    StopHeadgate,
    /// Its TargetLedger goes, which says what is its own.
    Forget,
    /// Its binding goes.
    Unwrite,
    /// Headgate runs again.
    StartHeadgate,
}

/// How far a step is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// There is nothing left to do.
    Done,
    /// It can be done now.
    Due,
    /// Something is to come by itself: what.
    Waits(String),
    /// It must not be done: why, and what was expected.
    Refused(String),
    /// Another one comes first.
    Later,
}

impl State {
    /// In a word.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Due => "next",
            Self::Waits(_) => "waits",
            Self::Refused(_) => "refused",
            Self::Later => "later",
        }
    }

    /// Why it is not done.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Waits(why) | Self::Refused(why) => Some(why),
            Self::Done | Self::Due | Self::Later => None,
        }
    }
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// The binding that it is about, by its place in the facts; none: all of them.
    pub binding: Option<usize>,
    /// How far it is.
    pub state: State,
    /// What is done, in a sentence.
    pub says: String,
}

/// The steps in their order: what is not done waits for what comes before it, but steps of one action do not wait for each
/// other.
pub fn in_order(mut steps: Vec<Step>) -> Vec<Step> {
    let first = steps.iter().position(|step| step.state != State::Done);
    if let Some(first) = first {
        let action = steps[first].action;
        let not_yet = |step: &&mut Step| step.action != action && step.state != State::Done;
        steps[first..].iter_mut().filter(not_yet).for_each(|step| step.state = State::Later);
    }
    steps
}

/// The steps that are to be looked at now: those of the first action that is not done.
pub fn current(steps: &[Step]) -> impl Iterator<Item = &Step> {
    steps.iter().filter(|step| !matches!(step.state, State::Done | State::Later))
}
