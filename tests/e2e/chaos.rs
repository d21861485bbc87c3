//! Rollouts without end, and kill -9 of the leader, or SIGSTOP, at random moments.
//!
//! `HEADGATE_CHAOS_SEED` replays the choices of a run, `HEADGATE_CHAOS_SECONDS` says how long it takes.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use fastrand::Rng;
use headgate_harness::{
    aws::Group,
    headgate::Headgate,
    scenario::{Scenario, targets},
    shared_world::beside_others,
};

fn number(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

async fn replica(s: &Scenario) -> Headgate {
    let quick = ["--lease-duration=3s", "--lease-renew-deadline=2s", "--lease-retry-period=400ms"];
    s.headgate_that_sees_all(&s.facts().kubeconfig, &quick).await
}

/// Which of them leads, if any does.
async fn leader(replicas: &[Headgate]) -> Option<usize> {
    for (index, replica) in replicas.iter().enumerate() {
        if replica.leads().await {
            return Some(index);
        }
    }
    None
}

/// A living pod that a late call has taken out is missed by a read that begins 5 s after the last call about it at the
/// soonest, is read every second by then, and registered again; the rest is for a busy machine.
const MISSED: Duration = Duration::from_secs(12);

/// Looks at AWS again and again: for how long pods that live were no targets although they had been.
#[derive(Default)]
struct Missed {
    were: BTreeSet<(String, String)>,
    since: BTreeMap<(String, String), Instant>,
    longest: Duration,
}

impl Missed {
    async fn look(&mut self, s: &Scenario, group: &Group) {
        let before = s.cluster.running("web").await;
        let there = s.aws.registered(&group.arn).await;
        let after = s.cluster.running("web").await;
        let now = Instant::now();
        // A pod that went while AWS was asked says nothing.
        let live: BTreeSet<(String, String)> =
            before.into_iter().filter(|(pod, ip)| after.get(pod) == Some(ip)).collect();
        self.since.retain(|pod, _| live.contains(pod));
        for pod in live {
            if there.contains(&format!("{}:8080", pod.1)) {
                self.since.remove(&pod);
                self.were.insert(pod);
            } else if self.were.contains(&pod) {
                let since = *self.since.entry(pod).or_insert(now);
                self.longest = self.longest.max(now - since);
            }
        }
    }
}

#[test]
fn twenty_stops_of_the_leader_at_random_moments_take_no_living_pod_out_for_longer_than_a_read_takes() {
    let seed = number("HEADGATE_CHAOS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("HEADGATE_CHAOS_SEED={seed}");
    beside_others(|world| async move {
        let s = Scenario::new(world, "stops").await;
        let mut choices = Rng::with_seed(seed);
        let group = s.web(4).await;
        let foreign_target = s.foreign_target(&group).await;
        let replicas = vec![replica(&s).await, replica(&s).await];
        let (ended, mut missed) = (Cell::new(false), Missed::default());
        let watch = async {
            while !ended.get() {
                missed.look(&s, &group).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let stops = async {
            let (mut stops, mut deposed) = (0, 0);
            while stops < 20 {
                let Some(stopped) = leader(&replicas).await else {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                };
                s.cluster.scale("web", 2 + choices.u32(..5)).await;
                tokio::time::sleep(Duration::from_millis(choices.u64(..300))).await;
                replicas[stopped].signal("STOP").await;
                stops += 1;
                let wait = choices.u64(..6_000);
                tokio::time::sleep(Duration::from_millis(wait / 2)).await;
                // Addresses go from one pod to the next while it is stopped.
                s.cluster.scale("web", 2 + choices.u32(..5)).await;
                tokio::time::sleep(Duration::from_millis(wait / 2)).await;
                if replicas[1 - stopped].leads().await {
                    deposed += 1;
                }
                replicas[stopped].signal("CONT").await;
            }
            s.cluster.scale("web", 3).await;
            s.wait_quiet("web", 3).await;
            let mut wanted = targets(&s.cluster.wait_running("web", 3).await, 8080);
            wanted.insert(foreign_target.clone());
            s.wait_targets(&group, &wanted).await;
            ended.set(true);
            (stops, deposed)
        };
        let ((stops, deposed), ()) = futures::join!(stops, watch);
        println!(
            "{stops} leaders stopped, {deposed} followed by another; missed for {:?} at most",
            missed.longest
        );
        assert!(deposed > 0, "no stop was longer than the Lease");
        assert!(missed.longest < MISSED, "a living pod was no target for {:?}", missed.longest);
    });
}

#[test]
fn after_each_quiet_moment_aws_holds_exactly_what_is_wanted_and_the_foreign_targets() {
    let seed = number("HEADGATE_CHAOS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let seconds = number("HEADGATE_CHAOS_SECONDS").unwrap_or(180);
    println!("HEADGATE_CHAOS_SEED={seed} HEADGATE_CHAOS_SECONDS={seconds}");
    beside_others(|world| async move {
        let s = Scenario::new(world, "chaos").await;
        let mut choices = Rng::with_seed(seed);
        let group = s.web(4).await;
        let foreign_target = s.foreign_target(&group).await;
        let mut replicas = vec![replica(&s).await, replica(&s).await];
        let end = Instant::now() + Duration::from_secs(seconds);
        let (mut kills, mut quiet) = (0, 0);
        while Instant::now() < end {
            for _ in 0..4 + choices.u64(..6) {
                match choices.u64(..3) {
                    0 => s.cluster.scale("web", choices.u32(..9)).await,
                    1 => {
                        let running = s.cluster.running("web").await;
                        for (pod, _) in running.iter().take(choices.usize(..4)) {
                            s.cluster.end_pod(pod).await;
                        }
                    }
                    _ => {
                        if let Some(leader) = leader(&replicas).await {
                            replicas.swap_remove(leader).kill().await;
                            kills += 1;
                            replicas.push(replica(&s).await);
                        }
                    }
                }
                // Not to wait for anything: so that the moment of the next blow is a random one.
                tokio::time::sleep(Duration::from_millis(choices.u64(..1_500))).await;
            }
            let count = 1 + choices.u32(..6);
            s.cluster.scale("web", count).await;
            let count = usize::try_from(count).unwrap();
            s.wait_quiet("web", count).await;
            let mut wanted = targets(&s.cluster.wait_running("web", count).await, 8080);
            wanted.insert(foreign_target.clone());
            s.wait_targets(&group, &wanted).await;
            quiet += 1;
        }
        println!("{kills} leaders killed, {quiet} quiet moments");
        assert!(kills > 0 && quiet > 0, "{kills} leaders killed, {quiet} quiet moments");
    });
}
