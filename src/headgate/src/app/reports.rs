//! Reports each request in logs, metrics and Events, once when it is sent and once with its result.

use std::{fmt::Display, sync::Arc};

use headgate_core::{
    Answer, Call, CallItem, Cause, Failure, FailureClass, Moment, Origin, Reason, Request,
    ledger::LedgerRequest,
    model::{
        HealthState, Transition,
        eviction::{Checked, MarkWrite},
        gate::GateWrite,
        leaving::{Asked, Mark},
        node::DetachedWrite,
        notice::{About, Notice},
        target_group::list,
        transition::TargetStep,
    },
};
use tokio::sync::watch;
use tracing::{debug, error, info, warn};

use super::carrier::{Ended, NOT_SENT};
use crate::{
    aws::reach::{Reach, Said, Trouble, Verdict},
    kube::events,
    metrics::Metrics,
    runtime::{
        authority::Authority,
        clock::Clock,
        outage::{Spelled, What},
        troubles::Troubles,
        views::Views,
    },
};

/// The maximum number of objects that get an Event if AWS is unreachable, because such an outage affects all objects.
const TOLD_OF_AWS: usize = 10;

/// The destinations of reports, and the last reported problems.
pub struct Reports {
    /// The time.
    pub clock: Clock,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// Whether AWS answers.
    pub reach: Reach,
    /// Publishes the reason why AWS does not answer.
    pub out_of_reach: watch::Sender<Option<Trouble>>,
    /// The last reported error of the TargetLedgers.
    pub ledgers: Option<Failure>,
    /// Whether this replica is the leader.
    pub authority: Authority,
    /// The queue of Events.
    pub notices: events::Sender,
    /// The views for readers.
    pub views: Arc<Views>,
    /// The failures that prevent this replica from leading.
    pub troubles: Troubles,
}

impl Reports {
    /// Reports a notice to the user.
    pub fn notice(&self, notice: &Notice) {
        let (kind, object, uid): (_, &dyn Display, _) = match &notice.about {
            About::Service(key, uid) => ("service", key, uid),
            About::TargetBinding(key, uid) => ("targetbinding", key, uid),
            About::Pod(key, uid) => ("pod", key, uid),
            About::Grant(name, uid) => ("targetgroupgrant", name, uid),
            About::IngressDaemonSet(key, uid) => ("ingressdaemonset", key, uid),
        };
        // A tenant may have thousands of invalid objects, so the log contains at most one line for each Event.
        let (reason, note) = (notice.reason, &notice.note);
        if self.write(notice.clone()) {
            warn!(%reason, kind, %object, %uid, "{note}");
        } else {
            debug!(%reason, kind, %object, %uid, "{note}");
        }
    }

    /// Reports a change as a Normal Event, if users look for such an Event on the pod.
    pub fn happened(&self, what: &Transition) {
        let Transition::Target(group, target, pod, step) = what else { return };
        let name = group.name();
        let (reason, note) = match step {
            TargetStep::Registered => {
                (Reason::TargetRegistered, format!("Target {target}: registered in target group {name}."))
            }
            TargetStep::Shown(None | Some(HealthState::Initial), Some(health))
                if health.state == HealthState::Healthy =>
            {
                (Reason::TargetsHealthy, format!("Target {target}: healthy in target group {name}."))
            }
            TargetStep::Deregistered => (
                Reason::TargetDeregistered,
                format!("Target {target}: deregistered from target group {name}."),
            ),
            _ => return,
        };
        // Warnings have priority when many Events are queued.
        if self.notices.has_room() {
            let about = About::Pod(pod.pod.clone(), pod.uid.clone());
            self.write(Notice { about, reason, note });
        }
    }

    fn write(&self, notice: Notice) -> bool {
        self.metrics.noticed(notice.reason);
        let is_written = self.notices.send(notice);
        if !is_written {
            self.metrics.event_dropped();
        }
        is_written
    }

    /// Records that a call is about to be sent.
    pub fn sends(&self, call: &Call, sent: Moment) {
        let (verb, group, items) = match call {
            Call::Register { group, items } => ("registering", group, items),
            Call::Deregister { group, items } => ("deregistering", group, items),
            Call::ReadHealth { group } => return debug!(group = group.name(), "reading"),
            Call::FindGroups { references } => return debug!(references = list(references), "looking up"),
            Call::ReadAttributes { group } => return debug!(group = group.name(), "reading attributes"),
        };
        for item in items {
            let wait = sent.since(item.since);
            if item.attempt == 1 {
                match item.reason {
                    Cause::PodHasIp => self.metrics.registering(wait),
                    Cause::PodTerminating | Cause::PodDeleted | Cause::PodMissing | Cause::PodFinished => {
                        self.metrics.deregistering(wait);
                    }
                    _ => {}
                }
            }
            info!(
                reason = %item.reason.reason(),
                why = item.reason.detail(),
                pod = %item.pod,
                uid = %item.uid,
                target = %item.target,
                group = group.name(),
                attempt = item.attempt,
                wait_ms = wait.as_secs_f64() * 1000.0,
                "{verb}"
            );
        }
    }

    /// Records that a request has ended.
    pub fn ended(&mut self, ended: &Ended) {
        let Ended { request, sent, result, .. } = ended;
        let failure = result.as_ref().err();
        match request {
            Request::Call(call) => self.call_ended(call, *sent, result),
            Request::Ledger(request) => self.ledger_answered(request, *sent, failure),
            Request::Gate(write) => self.gate_written(write, *sent, failure),
            Request::Mark(write) => marked(write, failure),
            Request::Detached(write) => detached(write, failure),
            Request::Check(check) => {
                let (pod, uid) = (&check.pod, &check.uid);
                match result {
                    Ok(Answer::Checked(Checked { refused: Some(by), .. })) => {
                        debug!(%pod, %uid, "its eviction would wait: {by}");
                    }
                    Ok(_) => debug!(%pod, %uid, "its eviction would be allowed"),
                    Err(failure) if failure.class == FailureClass::Gone => {
                        debug!(%pod, %uid, "its eviction was checked, and the pod does not exist");
                    }
                    Err(failure) => {
                        debug!(%pod, %uid, error = %failure.message, "cannot check whether it may be evicted");
                    }
                }
            }
        }
    }

    fn gate_written(&self, write: &GateWrite, sent: Moment, failure: Option<&Failure>) {
        let GateWrite { pod, uid, condition, .. } = write;
        let took_ms = self.clock.since(sent).as_secs_f64() * 1000.0;
        let outcome = outcome(failure);
        self.metrics.gate_written(outcome);
        let (reason, open) = (condition.reason.reason(), condition.open);
        match failure {
            Some(failure) if failure.class != FailureClass::Gone => warn!(
                %reason, %pod, %uid, open, outcome, took_ms, error = %failure.message,
                "cannot write a readiness gate; retrying"
            ),
            None if condition.turns => {
                info!(%reason, %pod, %uid, open, took_ms, "readiness gate: {}", condition.message);
            }
            _ => {
                debug!(%reason, %pod, %uid, open, outcome, took_ms, "readiness gate: {}", condition.message);
            }
        }
    }

    fn ledger_answered(&mut self, request: &LedgerRequest, sent: Moment, failure: Option<&Failure>) {
        let (verb, took, outcome) = (request.verb(), self.clock.since(sent), outcome(failure));
        self.metrics.ledger_answered(verb, outcome, took);
        match failure {
            // A conflict is normal, because another writer was faster.
            Some(Failure { class: FailureClass::Conflict | FailureClass::Gone, .. }) | None => {
                debug!(verb, outcome, took_ms = took.as_secs_f64() * 1000.0, "ledger");
                if failure.is_none() && self.ledgers.take().is_some() {
                    info!(verb, "the ledgers can be reached again");
                }
            }
            // A failure is logged when it begins and when it changes, not at each retry.
            Some(failure) => {
                if self.ledgers.as_ref() != Some(failure) {
                    warn!(
                        verb, reason = outcome, error = %failure.message,
                        "cannot read or write the ledgers; retrying. Headgate registers nothing until then"
                    );
                }
                self.ledgers = Some(failure.clone());
            }
        }
    }

    fn call_ended(&mut self, call: &Call, sent: Moment, result: &Result<Answer, Failure>) {
        let took = self.clock.since(sent);
        let outcome = match result {
            Ok(_) => "ok",
            Err(failure) => failure.class.reason().as_str(),
        };
        self.metrics.called(call.action(), outcome, took);
        let took_ms = took.as_secs_f64() * 1000.0;
        let is_told = self.hear_of_aws(call, result);
        match (call, result) {
            (_, Err(failure)) if is_told => debug!(
                action = call.action(), reason = outcome, code = %failure.code, took_ms,
                "failed, tried again: {}", failure.message
            ),
            (Call::Register { group, items } | Call::Deregister { group, items }, Ok(_)) => {
                info!(
                    action = call.action(),
                    group = group.name(),
                    targets = items.len(),
                    took_ms,
                    "answered"
                );
            }
            (Call::Register { group, items } | Call::Deregister { group, items }, Err(failure)) => {
                for CallItem { target, pod, uid, .. } in items {
                    error!(
                        action = call.action(), group = group.name(), %pod, %uid, %target,
                        reason = outcome, code = %failure.code, took_ms, "failed, tried again: {}", failure.message
                    );
                }
            }
            (Call::ReadHealth { group }, Err(failure)) => warn!(
                action = call.action(), group = group.name(), reason = outcome, code = %failure.code, took_ms,
                "failed, tried again: {}", failure.message
            ),
            (Call::FindGroups { references }, Err(failure)) => debug!(
                action = call.action(), references = list(references), reason = outcome, code = %failure.code, took_ms,
                "failed, tried again: {}", failure.message
            ),
            (Call::ReadAttributes { group }, Err(failure)) => debug!(
                action = call.action(), group = group.name(), reason = outcome, code = %failure.code, took_ms,
                "failed, tried again: {}", failure.message
            ),
            (_, Ok(_)) => {}
        }
    }

    /// Records a call's result. Returns whether the failure belongs to an outage that was already reported.
    fn hear_of_aws(&mut self, call: &Call, result: &Result<Answer, Failure>) -> bool {
        let result = match result {
            Err(failure) if &*failure.code == NOT_SENT => return false,
            Err(failure) => Err(failure),
            Ok(_) => Ok(()),
        };
        let Verdict { said, obstacle, is_told } = self.reach.ended(call, result, self.clock.now());
        if let Some(obstacle) = obstacle {
            self.metrics.aws_out_of_reach(&obstacle);
        }
        self.mind_troubles(call, result.err());
        let trouble = self.reach.trouble();
        self.metrics.aws_reachable(trouble.is_none());
        self.out_of_reach.send_if_modified(|known| {
            let changed = known.as_ref() != trouble;
            if changed {
                *known = trouble.cloned();
            }
            changed
        });
        if let Some(said) = said {
            self.say_of_aws(&said);
        }
        is_told
    }

    /// Records whether all calls or all deregistrations fail, because such a failure prevents this replica from
    /// leading.
    fn mind_troubles(&self, call: &Call, failure: Option<&Failure>) {
        let now = self.clock.now();
        let out = self.reach.trouble().map(|trouble| trouble.reason);
        for cause in [Cause::AwsUnreachable, Cause::NoAwsCredentials] {
            match failure {
                Some(_) if out == Some(cause.reason()) => self.troubles.failed(cause, "", now),
                _ => self.troubles.worked(cause, ""),
            }
        }
        if let Call::Deregister { .. } = call {
            match failure {
                // A call that AWS rejects or denies would fail on every replica.
                Some(failure) if failure.class == FailureClass::Unavailable => {
                    self.troubles.failed(Cause::RemovalsFail, "", now);
                }
                _ => self.troubles.worked(Cause::RemovalsFail, ""),
            }
        }
    }

    fn say_of_aws(&self, said: &Said) {
        let (reason, failures) = (said.reason, said.told.failures);
        let lasted = Spelled(said.told.lasted);
        let with_time = |sentence: &str| match said.told.what {
            What::Begins | What::Changed => sentence.to_owned(),
            What::GoesOn => format!("For {lasted} now: {sentence}"),
            What::Over => format!("{sentence}, after {lasted}"),
        };
        if said.told.what == What::Over {
            info!(%reason, failures, "{}", with_time(&said.sentence));
        } else {
            warn!(%reason, failures, "{}", with_time(&said.sentence));
        }
        let Some(short) = said.short.as_deref().filter(|_| self.authority.term().is_some()) else { return };
        let note = with_time(short);
        // Users who wait for a target look at the Service or TargetBinding.
        let waiting = self.views.all_origins();
        for view in waiting.iter().filter(|view| view.exists).take(TOLD_OF_AWS) {
            let about = match &view.origin {
                Origin::Service(key) => About::Service(key.clone(), view.uid.clone()),
                Origin::TargetBinding(key) => About::TargetBinding(key.clone(), view.uid.clone()),
            };
            self.write(Notice { about, reason, note: note.clone() });
        }
    }
}

/// The outcome of a request as shown in the metrics.
fn outcome(failure: Option<&Failure>) -> &'static str {
    failure.map_or("ok", |failure| failure.class.as_str())
}

fn marked(write: &MarkWrite, failure: Option<&Failure>) {
    let MarkWrite { pod, uid, mark, .. } = write;
    let (reason, said) = match mark {
        Mark::Asked(Asked { early: true, .. }) => {
            (Reason::NodeDisrupted, "eviction pending, because its node is being removed")
        }
        Mark::Asked(_) => (Reason::EvictionWaits, "eviction pending"),
        Mark::Waits { reason, .. } => (reason.reason(), "eviction waits"),
        Mark::Deregistered { .. } => (Reason::PodEvicting, "its targets are deregistered"),
        Mark::MayGo { reason, .. } => (reason.reason(), "eviction allowed"),
        Mark::Undone => (Reason::RegisteredAgain, "eviction abandoned"),
        Mark::Disbelieved => {
            (Reason::LeavingNotCredible, "eviction annotations are not plausible, removing them")
        }
        Mark::Stays => (Reason::RegisteredAgain, "its node remains, so the pod is not evicted"),
    };
    match failure {
        None => info!(%reason, %pod, %uid, "leaving: {said}"),
        Some(Failure { class: FailureClass::Gone, .. }) => {
            info!(%reason, %pod, %uid, "leaving: {said}; the pod was deleted");
        }
        Some(Failure { message, .. }) => {
            warn!(%reason, %pod, %uid, error = %message, "leaving: {said}; cannot annotate the pod");
        }
    }
}

fn detached(write: &DetachedWrite, failure: Option<&Failure>) {
    let (node, is_detached) = (&write.node, write.at.is_some());
    let said = if is_detached {
        "wrote on the node that no load balancer sends to its pods any more"
    } else {
        "this node remains, or load balancers send to it: it no longer counts as detached"
    };
    match failure {
        None => info!(%node, is_detached, "{said}"),
        Some(Failure { class: FailureClass::Gone, .. }) => {
            debug!(%node, is_detached, "{said}; the node was deleted");
        }
        Some(Failure { message, .. }) => warn!(
            %node, is_detached, error = %message,
            "{said}; cannot write on the Node, retrying. Grant Headgate patch on nodes in a ClusterRole"
        ),
    }
}

/// Logs the calls that Headgate would send without the pause or `--read-only`.
pub fn planned(call: &Call) {
    let (verb, group, items) = match call {
        Call::Register { group, items } => ("would register, but is paused", group, items),
        Call::Deregister { group, items } => ("would deregister, but is paused", group, items),
        Call::ReadHealth { .. } | Call::FindGroups { .. } | Call::ReadAttributes { .. } => return,
    };
    for item in items {
        let (cause, pod, target) = (item.reason, &item.pod, item.target);
        info!(reason = %cause.reason(), why = cause.detail(), %pod, uid = %item.uid, %target, group = group.name(), "{verb}");
    }
}
