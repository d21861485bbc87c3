use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

use tokio::time::{Instant, sleep};

use super::*;
use crate::{
    metrics::{Format, Level},
    runtime::{clock::Clock, views::Views},
};

const PODS: usize = 1000;
/// The duration of a PATCH.
const SLOW: Duration = Duration::from_millis(300);

/// A slow writer that stores the written records.
#[derive(Clone, Default)]
struct Slow {
    written: Arc<Mutex<Vec<String>>>,
    under_way: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    /// The number of writes that still fail.
    fail: Arc<AtomicUsize>,
}

impl Writer for Slow {
    async fn write(&self, note: &Note) -> Result<(), Failure> {
        self.most.fetch_max(self.under_way.fetch_add(1, SeqCst) + 1, SeqCst);
        sleep(SLOW).await;
        self.under_way.fetch_sub(1, SeqCst);
        if self.fail.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Err(Failure::new(FailureClass::Throttled, "429", "slow down"));
        }
        self.written.lock().unwrap().push(note.pod.name.to_string());
        Ok(())
    }
}

fn notes() -> Notes {
    let metrics = Arc::new(Metrics::new(Arc::new(Views::default()), Clock::start(), Level::Debug));
    Notes::new(Limits::default(), Clock::start(), metrics)
}

fn name(at: usize) -> String {
    format!("web-{at}")
}

fn ask(notes: &Notes, at: usize) -> Asked {
    notes.ask(&ObjectKey::new("shop", &*name(at)), &Uid::new("u-1"))
}

/// Waits until the queue is empty.
async fn empty(notes: &Notes) {
    while notes.queue().count() > 0 {
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_notes_are_written_in_the_order_in_which_they_were_asked_for_and_few_at_a_time() {
    let (notes, slow) = (notes(), Slow::default());
    let began = Instant::now();
    for at in 0..PODS {
        assert_eq!(ask(&notes, at), Asked::Waits, "the answer waits for nothing");
        assert_eq!(notes.are_many(), at + 1 > MANY);
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    let writing = tokio::spawn(notes.clone().write(slow.clone()));
    empty(&notes).await;
    let took = began.elapsed();
    let least = SLOW * u32::try_from(PODS.div_ceil(AT_ONCE)).unwrap();
    assert!(took >= least && took < least + Duration::from_secs(1), "{took:?}");
    let written = slow.written.lock().unwrap().clone();
    assert_eq!(written, (0..PODS).map(name).collect::<Vec<_>>());
    assert_eq!(slow.most.load(SeqCst), AT_ONCE);
    writing.abort();
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_asked_for_again_and_again_are_written_once_while_they_wait() {
    let (notes, slow) = (notes(), Slow::default());
    let writing = tokio::spawn(notes.clone().write(slow.clone()));
    // The engine does not require a record that is already written.
    let is_written = |at: usize| slow.written.lock().unwrap().contains(&name(at));
    while !(0..PODS).all(is_written) {
        for at in (0..PODS).rev().filter(|at| !is_written(*at)) {
            assert_eq!(ask(&notes, at), Asked::Waits);
        }
        sleep(Duration::from_secs(2)).await;
    }
    empty(&notes).await;
    let written = slow.written.lock().unwrap();
    assert_eq!(written.iter().collect::<BTreeSet<_>>().len(), PODS);
    assert_eq!(written.len(), PODS);
    assert_eq!(written[..AT_ONCE], (0..PODS).rev().map(name).take(AT_ONCE).collect::<Vec<_>>());
    writing.abort();
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_written_later() {
    let (notes, slow) = (notes(), Slow::default());
    slow.fail.store(100, SeqCst);
    let writing = tokio::spawn(notes.clone().write(slow.clone()));
    for at in 0..200 {
        ask(&notes, at);
    }
    empty(&notes).await;
    assert_eq!(slow.written.lock().unwrap().len(), 200);
    let page = notes.shared.metrics.page(Format::Prometheus).unwrap();
    for line in [
        "headgate_leaving_notes_total{outcome=\"Throttled\"} 100",
        "headgate_leaving_notes_total{outcome=\"ok\"} 200",
        "headgate_leaving_notes_waiting 0",
    ] {
        assert!(page.contains(line), "{page}");
    }
    writing.abort();
}
