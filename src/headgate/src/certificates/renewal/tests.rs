use std::collections::VecDeque;

use k8s_openapi::api::admissionregistration::v1::{ServiceReference, WebhookClientConfig};
use proptest::prelude::*;

use super::*;
use crate::{
    certificates::{certificate::Issued, configurations::own_entries},
    properties::holds,
};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
/// The longest time until every replica serves a changed Secret.
const LAG: i64 = 125;
/// The longest time until every API server uses a changed configuration.
const WORD: i64 = 5;

/// A certificate that cannot be served, but contains a CA.
fn certificate(number: usize, from: i64, length: i64) -> Certificate {
    let chain = format!("leaf {number}\n-----BEGIN CERTIFICATE-----\n{number};\n");
    let life = Life { from, until: from + length };
    Certificate { issued: Issued { chain, key: String::new() }, life, fits: true }
}

fn authority(number: usize) -> String {
    format!("-----BEGIN CERTIFICATE-----\n{number};\n")
}

fn path() -> CallPath {
    CallPath::from_digits(&"5".repeat(64)).unwrap()
}

/// The entries of both configurations, with the given CA and path.
fn entries(bundle: &str, path: &str) -> Vec<Entry> {
    let service = ServiceReference { path: Some(path.to_owned()), ..ServiceReference::default() };
    let client = WebhookClientConfig {
        ca_bundle: Some(k8s_openapi::ByteString(bundle.as_bytes().to_vec())),
        service: Some(service),
        url: None,
    };
    own_entries([("a.inject.headgate.dev", &client), ("b.evict.headgate.dev", &client)].into_iter())
}

fn right(stored: &Stored) -> Vec<Entry> {
    entries(&stored.trusted(), path().as_str())
}

fn serving(number: usize) -> Stored {
    Stored { serving: Some(certificate(number, 0, 90 * DAY)), ..Stored::default() }.with_path(path())
}

fn at(stored: &Stored, now: i64) -> Step {
    step(stored, &right(stored), OVERLAP, now)
}

#[test]
fn a_certificate_is_renewed_after_two_thirds_of_its_life_and_both_are_trusted_for_ten_minutes_before_and_after()
 {
    let stored = serving(1);
    assert_eq!(at(&stored, 60 * DAY - 1), Step::Nothing);
    let now = 60 * DAY;
    assert_eq!(at(&stored, now), Step::Prepare);
    let before = right(&stored);
    let stored = stored.with_next(certificate(2, now, 90 * DAY), &[]);
    assert_eq!(stored.trusted(), authority(2) + &authority(1));
    assert_eq!(step(&stored, &before, OVERLAP, now), Step::Configure);
    assert_eq!(at(&stored, now), Step::NoteTrusted);
    let stored = stored.counted_from(Some(now));
    assert_eq!(at(&stored, now + 599), Step::Nothing);
    assert_eq!(at(&stored, now + 600), Step::Swap);
    let stored = stored.swapped(now + 600);
    assert_eq!((stored.trusted(), stored.next.is_none()), (authority(2) + &authority(1), true));
    assert_eq!(at(&stored, now + 1199), Step::Nothing);
    assert_eq!(at(&stored, now + 1200), Step::Forget);
    let both = right(&stored);
    let stored = stored.without_replaced();
    assert_eq!(step(&stored, &both, OVERLAP, now + 1200), Step::Configure);
    assert_eq!(at(&stored, now + 1200), Step::Nothing);
}

#[test]
fn what_a_tool_has_changed_is_repaired_at_once_and_the_ten_minutes_begin_anew() {
    let stored = serving(1);
    for (bundle, path) in [("", path()), (&*authority(7), path()), (&*stored.trusted(), CallPath::fixed())] {
        assert_eq!(step(&stored, &entries(bundle, path.as_str()), OVERLAP, DAY), Step::Configure, "{bundle}");
    }
    let stored = stored.with_next(certificate(2, 60 * DAY, 90 * DAY), &[]).counted_from(Some(60 * DAY));
    let wiped = entries("", path().as_str());
    assert_eq!(step(&stored, &wiped, OVERLAP, 61 * DAY), Step::NoteDistrusted);
    let stored = stored.counted_from(None);
    assert_eq!(step(&stored, &wiped, OVERLAP, 61 * DAY), Step::Configure);
    assert_eq!(at(&stored, 61 * DAY), Step::NoteTrusted);
}

#[test]
fn the_first_certificate_is_trusted_and_then_served_at_once() {
    assert_eq!(at(&Stored::default(), 0), Step::MakePath);
    let stored = Stored::default().with_path(path());
    assert_eq!(step(&stored, &[], OVERLAP, 0), Step::Prepare);
    let stored = stored.with_next(certificate(1, 0, 90 * DAY), &[]);
    assert_eq!(step(&stored, &entries("", "/"), OVERLAP, 0), Step::Configure);
    for entries in [right(&stored), Vec::new()] {
        assert_eq!(step(&stored, &entries, OVERLAP, 0), Step::Swap, "also if nobody calls yet");
    }
    assert_eq!(at(&stored.swapped(0), 0), Step::Nothing);
}

#[test]
fn one_that_no_client_accepts_is_replaced_as_soon_as_every_api_server_trusts_the_next_one() {
    let next = |stored: Stored, now: i64| stored.with_next(certificate(2, now, 90 * DAY), &[]);
    for (serving, now) in [(serving(1), 90 * DAY), (serving(1), -DAY)] {
        assert_eq!(at(&serving, now), Step::Prepare);
        let stored = next(serving, now);
        assert_eq!(at(&stored, now), Step::NoteTrusted);
        let stored = stored.counted_from(Some(now));
        assert_eq!([at(&stored, now + 9), at(&stored, now + 10)], [Step::Nothing, Step::Swap]);
    }
    // Replicas may still serve, from memory, a certificate that is no longer stored.
    let lost = Stored::default().with_path(path());
    let stored = lost.with_next(certificate(2, 0, 90 * DAY), &[authority(1)]);
    assert_eq!(stored.trusted(), authority(2) + &authority(1));
    assert_eq!(at(&stored, 0), Step::NoteTrusted);
    let mut other = serving(1);
    other.serving.as_mut().unwrap().fits = false;
    assert_eq!(at(&other, DAY), Step::Prepare, "it is for other names");
    assert_eq!(at(&next(other, DAY), DAY), Step::NoteTrusted, "which are called perhaps");
    let ahead = serving(1).with_next(certificate(2, 365 * DAY, 90 * DAY), &[]);
    assert_eq!(at(&ahead, DAY), Step::Prepare, "a clock ran ahead");
}

#[test]
fn with_short_lives_the_times_are_short() {
    assert_eq!(
        [60, 3600, 90 * 24 * 3600].map(|seconds| overlap(Duration::from_secs(seconds))),
        [10, 600, 600]
    );
    assert_eq!(overlap(Duration::from_secs(u64::MAX)), OVERLAP);
}

#[test]
fn any_stored_time_leads_to_a_step() {
    holds(
        (any::<Option<i64>>(), any::<i64>(), any::<i64>(), any::<bool>()),
        |(since, from, now, has_next)| {
            let life = Life { from, until: from.saturating_add(DAY) };
            let mut stored = serving(1).counted_from(since);
            stored.serving.as_mut().unwrap().life = life;
            if has_next {
                stored.next = Some(certificate(2, 0, DAY));
            }
            let _ = at(&stored, now);
            Ok(())
        },
    );
}

/// An event between two rounds.
#[derive(Clone, Debug)]
enum Event {
    /// This many seconds pass.
    Pass(i64),
    /// The process executes its next step. If the step is interrupted, one of the two configurations does not change.
    Step { is_interrupted: bool },
    /// A tool overwrites the `caBundle` of one configuration.
    Wipe { at: usize, bundle: &'static str },
    /// A tool empties the Secret.
    Empty,
    /// A user removes the annotation that contains the time.
    Unmark,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        60 => Just(Event::Step { is_interrupted: false }),
        5 => Just(Event::Step { is_interrupted: true }),
        30 => (0..60_i64).prop_map(Event::Pass),
        4 => (HOUR / 4..HOUR).prop_map(Event::Pass),
        1 => (0..2_usize, prop::sample::select(vec!["", "theirs"]))
            .prop_map(|(at, bundle)| Event::Wipe { at, bundle }),
        1 => Just(Event::Empty),
        1 => Just(Event::Unmark),
    ];
    prop::collection::vec(event, 0..300)
}

/// A Secret, two configurations with one entry each, and earlier content that may still be in use.
struct World {
    now: i64,
    stored: Stored,
    made: usize,
    configurations: [Vec<Entry>; 2],
    /// For each configuration, whether this process wrote it last.
    own: [bool; 2],
    /// Certificates that a replica may serve, each with the time until which this is possible.
    served: Vec<(Certificate, Option<i64>)>,
    /// Content that this process wrote to a configuration, with the time until which an API server may use it.
    called: VecDeque<(Vec<u8>, i64)>,
}

impl World {
    const LENGTH: i64 = 6 * HOUR;

    fn new() -> Self {
        let apart = entries("", "/").into_iter().map(|entry| vec![entry]);
        let configurations: Vec<_> = apart.collect();
        Self {
            now: 1000 * DAY,
            stored: Stored::default(),
            made: 0,
            configurations: configurations.try_into().unwrap(),
            own: [false; 2],
            served: Vec::new(),
            called: VecDeque::new(),
        }
    }

    fn write(&mut self, at: usize, bundle: &str, is_own: bool) {
        if self.own[at] {
            self.called.push_back((self.configurations[at][0].bundle.clone(), self.now + WORD));
        }
        self.configurations[at] = vec![entries(bundle, path().as_str()).swap_remove(at)];
        self.own[at] = is_own;
    }

    fn decide(&self) -> Step {
        step(&self.stored, &self.configurations.concat(), OVERLAP, self.now)
    }

    fn take(&mut self, step: Step, is_interrupted: bool) {
        let (stored, now) = (self.stored.clone(), self.now);
        self.stored = match step {
            Step::Nothing => stored,
            Step::MakePath => stored.with_path(path()),
            Step::Prepare => {
                self.made += 1;
                let all = self.configurations.concat();
                let trusted = all.iter().map(|entry| std::str::from_utf8(&entry.bundle).unwrap());
                let numbers =
                    trusted.flat_map(|text| text.split('\n').filter_map(|line| line.strip_suffix(';')));
                let trusted: Vec<String> = numbers.map(|number| authority(number.parse().unwrap())).collect();
                stored.with_next(certificate(self.made, now, Self::LENGTH), &trusted)
            }
            Step::Configure => {
                for at in 0..if is_interrupted { 1 } else { 2 } {
                    self.write(at, &stored.trusted(), true);
                }
                stored
            }
            Step::NoteDistrusted => stored.counted_from(None),
            Step::NoteTrusted | Step::NoteSwapped => stored.counted_from(Some(now)),
            Step::Swap => {
                for (_, until) in &mut self.served {
                    until.get_or_insert(now + LAG);
                }
                self.served.extend(stored.next.clone().map(|next| (next, None)));
                stored.swapped(now)
            }
            Step::Forget => stored.without_replaced(),
        };
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Pass(seconds) => self.now += seconds,
            Event::Step { is_interrupted } => self.take(self.decide(), is_interrupted),
            // The test never removes both the Secret's content and the trusted CAs, because `headgate certificates`
            // could not recover them.
            Event::Wipe { at, bundle } if self.stored.serving.is_some() => self.write(at, bundle, false),
            Event::Empty if self.own == [true; 2] => self.stored = Stored::default(),
            Event::Unmark => self.stored.since = None,
            Event::Wipe { .. } | Event::Empty => {}
        }
        let now = self.now;
        self.served.retain(|(certificate, until)| {
            until.is_none_or(|until| now < until) && now < certificate.life.until
        });
        self.called.retain(|(_, until)| now < *until);
    }

    /// Checks that each entry that this process wrote trusts every certificate that replicas may serve.
    fn check(&self) -> Result<(), TestCaseError> {
        let now = self.configurations.iter().zip(self.own).filter(|(_, own)| *own);
        let now = now.map(|(entries, _)| &entries[0].bundle);
        for bundle in self.called.iter().map(|(bundle, _)| bundle).chain(now) {
            let bundle = std::str::from_utf8(bundle).unwrap();
            for (certificate, _) in &self.served {
                prop_assert!(
                    bundle.contains(certificate.authority()),
                    "{:?} is not trusted by {bundle:?}",
                    certificate.issued.chain
                );
            }
        }
        Ok(())
    }
}

#[test]
fn whatever_interrupts_it_the_webhook_is_never_called_by_what_does_not_trust_a_certificate_that_is_served() {
    holds(events(), |events| {
        let mut world = World::new();
        for event in &events {
            world.happen(event);
            world.check()?;
        }
        // Without further events, the process stores one certificate, trusts only this certificate, and renews it.
        for round in 0..3 * World::LENGTH / 30 {
            world.happen(&Event::Pass(30));
            for _ in 0..9 {
                world.happen(&Event::Step { is_interrupted: false });
                world.check()?;
            }
            prop_assert_eq!(world.decide(), Step::Nothing);
            let serving = world.stored.serving.as_ref();
            let is_good = serving.is_some_and(|serving| world.now < serving.life.until);
            prop_assert!(is_good || round < 2, "round {round}: {serving:?}");
        }
        let made = world.made;
        prop_assert!((3..=events.len() + 8).contains(&made), "{made}");
        prop_assert!(world.stored.replaced.len() <= 1, "{:?}", world.stored.replaced);
        Ok(())
    });
}
