//! Profiles of the whole stand-in and of one group, changed at run time.

use serde_json::json;

use crate::pod::Pod;
use crate::stand::{Kind, Stand};

#[tokio::test]
async fn row_01_a_profile_sets_the_lag_and_a_reset_takes_it_back() {
    let stand = Stand::new().await;
    let settings = stand.set(json!({"profile": "slow-nlb"})).await;
    assert_eq!(settings["network"]["registration"], json!([180.0, 180.0]));
    assert_eq!(settings["application"]["registration"], json!([1.0, 5.0]));
    let settings = stand.set(json!({"profile": "worst", "network": {"deregistration": [1, 2]}})).await;
    assert_eq!(
        settings["network"]["deregistration"],
        json!([1.0, 2.0]),
        "what is said itself comes over the profile"
    );
    assert_eq!(settings["application"]["deregistration"], json!([300.0, 300.0]));
    stand.control("POST", "/reset", None).await;
    let settings = stand.control("GET", "/settings", None).await;
    assert_eq!((&settings["profile"], &settings["throttling"]), (&json!(null), &json!(null)));
    assert_eq!(stand.try_control("PATCH", "/settings", Some(json!({"profile": "fast"}))).await.0, 400);
}

#[tokio::test]
async fn row_01_one_group_can_have_a_profile_of_its_own() {
    let stand = Stand::new().await;
    stand.set(json!({"profile": "instant"})).await;
    let (balancer, group) = stand.edge(Kind::Network).await;
    let slow = stand.group("slow", Kind::Network).await;
    stand.listen(&balancer, Kind::Network, 8001, &slow).await;
    stand.control("PATCH", "/target-groups/slow/settings", Some(json!({"profile": "worst"}))).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    stand.register(&slow, &[pod.at]).await;
    stand.register(&group, &[pod.at]).await;
    stand.until_health(&group, pod.at, "healthy").await;
    stand.until_health(&slow, pod.at, "healthy").await;
    let shown = stand.trace("target").await;
    let healthy = |group: &str| {
        shown.iter().position(|entry| entry["target_group"] == group && entry["to"] == "healthy").unwrap()
    };
    assert!(healthy("web") < healthy("slow"));
}

#[tokio::test]
async fn row_01_one_seed_gives_one_history() {
    let history = async |seed| {
        let stand = Stand::with(|settings| settings.seed = seed).await;
        let (balancer, _) = stand.edge(Kind::Network).await;
        stand.running.shutdown().await;
        balancer.rsplit('/').next().unwrap().to_owned()
    };
    assert_eq!(history(7).await, history(7).await);
    assert_ne!(history(7).await, history(8).await);
}
