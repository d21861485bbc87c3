//! TargetLedgers: the input is the JSON of the spec.
#![no_main]

use headgate::kube::ledger::stored;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

fuzz_target!(|spec: &[u8]| {
    let Ok(spec) = serde_json::from_slice::<Value>(spec) else { return };
    let object = json!({
        "apiVersion": "headgate.dev/v1alpha1", "kind": "TargetLedger",
        "metadata": {"name": "web-6d0ecf831eec9f09", "resourceVersion": "7"}, "spec": spec,
    });
    let stored = stored(serde_json::from_value(object).unwrap()).unwrap();
    let _ = stored.open();
});
