//! Rollouts without end, and kill -9 of the leader at random moments.
//!
//! `HEADGATE_CHAOS_SEED` replays the choices of a run, `HEADGATE_CHAOS_SECONDS` says how long it takes.

use std::time::{Duration, Instant};

use headgate_harness::{
    headgate::Headgate,
    scenario::{Scenario, targets},
    shared_world::beside_others,
};

/// As far apart as numbers of a seed can be.
struct Choices(u64);

impl Choices {
    /// A number below `end`: the generator splitmix64.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

fn number(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

async fn replica(s: &Scenario) -> Headgate {
    let quick = ["--lease-duration=3s", "--lease-renew-deadline=2s", "--lease-retry-period=400ms"];
    s.headgate_that_sees_all(&s.facts().kubeconfig, &quick).await
}

#[test]
fn after_each_quiet_moment_aws_holds_exactly_what_is_wanted_and_the_foreign_targets() {
    let seed = number("HEADGATE_CHAOS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let seconds = number("HEADGATE_CHAOS_SECONDS").unwrap_or(180);
    println!("HEADGATE_CHAOS_SEED={seed} HEADGATE_CHAOS_SECONDS={seconds}");
    beside_others(|world| async move {
        let s = Scenario::new(world, "chaos").await;
        let mut choices = Choices(seed);
        let group = s.web(4).await;
        let foreign_target = s.foreign_target(&group).await;
        let mut replicas = vec![replica(&s).await, replica(&s).await];
        let end = Instant::now() + Duration::from_secs(seconds);
        let (mut kills, mut quiet) = (0, 0);
        while Instant::now() < end {
            for _ in 0..4 + choices.below(6) {
                match choices.below(3) {
                    0 => s.cluster.scale("web", u32::try_from(choices.below(9)).unwrap()).await,
                    1 => {
                        let running = s.cluster.running("web").await;
                        for (pod, _) in running.iter().take(usize::try_from(choices.below(4)).unwrap()) {
                            s.cluster.end_pod(pod).await;
                        }
                    }
                    _ => {
                        let leader = {
                            let mut leader = None;
                            for (index, replica) in replicas.iter().enumerate() {
                                if replica.leads().await {
                                    leader = Some(index);
                                }
                            }
                            leader
                        };
                        if let Some(leader) = leader {
                            replicas.swap_remove(leader).kill().await;
                            kills += 1;
                            replicas.push(replica(&s).await);
                        }
                    }
                }
                // Not to wait for anything: so that the moment of the next blow is a random one.
                tokio::time::sleep(Duration::from_millis(choices.below(1_500))).await;
            }
            let count = 1 + choices.below(6);
            s.cluster.scale("web", u32::try_from(count).unwrap()).await;
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
