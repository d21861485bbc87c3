//! The hold: how long a deleted pod keeps serving while load balancers may still send requests.
//!
//! A hold covers the propagation delay after `DeregisterTargets` has returned, plus a reserve. The reserve covers the
//! time before `DeregisterTargets` returns: the wait for a token, AWS's response time, and the takeover from a killed
//! leader.

use std::{fmt, time::Duration};

use crate::model::{Target, TargetGroupArn, load_balancer::LoadBalancerType};

/// The propagation delay of an Application Load Balancer, in seconds.
const ALB_BOUND: u32 = 20;
/// The propagation delay of a Network Load Balancer, in seconds.
const NLB_BOUND: u32 = 120;
const ALB_MARGIN: u32 = 25;
const NLB_MARGIN: u32 = 30;
/// The longest valid hold, in seconds, which equals the longest `deregistration_delay` in AWS.
const LONGEST: u32 = 3600;

/// The propagation delays: how long load balancers may keep sending requests to a target after `DeregisterTargets`
/// returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The propagation delay of an Application Load Balancer.
    pub application: Duration,
    /// The propagation delay of a Network Load Balancer.
    pub network: Duration,
}

impl Default for Bounds {
    /// The observed delays from the docs of the AWS Load Balancer Controller and its issues 2366 and 1834. The hold
    /// `auto` uses the observed delays.
    fn default() -> Self {
        Self {
            application: Duration::from_secs(ALB_BOUND.into()),
            network: Duration::from_secs(NLB_BOUND.into()),
        }
    }
}

/// The shortest reserve of the hold `auto`. The Lease duration must be shorter than this reserve, because standbys
/// notice a killed leader only when its Lease expires.
pub const MARGIN: Duration = Duration::from_secs(ALB_MARGIN as u64);

/// The requested hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// The hold that the load balancer needs.
    #[default]
    Auto,
    /// A hold of this many seconds, from 1 to 3600.
    For(u32),
    /// No hold.
    Off,
}

impl Hold {
    /// The valid values, for users.
    pub const EXPECTED: &str = "auto, off, or a duration from 1s to 1h in whole seconds, e.g. 45s or 2m30s";

    /// Reads `auto`, `off` or a duration. `None`: the text is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "auto" => Some(Self::Auto),
            "off" => Some(Self::Off),
            text => seconds(text).filter(|seconds| (1..=LONGEST).contains(seconds)).map(Self::For),
        }
    }

    /// The hold in seconds for a target of this type of load balancer.
    pub const fn seconds(self, of: LoadBalancerType) -> u32 {
        match (self, of) {
            (Self::Auto, LoadBalancerType::Application) => ALB_BOUND + ALB_MARGIN,
            (Self::Auto, LoadBalancerType::Network) => NLB_BOUND + NLB_MARGIN,
            (Self::For(seconds), _) => seconds,
            (Self::Off, _) => 0,
        }
    }

    /// How long a pod must keep running after `DeregisterTargets` has returned. `None`: the hold is off. A hold longer
    /// than `auto` means that the load balancer is slower than assumed, so the result is higher. The result is at least
    /// the `auto` value, because a shorter hold does not make the load balancer faster.
    pub fn bound(self, of: LoadBalancerType, bounds: &Bounds) -> Option<Duration> {
        let (bound, margin) = match of {
            LoadBalancerType::Application => (bounds.application, ALB_MARGIN),
            LoadBalancerType::Network => (bounds.network, NLB_MARGIN),
        };
        match self {
            Self::Auto => Some(bound),
            Self::For(seconds) => Some(bound.max(Duration::from_secs(seconds.saturating_sub(margin).into()))),
            Self::Off => None,
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::For(seconds) => write!(f, "{seconds}s"),
            Self::Off => f.write_str("off"),
        }
    }
}

/// Parses a duration such as `1h`, `90s` or `2m30s`. Hours, minutes and seconds may occur once each, in this order.
pub fn seconds(text: &str) -> Option<u32> {
    let mut rest = text;
    let mut total: u32 = 0;
    for (unit, worth) in [('h', 3600), ('m', 60), ('s', 1)] {
        if let Some((number, after)) = rest.split_once(unit)
            && !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit())
        {
            total = number.parse::<u32>().ok()?.checked_mul(worth)?.checked_add(total)?;
            rest = after;
        }
    }
    (rest.is_empty() && !text.is_empty()).then_some(total)
}

/// How long a terminating pod should be held, based on its slowest load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldWanted {
    /// The requested hold in seconds, or 0 for no hold.
    pub seconds: u32,
    /// How long the load balancer may keep sending requests after `DeregisterTargets` has returned, in seconds.
    pub bound: u32,
}

impl HoldWanted {
    /// Computes the hold and the propagation delay for a load balancer type.
    pub fn of(hold: Hold, balancer: LoadBalancerType, bounds: &Bounds) -> Self {
        let bound = hold.bound(balancer, bounds).unwrap_or_default();
        // Round up to whole seconds.
        let bound = bound.as_secs() + u64::from(bound.subsec_nanos() > 0);
        Self { seconds: hold.seconds(balancer), bound: u32::try_from(bound).unwrap_or(u32::MAX) }
    }
}

/// A requested hold and the load balancer type.
#[derive(Clone, Copy, Debug, Default)]
pub struct AskedHold {
    /// The type of the load balancer that sends requests to the pods.
    pub balancer: LoadBalancerType,
    /// The requested hold.
    pub hold: Hold,
}

impl AskedHold {
    /// How long a load balancer may keep sending requests to a pod after `DeregisterTargets` has returned. `own` is the
    /// hold that the pod itself requests.
    pub fn bound(&self, own: Option<Hold>, bounds: &Bounds) -> Option<Duration> {
        own.unwrap_or(self.hold).bound(self.balancer, bounds)
    }
}

/// A pod that was not held long enough in a target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Short {
    /// The target group.
    pub group: TargetGroupArn,
    /// The target of the pod.
    pub target: Target,
    /// How long the pod ran after `DeregisterTargets` returned. `None`: the pod terminated before the call returned.
    pub after: Option<Duration>,
    /// How long the pod should have run after `DeregisterTargets` returned.
    pub bound: Duration,
}

#[cfg(test)]
mod tests {
    use super::{
        LoadBalancerType::{Application, Network},
        *,
    };

    #[test]
    fn a_part_of_a_second_is_one_to_be_held_for() {
        let alb = |ms| {
            let bounds = Bounds { application: Duration::from_millis(ms), ..Bounds::default() };
            HoldWanted::of(Hold::Auto, Application, &bounds).bound
        };
        assert_eq!((alb(20_000), alb(20_001), alb(20_999)), (20, 21, 21));
    }

    #[test]
    fn a_hold_is_auto_or_off_or_a_duration_of_whole_seconds() {
        for (text, hold) in [
            ("auto", Some(Hold::Auto)),
            (" off ", Some(Hold::Off)),
            ("45s", Some(Hold::For(45))),
            ("2m30s", Some(Hold::For(150))),
            ("1h", Some(Hold::For(3600))),
            ("3600s", Some(Hold::For(3600))),
            ("0s", None),
            ("1h1s", None),
            ("1.5s", None),
            ("-5s", None),
            ("500ms", None),
            ("30s2m", None),
            ("s", None),
            ("45", None),
            ("", None),
            ("99999999999999s", None),
            ("4294967295h", None),
        ] {
            assert_eq!(Hold::parse(text), hold, "{text}");
        }
    }

    #[test]
    fn auto_is_what_the_load_balancer_needs_and_a_margin() {
        assert_eq!((Hold::Auto.seconds(Application), Hold::Auto.seconds(Network)), (45, 150));
        assert_eq!((Hold::For(7).seconds(Application), Hold::Off.seconds(Network)), (7, 0));
    }

    #[test]
    fn a_pod_must_outlive_the_bound_of_its_load_balancer_or_a_longer_one_that_was_asked_for() {
        let bound = |hold: Hold, of| hold.bound(of, &Bounds::default()).map(|it| it.as_secs());
        assert_eq!((bound(Hold::Auto, Application), bound(Hold::Auto, Network)), (Some(20), Some(120)));
        assert_eq!((bound(Hold::For(1), Application), bound(Hold::For(150), Network)), (Some(20), Some(120)));
        assert_eq!(
            (bound(Hold::For(60), Application), bound(Hold::For(300), Network)),
            (Some(35), Some(270))
        );
        assert_eq!((bound(Hold::Off, Application), bound(Hold::Off, Network)), (None, None));
    }

    #[test]
    fn what_is_shown_is_read_back() {
        for hold in [Hold::Auto, Hold::Off, Hold::For(61)] {
            assert_eq!(Hold::parse(&hold.to_string()), Some(hold));
        }
    }
}
