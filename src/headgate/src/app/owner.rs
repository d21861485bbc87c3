//! The one task that owns the engine: inputs in, effects carried out. No locks, and it never waits for AWS, for
//! Kubernetes or for a reader.
//!
//! It tells the engine when this replica begins and ceases to lead, before anything else that happened since. What
//! changes AWS or a ledger asks the [`Authority`] once more at the last moment: a process that was stopped and goes on
//! does nothing it may no longer do.

use std::{sync::Arc, time::Duration};

use headgate_core::{
    Answer, Call, CallId, CallItem, Effect, Engine, ErrorClass, Failure, Input, Leadership, Moment, Origin,
    Reason,
    gate::{GateFailure, GateWrite},
    leaving::{Check, CheckFailure, Checked, MarkFailure, MarkWrite},
    ledger::LedgerFailure,
    model::leaving::{Asked, Mark},
    notice::{About, Notice},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::{
    aws::{
        TargetGroups,
        reach::{Reach, Said, Trouble, Verdict},
    },
    explain,
    kube::{
        evictions::Evictions,
        gates::Pods,
        ledger::{self, Ledgers},
        watch::Relists,
    },
    metrics::Metrics,
    runtime::{
        authority::Authority,
        clock::Clock,
        outage::{Spelled, What},
        pulse::Pulse,
        views::{Selection, Views},
    },
    webhook::ask::Question,
};

/// Inputs that may wait; a watch that is faster waits itself.
pub const INBOX: usize = 4096;
/// The pulse beats at least this often.
const IDLE: Duration = Duration::from_secs(5);
/// After being told to stop: how long calls in flight and removals that are due may take.
const FAREWELL: Duration = Duration::from_secs(5);

/// What ran beside the engine and has ended.
enum Ended {
    Call { id: CallId, call: Call, sent: Moment, result: Result<Answer, Failure> },
    Ledger { verb: &'static str, sent: Moment, input: Input },
    Gate { write: GateWrite, sent: Moment, result: Result<(), GateFailure> },
    Mark { write: MarkWrite, result: Result<(), MarkFailure> },
    Check { check: Check, result: Result<Checked, CheckFailure> },
}

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
    /// Whether AWS answers them.
    pub reach: Reach,
    /// Readers are told why it does not.
    pub out_of_reach: watch::Sender<Option<Trouble>>,
    /// Carries out requests about ledgers.
    pub ledgers: Ledgers,
    /// Writes readiness gates.
    pub pods: Pods,
    /// Writes how far the leaving of pods is, and asks what budgets allow.
    pub evictions: Evictions,
    /// Whether this replica leads.
    pub authority: Authority,
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
    /// From the webhook.
    pub questions: mpsc::Receiver<Question>,
    /// From the admin server.
    pub explain: mpsc::Receiver<explain::ask::Question>,
}

impl Owner {
    /// Runs until `stop`, and then until the calls in flight have ended, for [`FAREWELL`] at most.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), String> {
        let mut calls: JoinSet<Ended> = JoinSet::new();
        let mut leave_by: Option<Moment> = None;
        let mut was_synced = false;
        let mut reign: Option<u64> = None;
        let mut trouble: Option<LedgerFailure> = None;
        loop {
            let until = self.lead(&mut reign, &mut calls, leave_by.is_some());
            let now = self.clock.now();
            let synced = self.engine.is_synced();
            if synced && !was_synced {
                info!(pods = self.engine.pod_count(), "every watch has listed all there is, ready");
            }
            was_synced = synced;
            self.pulse.beat(synced);
            self.metrics.known(self.engine.pod_count(), synced);
            self.metrics.nodes_go(|fate| self.engine.nodes_that_go(fate));
            if let Some(by) = leave_by
                && (calls.is_empty() || by <= now)
            {
                info!(unanswered = calls.len(), "the engine has stopped");
                return Ok(());
            }
            let idle = now + IDLE;
            let wakeup = self.engine.next_wakeup(now).map_or(idle, |due| due.min(idle));
            let wakeup = leave_by.into_iter().chain(until).fold(wakeup, Moment::min);
            let input = tokio::select! {
                Some(input) = self.inbox.recv() => input,
                Some(question) = self.questions.recv() => {
                    self.answer(question);
                    continue;
                }
                Some(explain::ask::Question { pod, answer }) = self.explain.recv() => {
                    let _ = answer.send(self.engine.explain(&pod, self.clock.now()));
                    continue;
                }
                () = self.authority.changed() => continue,
                Some(ended) = calls.join_next() => match ended {
                    Ok(ended) => self.ended(ended, &mut trouble),
                    Err(error) => return Err(format!("a call broke down: {error}")),
                },
                () = stop.cancelled(), if leave_by.is_none() => {
                    leave_by = Some(now + FAREWELL);
                    Input::Leadership(Leadership::Leaving)
                }
                () = self.clock.sleep_until(wakeup) => Input::Tick,
            };
            // An answer may have come after the reign had ended: the engine must know that first.
            self.lead(&mut reign, &mut calls, leave_by.is_some());
            self.step(input, reign, &mut calls, leave_by.is_some());
        }
    }

    /// Whoever asked may have given up.
    fn answer(&self, question: Question) {
        match question {
            Question::WouldBind { namespace, labels, ports, answer } => {
                let _ = answer.send(self.engine.would_bind(&namespace, &labels, &ports));
            }
            Question::MayEvict { pod, request, answer } => {
                let _ = answer.send(self.engine.may_evict(&pod, &request, self.clock.now()));
            }
        }
    }

    /// Tells the engine whether this replica leads, if that has changed; gives the end of the reign.
    fn lead(&mut self, reign: &mut Option<u64>, calls: &mut JoinSet<Ended>, leaving: bool) -> Option<Moment> {
        let present = self.authority.reign();
        let number = present.map(|present| present.number);
        if number != *reign {
            let before = std::mem::replace(reign, number);
            if before.is_some() {
                self.step(Input::Leadership(Leadership::Standby), None, calls, leaving);
            }
            if number.is_some() {
                self.step(Input::Leadership(Leadership::Leading), number, calls, leaving);
            }
            self.metrics.leads(number.is_some());
        }
        present.map(|present| present.until)
    }

    fn step(&mut self, input: Input, reign: Option<u64>, calls: &mut JoinSet<Ended>, leaving: bool) {
        for effect in self.engine.step(input, self.clock.now()) {
            self.carry_out(effect, reign, leaving, calls);
        }
    }

    fn carry_out(&self, effect: Effect, reign: Option<u64>, leaving: bool, calls: &mut JoinSet<Ended>) {
        match effect {
            // Someone who leaves removes what must go, and begins nothing new.
            Effect::Call { call, .. } if leaving && !matches!(call, Call::Deregister { .. }) => {}
            Effect::Call { id, call, waited } => {
                let sent = self.clock.now();
                if let Some(waited) = waited {
                    self.metrics.waited(call.action(), waited);
                }
                self.report_sent(&call, sent);
                let (aws, authority) = (self.aws.clone(), self.authority.clone());
                calls.spawn(async move {
                    // A standby looks up target groups too, so that it is ready.
                    let free = matches!(call, Call::FindGroup { .. });
                    let result = if free || reign.is_some_and(|reign| authority.permits(reign)) {
                        aws.make(&call).await
                    } else {
                        Err(not_leading())
                    };
                    Ended::Call { id, call, sent, result }
                });
            }
            Effect::Planned(call) => report_planned(&call),
            Effect::LoadLedgers { id } => self.ask(id, ledger::Request::LoadAll, reign, calls),
            Effect::LoadLedger { id, group } => self.ask(id, ledger::Request::Load(group), reign, calls),
            Effect::WriteLedger { id, base, ledger } => {
                self.ask(id, ledger::Request::Write(base, ledger), reign, calls);
            }
            Effect::DropLedger { id, group, base } => {
                self.ask(id, ledger::Request::Drop(group, base), reign, calls);
            }
            // Whoever leads next judges it anew, or goes on from what is written.
            Effect::WriteGate(_) | Effect::Mark(_) | Effect::CheckEviction(_) if leaving => {}
            Effect::WriteGate(write) => {
                let sent = self.clock.now();
                let (pods, authority) = (self.pods.clone(), self.authority.clone());
                calls.spawn(async move {
                    let result = if reign.is_some_and(|reign| authority.permits(reign)) {
                        pods.write(&write).await
                    } else {
                        Err(GateFailure::Unavailable(NOT_LEADING.into()))
                    };
                    Ended::Gate { write, sent, result }
                });
            }
            Effect::Mark(write) => {
                let (evictions, authority) = (self.evictions.clone(), self.authority.clone());
                calls.spawn(async move {
                    let result = if reign.is_some_and(|reign| authority.permits(reign)) {
                        evictions.mark(&write.pod, &write.uid, write.mark).await
                    } else {
                        Err(MarkFailure::Unavailable(NOT_LEADING.into()))
                    };
                    Ended::Mark { write, result }
                });
            }
            Effect::CheckEviction(check) => {
                let evictions = self.evictions.clone();
                calls.spawn(async move {
                    let result = evictions.check(&check).await;
                    Ended::Check { check, result }
                });
            }
            Effect::Took(span, took) => self.metrics.took(span, took),
            Effect::Notice(notice) => {
                let (kind, key, uid) = match &notice.about {
                    About::Service(key, uid) => ("service", key, uid),
                    About::TargetBinding(key, uid) => ("targetbinding", key, uid),
                    About::Pod(key, uid) => ("pod", key, uid),
                };
                warn!(reason = %notice.reason, kind, object = %key, %uid, "{}", notice.note);
                self.metrics.noticed(notice.reason);
                if self.notices.try_send(notice).is_err() {
                    self.metrics.event_dropped();
                }
            }
            Effect::Relist(scope) => {
                warn!(
                    %scope,
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
            Effect::Selected(namespace, selected) => {
                let selection = if selected { Selection::Selected } else { Selection::Left(Instant::now()) };
                self.views.selections.insert(namespace, selection);
            }
            Effect::HoldTooShort(group) => self.metrics.hold_too_short(&group),
            Effect::Group(view) => {
                if !self.views.groups.contains_key(&view.group) {
                    self.metrics.serves(&view.group);
                }
                self.views.groups.insert(view.group.clone(), Arc::new(view));
            }
            Effect::GroupGone(group) => {
                self.metrics.serves_no_more(&group);
                self.views.groups.remove(&group);
            }
        }
    }

    fn ask(&self, id: CallId, request: ledger::Request, reign: Option<u64>, calls: &mut JoinSet<Ended>) {
        let sent = self.clock.now();
        let (ledgers, authority) = (self.ledgers.clone(), self.authority.clone());
        calls.spawn(async move {
            let input = if !request.writes() || reign.is_some_and(|reign| authority.permits(reign)) {
                ledgers.answer(id, &request).await
            } else {
                request.failed(id, LedgerFailure::Unavailable(NOT_LEADING.into()))
            };
            Ended::Ledger { verb: request.verb(), sent, input }
        });
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

    fn ended(&mut self, ended: Ended, trouble: &mut Option<LedgerFailure>) -> Input {
        match ended {
            Ended::Call { id, call, sent, result } => self.call_ended(id, &call, sent, result),
            Ended::Ledger { verb, sent, input } => {
                self.ledger_answered(verb, sent, ledger::failure(&input), trouble);
                input
            }
            Ended::Gate { write, sent, result } => {
                self.gate_written(&write, sent, result.as_ref().err());
                Input::GateWritten { id: write.id, result }
            }
            Ended::Mark { write, result } => {
                report_mark(&write, result.as_ref().err());
                Input::MarkWritten { id: write.id, result }
            }
            Ended::Check { check, result } => {
                let Check { id, pod, uid, .. } = check;
                match &result {
                    Ok(Checked { refused: None, .. }) => {
                        debug!(%pod, %uid, "its eviction would be let through");
                    }
                    Ok(Checked { refused: Some(by), .. }) => {
                        debug!(%pod, %uid, "its eviction would wait: {by}");
                    }
                    Err(CheckFailure::Gone) => {
                        debug!(%pod, %uid, "its eviction was asked about, and it is gone");
                    }
                    Err(CheckFailure::Unavailable(error)) => {
                        debug!(%pod, %uid, %error, "whether it may be evicted cannot be asked");
                    }
                }
                Input::EvictionChecked { id, result }
            }
        }
    }

    fn gate_written(&self, write: &GateWrite, sent: Moment, failure: Option<&GateFailure>) {
        let GateWrite { pod, uid, condition, .. } = write;
        let took_ms = self.clock.since(sent).as_secs_f64() * 1000.0;
        let (outcome, error) = match failure {
            None => ("ok", None),
            Some(GateFailure::Gone) => ("Gone", None),
            Some(GateFailure::Denied(error)) => ("Denied", Some(error)),
            Some(GateFailure::Unavailable(error)) => ("Unavailable", Some(error)),
        };
        self.metrics.gate_written(outcome);
        let (reason, open) = (condition.reason, condition.open);
        match error {
            Some(error) => warn!(
                %reason, %pod, %uid, open, outcome, took_ms, %error,
                "a readiness gate could not be written, tried again"
            ),
            None if condition.turns && failure.is_none() => {
                info!(%reason, %pod, %uid, open, took_ms, "readiness gate: {}", condition.message);
            }
            None => {
                debug!(%reason, %pod, %uid, open, outcome, took_ms, "readiness gate: {}", condition.message);
            }
        }
    }

    fn ledger_answered(
        &self,
        verb: &'static str,
        sent: Moment,
        failure: Option<&LedgerFailure>,
        trouble: &mut Option<LedgerFailure>,
    ) {
        let took = self.clock.since(sent);
        let outcome = match failure {
            None => "ok",
            Some(LedgerFailure::Conflict) => "Conflict",
            Some(LedgerFailure::Unavailable(_)) => "Unavailable",
            Some(LedgerFailure::Denied(_)) => "Denied",
        };
        self.metrics.ledger_answered(verb, outcome, took);
        match failure {
            None | Some(LedgerFailure::Conflict) => {
                debug!(verb, outcome, took_ms = took.as_secs_f64() * 1000.0, "ledger");
                if failure.is_none() && trouble.take().is_some() {
                    info!(verb, "the ledgers can be reached again");
                }
            }
            // Said when it begins and when it changes, not each time it is tried again.
            Some(LedgerFailure::Unavailable(error) | LedgerFailure::Denied(error)) => {
                if trouble.as_ref() != failure {
                    warn!(
                        verb, reason = outcome, %error,
                        "the ledgers cannot be read or written, tried again; nothing is registered meanwhile"
                    );
                }
                *trouble = failure.cloned();
            }
        }
    }

    fn call_ended(
        &mut self,
        id: CallId,
        call: &Call,
        sent: Moment,
        result: Result<Answer, Failure>,
    ) -> Input {
        let took = self.clock.since(sent);
        let outcome = match &result {
            Ok(_) => "ok",
            Err(failure) => failure.class.reason().as_str(),
        };
        self.metrics.called(call.action(), outcome, took);
        let took_ms = took.as_secs_f64() * 1000.0;
        let is_told = self.hear_of_aws(call, &result);
        match (call, &result) {
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
            (Call::FindGroup { reference }, Err(failure)) => debug!(
                action = call.action(), %reference, reason = outcome, code = %failure.code, took_ms,
                "failed, tried again: {}", failure.message
            ),
            (_, Ok(_)) => {}
        }
        Input::Answered { id, result }
    }

    /// Whether the failure of a call is part of an outage, which is told as such.
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

    fn say_of_aws(&self, said: &Said) {
        let (reason, sentence, failures) = (said.reason, &said.sentence, said.told.failures);
        let lasted = Spelled(said.told.lasted);
        let note = match said.told.what {
            What::Begins | What::Changed => sentence.clone(),
            What::GoesOn => format!("for {lasted} now: {sentence}"),
            What::Over => format!("{sentence}, after {lasted}"),
        };
        if said.told.what == What::Over {
            info!(%reason, failures, "{note}");
        } else {
            warn!(%reason, failures, "{note}");
        }
        if !said.all || self.authority.reign().is_none() {
            return;
        }
        // Whoever waits for a target looks at what binds it.
        let mut waiting: Vec<_> = self.views.origins.iter().map(|entry| entry.value().clone()).collect();
        waiting.sort_by(|a, b| a.origin.cmp(&b.origin));
        for view in waiting.iter().filter(|view| view.exists).take(TOLD_OF_AWS) {
            let about = match &view.origin {
                Origin::Service(key) => About::Service(key.clone(), view.uid.clone()),
                Origin::TargetBinding(key) => About::TargetBinding(key.clone(), view.uid.clone()),
            };
            self.metrics.noticed(reason);
            if self.notices.try_send(Notice { about, reason, note: note.clone() }).is_err() {
                self.metrics.event_dropped();
            }
        }
    }
}

/// So many objects get an Event when AWS is out of reach, which concerns all there are.
const TOLD_OF_AWS: usize = 10;

/// The code of a call that was not sent.
const NOT_SENT: &str = "NotLeading";
const NOT_LEADING: &str = "this replica no longer leads, nothing was sent";

fn not_leading() -> Failure {
    Failure { class: ErrorClass::Unavailable, code: NOT_SENT.into(), message: NOT_LEADING.into() }
}

fn report_mark(write: &MarkWrite, failure: Option<&MarkFailure>) {
    let MarkWrite { pod, uid, mark, .. } = write;
    let (reason, said) = match mark {
        Mark::Asked(Asked { early: true, .. }) => {
            (Reason::NodeDisrupted, "its node is about to go, so it is asked to leave")
        }
        Mark::Asked(_) => (Reason::EvictionRecorded, "it is asked to leave"),
        Mark::Waits { reason, .. } => (*reason, "its eviction waits"),
        Mark::Deregistered { .. } => (Reason::PodEvicting, "its targets are deregistered"),
        Mark::MayGo { reason, .. } => (*reason, "its eviction is let through"),
        Mark::Undone => (Reason::EvictionGivenUp, "its eviction is given up"),
        Mark::Disbelieved => {
            (Reason::LeavingNotCredible, "what is written on it cannot be true and is taken away")
        }
        Mark::Stays => (Reason::NodeStays, "its node stays, and so does it"),
    };
    match failure {
        None => info!(%reason, %pod, %uid, "leaving: {said}"),
        Some(MarkFailure::Gone) => info!(%reason, %pod, %uid, "leaving: {said}; the pod is gone"),
        Some(MarkFailure::Denied(error) | MarkFailure::Unavailable(error)) => {
            warn!(%reason, %pod, %uid, %error, "leaving: {said}; could not be written on the pod");
        }
    }
}

/// Says what would be done if nothing was paused.
fn report_planned(call: &Call) {
    let (verb, group, items) = match call {
        Call::Register { group, items } => ("would register, but is paused", group, items),
        Call::Deregister { group, items } => ("would deregister, but is paused", group, items),
        Call::ReadHealth { .. } | Call::FindGroup { .. } => return,
    };
    for item in items {
        let (reason, pod, target) = (item.reason, &item.pod, item.target);
        info!(%reason, %pod, uid = %item.uid, %target, group = group.name(), "{verb}");
    }
}
