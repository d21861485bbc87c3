//! Counts the problems of `headgate status` for the metrics. Alerts and the command use the same code, so both report
//! the same reason at the same time.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};

use super::Metrics;

/// The reason of a problem, and the object that has it.
pub type Problem = (String, String);

type Source = Box<dyn Fn() -> Vec<Problem> + Send + Sync>;

/// Returns the present problems at each scrape. Without a source, there are no problems. Clones share the source.
#[derive(Clone, Default)]
pub(super) struct Said(Arc<OnceLock<Source>>);

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Said").field(&self.0.get().is_some()).finish()
    }
}

impl Said {
    /// The number of objects with each problem.
    pub(super) fn counted(&self) -> BTreeMap<Problem, usize> {
        let mut all = BTreeMap::new();
        for problem in self.0.get().map(|source| source()).unwrap_or_default() {
            *all.entry(problem).or_default() += 1;
        }
        all
    }
}

impl Metrics {
    /// Sets the function that returns the problems. Only the first call has an effect.
    pub fn asks_what_is_wrong(&self, source: impl Fn() -> Vec<Problem> + Send + Sync + 'static) {
        let _ = self.said.0.set(Box::new(source));
    }
}
