//! The conditions of a TargetBinding, and when they change.

use headgate_harness::{
    aws::Group,
    bindings::{api, condition, pods_of, write},
    scenario::{Scenario, http_port, targets},
    shared_world::beside_others,
    wait,
};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

/// A TargetBinding `mine` for this number of pods, all healthy.
async fn bound(s: &Scenario, pods: u32) -> Group {
    let group = s.group("tg").await;
    s.cluster.deploy("mine", pods, &[("http", 8080)]).await;
    write(s, "mine", pods_of("mine", &group.name)).await.unwrap();
    group
}

/// Waits until a condition of `mine` has this status and reason.
async fn wait_condition(s: &Scenario, kind: &str, says: &str) {
    wait::until(&format!("{kind} is {says}"), || async {
        let object = api(s).get("mine").await.unwrap();
        if condition(&object, kind) == says { Ok(()) } else { Err(object.data["status"].to_string()) }
    })
    .await;
}

async fn set(s: &Scenario, spec: Value) {
    let patch = json!({ "spec": spec });
    api(s).patch("mine", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

#[test]
fn a_paused_binding_says_so_and_what_it_holds_back_until_the_pause_ends() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "pause").await;
        let group = bound(&s, 2).await;
        let headgate = s.headgate().await;
        let before = s.wait_registered(&group, "mine", 2, 8080).await;
        set(&s, json!({"paused": true})).await;
        wait_condition(&s, "Paused", "True Paused").await;
        s.cluster.end_pod(before.keys().next().unwrap()).await;
        s.cluster.wait_warning("mine", "RemovalsPaused", &group.name).await;
        wait_condition(&s, "RemovalHeld", "True RemovalsPaused").await;
        assert!(!headgate.logged(|line| line["message"] == "would deregister, but is paused").is_empty());
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);
        set(&s, json!({"paused": null})).await;
        s.wait_registered(&group, "mine", 2, 8080).await;
        wait_condition(&s, "Paused", "False AsExpected").await;
        wait_condition(&s, "RemovalHeld", "False AsExpected").await;
    });
}

#[test]
fn a_binding_says_that_another_claims_its_targets_until_one_gives_way() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "twice").await;
        let group = bound(&s, 1).await;
        let _headgate = s.headgate().await;
        let running = s.wait_registered(&group, "mine", 1, 8080).await;
        s.cluster.service("web", "mine", http_port(), Some(&group.name)).await;
        for name in ["mine", "web"] {
            s.cluster.wait_warning(name, "TargetClaimedTwice", "is also bound to").await;
        }
        wait_condition(&s, "Conflict", "True TargetClaimedTwice").await;
        wait_condition(&s, "Ready", "True AsExpected").await;
        s.cluster.annotate("web", None).await;
        wait_condition(&s, "Conflict", "False AsExpected").await;
        assert_eq!(s.aws.registered(&group.arn).await, targets(&running, 8080));
    });
}
