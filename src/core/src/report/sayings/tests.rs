//! Whom each sentence is about, what was expected, and what to do.

use super::*;
use crate::testing::{arn, target};

/// Each of `words` is in what is `said`.
fn says(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "\"{word}\" was expected in: {said}");
    }
}

#[test]
fn a_gate_names_itself_and_what_it_waited_for() {
    let waited = Duration::from_secs(700);
    for (news, words) in [
        (News::StillClosed(waited, "10.0.0.1:80 is initial".into()), ["700 s", "10.0.0.1:80 is initial"]),
        (News::OpenedLate(waited, "all targets are healthy".into()), ["700 s", "all targets are healthy"]),
        (News::WithoutBinding("nothing binds it".into()), ["nothing binds it", annotation::TARGET_GROUPS]),
        (News::Refused("403: no".into()), ["403: no", "patch on pods/status"]),
    ] {
        let (_, said) = gate(&news);
        says(&said, &[OWN_GATE]);
        says(&said, &words);
    }
}

#[test]
fn what_is_not_written_says_who_forbids_it() {
    says(&read_only(&arn("blue")), &["target group blue", "--read-only"]);
    let paused = removals_paused(&arn("blue"));
    says(
        &paused,
        &["target group blue", "headgate.dev/paused", "spec.paused", "--read-only", "end the pause"],
    );
}

#[test]
fn what_stays_for_now_says_until_when_and_what_to_do() {
    says(&removal_held(&arn("blue"), 0), &["target group blue", "--replacement-grace", "health check"]);
    says(
        &suspect(&arn("blue"), &target(7, 80)),
        &["10.0.0.7:80", "target group blue", "deregister it by hand"],
    );
    says(&unknown_writer(&arn("blue")), &["target group blue", "TargetGroupBinding", "one controller alone"]);
}

#[test]
fn a_pod_that_is_kept_for_its_zone_and_one_that_is_not_any_more_say_how_long_and_why() {
    says(&kept_for_zone(&arn("blue")), &["target group blue", MIN_HEALTHY_PER_ZONE, "--eviction-patience"]);
    let after = Duration::from_secs(60);
    says(
        &goes_not_ready(Cause::ZoneHasNoRoom, after),
        &["no node of the zone takes new pods within 60 s", MIN_HEALTHY_PER_ZONE],
    );
    says(
        &goes_not_ready(Cause::ReplacementTooSlow, after),
        &["no replacement there has become healthy within 60 s"],
    );
    says(&node_stays("node-7"), &["node node-7 of this pod", "registered again"]);
}

#[test]
fn an_eviction_says_whether_kubernetes_or_its_turn_keeps_it_waiting_and_why_it_is_let_through() {
    let ends = |reason| eviction(reason, "403", Duration::from_secs(61)).unwrap_or_default();
    says(&ends(Cause::EvictionWaitsForBudget), &["Kubernetes refuses it (403)"]);
    says(&ends(Cause::EvictionWaitsForDeparture), &["go first (403)"]);
    says(&ends(Cause::DeregistrationTooSlow), &["61 s", "AWS has not taken the removal"]);
    says(&ends(Cause::EvictionUncheckable), &["61 s", "(403)", "create on pods/eviction"]);
    says(&ends(Cause::ZoneHasNoRoom), &["61 s", "no node of the zone takes new pods"]);
    says(&ends(Cause::ReplacementTooSlow), &["61 s", "no replacement there has become healthy"]);
}

#[test]
fn what_becomes_of_an_eviction_without_a_word_of_kubernetes_has_a_sentence() {
    let said = |reason| eviction(reason, "", Duration::from_secs(61)).unwrap_or_default();
    says(&said(Cause::LeavingNotCredible), &["more than an hour", "config/admission"]);
    says(&said(Cause::EvictionGivenUp), &["61 s", "registered again"]);
}
