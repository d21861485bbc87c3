//! Tests of objects that exceed a limit.

use headgate_core::model::limits;

use super::*;

#[test]
fn of_a_set_whose_template_is_too_large_nothing_is_done_and_its_status_says_so_once() {
    let large = SetFacts { beyond: limits::TEMPLATE.excess(70_000), generation: 2, ..set() };
    let pods = vec![pod("edge-x-0", "a", "n1")];
    let mut played = Played::new(large.clone(), &["n1", "n2"], pods, vec![revision("a", 1)]);
    let [Asked { id, ask: Ask::Write { status, .. }, .. }] = &played.asked[..] else {
        panic!("{:?}", played.asked)
    };
    assert_eq!((status.roll, status.generation), (Roll::TooLarge, 2));
    assert_eq!(status.remembered, large.remembered);
    assert!(
        status.beyond[0].contains("The size of the template of an IngressDaemonSet is 70000 bytes"),
        "{:?}",
        status.beyond
    );
    let id = *id;
    played.asked.clear();
    played.step(Input::Answered(id, Outcome::Done(None)));
    played.step(Input::Set(Change::Applied(SetFacts { version: "2".into(), ..large })));
    played.pass(120);
    assert_eq!(played.asked, []);
    played.step(Input::Set(Change::Applied(SetFacts { version: "3".into(), generation: 3, ..set() })));
    assert_eq!(made(&played.asks()[0]).1, "n2", "it goes on when the template is small enough");
}

#[test]
fn a_budget_whose_selector_is_too_large_is_named_in_the_status_of_the_sets_beside_it() {
    let mut played = Played::new(set(), &["n1"], vec![pod("edge-x-0", "a", "n1")], vec![revision("a", 1)]);
    played.step(Input::Set(Change::Applied(SetFacts { version: "2".into(), ..set() })));
    played.asked.clear();
    let budget = BudgetFacts {
        key: key("mine"),
        uid: Uid::new("b"),
        controller: None,
        set: None,
        selector: Vec::new(),
        min_available: None,
        beyond: limits::BUDGET_SELECTOR.excess(20_000),
    };
    played.step(Input::Budget(Change::Applied(budget)));
    let [Asked { ask: Ask::Write { status, .. }, .. }] = &played.asked[..] else {
        panic!("{:?}", played.asked)
    };
    assert!(
        status.beyond[0].starts_with("PodDisruptionBudget mine: The size of the selector"),
        "{:?}",
        status.beyond
    );
}
