use headgate_core::model::object::Uid;
use k8s_openapi::jiff::ToSpan;
use serde_json::{Value, json};

use super::*;

/// The namespace of all objects in this test module.
const HERE: &str = "shop";
const LEFT_NOW: fn() -> Selection = || Selection::Left(Instant::now());

/// A reconciler for selected namespaces that never sends a request.
fn keeper() -> Bindings<fn() -> bool> {
    let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let clock = Clock::start();
    Bindings {
        client: Client::try_from(config).unwrap(),
        scopes: vec![Scope::Cluster],
        namespaces_are_selected: true,
        views: Arc::default(),
        pulse: Arc::new(Pulse::new(clock)),
        clock,
        leads: || true,
    }
}

fn there(object: TargetBinding) -> BTreeMap<ObjectKey, Arc<TargetBinding>> {
    BTreeMap::from([(key_of(&object).unwrap(), Arc::new(object))])
}

/// A user's TargetBinding with the finalizer, or a generated TargetBinding.
fn object(metadata: &Value) -> TargetBinding {
    let mut own = json!({"name": "mine", "namespace": HERE, "uid": "1", "finalizers": ["other", FINALIZER]});
    own.as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    let spec = json!({"targetGroup": {"name": "web"}, "podSelector": {"matchLabels": {}}, "port": 80});
    serde_json::from_value(json!({"metadata": own, "spec": spec})).unwrap()
}

fn made() -> TargetBinding {
    object(&json!({"labels": {MADE_FROM: FROM_SERVICE}, "finalizers": []}))
}

/// A TargetBinding without targets that was deleted `minutes` minutes ago.
fn deleted(keeper: &Bindings<fn() -> bool>, minutes: i64) -> TargetBinding {
    keeper.views.released.insert(ObjectKey::new(HERE, "mine"), Uid::new("1"));
    object(&json!({"deletionTimestamp": Time(Timestamp::now() - minutes.minutes())}))
}

fn verbs(writes: &[Write]) -> Vec<&'static str> {
    writes.iter().map(Write::verb).collect()
}

#[tokio::test]
async fn nothing_is_written_in_a_namespace_that_never_was_selected() {
    let keeper = keeper();
    for object in [object(&json!({})), object(&json!({"finalizers": []})), made(), deleted(&keeper, 9)] {
        let due = keeper.due(&there(object), &mut Memory::default());
        assert_eq!(verbs(&due), [""; 0]);
    }
}

#[tokio::test]
async fn a_deleted_one_that_nobody_lets_go_is_let_go_after_ten_minutes() {
    let keeper = keeper();
    let due = keeper.due(&there(deleted(&keeper, 11)), &mut Memory::default());
    let [Write::Finalizers(_, left)] = &due[..] else { panic!("{due:?}") };
    assert_eq!(*left, ["other"]);
    // This installation has not yet deregistered the targets.
    keeper.views.released.clear();
    let object = object(&json!({"deletionTimestamp": Time(Timestamp::now() - 11.minutes())}));
    assert_eq!(verbs(&keeper.due(&there(object), &mut Memory::default())), [""; 0]);
}

#[tokio::test]
async fn in_a_selected_namespace_it_writes_as_without_a_selector() {
    let keeper = keeper();
    let free = object(&json!({"finalizers": []}));
    keeper.views.selections.insert(HERE.into(), Selection::Selected);
    let selected = verbs(&keeper.due(&there(free.clone()), &mut Memory::default()));
    assert_eq!(selected, ["set the finalizers of", "write the status of"]);
    let all = Bindings { namespaces_are_selected: false, ..keeper };
    all.views.selections.clear();
    assert_eq!(verbs(&all.due(&there(free), &mut Memory::default())), selected);
}

#[tokio::test]
async fn it_parts_from_those_of_a_namespace_that_is_not_selected_any_more_once() {
    let keeper = keeper();
    keeper.views.selections.insert(HERE.into(), LEFT_NOW());
    let mut memory = Memory::default();
    let written = there(object(&json!({})));
    assert_eq!(verbs(&keeper.due(&there(made()), &mut memory)), ["remove"]);
    let due = keeper.due(&written, &mut memory);
    let [Write::Part(_, status, left)] = &due[..] else { panic!("{due:?}") };
    assert_eq!((status.wanted, &left[..]), (0, &["other".to_owned()][..]));

    // The installation that now manages the namespace has added its finalizer.
    memory.parted.insert(ObjectKey::new(HERE, "mine"));
    assert_eq!(verbs(&keeper.due(&written, &mut memory)), [""; 0]);
    assert_eq!(verbs(&keeper.due(&there(made()), &mut memory)), [""; 0]);

    // A namespace may be selected and deselected again.
    keeper.views.selections.insert(HERE.into(), Selection::Selected);
    keeper.due(&written, &mut memory);
    keeper.views.selections.insert(HERE.into(), LEFT_NOW());
    assert_eq!(verbs(&keeper.due(&written, &mut memory)), ["part from"]);
}

#[tokio::test]
async fn a_deleted_one_is_parted_from_when_its_targets_are_gone() {
    let keeper = keeper();
    keeper.views.selections.insert(HERE.into(), LEFT_NOW());
    let deleted = there(deleted(&keeper, 0));
    assert_eq!(verbs(&keeper.due(&deleted, &mut Memory::default())), ["part from"]);
    keeper.views.released.clear();
    assert_eq!(verbs(&keeper.due(&deleted, &mut Memory::default())), [""; 0]);
}
