//! How much of the hold's reserve was needed: the time from a pod's deletion until AWS accepted its DeregisterTargets.

use std::net::{IpAddr, SocketAddr};

use headgate_harness::recorder::{Micros, Record, Traced};

use crate::stage::workload::PORT;

/// The longest time from the deletion of a pod until its DeregisterTargets was answered, in milliseconds. `None`: no
/// pod with an IP was deleted and deregistered.
pub fn longest_ms(record: &Record) -> Option<u64> {
    let answered: Vec<(&[String], Micros)> = record.trace.iter().filter_map(deregistered).collect();
    let left = record.pods.values().filter_map(|pod| Some((pod.ip?, pod.leaving?)));
    left.filter_map(|(ip, leaving)| Some(first(&answered, ip, leaving)?.saturating_sub(leaving) / 1000)).max()
}

/// The targets of an accepted DeregisterTargets, and when it was accepted.
fn deregistered(entry: &Traced) -> Option<(&[String], Micros)> {
    match entry {
        Traced::Call { action, targets, outcome, answered, .. }
            if action == "DeregisterTargets" && outcome == "ok" =>
        {
            Some((targets, *answered))
        }
        _ => None,
    }
}

/// When the first DeregisterTargets of this pod was answered that arrived at its deletion or later.
fn first(all: &[(&[String], Micros)], ip: IpAddr, leaving: Micros) -> Option<Micros> {
    let target = SocketAddr::new(ip, PORT).to_string();
    // Headgate may have seen the deletion slightly earlier than the recorder.
    let late_enough = all.iter().filter(|(_, answered)| answered + 1_000_000 >= leaving);
    late_enough.filter(|(targets, _)| targets.contains(&target)).map(|(_, answered)| *answered).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_harness::recorder::PodLife;

    fn pod(ip: &str, leaving: Option<Micros>) -> PodLife {
        PodLife { ip: Some(ip.parse().unwrap()), leaving, ..PodLife::default() }
    }

    fn deregister(target: &str, outcome: &str, answered: Micros) -> Traced {
        let (action, target_group) = ("DeregisterTargets".to_owned(), Some("web".to_owned()));
        Traced::Call { action, target_group, targets: vec![target.into()], outcome: outcome.into(), answered }
    }

    #[test]
    fn the_slowest_of_the_pods_that_were_deleted_counts() {
        let mut record = Record::default();
        assert_eq!(longest_ms(&record), None);
        record.pods.insert("a".into(), pod("10.0.0.1", Some(5_000_000)));
        record.pods.insert("b".into(), pod("10.0.0.2", Some(5_000_000)));
        record.pods.insert("c".into(), pod("10.0.0.3", None));
        record.trace = vec![
            // It belongs to an older pod with this address.
            deregister("10.0.0.1:8080", "ok", 1_000_000),
            deregister("10.0.0.1:8080", "ok", 4_999_000),
            deregister("10.0.0.2:8080", "Throttling", 5_100_000),
            deregister("10.0.0.2:8080", "ok", 8_250_000),
            deregister("10.0.0.3:8080", "ok", 9_000_000),
        ];
        assert_eq!(longest_ms(&record), Some(3_250));
    }
}
