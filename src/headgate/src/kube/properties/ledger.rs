//! Property tests with randomly changed TargetLedgers.

use headgate_core::{
    ledger::{PackedLedger, PodMark},
    model::{
        claims::{Claim, Content},
        object::Uid,
        target::Target,
        target_group::{IpFamily, TargetGroupArn},
    },
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    kube::ledger::{pack, stored},
    properties::{LONGEST_MESSAGE, changed, holds},
};

const ARN: &str = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/web/6d0ecf831eec9f09";

fn ledger() -> Content {
    let claim = |last| {
        let claim = Claim { pod: PodMark::of(&Uid::new("a")), binding: Some("Service shop/web".into()) };
        (Target::new([10, 0, 0, last].into(), 80), claim)
    };
    Content { term: 3, claims: (1..4).map(claim).collect(), holders: ["shop".into()].into() }
}

fn object() -> Value {
    let packed = PackedLedger::of(&TargetGroupArn::parse(ARN).unwrap(), IpFamily::V4, &ledger());
    json!({
        "apiVersion": "headgate.dev/v1alpha1", "kind": "TargetLedger",
        "metadata": {"name": "web-6d0ecf831eec9f09", "resourceVersion": "7"}, "spec": pack(&packed),
    })
}

#[test]
fn a_ledger_is_read_as_it_was_written_or_named_with_what_is_wrong() {
    let whole = stored(serde_json::from_value(object()).unwrap()).unwrap();
    assert_eq!(whole.open().unwrap().1, ledger());
    holds(changed(object(), "/spec"), |odd| {
        let stored = stored(serde_json::from_value(odd).unwrap()).unwrap();
        prop_assert_eq!(&*stored.name, "web-6d0ecf831eec9f09");
        if let Err(error) = stored.open() {
            let said = error.to_string();
            prop_assert!(said.len() <= LONGEST_MESSAGE && said.contains("Restore it"), "{said}");
        }
        Ok(())
    });
}
