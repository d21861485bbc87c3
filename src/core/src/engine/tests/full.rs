//! Tests of a target group that has reached its quota.

use super::*;

/// A simulated AWS with room for this many more targets.
struct Aws {
    room: usize,
    /// Whether a draining target no longer counts against the quota.
    frees: bool,
    calls: usize,
}

impl World {
    fn pods(&mut self, from: u8, to: u8) {
        let pods = (from..=to).map(|last| pod(&format!("p{last}"), &format!("{last}")).at(last));
        for pod in pods {
            self.apply(pod);
        }
    }

    /// Answers all open calls. AWS accepts a registration if all targets of the call fit.
    fn settle(&mut self, aws: &mut Aws) {
        while let Some((id, call)) = self.open.pop() {
            let result = match &call {
                Call::Register { items, .. } => {
                    aws.calls += 1;
                    let fits = items.len() <= aws.room;
                    aws.room -= if fits { items.len() } else { 0 };
                    if fits { Ok(Answer::Done) } else { Err(failure(FailureClass::Full)) }
                }
                Call::Deregister { items, .. } => {
                    aws.room += if aws.frees { items.len() } else { 0 };
                    Ok(Answer::Done)
                }
                Call::ReadHealth { .. } => Err(failure(FailureClass::Unavailable)),
                Call::FindGroups { .. } | Call::ReadAttributes { .. } => Err(failure(FailureClass::Gone)),
            };
            self.step(Input::Answered { id, result });
        }
    }

    fn wait_and_settle(&mut self, seconds: u64, aws: &mut Aws) {
        for _ in 0..seconds * 10 {
            self.wait(Duration::from_millis(100));
            self.settle(aws);
        }
    }

    fn registered(&self) -> usize {
        (1..=250)
            .filter(|last| {
                self.engine
                    .groups
                    .get(&arn("blue"))
                    .unwrap()
                    .registrations()
                    .is_registered(&target(*last, 80))
            })
            .count()
    }

    fn quota_notes(&self) -> Vec<&str> {
        let about = self.notices.iter().filter(|notice| notice.reason == Reason::QuotaExceeded);
        about.map(|notice| &*notice.note).collect()
    }
}

/// Creates 40 pods while AWS has room for 17 targets.
fn full() -> (World, Aws) {
    let mut world = World::new(vec![web()], vec![]);
    let mut aws = Aws { room: 17, frees: true, calls: 0 };
    world.pods(1, 40);
    world.wait_and_settle(5, &mut aws);
    (world, aws)
}

#[test]
fn what_fits_is_registered_and_how_many_wait_is_said_once() {
    let (mut world, mut aws) = full();
    assert_eq!((world.registered(), aws.room), (17, 0));
    assert!(aws.calls <= 10, "{} calls", aws.calls);
    assert!(
        world.engine.groups.get(&arn("blue")).unwrap().registrations().is_registered(&target(1, 80)),
        "the oldest"
    );
    let note = "Target group blue is full; 23 targets wait (Code: text)";
    assert!(world.quota_notes()[0].contains(note), "{:?}", world.quota_notes());
    let before = aws.calls;
    world.wait_and_settle(600, &mut aws);
    assert!((4..=8).contains(&(aws.calls - before)), "{} calls in ten minutes", aws.calls - before);
    assert_eq!(world.quota_notes().len(), 1);
}

#[test]
fn what_waits_takes_the_place_of_what_leaves_and_removals_go_on() {
    let (mut world, mut aws) = full();
    world.wait_and_settle(600, &mut aws);
    let before = aws.calls;
    world.apply(pod("p1", "1").at(1).terminating());
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.settle(&mut aws);
    assert_eq!((world.registered(), aws.calls - before), (17, 1), "at once, and with a single call");
    let notes = world.quota_notes();
    assert!(notes.len() == 2 && notes[1].contains("22 targets wait"), "{notes:?}");
}

#[test]
fn a_raised_quota_is_found_out_and_nothing_is_said_any_more() {
    let (mut world, mut aws) = full();
    aws.room = 100;
    world.wait_and_settle(40, &mut aws);
    assert_eq!(world.registered(), 40);
    world.pods(41, 45);
    world.wait_and_settle(1, &mut aws);
    assert_eq!((world.registered(), world.quota_notes().len()), (45, 1));
}

#[test]
fn a_set_that_is_replaced_in_a_full_group_makes_room_for_the_first_of_the_new() {
    let mut world = World::new(vec![web()], vec![]);
    let mut aws = Aws { room: 40, frees: true, calls: 0 };
    world.pods(1, 40);
    world.wait_and_settle(5, &mut aws);
    world.annotate(service("web").port_to("http", 80, 81).annotated("http=blue"));
    world.wait_and_settle(5, &mut aws);
    let group = world.engine.groups.get(&arn("blue")).unwrap();
    let new = (1..=40).filter(|last| group.registrations().is_registered(&target(*last, 81))).count();
    assert_eq!((new, group.registrations().held().count()), (4, 36), "a tenth");
}

#[test]
fn a_full_group_in_which_what_drains_counts_makes_room_once_in_a_while() {
    let mut world = World::new(vec![web()], vec![]);
    let mut aws = Aws { room: 40, frees: false, calls: 0 };
    world.pods(1, 40);
    world.wait_and_settle(5, &mut aws);
    world.annotate(service("web").port_to("http", 80, 81).annotated("http=blue"));
    let held = |world: &World| world.engine.groups.get(&arn("blue")).unwrap().registrations().held().count();
    for (seconds, left) in [(5, 36), (280, 36), (240, 32)] {
        world.wait_and_settle(seconds, &mut aws);
        assert_eq!(held(&world), left);
    }
}
