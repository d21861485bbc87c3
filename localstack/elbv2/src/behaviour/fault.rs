//! Faults of the API: which calls a fault affects, how often, and with which effect.

use serde::{Deserialize, Serialize};

use super::{BehaviourError, Range};

/// A fault. A call is affected if it matches all fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// An action, or a prefix of actions followed by `*`. `None`: all actions.
    #[serde(default)]
    pub action: Option<String>,
    /// The name of the target group in the call. `None`: all target groups.
    #[serde(default)]
    pub target_group: Option<String>,
    /// The share of matching calls that are affected, from 0 to 1. Default: 1.
    #[serde(default = "always")]
    pub probability: f64,
    /// How many more calls are affected. `None`: unlimited.
    #[serde(default)]
    pub times: Option<u32>,
    /// The effect on a matching call.
    pub effect: Effect,
}

fn always() -> f64 {
    1.0
}

/// The effect of a fault on a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The answer is delayed by real milliseconds, which are drawn per call. Later faults can affect the same call.
    Delay(Range),
    /// The call is executed, but the connection is closed without an answer.
    LoseAnswer,
    /// The call is not executed, and the connection is reset.
    Reset,
    /// The call is not executed and gets no answer.
    Hang,
    /// The call is not executed and gets an error answer with this code.
    Refuse(RefuseWith),
    /// The call is not executed and gets a server error.
    Fail(FailWith),
    /// Only for DescribeTargetHealth: the answer is 500 with the code HealthUnavailable.
    HealthUnavailable,
    /// Only for DescribeTargetHealth: the answer shows a state up to this many AWS seconds old, at most 300.
    Stale(f64),
    /// Only for RegisterTargets and DeregisterTargets: a call with more targets than this number is rejected.
    RefuseChunksOver(u32),
}

/// An error answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefuseWith {
    /// The error code.
    pub code: String,
    /// The error message.
    #[serde(default)]
    pub message: String,
    /// The HTTP status, from 400 to 599. Default: 400.
    #[serde(default = "bad_request")]
    pub status: u16,
}

fn bad_request() -> u16 {
    400
}

/// A server error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailWith {
    /// The HTTP status, from 500 to 599.
    pub status: u16,
    /// Whether the body is XML as in AWS. `false`: the body is an HTML page, like the page of a proxy.
    pub xml: bool,
}

impl Effect {
    /// Returns one fault of each kind that has no required parameters, for profiles in which any call can fail.
    pub fn all() -> Vec<Self> {
        vec![
            Self::LoseAnswer,
            Self::Reset,
            Self::Hang,
            Self::Fail(FailWith { status: 500, xml: true }),
            Self::Fail(FailWith { status: 503, xml: false }),
            Self::HealthUnavailable,
            Self::Stale(5.0),
            Self::RefuseChunksOver(100),
        ]
    }

    /// Returns whether the fault can affect calls of this action.
    pub fn concerns(&self, action: &str) -> bool {
        match self {
            Self::HealthUnavailable | Self::Stale(_) => action == "DescribeTargetHealth",
            Self::RefuseChunksOver(_) => matches!(action, "RegisterTargets" | "DeregisterTargets"),
            _ => true,
        }
    }
}

impl Fault {
    /// Creates a fault that affects a share of all calls, without a limit.
    pub fn often(effect: Effect, probability: f64) -> Self {
        Self { action: None, target_group: None, probability, times: None, effect }
    }

    /// Rejects values that are out of range.
    pub fn check(&self) -> Result<(), BehaviourError> {
        if !(0.0..=1.0).contains(&self.probability) {
            return Err(BehaviourError::Probability(self.probability));
        }
        let named = |name: &str, low: f64, high: f64| Range { low, high }.check(name, 0.0);
        match &self.effect {
            Effect::Delay(range) => range.check("delay", 0.0),
            // The history covers at most 300 s.
            Effect::Stale(seconds) => named("stale", *seconds, 300.0),
            Effect::Refuse(with) => named("status", 400.0, with.status.into())
                .and_then(|()| named("status", with.status.into(), 599.0)),
            Effect::Fail(with) => named("status", 500.0, with.status.into())
                .and_then(|()| named("status", with.status.into(), 599.0)),
            _ => Ok(()),
        }
    }

    /// Returns whether a call matches the fault.
    pub fn matches(&self, action: &str, target_group: Option<&str>) -> bool {
        self.times != Some(0)
            && self.effect.concerns(action)
            && self.action.as_deref().is_none_or(|pattern| is_like(action, pattern))
            && self.target_group.as_deref().is_none_or(|wanted| target_group == Some(wanted))
    }
}

/// Returns whether an action matches a pattern. A pattern with `*` at the end matches all actions with the same prefix.
pub fn is_like(action: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => action.starts_with(beginning),
        None => action == pattern,
    }
}
