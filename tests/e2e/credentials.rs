//! Credentials from the ServiceAccount's web identity: an STS that is slow, denies requests, or does not exist.

use std::{collections::BTreeSet, time::Duration};

use headgate_harness::{
    headgate::Headgate,
    scenario::{Scenario, targets},
    shared_world::beside_others,
    sts::{Mood, ROLE, Sts, environment},
    wait,
};
use serde_json::Value;

const HOUR: Duration = Duration::from_secs(3600);

/// Headgate with the environment for the web identity.
async fn start(s: &Scenario, environment: &[(&'static str, String)]) -> Headgate {
    let only = format!("--namespaces={}", s.cluster.namespace);
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, &**value)).collect();
    Headgate::start_within(s.facts(), &s.facts().kubeconfig, &[&*only], &environment).await
}

/// Waits until the log shows why there are no credentials, and what to do.
async fn wait_said(headgate: &Headgate, why: &str) {
    wait::until("it is said why there are no credentials", || async {
        let says = |line: &Value, part: &str| line.to_string().contains(part);
        let parts = ["No AWS credentials", ROLE, "web identity (IRSA)", why, "Check that the role exists"];
        let said =
            headgate.logged(|line| line["level"] == "WARN" && parts.iter().all(|part| says(line, part)));
        if said.is_empty() { Err(headgate.text()) } else { Ok(()) }
    })
    .await;
}

#[test]
fn an_sts_that_denies_is_named_and_what_it_gives_later_is_used() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "sts-denies").await;
        let group = s.web(1).await;
        let sts = Sts::start(Mood::Denies).await;
        let headgate = start(&s, &sts.environment(&s.facts().folder)).await;
        wait_said(&headgate, "Not authorized to perform sts:AssumeRoleWithWebIdentity").await;
        assert_eq!(s.aws.registered(&group.arn).await, BTreeSet::new());
        sts.is(Mood::Gives(HOUR, Duration::ZERO));
        s.wait_registered(&group, "web", 1, 8080).await;
    });
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn no_call_waits_for_an_sts_that_is_slow() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "sts-slow").await;
            let group = s.web(2).await;
            let (life, slow) = (Duration::from_secs(8), Duration::from_secs(3));
            let sts = Sts::start(Mood::Gives(life, slow)).await;
            let headgate = start(&s, &sts.environment(&s.facts().folder)).await;
            s.wait_registered(&group, "web", 2, 8080).await;
            wait::until("credentials were fetched again", || async {
                if sts.asked() >= 3 { Ok(()) } else { Err(sts.asked()) }
            })
            .await;
            // The next credentials are being requested.
            let running = s.cluster.running("web").await;
            s.cluster.scale("web", 1).await;
            wait::until("the target of the pod that goes is removed", || async {
                let left = s.aws.registered(&group.arn).await;
                if left.len() == 1 && left.is_subset(&targets(&running, 8080)) { Ok(()) } else { Err(left) }
            })
            .await;
            assert_eq!(headgate.metric("headgate_aws_reachable").await, Some(1.0));
            let slowest =
                "headgate_aws_call_duration_seconds_bucket{le=\"2.0\",action=\"DeregisterTargets\"}";
            let all = "headgate_aws_call_duration_seconds_count{action=\"DeregisterTargets\"}";
            assert_eq!(headgate.metric(all).await, headgate.metric(slowest).await, "{slowest}");
            assert!(!headgate.text().contains("credentials cannot"), "{}", headgate.text());
        });
    }

    #[test]
    fn an_sts_that_is_not_there_is_named() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "sts-absent").await;
            s.web(1).await;
            // Nothing listens there.
            let headgate = start(&s, &environment("127.0.0.1:9", &s.facts().folder)).await;
            wait_said(&headgate, "").await;
        });
    }
}
