//! Lets a leader that is unable to do its work release the Lease if another replica is ready.
//!
//! [`headgate_core::leadership::ability`] contains the rule. This module lists the other ready replicas, only during a
//! problem and at most once every few seconds. The result is reported in a log line, an Event on the replica's own pod,
//! a metric, and a line of the probes' answers.

use std::{sync::Arc, time::Duration};

use headgate_core::{
    Moment, Reason,
    leadership::{ability::Trouble, lease::Lease},
    model::{
        excerpt::brief,
        notice::{About, Notice},
    },
};
use tracing::{info, warn};

use super::{events, replicas::Replicas};
use crate::{
    metrics::Metrics,
    runtime::{
        authority::Unable,
        troubles::{Troubles, why},
    },
};

/// The minimum time between two lists of the other replicas.
const AGAIN: Duration = Duration::from_secs(5);

/// Decides whether this replica should release the Lease.
pub struct Handover {
    troubles: Troubles,
    replicas: Replicas,
    notices: events::Sender,
    metrics: Arc<Metrics>,
    next: Moment,
    /// The last report, and the end of this replica's backoff if there is one.
    unable: Option<Unable>,
}

impl Handover {
    /// Creates the state of a replica without problems.
    pub fn new(
        troubles: Troubles,
        replicas: Replicas,
        notices: events::Sender,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { troubles, replicas, notices, metrics, next: Moment::START, unable: None }
    }

    /// The problem that the probes show, if there is one.
    pub fn unable(&self) -> Option<Unable> {
        self.unable.clone()
    }

    /// Decides whether the leader must release the Lease now. Returns the reason and the length of the leader's
    /// backoff. `by` is the timeout of the list of replicas.
    pub async fn decide(
        &mut self,
        lease: &Lease,
        by: Duration,
        now: impl Fn() -> Moment,
    ) -> Option<(Reason, Duration)> {
        let Some(trouble) = self.troubles.present(now()) else {
            self.over();
            return None;
        };
        if now() < self.next {
            return None;
        }
        self.next = now() + AGAIN;
        let others = self.replicas.others(by).await;
        let now = now();
        let able = others.as_ref().map_or(0, |pods| pods.iter().filter(|pod| !lease.rests(pod, now)).count());
        let reason = trouble.reason();
        let Some((_, pause)) = self.troubles.step_down(able, now) else {
            self.leads_on(trouble, others);
            return None;
        };
        self.unable = Some(Unable { reason, since: trouble.since(), until: Some(now + pause) });
        self.metrics.gives_lease_back(reason);
        let seconds = pause.as_secs();
        self.say(format!(
            "Lease released, because {}. Another replica can lead; this one backs off for {seconds} s. Check its log and the \
             access to AWS and Kubernetes.",
            why(reason)
        ));
        Some((reason, pause))
    }

    /// Records that this replica is not the leader.
    pub fn stands_by(&mut self, now: Moment) {
        if self.unable.as_ref().is_some_and(|unable| unable.until.is_none_or(|until| until <= now)) {
            self.over();
        }
    }

    fn over(&mut self) {
        if let Some(unable) = self.unable.take() {
            self.metrics.cannot_lead(false);
            info!(reason = %unable.reason, "this replica can lead again");
        }
    }

    fn leads_on(&mut self, trouble: Trouble, others: Result<Vec<Box<str>>, String>) {
        let (reason, since) = (trouble.reason(), trouble.since());
        if self.unable.as_ref().is_some_and(|told| told.reason == reason && told.until.is_none()) {
            return;
        }
        self.unable = Some(Unable { reason, since, until: None });
        let because = match others {
            Ok(pods) if pods.is_empty() => "no other replica is Ready".to_owned(),
            Ok(_) => "no other replica can lead either".to_owned(),
            Err(error) => format!("the other replicas cannot be read ({})", brief(&error)),
        };
        let note = format!(
            "Still leader although {}, because {because}. Check the log and the access to AWS and Kubernetes.",
            why(reason)
        );
        // The task that detected the problem has already logged it.
        info!(reason = %Reason::CannotLead, "{note}");
        self.tell(note);
    }

    fn say(&self, note: String) {
        warn!(reason = %Reason::CannotLead, "{note}");
        self.tell(note);
    }

    fn tell(&self, note: String) {
        self.metrics.cannot_lead(true);
        let Some((pod, uid)) = self.replicas.own() else { return };
        let notice = Notice { about: About::Pod(pod, uid), reason: Reason::CannotLead, note };
        if !self.notices.send(notice) {
            self.metrics.event_dropped();
        }
    }
}
