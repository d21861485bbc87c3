//! IngressDaemonSets: the input is the JSON of one. The controller plans it for three nodes and creates its pods.
#![no_main]

use std::time::Duration;

use headgate::kube::daemonsets::{set::SlimSet, status, template};
use headgate_core::{Change, Moment, Scope, WallTime, model::Labels};
use headgate_daemonset::{
    Daemonsets, Input,
    model::{SetNode, ask::Ask},
};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

fuzz_target!(|set: &[u8]| {
    let Ok(mut set) = serde_json::from_slice::<Value>(set) else { return };
    let Some(fields) = set.as_object_mut() else { return };
    fields.insert("metadata".to_owned(), json!({"name": "edge", "namespace": "ingress", "uid": "s-1"}));
    let Some(seen) = serde_json::from_value::<SlimSet>(set).ok().and_then(SlimSet::seen) else { return };
    let node = |name: &str| SetNode {
        name: name.into(),
        labels: Labels::from_iter([("pool", "edge"), ("size", "4")]),
        ready: true,
        ..SetNode::default()
    };
    let all = Scope::Cluster;
    let mut machine = Daemonsets::new(std::slice::from_ref(&all));
    let (now, wall) = (
        Moment::after_start(Duration::from_secs(9)),
        WallTime::since_1970(Duration::from_secs(1_800_000_000)),
    );
    let mut asked = Vec::new();
    for input in [
        Input::Set(Change::Relisted(all.clone(), vec![seen.facts])),
        Input::Pod(Change::Relisted(all.clone(), Vec::new())),
        Input::Revision(Change::Relisted(all.clone(), Vec::new())),
        Input::Budget(Change::Relisted(all.clone(), Vec::new())),
        Input::Node(Change::Relisted(all, ["a", "b", "c"].map(|name| node(name)).into())),
        Input::Passed,
    ] {
        asked.extend(machine.step(input, now, wall));
    }
    let parsed: Value = serde_json::from_str(&seen.template).unwrap();
    for asked in asked {
        template::pod(&asked.set, &asked.uid, &parsed, "r", "edge-a-0", "a");
        if let Ask::Write { version, status: written } = &asked.ask {
            status::patch(version, written, &seen.conditions, wall);
        }
    }
});
