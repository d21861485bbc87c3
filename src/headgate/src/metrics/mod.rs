//! The metrics, in the OpenMetrics format and in the Prometheus text format.
//!
//! Each metric is declared once, in the file for its topic, with its name, help text and labels.
//! `docs/reference/metrics.md` lists the metrics in the order of declaration, and `make docs` writes that list.

mod aws;
mod cluster;
mod connections;
mod counted;
mod daemonsets;
#[cfg(test)]
mod docs;
mod format;
mod labels;
mod leader;
mod leaving;
mod level;
mod page;
mod pods;
mod process;
mod said;
#[cfg(test)]
mod tests;
mod webhook;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use axum::body::Bytes;
use headgate_core::Moment;

use self::{
    aws::Calls,
    cluster::Cluster,
    connections::Connections,
    daemonsets::Daemonsets,
    leader::{Leader, Leases, Stored},
    leaving::Leaving,
    page::Page,
    pods::{Changes, Readiness},
    said::Said,
    webhook::Webhook,
};
pub use self::{daemonsets::SetCounts, format::Format, level::Level, page::Declared};
use crate::runtime::{clock::Clock, views::Views};

/// All metrics of the program.
#[derive(Debug)]
pub struct Metrics {
    changes: Changes,
    calls: Calls,
    cluster: Cluster,
    leader: Leader,
    webhook: Webhook,
    leases: Leases,
    stored: Stored,
    readiness: Readiness,
    leaving: Leaving,
    connections: Connections,
    /// Whether this replica is the leader. Some metrics are only on the leader's page, because only the leader has
    /// their values.
    leads: Arc<AtomicBool>,
    said: Said,
    daemonsets: Daemonsets,
    page: Page,
    shared: Shared,
}

/// How long the program reuses a page for all clients. A thousand clients then cause as much work as one client, and
/// only one page is in memory.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// The last page in each format, and the time when it was created.
#[derive(Debug)]
struct Shared {
    clock: Clock,
    pages: Mutex<BTreeMap<Format, (Moment, Bytes)>>,
}

impl Shared {
    fn new(clock: Clock) -> Self {
        Self { clock, pages: Mutex::default() }
    }
}

impl Metrics {
    /// Creates the metrics of `headgate run`. The metrics of bindings and target groups are computed from `views` at
    /// each scrape.
    pub fn new(views: Arc<Views>, clock: Clock, level: Level) -> Self {
        let mut page = Page::new(level);
        let leads: Arc<AtomicBool> = Arc::default();
        let said = Said::default();
        let daemonsets = Daemonsets::register(&mut Page::new(level));
        page.build_info();
        // The order of declaration determines the order on the page.
        Self {
            changes: Changes::register(&mut page),
            calls: Calls::register(&mut page),
            cluster: Cluster::register(&mut page),
            leader: Leader::register(&mut page),
            webhook: Webhook::register(&mut page),
            leases: Leases::register(&mut page),
            stored: Stored::register(&mut page),
            readiness: Readiness::register(&mut page),
            leaving: Leaving::register(&mut page),
            connections: Connections::register(&mut page),
            page: process::register(counted::register(page, views, clock, leads.clone(), said.clone())),
            leads,
            said,
            daemonsets,
            shared: Shared::new(clock),
        }
    }

    /// Creates the metrics of `headgate daemonsets`. The metrics of `headgate daemonsets` have their own names, so that
    /// sums over the replicas of one program exclude the other program. `sets` returns the counts of each set.
    pub fn of_daemonsets(
        clock: Clock,
        level: Level,
        sets: impl Fn() -> Vec<SetCounts> + Send + Sync + 'static,
    ) -> Self {
        let mut page = Page::of(daemonsets::PREFIX, level);
        let leads: Arc<AtomicBool> = Arc::default();
        page.build_info();
        let its = Self {
            cluster: Cluster::register(&mut page),
            leader: Leader::register(&mut page),
            leases: Leases::register(&mut page),
            connections: Connections::register(&mut page),
            daemonsets: Daemonsets::register(&mut page),
            leads: leads.clone(),
            ..Self::new(Arc::default(), clock, level)
        };
        Self { page: process::register(daemonsets::counted(page, leads, sets)), ..its }
    }

    /// The page at `/metrics`, which is created at most once per second and shared by all clients.
    ///
    /// # Errors
    /// A metric cannot be formatted.
    pub fn shared_page(&self, format: Format) -> Result<Bytes, fmt::Error> {
        let mut pages = self.shared.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.shared.clock.now();
        if let Some((_, page)) = pages.get(&format).filter(|(made, _)| now.since(*made) < SHARED_FOR) {
            return Ok(page.clone());
        }
        let page = Bytes::from(self.page(format)?);
        pages.insert(format, (now, page.clone()));
        Ok(page)
    }

    /// Creates the page.
    ///
    /// # Errors
    /// A metric cannot be formatted.
    pub fn page(&self, format: Format) -> Result<String, fmt::Error> {
        self.page.text(format)
    }

    /// All declared metrics of every level, including metrics without a sample.
    pub fn declared(&self) -> &[Declared] {
        self.page.declared()
    }
}
