//! What happens when, in worlds whose time jumps to whatever comes next.

use std::collections::BTreeMap;

use headgate_core::Moment;

/// What is to happen, by its time. Of what happens at one moment, what was put first comes first.
#[derive(Debug)]
pub struct Timeline<T> {
    events: BTreeMap<(Moment, u64), T>,
    put: u64,
}

impl<T> Default for Timeline<T> {
    fn default() -> Self {
        Self { events: BTreeMap::new(), put: 0 }
    }
}

impl<T> Timeline<T> {
    /// This happens then.
    pub fn put(&mut self, at: Moment, what: T) {
        self.put += 1;
        self.events.insert((at, self.put), what);
    }

    /// When the next one happens.
    pub fn next(&self) -> Option<Moment> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next one, if it happens by `now`.
    pub fn take(&mut self, now: Moment) -> Option<T> {
        self.next().filter(|at| *at <= now)?;
        self.events.pop_first().map(|(_, what)| what)
    }

    /// Only these happen after all.
    pub fn retain(&mut self, holds: impl Fn(&T) -> bool) {
        self.events.retain(|_, what| holds(what));
    }
}
