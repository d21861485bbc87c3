//! Faults of the API: which calls they affect, how often, and their effect.

use serde::{Deserialize, Serialize};

use super::{BehaviourError, Range};

/// A fault. It affects calls that match all its fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// An action, or the beginning of one and `*`. `None`: all actions.
    #[serde(default)]
    pub action: Option<String>,
    /// Name of the target group in the call. `None`: any.
    #[serde(default)]
    pub target_group: Option<String>,
    /// The share of matching calls that are affected, 0 to 1. `None`: all.
    #[serde(default = "always")]
    pub probability: f64,
    /// How many more calls are affected. `None`: no limit.
    #[serde(default)]
    pub times: Option<u32>,
    /// What happens to the calls.
    pub effect: Effect,
}

fn always() -> f64 {
    1.0
}

/// The effect of a fault on a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Adds real milliseconds before the answer, drawn per call. Later faults can affect the same call.
    Delay(Range),
    /// The call is carried out, and its connection is closed without an answer.
    LoseAnswer,
    /// The call is not carried out; its connection is reset.
    Reset,
    /// The call is not carried out and gets no answer.
    Hang,
    /// The call is not carried out and answered with this error.
    Refuse(RefuseWith),
    /// The call is not carried out and answered with a server error.
    Fail(FailWith),
    /// DescribeTargetHealth only: 500 with the code HealthUnavailable.
    HealthUnavailable,
    /// DescribeTargetHealth only: returns the state of up to this many AWS seconds ago, at most 300.
    Stale(f64),
    /// RegisterTargets and DeregisterTargets only: rejects a call with more targets than this.
    RefuseChunksOver(u32),
}

/// An error answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefuseWith {
    /// The error code.
    pub code: String,
    /// The message.
    #[serde(default)]
    pub message: String,
    /// The HTTP status, 400 to 599. Default: 400.
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
    /// 500 to 599.
    pub status: u16,
    /// Whether the body is AWS's XML. If not, it is an HTML page like that of a proxy.
    pub xml: bool,
}

impl Effect {
    /// One fault of each kind that needs no parameters, for profiles in which any call may fail.
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

    /// Whether the fault can affect calls of an action.
    pub fn concerns(&self, action: &str) -> bool {
        match self {
            Self::HealthUnavailable | Self::Stale(_) => action == "DescribeTargetHealth",
            Self::RefuseChunksOver(_) => matches!(action, "RegisterTargets" | "DeregisterTargets"),
            _ => true,
        }
    }
}

impl Fault {
    /// Affects a share of all calls, without a limit.
    pub fn often(effect: Effect, probability: f64) -> Self {
        Self { action: None, target_group: None, probability, times: None, effect }
    }

    /// Rejects numbers out of range.
    pub fn check(&self) -> Result<(), BehaviourError> {
        if !(0.0..=1.0).contains(&self.probability) {
            return Err(BehaviourError::Probability(self.probability));
        }
        let named = |name: &str, low: f64, high: f64| Range { low, high }.check(name, 0.0);
        match &self.effect {
            Effect::Delay(range) => range.check("delay", 0.0),
            // The history covers at most this.
            Effect::Stale(seconds) => named("stale", *seconds, 300.0),
            Effect::Refuse(with) => named("status", 400.0, with.status.into())
                .and_then(|()| named("status", with.status.into(), 599.0)),
            Effect::Fail(with) => named("status", 500.0, with.status.into())
                .and_then(|()| named("status", with.status.into(), 599.0)),
            _ => Ok(()),
        }
    }

    /// Whether a call matches the fault.
    pub fn matches(&self, action: &str, target_group: Option<&str>) -> bool {
        self.times != Some(0)
            && self.effect.concerns(action)
            && self.action.as_deref().is_none_or(|pattern| is_like(action, pattern))
            && self.target_group.as_deref().is_none_or(|wanted| target_group == Some(wanted))
    }
}

/// Whether an action matches a pattern: it equals the pattern or, with `*`, begins with it.
pub fn is_like(action: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => action.starts_with(beginning),
        None => action == pattern,
    }
}
