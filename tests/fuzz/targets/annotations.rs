//! Annotations of a Service: the first line is `headgate.dev/target-groups`, others are `NAME=VALUE`.
#![no_main]

use headgate::kube::slim::SlimService;
use headgate_core::{
    binding::settle,
    model::{Origin, Resolution, Settled},
};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, json};

fuzz_target!(|text: &str| {
    let mut lines = text.lines();
    let mut annotations = Map::new();
    annotations.insert("headgate.dev/target-groups".to_owned(), lines.next().into());
    let others = lines.filter_map(|line| line.split_once('='));
    annotations.extend(others.map(|(name, value)| (format!("headgate.dev/{name}"), value.into())));
    let ports = json!([
        {"name": "http", "port": 80, "targetPort": 8080}, {"name": "dns-tcp", "port": 53},
        {"name": "dns-udp", "port": 53, "protocol": "UDP"},
    ]);
    let service = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "s-1", "annotations": annotations},
        "spec": {"selector": {"app": "web"}, "ports": ports},
    });
    let facts = serde_json::from_value::<SlimService>(service).unwrap().into_facts().unwrap();
    settle(&Origin::Service(facts.key.clone()), &facts, &Settled::default(), |_| Resolution::Pending);
});
