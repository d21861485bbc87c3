//! The steps of a migration, and their state.

use std::collections::BTreeSet;

use serde::Serialize;

/// A wish of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// Stop LBC, and start it again at the end.
    StopLbc,
    /// The user asserts that LBC does not run.
    LbcIsStopped,
    /// Leave LBC stopped at the end.
    LeaveLbcStopped,
    /// LBC may remove the security group rules that it manages.
    AcceptNetworking,
    /// LBC may remove targets that are not pods of the Service.
    LbcMayRemove,
}

/// The wishes of the user.
pub type Wishes = BTreeSet<Wish>;

/// The action of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Action {
    /// Check whether the binding can be migrated.
    Check,
    /// Write a paused binding for Headgate.
    Write,
    /// Wait until Headgate shows the binding and has read the target group.
    Compare,
    /// Make LBC's webhooks reject nothing while it is stopped.
    RelaxWebhooks,
    /// Wait until no pod starts or terminates.
    Quiet,
    /// Stop LBC.
    StopLbc,
    /// Remove LBC's finalizer.
    TakeFinalizer,
    /// Delete the TargetGroupBinding.
    Delete,
    /// End Headgate's pause.
    Unpause,
    /// Wait until Headgate has registered its targets.
    Settle,
    /// Open LBC's readiness gates, which LBC does not open any more.
    OpenGates,
    /// Start LBC.
    StartLbc,
    /// Restore LBC's webhooks.
    RestoreWebhooks,
    /// Check that LBC runs.
    LbcRuns,
    /// Create the TargetGroupBinding again.
    Create,
    /// Wait until LBC has reconciled it.
    Taken,
    /// Pause Headgate.
    Pause,
    /// Stop Headgate, so that its state can be removed.
    StopHeadgate,
    /// Delete the TargetLedger, which names Headgate's own targets.
    Forget,
    /// Remove Headgate's binding.
    Unwrite,
    /// Start Headgate.
    StartHeadgate,
}

/// The state of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is done.
    Done,
    /// It can start now.
    Due,
    /// It waits for something. Contains what.
    Waits(String),
    /// It cannot start. Contains why, and what to do.
    Refused(String),
    /// An earlier step comes first.
    Later,
}

impl State {
    /// The name of the state.
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
    /// The action.
    pub action: Action,
    /// The index of the binding in the facts. `None`: all bindings.
    pub binding: Option<usize>,
    /// The state.
    pub state: State,
    /// The action, as text.
    pub says: String,
}

/// Orders the steps. A step waits for all earlier steps that are not done, except those with the same action.
pub fn in_order(mut steps: Vec<Step>) -> Vec<Step> {
    let first = steps.iter().position(|step| step.state != State::Done);
    if let Some(first) = first {
        let action = steps[first].action;
        let not_yet = |step: &&mut Step| step.action != action && step.state != State::Done;
        steps[first..].iter_mut().filter(not_yet).for_each(|step| step.state = State::Later);
    }
    steps
}

/// The current steps: those of the first action that is not done.
pub fn current(steps: &[Step]) -> impl Iterator<Item = &Step> {
    steps.iter().filter(|step| !matches!(step.state, State::Done | State::Later))
}
