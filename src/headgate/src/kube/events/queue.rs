//! A queue of Events that serves namespaces in turn. Therefore, a tenant with thousands of invalid objects does not
//! delay Events of other tenants.
//!
//! * **Owns** the queued Events, and the remaining allowance of each namespace.
//! * **Guarantees.** The queue contains at most [`QUEUE`] Events, and at most [`OF_A_NAMESPACE`] from one namespace. A
//!   namespace may emit [`Allowance::MOST`] Warnings in a burst, and then two per second. For each object and reason,
//!   the queue contains only the newest Event.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use headgate_core::{
    Moment,
    model::notice::{About, Notice},
};
use tokio::sync::mpsc;

use crate::runtime::clock::Clock;

/// The maximum number of queued Events. Further Events are dropped and counted.
pub const QUEUE: usize = 1024;
/// The maximum number of queued Events of one namespace.
const OF_A_NAMESPACE: usize = 128;
/// If more namespaces have an allowance, full allowances are dropped.
const NAMESPACES: usize = 1024;

/// A limit on the rate of Events.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    left: f64,
    at: Moment,
    a_second: f64,
}

impl Allowance {
    /// The maximum number of Events in a burst.
    pub const MOST: f64 = 100.0;

    /// Creates an allowance with the maximum burst and a rate per second.
    pub const fn new(a_second: f64, now: Moment) -> Self {
        Self { left: Self::MOST, at: now, a_second }
    }

    /// Takes one Event from the allowance. Returns `false` if the allowance is used up.
    pub fn take(&mut self, now: Moment) -> bool {
        self.pass(now);
        let may = self.left >= 1.0;
        self.left -= if may { 1.0 } else { 0.0 };
        may
    }

    fn pass(&mut self, now: Moment) {
        let gained = now.since(self.at).as_secs_f64() * self.a_second;
        (self.left, self.at) = ((self.left + gained).min(Self::MOST), now);
    }

    fn is_full(&mut self, now: Moment) -> bool {
        self.pass(now);
        self.left >= Self::MOST
    }
}

/// The rate of Warnings per namespace and second, after the burst.
const A_SECOND: f64 = 2.0;

#[derive(Debug, Default)]
struct Queue {
    waiting: BTreeMap<Arc<str>, VecDeque<Notice>>,
    /// The namespaces with queued Events, in round-robin order.
    turns: VecDeque<Arc<str>>,
    allowances: BTreeMap<Arc<str>, Allowance>,
}

fn namespace(about: &About) -> Arc<str> {
    match about {
        About::Service(key, _)
        | About::TargetBinding(key, _)
        | About::Pod(key, _)
        | About::IngressDaemonSet(key, _) => key.namespace.clone(),
        About::Grant(..) => "".into(),
    }
}

impl Queue {
    /// Whether a notice about an object in this namespace may be queued.
    fn allows(&mut self, namespace: &Arc<str>, notice: &Notice, now: Moment) -> bool {
        if self.waiting.get(namespace).is_some_and(|waiting| waiting.len() >= OF_A_NAMESPACE) {
            return false;
        }
        if notice.reason.is_good_news() {
            return true;
        }
        if self.allowances.len() > NAMESPACES {
            self.allowances.retain(|_, allowance| !allowance.is_full(now));
        }
        let allowance = self.allowances.entry(namespace.clone()).or_insert(Allowance::new(A_SECOND, now));
        allowance.take(now)
    }

    fn put(&mut self, namespace: &Arc<str>, notice: Notice) {
        let waiting = self.waiting.entry(namespace.clone()).or_default();
        if waiting.is_empty() {
            self.turns.push_back(namespace.clone());
        }
        waiting.push_back(notice);
    }

    fn take(&mut self) -> Option<Notice> {
        let namespace = self.turns.pop_front()?;
        let waiting = self.waiting.get_mut(&namespace)?;
        let notice = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        notice
    }

    /// Replaces a queued notice about the same object and reason.
    fn replace(&mut self, namespace: &Arc<str>, notice: &Notice) -> bool {
        let mut waiting = self.waiting.get_mut(namespace).into_iter().flatten();
        let is_same = |other: &&mut Notice| other.about == notice.about && other.reason == notice.reason;
        let Some(other) = waiting.find(is_same) else { return false };
        other.note.clone_from(&notice.note);
        true
    }
}

/// The sending side of the queue.
#[derive(Clone, Debug)]
pub struct Sender {
    queue: Arc<Mutex<Queue>>,
    /// The channel contains one item for each queued Event.
    places: mpsc::Sender<()>,
    clock: Clock,
}

/// The receiving side of the queue.
#[derive(Debug)]
pub struct Receiver {
    queue: Arc<Mutex<Queue>>,
    places: mpsc::Receiver<()>,
}

/// Creates a queue of Events.
pub fn channel(clock: Clock) -> (Sender, Receiver) {
    let (queue, (sender, receiver)) = (Arc::<Mutex<Queue>>::default(), mpsc::channel(QUEUE));
    (Sender { queue: queue.clone(), places: sender, clock }, Receiver { queue, places: receiver })
}

impl Sender {
    /// Queues a notice. Returns `false` if the queue is full, or if the namespace has used up its allowance.
    #[must_use]
    pub fn send(&self, notice: Notice) -> bool {
        let namespace = namespace(&notice.about);
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.replace(&namespace, &notice) {
            return true;
        }
        let waits = queue.allows(&namespace, &notice, self.clock.now()) && self.places.try_send(()).is_ok();
        if waits {
            queue.put(&namespace, notice);
        }
        waits
    }

    /// Whether less than half of the queue is in use. The other half is reserved for Warnings.
    pub fn has_room(&self) -> bool {
        self.places.capacity() > QUEUE / 2
    }
}

impl Receiver {
    /// Waits for the next notice. `None`: all senders were dropped.
    pub async fn recv(&mut self) -> Option<Notice> {
        self.places.recv().await?;
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use headgate_core::{
        Reason,
        model::object::{ObjectKey, Uid},
    };

    use super::*;

    fn notice(namespace: &str, name: &str, note: &str) -> Notice {
        let about = About::Service(ObjectKey::new(namespace, name), Uid::new(name));
        Notice { about, reason: Reason::InvalidBinding, note: note.into() }
    }

    async fn all(mut receiver: Receiver) -> Vec<String> {
        let mut notes = Vec::new();
        while let Some(notice) = receiver.recv().await {
            notes.push(notice.note);
        }
        notes
    }

    #[tokio::test]
    async fn a_namespace_with_thousands_keeps_none_of_another_back() {
        let (sender, receiver) = channel(Clock::start());
        let sent = (0..5000).filter(|at| sender.send(notice("evil", &format!("s{at}"), "evil"))).count();
        assert!((100..=110).contains(&sent), "{sent}");
        for note in ["first", "second"] {
            assert!(sender.send(notice("shop", note, note)));
        }
        drop(sender);
        let notes = all(receiver).await;
        assert_eq!(notes[..4], ["evil", "first", "evil", "second"]);
        assert_eq!(notes.len(), sent + 2);
    }

    #[tokio::test]
    async fn of_one_object_and_reason_the_newest_waits() {
        let (sender, receiver) = channel(Clock::start());
        for note in ["old", "new"] {
            assert!(sender.send(notice("shop", "web", note)));
        }
        assert!(sender.has_room());
        drop(sender);
        assert_eq!(all(receiver).await, ["new"]);
    }

    #[tokio::test]
    async fn a_namespace_has_its_part_of_the_queue_and_all_together_the_whole() {
        let (sender, _receiver) = channel(Clock::start());
        let good = |namespace: &str, at: usize| Notice {
            reason: Reason::TargetsHealthy,
            ..notice(namespace, &format!("s{at}"), "good")
        };
        let sent = |namespace: String| (0..500).filter(|at| sender.send(good(&namespace, *at))).count();
        assert_eq!(sent("a".into()), OF_A_NAMESPACE);
        assert_eq!((0..20).map(|at| sent(format!("n{at}"))).sum::<usize>(), QUEUE - OF_A_NAMESPACE);
        assert!(!sender.has_room());
    }

    #[test]
    fn an_allowance_comes_back_with_time() {
        let at = |millis| Moment::after_start(Duration::from_millis(millis));
        let mut allowance = Allowance::new(10.0, at(0));
        let taken = |allowance: &mut Allowance, now| (0..1000).filter(|_| allowance.take(now)).count();
        assert_eq!(taken(&mut allowance, at(0)), 100);
        assert_eq!(taken(&mut allowance, at(1000)), 10);
        assert_eq!(taken(&mut allowance, at(1050)), 0);
        assert!(!allowance.is_full(at(2000)) && allowance.is_full(at(3_600_000)));
        assert_eq!(taken(&mut allowance, at(3_600_000)), 100);
    }
}
