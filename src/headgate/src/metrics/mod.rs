//! The metrics, in the OpenMetrics format.
//!
//! Each is declared once, in the file of its concern: its name, its help text and, by its type, its labels.
//! `docs/metrics.md` lists them as they are declared; `make docs` writes that list.

mod aws;
mod cluster;
mod connections;
mod counted;
#[cfg(test)]
mod docs;
mod labels;
mod leader;
mod leaving;
mod page;
mod pods;
#[cfg(test)]
mod tests;
mod webhook;

use std::{fmt, sync::Arc};

pub use self::page::Declared;
use self::{
    aws::Calls,
    cluster::Cluster,
    connections::Connections,
    leader::{Leader, Stored},
    leaving::Leaving,
    page::Page,
    pods::{Changes, Readiness},
    webhook::Webhook,
};
use crate::runtime::views::Views;

/// All metrics of the program.
#[derive(Debug)]
pub struct Metrics {
    changes: Changes,
    calls: Calls,
    cluster: Cluster,
    leader: Leader,
    webhook: Webhook,
    stored: Stored,
    readiness: Readiness,
    leaving: Leaving,
    connections: Connections,
    page: Page,
}

impl Metrics {
    /// The metrics; those of bindings and target groups are read from `views` when they are asked for.
    pub fn new(views: Arc<Views>) -> Self {
        let mut page = Page::default();
        // They are served and listed in this order.
        Self {
            changes: Changes::register(&mut page),
            calls: Calls::register(&mut page),
            cluster: Cluster::register(&mut page),
            leader: Leader::register(&mut page),
            webhook: Webhook::register(&mut page),
            stored: Stored::register(&mut page),
            readiness: Readiness::register(&mut page),
            leaving: Leaving::register(&mut page),
            connections: Connections::register(&mut page),
            page: counted::register(page, views),
        }
    }

    /// The page at `/metrics`.
    ///
    /// # Errors
    /// Only if a metric cannot be formatted.
    pub fn page(&self) -> Result<String, fmt::Error> {
        self.page.text()
    }

    /// What the page may show: every metric, also those that have no sample yet.
    pub fn declared(&self) -> &[Declared] {
        self.page.declared()
    }
}
