//! The checks before the action of a call: signature, permissions, rates and faults, in this order.
//!
//! The module is pure: time and behavior are parameters. The gate has its own seeded random generator, so calls do not
//! change the random values of targets. The gate uses only the action, the target group and the number of targets of a
//! call. A call that the gate rejects changes nothing.

mod buckets;
mod signature;

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::behaviour::{Behaviour, Effect, is_like};
use buckets::Buckets;
pub use signature::Signature;

/// The properties of a call that the gate uses.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// The `Action` parameter of the request.
    pub action: &'a str,
    /// The name of the target group in the call.
    pub target_group: Option<&'a str>,
    /// The ARN in the call, for error messages.
    pub resource: &'a str,
    /// The number of targets in the call.
    pub targets: usize,
    /// The signature of the call.
    pub signature: &'a Signature,
}

/// The region and account that calls must use.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The region, such as `us-east-1`.
    pub region: &'a str,
    /// The account, which has twelve digits.
    pub account: &'a str,
}

/// An error answer of the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnedAway {
    /// The HTTP status, from 400 to 599.
    pub status: u16,
    /// The error code.
    pub code: String,
    /// The message.
    pub message: String,
}

impl TurnedAway {
    fn new(status: u16, code: &str, message: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), message: message.into() }
    }
}

/// The gate's decision about a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// The call is executed.
    Proceed,
    /// The call gets an error answer.
    TurnedAway(TurnedAway),
    /// The call gets this status with a page that is not XML.
    Page(u16),
    /// The call is executed, but the connection is closed without an answer.
    LoseAnswer,
    /// The connection of the call is reset.
    Reset,
    /// The call gets no answer.
    Hang,
    /// The answer shows the state that was current this long ago, in real time.
    Stale(Duration),
}

/// The state of the rate limits and of the random generator.
#[derive(Debug)]
pub struct Gate {
    chance: StdRng,
    buckets: Buckets,
}

impl Gate {
    /// Creates a gate with full buckets.
    pub fn new(seed: u64) -> Self {
        Self { chance: StdRng::seed_from_u64(seed.rotate_left(17)), buckets: Buckets::default() }
    }

    /// Decides about a call. Returns the decision and the additional delay of the answer.
    pub fn judge(
        &mut self,
        behaviour: &mut Behaviour,
        place: Place,
        caller: Caller,
        now: Duration,
    ) -> (Fate, Duration) {
        let key = match caller.signature.check(behaviour.signatures, place.region) {
            Ok(key) => key,
            Err(refused) => return (Fate::TurnedAway(refused), Duration::ZERO),
        };
        if let Some(allowed) = behaviour.permissions.get(key) {
            let bare = |pattern: &String| {
                is_like(caller.action, pattern.strip_prefix("elasticloadbalancing:").unwrap_or(pattern))
            };
            if !allowed.iter().any(bare) {
                return (Fate::TurnedAway(denied(key, place, caller)), Duration::ZERO);
            }
        }
        if let Some(throttling) = &behaviour.throttling
            && let Err(code) = self.buckets.take(throttling, key, caller.action, now)
        {
            return (Fate::TurnedAway(TurnedAway::new(400, code, "Rate exceeded")), Duration::ZERO);
        }
        self.meet_faults(behaviour, caller)
    }

    /// Draws the usual latency of an answer.
    pub fn latency(&mut self, behaviour: &Behaviour) -> Duration {
        let range = behaviour.api_latency_ms;
        if range.high <= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(range.at(self.chance.random::<f64>()) / 1000.0).unwrap_or_default()
    }

    fn meet_faults(&mut self, behaviour: &mut Behaviour, caller: Caller) -> (Fate, Duration) {
        let mut delay = Duration::ZERO;
        for at in 0..behaviour.faults.len() {
            let Some(fault) = behaviour.faults.get_mut(at) else { break };
            if !fault.matches(caller.action, caller.target_group) {
                continue;
            }
            if matches!(fault.effect, Effect::RefuseChunksOver(most) if caller.targets <= most as usize) {
                continue;
            }
            if fault.probability < 1.0 && self.chance.random::<f64>() >= fault.probability {
                continue;
            }
            if let Some(times) = &mut fault.times {
                *times -= 1;
            }
            let effect = fault.effect.clone();
            let fate = match effect {
                Effect::Delay(range) => {
                    let millis = range.at(self.chance.random::<f64>());
                    delay += Duration::try_from_secs_f64(millis / 1000.0).unwrap_or_default();
                    continue;
                }
                Effect::LoseAnswer => Fate::LoseAnswer,
                Effect::Reset => Fate::Reset,
                Effect::Hang => Fate::Hang,
                Effect::Refuse(with) => {
                    Fate::TurnedAway(TurnedAway::new(with.status, &with.code, with.message))
                }
                Effect::Fail(with) if !with.xml => Fate::Page(with.status),
                Effect::Fail(with) => Fate::TurnedAway(TurnedAway::new(
                    with.status,
                    if with.status == 503 { "ServiceUnavailable" } else { "InternalFailure" },
                    "The request processing has failed because of an unknown error, exception or failure.",
                )),
                Effect::HealthUnavailable => Fate::TurnedAway(TurnedAway::new(
                    500,
                    "HealthUnavailable",
                    "The health of the specified targets could not be retrieved due to an internal error.",
                )),
                Effect::Stale(seconds) => {
                    Fate::Stale(behaviour.scaled(seconds * self.chance.random::<f64>()))
                }
                // The answer of AWS in this case is unknown. With a server error, retries of the same call do not help.
                Effect::RefuseChunksOver(most) => Fate::TurnedAway(TurnedAway::new(
                    503,
                    "ServiceUnavailable",
                    format!(
                        "{} targets in one call are more than the {most} that are taken now",
                        caller.targets
                    ),
                )),
            };
            return (fate, delay);
        }
        (Fate::Proceed, delay)
    }
}

/// Returns the error in the form of IAM messages.
fn denied(key: &str, place: Place, caller: Caller) -> TurnedAway {
    let action = format!("elasticloadbalancing:{}", caller.action);
    let message = format!(
        "User: arn:aws:iam::{}:user/{key} is not authorized to perform: {action} on resource: {} because no \
         identity-based policy allows the {action} action",
        place.account, caller.resource
    );
    TurnedAway::new(403, "AccessDenied", message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLACE: Place = Place { region: "us-east-1", account: "123456789012" };

    fn judge(gate: &mut Gate, behaviour: &mut Behaviour, action: &str) -> Fate {
        let signature = Signature::default();
        let caller =
            Caller { action, target_group: Some("web"), resource: "*", targets: 1, signature: &signature };
        gate.judge(behaviour, PLACE, caller, Duration::ZERO).0
    }

    fn behaviour(patch: &serde_json::Value) -> Behaviour {
        Behaviour::new(1.0).patched(patch).unwrap()
    }

    #[test]
    fn a_fault_hits_as_often_as_it_says_and_no_other_action() {
        let mut behaviour = behaviour(&json!({
            "faults": [{"action": "Register*", "times": 2, "effect": "reset"}],
        }));
        let mut gate = Gate::new(1);
        let fates = ["DescribeTags", "RegisterTargets", "RegisterTargets", "RegisterTargets"]
            .map(|action| judge(&mut gate, &mut behaviour, action));
        assert_eq!(fates, [Fate::Proceed, Fate::Reset, Fate::Reset, Fate::Proceed]);
    }

    #[test]
    fn a_fault_of_another_group_hits_nothing() {
        let mut behaviour = behaviour(&json!({"faults": [{"target_group": "api", "effect": "hang"}]}));
        assert_eq!(judge(&mut Gate::new(1), &mut behaviour, "RegisterTargets"), Fate::Proceed);
    }

    #[test]
    fn one_seed_gives_one_sequence_of_faults() {
        let draw = |seed| {
            let mut behaviour =
                behaviour(&json!({"faults": [{"probability": 0.5, "effect": "lose-answer"}]}));
            let mut gate = Gate::new(seed);
            (0..64).map(|_| judge(&mut gate, &mut behaviour, "AddTags") == Fate::Proceed).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let passed = draw(7).into_iter().filter(|passed| *passed).count();
        assert!((10..54).contains(&passed), "{passed} of 64");
    }
}
