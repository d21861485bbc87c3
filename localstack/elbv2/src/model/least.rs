//! The minimum number of healthy targets in a node's pool, for routing and for DNS.
//!
//! The thresholds are the `target_group_health.*` attributes of AWS: a count, a percentage, or both. With both, both
//! must be met. At least one healthy target is always required.

use std::collections::BTreeMap;

/// A minimum count, a minimum percentage, or both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Threshold {
    count: usize,
    percent: usize,
}

impl Threshold {
    fn of(attributes: &BTreeMap<String, String>, what: &str) -> Self {
        let number = |unit: &str| {
            let key = format!("target_group_health.{what}.minimum_healthy_targets.{unit}");
            attributes.get(&key).and_then(|value| value.parse().ok()).unwrap_or_default()
        };
        Self { count: number("count"), percent: number("percentage") }
    }

    /// Returns whether `healthy` targets are enough if the pool has `others` other targets.
    pub fn is_met(self, healthy: usize, others: usize) -> bool {
        healthy >= self.count.max(1) && healthy * 100 >= self.percent * (healthy + others)
    }
}

/// The thresholds of a target group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Least {
    /// The threshold for routing. Below the routing threshold, a node sends to all targets of its pool.
    pub routing: Threshold,
    /// The threshold for DNS. Below the DNS threshold, the zone of the node is removed from DNS.
    pub dns: Threshold,
}

impl Least {
    /// Parses the attributes of a target group.
    pub fn of(attributes: &BTreeMap<String, String>) -> Self {
        Self {
            routing: Threshold::of(attributes, "unhealthy_state_routing"),
            dns: Threshold::of(attributes, "dns_failover"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_a_count_and_a_percentage_must_be_met() {
        let both = Threshold { count: 2, percent: 50 };
        assert!(both.is_met(2, 2));
        assert!(!both.is_met(2, 3));
        assert!(!both.is_met(1, 0));
    }

    #[test]
    fn none_is_never_enough() {
        assert!(!Threshold::default().is_met(0, 0));
        assert!(Threshold::default().is_met(1, 99));
    }
}
