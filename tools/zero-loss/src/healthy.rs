//! The number of healthy targets during a scenario.

use std::{collections::BTreeSet, net::SocketAddr};

use headgate_harness::recorder::{Micros, Record, Traced};

/// The smallest number of healthy targets at any moment from `since` on, from the stand-in's trace.
pub fn fewest(record: &Record, since: Micros) -> u64 {
    let mut healthy: BTreeSet<(&str, SocketAddr)> = BTreeSet::new();
    let mut fewest = None;
    for entry in &record.trace {
        let Traced::Target { target_group, target, to, at } = entry else { continue };
        if *at >= since {
            fewest = fewest.or(Some(healthy.len()));
        }
        if to == "healthy" {
            healthy.insert((target_group, *target));
        } else {
            healthy.remove(&(&**target_group, *target));
        }
        fewest = fewest.map(|fewest: usize| fewest.min(healthy.len()));
    }
    fewest.unwrap_or(healthy.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn becomes(at: Micros, target: &str, to: &str) -> Traced {
        Traced::Target { target_group: "web".into(), target: target.parse().unwrap(), to: to.into(), at }
    }

    #[test]
    fn what_was_before_the_scenario_counts_only_as_its_beginning() {
        let mut record = Record::default();
        assert_eq!(fewest(&record, 10), 0);
        let (a, b, c) = ("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80");
        record.trace = vec![becomes(1, a, "initial"), becomes(2, a, "healthy"), becomes(3, b, "healthy")];
        assert_eq!(fewest(&record, 10), 2, "nothing changed");
        record.trace.extend([
            becomes(11, c, "healthy"),
            becomes(12, a, "draining"),
            becomes(12, a, "unused"),
        ]);
        assert_eq!(fewest(&record, 10), 2, "one came first");
        record.trace.extend([becomes(13, b, "unhealthy"), becomes(14, b, "healthy")]);
        assert_eq!(fewest(&record, 10), 1);
        assert_eq!(fewest(&record, 14), 1, "what it began with");
    }
}
