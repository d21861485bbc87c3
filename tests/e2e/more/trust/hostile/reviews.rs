//! AdmissionReviews with modifications.

use serde_json::{Map, Value, json};

/// The review of a new pod that is never stored.
pub fn new_pod(namespace: &str) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "75248c45-0000-4000-8000-000000000000", "operation": "CREATE", "namespace": namespace, "name": "",
            "dryRun": false, "resource": {"group": "", "version": "v1", "resource": "pods"}, "subResource": "",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller", "groups": ["a", "b"]},
            "object": {
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"generateName": "web-", "labels": {"app": "web", "headgate.dev/inject": "true"},
                    "annotations": {"headgate.dev/hold": "20s", "headgate.dev/injected": "GateAdded; HoldAdded: 9s in web (NLB)"}},
                "spec": {"terminationGracePeriodSeconds": 30, "readinessGates": [{"conditionType": "example.com/x"}],
                    "initContainers": [{"name": "proxy", "restartPolicy": "Always"}],
                    "containers": [{"name": "web", "lifecycle": {"postStart": {"sleep": {"seconds": 1}}},
                        "ports": [{"name": "http", "containerPort": 8080}]}]},
            },
        },
    })
}

/// The positions in a document, as JSON pointers.
fn places(document: &Value, here: &str, all: &mut Vec<String>) {
    all.push(here.to_owned());
    match document {
        Value::Object(fields) => {
            for (name, inner) in fields {
                places(inner, &format!("{here}/{}", name.replace('~', "~0").replace('/', "~1")), all);
            }
        }
        Value::Array(items) => {
            for (at, inner) in items.iter().enumerate() {
                places(inner, &format!("{here}/{at}"), all);
            }
        }
        _ => {}
    }
}

/// A value that is usually invalid.
fn odd(rng: &mut fastrand::Rng) -> Value {
    let long = |rng: &mut fastrand::Rng, most: usize| {
        let part = rng.choice(["A", "ä", ",", "\u{0}", "\"", "=", "💥", "{{", "%s", "\r\n"]).unwrap();
        part.repeat(rng.usize(0..most))
    };
    match rng.u8(0..14) {
        0 => Value::Null,
        1 => json!(rng.bool()),
        2 => json!(rng.i64(..)),
        3 => json!(u64::MAX - rng.u64(0..3)),
        4 => json!(-1.5e300),
        5 => json!([]),
        6 => json!({}),
        7 => json!([null, [null], {"a": null}]),
        8 => Value::Object(Map::from_iter([(long(rng, 40), json!(7))])),
        9 => json!("4294967296s"),
        10 => json!("../../../etc/passwd"),
        11 => json!(long(rng, 300)),
        // Rarely one of the maximum length of an annotation.
        12 => {
            let most = if rng.u8(0..20) == 0 { 250_000 } else { 9_000 };
            json!(long(rng, most))
        }
        _ => json!(long(rng, 5)),
    }
}

/// With unusual values in one to four places.
fn elsewhere(review: &Value, rng: &mut fastrand::Rng) -> Value {
    let mut changed = review.clone();
    for _ in 0..rng.u8(1..5) {
        let mut all = Vec::new();
        places(&changed, "", &mut all);
        // The object itself is examined most.
        let inner: Vec<&String> = all.iter().filter(|place| place.starts_with("/request/object/")).collect();
        let place = if rng.bool() && !inner.is_empty() {
            inner[rng.usize(0..inner.len())]
        } else {
            &all[rng.usize(0..all.len())]
        };
        *changed.pointer_mut(place).unwrap() = odd(rng);
    }
    changed
}

/// A body: a valid review, or an almost valid one.
pub fn body(review: &Value, rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut text = elsewhere(review, rng).to_string();
    let keys = ["uid", "dryRun", "object", "request", "metadata", "spec", "containers", "annotations"];
    match rng.u8(0..12) {
        0 => return flipped(review.to_string().into_bytes(), rng),
        1 => return flipped(text.into_bytes(), rng),
        2 => {
            let mut whole = review.to_string().into_bytes();
            whole.truncate(rng.usize(0..whole.len()));
            return whole;
        }
        3 => {
            // A repeated key.
            let twice = format!("{{\"{}\":{},", rng.choice(keys).unwrap(), odd(rng));
            text = review.to_string().replacen('{', &twice, rng.usize(1..20));
        }
        4 => {
            let number = *rng
                .choice(
                    ["1e999", "-1e999", "99999999999999999999999999", "0x10", "1.", "NaN", "-0", "01"].iter(),
                )
                .unwrap();
            text = review.to_string().replace("30", number);
        }
        5 => {
            let deep = rng.usize(1..60_000);
            let nested = if rng.bool() { "[".repeat(deep) } else { "{\"a\":".repeat(deep) };
            text = review.to_string().replace("\"web-\"", &nested);
        }
        6 => text
            .insert_str(0, rng.choice(["\u{feff}", "\u{0}", "[", "{}", "null ", "\"", "<?xml?>"]).unwrap()),
        7 => text
            .push_str(rng.choice(["}", "\u{0}", "{}", ",", "\r\n\r\nGET / HTTP/1.1\r\n\r\n", "]"]).unwrap()),
        8 => return text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        _ => {}
    }
    text.into_bytes()
}

/// A body that is never a valid review.
pub fn broken(review: &Value, rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut broken = review.clone();
    match rng.u8(0..5) {
        0 => {
            let whole = review.to_string().into_bytes();
            return whole[..rng.usize(0..whole.len())].to_vec();
        }
        1 => broken["apiVersion"] = "admission.k8s.io/v1beta1".into(),
        2 => broken["kind"] = odd(rng),
        3 => broken["request"]["uid"] = json!([odd(rng)]),
        _ => broken["request"]["dryRun"] = json!({"is": odd(rng)}),
    }
    broken.to_string().into_bytes()
}

/// With some changed bytes.
fn flipped(mut bytes: Vec<u8>, rng: &mut fastrand::Rng) -> Vec<u8> {
    for _ in 0..rng.u8(1..6) {
        let at = rng.usize(0..bytes.len());
        bytes[at] ^= 1 << rng.u8(0..8);
    }
    bytes
}
