//! Tests with wrong clocks: of this replica, of the current leader, and of the previous leader.

use super::{
    evicting::{BOUND, asked, no_budget, out, three},
    *,
};
use crate::model::{
    LeavingFacts, Uid, WallTime,
    eviction::{Checked, Ruling},
    leaving::Mark,
};

/// This many hours after 1970. The tests start after 1970, so a clock can be behind.
fn hour(hours: u64) -> WallTime {
    WallTime::since_1970(Duration::from_secs(hours * 3600))
}

/// The time on a clock that is an hour behind, on a correct clock, and on a clock that is an hour ahead.
fn clocks(at: WallTime) -> [WallTime; 3] {
    let by = Duration::from_secs(3600);
    [at - by, at, at + by]
}

fn out_since(at: WallTime) -> PodBuilder {
    pod("a", "u-a")
        .at(1)
        .leaving(LeavingFacts { deregistered: Some((at, BOUND)), ..LeavingFacts::asked(at, at) })
}

#[test]
fn a_new_leader_waits_for_the_bound_from_its_own_removal_whatever_clock_has_dated_the_note() {
    for at in clocks(hour(10)) {
        let mut world = out();
        world.step(Input::Leadership(Leadership::Standby));
        world.step(Input::Clock(hour(10)));
        world.node("n", false);
        world.apply(out_since(at).on("n"));
        world.wait(BOUND.saturating_sub(Duration::from_secs(1)));
        world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
        assert_eq!(world.changes(), ["-blue 10.0.0.1:80"], "{at:?}");
        assert_eq!(world.may_go_after("a"), BOUND.as_secs(), "{at:?}");
    }
}

#[test]
fn without_a_word_of_a_leader_an_eviction_passes_after_the_same_time_whatever_clock_has_noted_it() {
    for at in clocks(hour(10)) {
        let mut world = three();
        world.step(Input::Leadership(Leadership::Standby));
        world.step(Input::Clock(hour(10)));
        world.apply(asked("a", 1, at));
        world.wait(Duration::from_secs(180));
        assert!(matches!(world.asks("a"), Ruling::Wait { .. }), "{at:?}");
        world.wait(Duration::from_secs(1));
        assert_eq!(world.asks("a"), Ruling::Regardless(Cause::NobodyDecides, Uid::new("u-a")), "{at:?}");
    }
}

#[test]
fn that_somebody_still_asks_is_noted_by_the_clock_here_and_a_pod_is_put_back_only_when_nobody_does() {
    for at in clocks(hour(10)) {
        let mut world = three();
        world.step(Input::Clock(hour(10)));
        world.apply(asked("a", 1, at));
        let check = world.check_of("a");
        let refused = Checked { refused: Some("no".into()), budgets: Vec::new() };
        world.checked(&check, Ok(refused.clone()));
        let noted = |world: &World| matches!(world.asks("a"), Ruling::Wait { mark: Some(_), .. });
        world.wait(Duration::from_secs(59));
        assert!(!noted(&world), "{at:?}");
        world.wait(Duration::from_secs(1));
        assert!(noted(&world), "{at:?}: it must not look as if nobody asked");
        let mut waited = 60;
        loop {
            let marks = world.marks();
            if marks.iter().any(|write| write.mark == Mark::Undone) {
                break;
            }
            for write in marks {
                world.written_mark(&write, Ok(()));
            }
            for check in world.checks() {
                world.checked(&check, Ok(refused.clone()));
            }
            world.wait(Duration::from_secs(1));
            waited += 1;
        }
        assert!((900..905).contains(&waited), "{at:?}: undone after {waited} s");
    }
}

#[test]
fn what_is_written_is_later_than_what_it_is_about_though_the_clock_is_behind() {
    let ahead = hour(11);
    let mut world = out();
    world.step(Input::Clock(hour(10)));
    world.node("n", false);
    world.apply(out_since(ahead).on("n"));
    world.wait(BOUND);
    let at = world.marks().iter().find_map(|write| match write.mark {
        Mark::MayGo { at, .. } => Some(at),
        _ => None,
    });
    assert!(at >= Some(ahead), "{at:?}: or it would be about an earlier leaving");
    // AWS lists the target again and accepts another deregistration. The new annotation must have a later time.
    let mut world = three();
    world.step(Input::Clock(hour(10)));
    world.apply(out_since(ahead));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.answer_all();
    let mark = world.mark_of("a").mark;
    assert!(matches!(mark, Mark::Deregistered { at, .. } if at > ahead), "{mark:?}");
}

#[test]
fn a_clock_that_is_set_right_is_followed_in_what_is_written() {
    let mut world = three();
    world.step(Input::Clock(hour(10)));
    world.wait(Duration::from_secs(10));
    let Ruling::Wait { mark: Some(Mark::Asked(asked)), .. } = world.asks("a") else { panic!("it passed") };
    assert_eq!(asked.since, hour(10) + Duration::from_secs(10));
    world.step(Input::Clock(hour(9)));
    let Ruling::Wait { mark: Some(Mark::Asked(asked)), .. } = world.asks("a") else { panic!("it passed") };
    assert_eq!(asked.since, hour(9));
}

#[test]
fn that_a_pod_is_out_is_dated_by_the_clock_as_it_is_when_that_is_written() {
    let mut world = three();
    world.step(Input::Clock(hour(10)));
    world.apply(asked("a", 1, hour(8)));
    let check = world.check_of("a");
    world.checked(&check, Ok(no_budget()));
    world.answer_all();
    let first = world.mark_of("a");
    assert_eq!(first.mark, Mark::Deregistered { at: hour(10), bound: BOUND });
    world.written_mark(&first, Err(fails(FailureClass::Unavailable, "later")));
    world.step(Input::Clock(hour(9)));
    world.wait(Duration::from_secs(30));
    assert_eq!(world.mark_of("a").mark, Mark::Deregistered { at: hour(9), bound: BOUND });
}
