//! The task that writes the journal, and its readers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headgate_core::{
    Journal, Moment,
    model::{Entry, Transition, object::ObjectKey},
};
use k8s_openapi::jiff::Timestamp;
use tokio::sync::mpsc;

use super::{
    report::{self, Past},
    sentence,
};
use crate::runtime::{clock::Clock, times::Times};

/// The default maximum number of entries, which suffices for about 3,000 pods. Measured: 6,576 entries use 2.9 MiB
/// (`make bench ONLY=looked`).
pub const MOST: usize = 32_768;
/// The maximum number of entries about one pod or node in an answer.
const OF_ONE: usize = 200;
/// The maximum number of entries in an answer.
pub const IN_ONE_ANSWER: usize = 1000;

/// Sends changes to the journal. Recording never waits.
#[derive(Clone, Debug)]
pub struct Recorder(mpsc::UnboundedSender<(Transition, Moment)>);

impl Recorder {
    /// Records a change.
    pub fn record(&self, what: Transition, at: Moment) {
        // If the receiving task has ended, the program is stopping.
        let _ = self.0.send((what, at));
    }
}

/// Lets tasks read the journal.
#[derive(Clone, Debug)]
pub struct Kept {
    journal: Arc<Mutex<Journal>>,
    began: Moment,
    id: String,
    clock: Clock,
}

/// Creates an empty journal with a maximum number of entries. Returns the journal's writer, its reader, and the task
/// that stores entries until the writer is dropped.
pub fn journal(clock: Clock, most: usize) -> (Recorder, Kept, impl Future<Output = ()>) {
    let (sender, mut records) = mpsc::unbounded_channel();
    let id = Timestamp::now().as_microsecond().to_string();
    let kept = Kept { journal: Arc::new(Mutex::new(Journal::new(most))), began: clock.now(), id, clock };
    let keeper = kept.clone();
    let keep = async move {
        while let Some((what, at)) = records.recv().await {
            keeper.journal().record(what, at);
        }
    };
    (Recorder(sender), kept, keep)
}

impl Kept {
    /// Readers hold the lock only while they copy an answer. The engine's owner never waits for the lock.
    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The journal's start time, as text that identifies this replica's journal.
    pub fn began(&self) -> String {
        self.id.clone()
    }

    /// The history of the pods with this name.
    pub fn of_pod(&self, pod: &ObjectKey) -> Past {
        self.past(|journal| journal.of_pod(pod, OF_ONE))
    }

    /// The history of the node with this name.
    pub fn of_node(&self, node: &str) -> Past {
        self.past(|journal| journal.of_node(node, OF_ONE))
    }

    /// Returns the latest entries, or the first entries after the number `after`. Clients use the number to continue
    /// where they stopped.
    pub fn entries(&self, namespace: Option<&str>, after: Option<u64>, most: usize) -> Past {
        let most = most.min(IN_ONE_ANSWER);
        self.past(|journal| match after {
            Some(number) => journal.after(number, namespace, most),
            None => journal.latest(namespace, most),
        })
    }

    fn past(&self, of: impl Fn(&Journal) -> Vec<&Entry>) -> Past {
        let (entries, leads_since, forgotten) = {
            let journal = self.journal();
            let entries: Vec<Entry> = of(&journal).into_iter().cloned().collect();
            (entries, journal.leads_since(), journal.forgotten())
        };
        let times = Times::at(self.clock.now());
        let past = Past {
            since: Some(times.time(self.began)),
            leads_since: leads_since.map(|since| times.time(since)),
            forgotten,
            entries: entries
                .into_iter()
                .map(|entry| sentence::with_text(report::entry(entry, times)))
                .collect(),
            gap: None,
        };
        Past { gap: sentence::gap(&past), ..past }
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::model::{Cause, changes::Owner, object::Uid, transition::PodStep};

    use super::*;

    #[tokio::test]
    async fn what_was_recorded_is_read_by_whoever_asks() {
        let clock = Clock::start();
        let (recorder, kept, keep) = journal(clock, MOST);
        let pod = Owner { pod: ObjectKey::new("shop", "web-0"), uid: Uid::new("u-1") };
        let step = Transition::Pod(pod.clone(), PodStep::Eviction(Cause::EvictionAllowed, true));
        recorder.record(Transition::Leads(true), clock.now());
        recorder.record(step, clock.now());
        drop(recorder);
        keep.await;
        let past = kept.of_pod(&pod.pod);
        assert_eq!(past.entries.len(), 1);
        assert!(past.leads_since.is_some() && past.since.is_some());
        assert_eq!(kept.entries(None, None, 10).entries.len(), 2);
        assert_eq!(kept.entries(None, Some(1), 10).entries[0].number, 2);
        assert_eq!(kept.entries(Some("shop"), None, 10).entries.len(), 1);
        assert!(kept.of_node("n").entries.is_empty());
    }
}
