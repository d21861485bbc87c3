//! The one task that owns the engine: inputs in, effects carried out. No locks, and it never waits for AWS, for
//! Kubernetes or for a reader.

use std::{sync::Arc, time::Duration};

use headgate_core::{
    Answer, Call, CallId, CallItem, Effect, Engine, Failure, Input, Moment, Reason,
    notice::{About, Notice},
};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::{
    admin::metrics::Metrics,
    app::{clock::Clock, pulse::Pulse, views::Views},
    aws::TargetGroups,
    kube::watch::Relists,
};

/// Inputs that may wait; a watch that is faster waits itself.
pub const INBOX: usize = 4096;
/// The pulse beats at least this often.
const IDLE: Duration = Duration::from_secs(5);
/// After being told to stop: how long calls in flight and removals that are due may take.
const FAREWELL: Duration = Duration::from_secs(5);

type Ended = (CallId, Call, Moment, Result<Answer, Failure>);

/// The owner. See the module.
pub struct Owner {
    /// The engine.
    pub engine: Engine,
    /// The time.
    pub clock: Clock,
    /// From the watches.
    pub inbox: mpsc::Receiver<Input>,
    /// Carries out calls.
    pub aws: TargetGroups,
    /// Events to be written.
    pub notices: mpsc::Sender<Notice>,
    /// For readers.
    pub views: Arc<Views>,
    /// For readers.
    pub metrics: Arc<Metrics>,
    /// For the probes.
    pub pulse: Arc<Pulse>,
    /// Lists of pods that are doubted.
    pub relists: Relists,
}

impl Owner {
    /// Runs until `stop`, and then until the calls in flight have ended, for [`FAREWELL`] at most.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), String> {
        let mut calls: JoinSet<Ended> = JoinSet::new();
        let mut leave_by: Option<Moment> = None;
        let mut was_synced = false;
        loop {
            let now = self.clock.now();
            let synced = self.engine.is_synced();
            if synced && !was_synced {
                info!(pods = self.engine.pod_count(), "every watch has listed all there is, ready");
            }
            was_synced = synced;
            self.pulse.beat(synced);
            self.metrics.known(self.engine.pod_count(), synced);
            if let Some(by) = leave_by
                && (calls.is_empty() || by <= now)
            {
                info!(unanswered = calls.len(), "the engine has stopped");
                return Ok(());
            }
            let idle = now + IDLE;
            let wakeup = self.engine.next_wakeup(now).map_or(idle, |due| due.min(idle));
            let wakeup = leave_by.map_or(wakeup, |by| by.min(wakeup));
            let input = tokio::select! {
                Some(input) = self.inbox.recv() => input,
                Some(ended) = calls.join_next() => match ended {
                    Ok(ended) => self.ended(ended),
                    Err(error) => return Err(format!("a call to AWS broke down: {error}")),
                },
                () = stop.cancelled(), if leave_by.is_none() => {
                    leave_by = Some(now + FAREWELL);
                    continue;
                }
                () = self.clock.sleep_until(wakeup) => Input::Tick,
            };
            for effect in self.engine.step(input, self.clock.now()) {
                self.carry_out(effect, leave_by.is_some(), &mut calls);
            }
        }
    }

    fn carry_out(&self, effect: Effect, leaving: bool, calls: &mut JoinSet<Ended>) {
        match effect {
            // Someone who leaves removes what must go, and begins nothing new.
            Effect::Call { call, .. } if leaving && !matches!(call, Call::Deregister { .. }) => {}
            Effect::Call { id, call } => {
                let sent = self.clock.now();
                let aws = self.aws.clone();
                let task_call = call.clone();
                calls.spawn(async move {
                    let result = aws.make(&task_call).await;
                    (id, task_call, sent, result)
                });
                self.report_sent(&call, sent);
            }
            // The engine asks for none of these yet.
            Effect::LoadLedgers { .. }
            | Effect::LoadLedger { .. }
            | Effect::WriteLedger { .. }
            | Effect::DropLedger { .. } => {}
            Effect::Notice(notice) => {
                let (kind, key) = match &notice.about {
                    About::Service(key, _) => ("service", key),
                    About::TargetBinding(key, _) => ("targetbinding", key),
                    About::Pod(key, _) => ("pod", key),
                };
                warn!(reason = %notice.reason, kind, object = %key, "{}", notice.note);
                self.metrics.noticed(notice.reason);
                if self.notices.try_send(notice).is_err() {
                    self.metrics.event_dropped();
                }
            }
            Effect::Relist(scope) => {
                warn!(
                    ?scope,
                    "a list of pods says that most targets of a binding are gone: listing once more"
                );
                self.relists.ask(&scope);
            }
            Effect::Binding(view) => {
                self.views.bindings.insert(view.key.clone(), Arc::new(view));
            }
            Effect::BindingGone(key) => {
                self.views.bindings.remove(&key);
            }
            Effect::Origin(view) => {
                self.views.origins.insert(view.origin.clone(), Arc::new(view));
            }
            Effect::OriginGone(origin) => {
                self.views.origins.remove(&origin);
            }
            Effect::Released(key, uid) => {
                self.views.released.insert(key, uid);
            }
            Effect::Group(view) => {
                self.views.groups.insert(view.group.clone(), Arc::new(view));
            }
            Effect::GroupGone(group) => {
                self.views.groups.remove(&group);
            }
        }
    }

    fn report_sent(&self, call: &Call, sent: Moment) {
        let (verb, group, items) = match call {
            Call::Register { group, items } => ("registering", group, items),
            Call::Deregister { group, items } => ("deregistering", group, items),
            Call::ReadHealth { group } => return debug!(group = group.name(), "reading"),
            Call::FindGroup { reference } => return debug!(%reference, "looking up"),
        };
        for item in items {
            let wait = sent.since(item.since);
            if item.attempt == 1 {
                match item.reason {
                    Reason::PodHasIp => self.metrics.registering(wait),
                    Reason::PodTerminating
                    | Reason::PodDeleted
                    | Reason::PodMissing
                    | Reason::PodFinished => self.metrics.deregistering(wait),
                    _ => {}
                }
            }
            info!(
                reason = %item.reason,
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

    fn ended(&self, (id, call, sent, result): Ended) -> Input {
        let took = self.clock.since(sent);
        let outcome = match &result {
            Ok(_) => "ok",
            Err(failure) => failure.class.reason().as_str(),
        };
        self.metrics.called(call.action(), outcome, took);
        let took_ms = took.as_secs_f64() * 1000.0;
        match (&call, &result) {
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
            (Call::FindGroup { reference }, Err(failure)) => debug!(
                action = call.action(), %reference, reason = outcome, code = %failure.code, took_ms,
                "failed, tried again: {}", failure.message
            ),
            (_, Ok(_)) => {}
        }
        Input::Answered { id, result }
    }
}
