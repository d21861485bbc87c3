//! The source of problems for the metrics: the code that makes `headgate status`. An alert and the command therefore
//! show the same reason at the same time.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};

use super::Metrics;

/// A reason and its object.
pub type Problem = (String, String);

type Source = Box<dyn Fn() -> Vec<Problem> + Send + Sync>;

/// The problems, which are read at each scrape. Empty before there is a source. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Said(Arc<OnceLock<Source>>);

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Said").field(&self.0.get().is_some()).finish()
    }
}

impl Said {
    /// The number of each problem.
    pub(super) fn counted(&self) -> BTreeMap<Problem, usize> {
        let mut all = BTreeMap::new();
        for problem in self.0.get().map(|source| source()).unwrap_or_default() {
            *all.entry(problem).or_default() += 1;
        }
        all
    }
}

impl Metrics {
    /// Sets the source of the problems. Only the first call has an effect.
    pub fn asks_what_is_wrong(&self, source: impl Fn() -> Vec<Problem> + Send + Sync + 'static) {
        let _ = self.said.0.set(Box::new(source));
    }
}
