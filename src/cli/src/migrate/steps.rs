//! The steps of a migration and their states.

use std::collections::BTreeSet;

use serde::Serialize;

/// A choice of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// Stop LBC, and start LBC again at the end.
    StopLbc,
    /// Trust the user that LBC does not run.
    LbcIsStopped,
    /// Do not start LBC again at the end.
    LeaveLbcStopped,
    /// Accept that LBC removes the security group rules that it manages.
    AcceptNetworking,
    /// Accept that LBC deregisters targets that are not pods of the Service.
    LbcMayRemove,
}

/// All choices of the user.
pub type Wishes = BTreeSet<Wish>;

/// The action of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Action {
    /// Check whether the binding can be migrated.
    Check,
    /// Write a paused binding for Headgate.
    Write,
    /// Wait until Headgate reports the binding and has read the target group.
    Compare,
    /// Set `failurePolicy: Ignore` on LBC's webhooks while LBC is stopped.
    RelaxWebhooks,
    /// Wait until no pod starts or terminates.
    Quiet,
    /// Stop LBC.
    StopLbc,
    /// Remove LBC's finalizer.
    TakeFinalizer,
    /// Delete the TargetGroupBinding.
    Delete,
    /// Remove the pause from Headgate's binding.
    Unpause,
    /// Wait until Headgate has registered all wanted targets.
    Settle,
    /// Open LBC's readiness gates, because LBC no longer opens them.
    OpenGates,
    /// Start LBC.
    StartLbc,
    /// Restore LBC's webhooks.
    RestoreWebhooks,
    /// Check that LBC runs.
    LbcRuns,
    /// Create the TargetGroupBinding again.
    Create,
    /// Wait until LBC has reconciled the TargetGroupBinding.
    Taken,
    /// Pause Headgate.
    Pause,
    /// Stop Headgate to remove its state.
    StopHeadgate,
    /// Delete the TargetLedger, which lists Headgate's own targets.
    Forget,
    /// Remove Headgate's binding.
    Unwrite,
    /// Start Headgate.
    StartHeadgate,
}

/// The state of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The step is done.
    Done,
    /// The step can start now.
    Due,
    /// The step waits. Contains the reason.
    Waits(String),
    /// The step cannot start. Contains the reason, and how to fix it.
    Refused(String),
    /// An earlier step is not done yet.
    Later,
}

impl State {
    /// Returns the name of the state.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Due => "next",
            Self::Waits(_) => "waits",
            Self::Refused(_) => "refused",
            Self::Later => "later",
        }
    }

    /// Returns why the step is not done.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Waits(why) | Self::Refused(why) => Some(why),
            Self::Done | Self::Due | Self::Later => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub action: Action,
    /// The index of the binding in the facts. `None`: the step applies to all bindings.
    pub binding: Option<usize>,
    pub state: State,
    /// The description of the step.
    pub says: String,
}

/// Marks each step as `Later` if a step with an earlier action is not done.
pub fn in_order(mut steps: Vec<Step>) -> Vec<Step> {
    let first = steps.iter().position(|step| step.state != State::Done);
    if let Some(first) = first {
        let action = steps[first].action;
        let not_yet = |step: &&mut Step| step.action != action && step.state != State::Done;
        steps[first..].iter_mut().filter(not_yet).for_each(|step| step.state = State::Later);
    }
    steps
}

/// Returns the current steps: the incomplete steps of the first action that is not done.
pub fn current(steps: &[Step]) -> impl Iterator<Item = &Step> {
    steps.iter().filter(|step| !matches!(step.state, State::Done | State::Later))
}
