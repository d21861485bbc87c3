//! Annotations of a pod: each line is `NAME=VALUE`. The test checks that Headgate believes them like the program does.
#![no_main]

use std::time::Duration;

use headgate::kube::slim::SlimPod;
use headgate_core::WallTime;
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, json};

fuzz_target!(|text: &str| {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let annotations: Map<_, _> =
        pairs.map(|(name, value)| (format!("headgate.dev/{name}"), value.into())).collect();
    let pod = json!({
        "metadata": {"name": "a", "namespace": "shop", "uid": "u-1", "annotations": annotations},
        "spec": {"containers": [{"name": "web"}]}, "status": {"podIP": "10.0.0.1"},
    });
    let facts = serde_json::from_value::<SlimPod>(pod).unwrap().into_facts().unwrap();
    let now = WallTime::since_1970(Duration::from_secs(1_800_000_000));
    let _ = facts.leaving.and_then(|leaving| leaving.credible(now));
});
