//! Shared code of this crate's parser property tests: cases from a fixed seed, random texts, and documents with random
//! changes.

use proptest::{
    prelude::*,
    string::string_regex,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Map, Value, json};

/// The number of cases per property.
const CASES: u32 = 400;
/// The maximum length of a message about one object, in bytes.
pub const LONGEST_MESSAGE: usize = 2048;

/// Checks that the property holds for [`CASES`] random values.
pub fn holds<S: Strategy>(values: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let seeded = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    if let Err(broken) = TestRunner::new_with_rng(config, seeded).run(&values, property) {
        panic!("{broken}");
    }
}

/// Texts that match a regular expression.
pub fn text(pattern: &str) -> impl Strategy<Value = String> + use<> {
    string_regex(pattern).unwrap()
}

/// Any text: short random text, nearly valid text, or very long text.
pub fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => text(r"\PC{0,40}"),
        4 => text("[-a-zA-Z0-9=:,/. ]{0,60}"),
        2 => any::<Vec<char>>().prop_map(String::from_iter),
        1 => (text(r"\PC{1,3}"), 0..60_000_usize).prop_map(|(part, times)| part.repeat(times)),
    ]
}

/// Any JSON value.
pub fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        2 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        2 => any::<i64>().prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        4 => any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(text("[a-zA-Z]{1,9}"), inner, 0..4)
                .prop_map(|fields| Value::from(Map::from_iter(fields))),
        ]
    })
}

/// The JSON pointers of all values in a document at or below `root`.
fn places(document: &Value, root: &str) -> Vec<String> {
    let mut all = vec![root.to_owned()];
    match document.pointer(root) {
        Some(Value::Object(fields)) => {
            let inner = fields.keys().map(|name| name.replace('~', "~0").replace('/', "~1"));
            all.extend(inner.flat_map(|name| places(document, &format!("{root}/{name}"))));
        }
        Some(Value::Array(items)) => {
            all.extend((0..items.len()).flat_map(|at| places(document, &format!("{root}/{at}"))));
        }
        _ => {}
    }
    all
}

/// The document with other content in one to three places at or below `root`.
pub fn changed(document: Value, root: &'static str) -> impl Strategy<Value = Value> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any_json()), 1..4);
    changes.prop_map(move |changes| {
        let mut odd = document.clone();
        for (at, value) in changes {
            let all = places(&odd, root);
            *odd.pointer_mut(&all[at.index(all.len())]).unwrap() = value;
        }
        odd
    })
}

/// The document in a form that a future API server may return. Fields may be null or missing, and numbers and texts may
/// have any value of their type.
pub fn varied(document: Value) -> impl Strategy<Value = Value> {
    let changes =
        prop::collection::vec((any::<prop::sample::Index>(), any_text(), any::<i64>(), 0..4_u8), 1..5);
    changes.prop_map(move |changes| {
        let mut varied = document.clone();
        for (at, words, number, how) in changes {
            let all = places(&varied, "");
            let place = &all[1 + at.index(all.len() - 1)];
            let value = varied.pointer_mut(place).unwrap();
            *value = match value.take() {
                _ if how == 0 => Value::Null,
                Value::String(_) => json!(words),
                Value::Number(_) => json!(number),
                Value::Array(items) => Value::from([items, vec![Value::Null]].concat()),
                other => other,
            };
        }
        varied
    })
}
