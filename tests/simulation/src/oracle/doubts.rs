//! What a list or a watch has said to be gone of one kind of object, and is not gone yet for all that was said.

use std::{collections::BTreeSet, time::Duration};

use headgate_core::model::Moment;

/// Deletions that are said within so long of each other may be one mistake.
const A_MOMENT: Duration = Duration::from_secs(3);

/// See the module.
#[derive(Debug)]
pub struct Doubts<K> {
    patience: Duration,
    /// What is taken to be there, until when, and whether most are said to be gone.
    open: Vec<(K, Moment, bool)>,
    /// What a watch has taken away a moment ago.
    went: Vec<(K, Moment)>,
    /// A list is asked for in this step.
    pub asks: bool,
}

impl<K: Ord + Clone> Doubts<K> {
    pub fn new(patience: Duration) -> Self {
        Self { patience, open: Vec::new(), went: Vec::new(), asks: false }
    }

    /// A watch, or a list, has it.
    pub fn shows(&mut self, key: &K) {
        self.open.retain(|(open, ..)| open != key);
        self.went.retain(|(went, _)| went != key);
    }

    /// How many are taken to be there although they were said to be gone.
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// A watch says that one of `there` is gone, with those that are taken to be. Says whether it is.
    pub fn deleted(&mut self, key: &K, there: usize, now: Moment, seen: &mut Vec<&'static str>) -> bool {
        if self.patience.is_zero() {
            return true;
        }
        if self.open.iter().any(|(open, ..)| open == key) {
            return false;
        }
        self.went.retain(|(_, at)| now < *at + A_MOMENT);
        let gone = self.went.len() + self.open.len() + 1;
        if gone == 1 {
            self.went.push((key.clone(), now));
            return true;
        }
        let is_most = gone > self.went.len() + there - gone;
        if !is_most {
            seen.push("watch: a few deleted within a moment");
            self.open.push((key.clone(), now + A_MOMENT, false));
            return false;
        }
        seen.push("watch: most deleted within a moment");
        self.asks |= !self.open.iter().any(|(.., most)| *most);
        self.open.push((key.clone(), now, false));
        for (_, until, most) in self.open.iter_mut().filter(|(.., most)| !most) {
            (*until, *most) = (now + self.patience, true);
        }
        false
    }

    /// A list has these of all that were `there`. Gives those that are gone.
    pub fn listed(
        &mut self,
        list: &BTreeSet<K>,
        there: &BTreeSet<K>,
        now: Moment,
        seen: &mut Vec<&'static str>,
    ) -> BTreeSet<K> {
        let missing: BTreeSet<K> = there.difference(list).cloned().collect();
        let is_most = missing.len() >= 2 && missing.len() > there.len() - missing.len();
        let before: BTreeSet<K> = self.open.drain(..).map(|(key, ..)| key).collect();
        self.went.clear();
        if before.iter().any(|key| list.contains(key)) {
            seen.push("list: contradicts what was said to be gone");
        }
        if before.iter().any(|key| missing.contains(key)) {
            seen.push("list: confirms what was said to be gone");
        }
        if !is_most || self.patience.is_zero() {
            return missing;
        }
        let (gone, doubted): (BTreeSet<K>, BTreeSet<K>) =
            missing.into_iter().partition(|key| before.contains(key));
        self.asks |= !doubted.is_empty();
        self.open.extend(doubted.into_iter().map(|key| (key, now + self.patience, true)));
        gone
    }

    /// Time has passed. Gives those that are gone.
    pub fn pass(&mut self, now: Moment) -> Vec<K> {
        let over = self.open.extract_if(.., |(_, until, _)| *until <= now);
        over.map(|(key, ..)| key).collect()
    }

    /// When [`Doubts::pass`] has something to do.
    pub fn next_due(&self) -> Option<Moment> {
        self.open.iter().map(|(_, until, _)| *until).min()
    }
}
