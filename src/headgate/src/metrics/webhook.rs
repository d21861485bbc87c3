//! The metrics of the webhooks: their answers and their certificate.

use std::time::Duration;

use headgate_core::model::injection::Decision;
use prometheus_client::metrics::histogram::Histogram;

use super::{
    Metrics,
    labels::{DecisionLabel, StatusLabel},
    page::{Counters, FAST, Number, Page},
};

#[derive(Debug)]
pub(super) struct Webhook {
    requests: Counters<StatusLabel>,
    request_duration: Histogram,
    injections: Counters<DecisionLabel>,
    certificate_end: Number,
}

impl Webhook {
    pub(super) fn register(page: &mut Page) -> Self {
        Self {
            requests: page.counters("webhook_requests", "Requests to the webhooks by HTTP status"),
            request_duration: page.histogram(
                "webhook_request_duration",
                FAST,
                "Duration of requests to the webhooks",
            ),
            injections: page.counters(
                "injections",
                "Decisions of the webhook about new pods, counted once for each pod, without dry runs",
            ),
            certificate_end: page.gauge(
                "webhook_certificate_end_timestamp_seconds",
                "Expiry of this replica's webhook certificate in seconds since 1970; 0 without a certificate",
            ),
        }
    }
}

impl Metrics {
    /// Counts an answer of a webhook, by HTTP status.
    pub fn webhook_answered(&self, status: u16, took: Duration) {
        self.webhook.requests.get_or_create(&StatusLabel { status }).inc();
        self.webhook.request_duration.observe(took.as_secs_f64());
    }

    /// Counts the decisions about a new pod.
    pub fn injected(&self, decisions: &[Decision]) {
        for decision in decisions {
            self.webhook.injections.get_or_create(&DecisionLabel { decision: decision.as_str() }).inc();
        }
    }

    /// Sets the expiry of the served certificate, in seconds since 1970.
    pub fn certificate_ends(&self, at: i64) {
        #[allow(clippy::cast_precision_loss)] // the value is exact until the year 285 million
        self.webhook.certificate_end.set(at as f64);
    }
}
