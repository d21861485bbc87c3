//! The number of pods that terminated during requests, and of requests that a terminated pod could have received.

use std::time::Duration;

use headgate_harness::recorder::{Micros, Record};

/// When pods terminated, and the time after that in which a load balancer may send to them: twice its longest lag.
#[derive(Clone, Debug, Default)]
pub struct Exposure {
    /// The number of terminated pods with an address.
    pub departures: u64,
    /// The times in order, without overlaps.
    times: Vec<(Micros, Micros)>,
}

impl Exposure {
    /// The exposure of a run. `lag`: how long the load balancer may keep sending after a DeregisterTargets.
    pub fn of(record: &Record, lag: Duration) -> Self {
        let after = u64::try_from((lag * 2).as_micros()).unwrap_or(u64::MAX / 2);
        let left = record.pods.values().filter(|pod| pod.ip.is_some());
        let mut left: Vec<Micros> = left.filter_map(|pod| pod.leaving).collect();
        left.sort_unstable();
        let mut times: Vec<(Micros, Micros)> = Vec::new();
        for at in &left {
            match times.last_mut() {
                Some((_, until)) if *at <= *until => *until = at + after,
                _ => times.push((*at, at + after)),
            }
        }
        Self { departures: left.len() as u64, times }
    }

    /// Whether a request that was started at this time counts.
    pub fn has(&self, started: Micros) -> bool {
        let after = self.times.partition_point(|(from, _)| *from <= started);
        after > 0 && started < self.times[after - 1].1
    }
}

#[cfg(test)]
mod tests {
    use headgate_harness::recorder::PodLife;

    use super::*;

    #[test]
    fn what_was_started_within_twice_the_lag_of_a_departure_counts_once() {
        let mut record = Record::default();
        for (name, ip, leaving) in [
            ("a", Some("10.0.0.1"), Some(10_000_000)),
            ("b", Some("10.0.0.2"), Some(11_000_000)),
            ("c", Some("10.0.0.3"), Some(30_000_000)),
            ("d", Some("10.0.0.4"), None),
            ("e", None, Some(50_000_000)),
        ] {
            let ip = ip.map(|ip| ip.parse().unwrap());
            record.pods.insert(name.into(), PodLife { ip, leaving, ..PodLife::default() });
        }
        let exposure = Exposure::of(&record, Duration::from_secs(2));
        assert_eq!(exposure.departures, 3, "one stays, and nobody ever sent to one without an address");
        let counts = [
            9_999_999, 10_000_000, 14_500_000, 14_999_999, 15_000_000, 30_000_000, 33_999_999, 34_000_000,
            50_000_000,
        ];
        let counted = counts.map(|at| exposure.has(at));
        assert_eq!(counted, [false, true, true, true, false, true, true, false, false]);
        assert!(!Exposure::default().has(5));
    }
}
