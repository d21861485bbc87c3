//! The metrics of leadership, and of Headgate's own objects in Kubernetes: the Lease and the TargetLedgers.

use std::{sync::atomic::Ordering, time::Duration};

use headgate_core::Reason;

use super::{
    Metrics,
    labels::{ReasonLabel, RequestLabels, VerbLabel},
    page::{Counters, Histograms, Number, Page, flag},
};

#[derive(Debug)]
pub(super) struct Leader {
    leads: Number,
    lease_conflict: Number,
    cannot_lead: Number,
}

impl Leader {
    pub(super) fn register(page: &mut Page) -> Self {
        Self {
            leads: page.gauge("leader", "1 while this replica is the leader"),
            lease_conflict: page.gauge(
                "lease_conflict",
                "1 while another installation, with other namespaces, holds the \
                                          Lease",
            ),
            cannot_lead: page.gauge(
                "cannot_lead",
                "1 while this replica cannot lead, or backs off because it could not lead (CannotLead)",
            ),
        }
    }
}

/// The metrics of requests for the Lease.
#[derive(Debug)]
pub(super) struct Leases {
    failures: Counters<VerbLabel>,
    given_back: Counters<ReasonLabel>,
}

impl Leases {
    pub(super) fn register(page: &mut Page) -> Self {
        Self {
            failures: page.counters("lease_failures", "Failed Lease requests by verb"),
            given_back: page.counters(
                "lease_given_back",
                "Releases of the Lease because this replica could not lead, by reason: RemovalsFail, \
                 WatchesFail, AwsUnreachable, NoAwsCredentials",
            ),
        }
    }
}

/// The metrics of requests for the TargetLedgers.
#[derive(Debug)]
pub(super) struct Stored {
    ledger_requests: Counters<RequestLabels>,
    ledger_request_duration: Histograms<VerbLabel>,
}

impl Stored {
    pub(super) fn register(page: &mut Page) -> Self {
        Self {
            ledger_requests: page.counters(
                "ledger_requests",
                "TargetLedger requests by verb and outcome: ok, Conflict, Gone, Throttled, Unavailable, \
                 Denied, Refused",
            ),
            ledger_request_duration: page.histograms(
                "ledger_request_duration",
                "Duration of TargetLedger requests; a registration waits for its ledger",
            ),
        }
    }
}

impl Metrics {
    /// Sets whether this replica is the leader.
    pub fn leads(&self, leads: bool) {
        self.leads.store(leads, Ordering::Relaxed);
        self.leader.leads.set(flag(leads));
    }

    /// Sets whether another installation holds the Lease.
    pub fn lease_is_anothers(&self, is: bool) {
        self.leader.lease_conflict.set(flag(is));
    }

    /// Sets whether a failure prevents this replica from leading.
    pub fn cannot_lead(&self, is: bool) {
        self.leader.cannot_lead.set(flag(is));
    }

    /// Counts a release of the Lease because this replica cannot lead.
    pub fn gives_lease_back(&self, reason: Reason) {
        self.leases.given_back.get_or_create(&ReasonLabel::of(reason)).inc();
    }

    /// Counts a failed request for the Lease.
    pub fn lease_failed(&self, verb: &'static str) {
        self.leases.failures.get_or_create(&VerbLabel { verb }).inc();
    }

    /// Counts a completed request for a TargetLedger.
    pub fn ledger_answered(&self, verb: &'static str, outcome: &'static str, took: Duration) {
        self.stored.ledger_requests.get_or_create(&RequestLabels { verb, outcome }).inc();
        self.stored.ledger_request_duration.get_or_create(&VerbLabel { verb }).observe(took.as_secs_f64());
    }
}
