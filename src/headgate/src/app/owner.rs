//! This task owns the engine, passes inputs to the engine, and executes the resulting effects. The task uses no locks,
//! and never waits for AWS, Kubernetes or a reader.
//!
//! When leadership changes, the task informs the engine before it passes any later input. The `carrier` module sends
//! the engine's requests, and the `reports` module reports the results.

use std::{sync::Arc, time::Duration};

use headgate_core::{
    Effect, Engine, Input, Leadership, Moment, Reason, Request, leadership::lease::LeaseTerm,
    model::Transition, view::Picture,
};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    carrier::{Carrier, Ended},
    reports::{Reports, planned},
};
use crate::{
    explain,
    journal::keeper::Recorder,
    kube::watch::Relists,
    metrics::Metrics,
    runtime::{
        authority::Authority,
        clock::{Clock, Parted, Step, Wall, wall},
        outage::Spelled,
        pulse::Pulse,
        views::{Selection, TooShort, Views},
    },
    webhook::ask::Question,
};

/// The maximum number of inputs in the queue. If the queue is full, the watches wait.
pub const INBOX: usize = 4096;
/// The longest interval between two updates of the pulse.
const IDLE: Duration = Duration::from_secs(5);
/// The timeout for calls in flight and due deregistrations after the signal to stop.
const FAREWELL: Duration = Duration::from_secs(5);

/// The owner of the engine, as the module docs describe.
pub struct Owner {
    /// The engine.
    pub engine: Engine,
    /// The time.
    pub clock: Clock,
    /// The wall clock's last known state.
    pub wall: Wall,
    /// Inputs from the watches.
    pub inbox: mpsc::Receiver<Input>,
    /// Sends the engine's requests.
    pub carrier: Arc<Carrier>,
    /// Reports the results of requests.
    pub reports: Reports,
    /// Whether this replica is the leader.
    pub authority: Authority,
    /// The views for readers.
    pub views: Arc<Views>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The pulse for the probes.
    pub pulse: Arc<Pulse>,
    /// Requests to watches to list all objects again.
    pub relists: Relists,
    /// Queries from the webhook.
    pub questions: mpsc::Receiver<Question>,
    /// Queries from the admin server.
    pub explain: mpsc::Receiver<explain::ask::Question>,
    /// The journal.
    pub journal: Recorder,
}

impl Owner {
    /// Runs until `stop`, and then waits at most [`FAREWELL`] for the calls in flight.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), String> {
        let mut calls: JoinSet<Ended> = JoinSet::new();
        let mut leave_by: Option<Moment> = None;
        let mut was_synced = false;
        let mut term: Option<u64> = None;
        loop {
            let until = self.lead(&mut term, &mut calls, leave_by.is_some());
            self.mind_wall_clock(term, &mut calls, leave_by.is_some());
            let now = self.clock.now();
            let synced = self.engine.is_synced();
            if synced && !was_synced {
                info!(pods = self.engine.pod_count(), "initial cache sync complete");
            }
            was_synced = synced;
            self.pulse.beat(synced);
            self.metrics.known(self.engine.pod_count(), synced);
            self.metrics.contested(self.engine.contested());
            let going = || self.engine.nodes_that_go();
            self.metrics.nodes_go(|fate| going().filter(|(_, its)| *its == fate).count());
            self.views.nodes_go(going());
            if let Some(by) = leave_by
                && (calls.is_empty() || by <= now)
            {
                info!(unanswered = calls.len(), "the engine has stopped");
                self.authority.ends(calls.is_empty() && self.engine.is_settled());
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
                Some(question) = self.explain.recv() => {
                    self.explain(question);
                    continue;
                }
                () = self.authority.changed() => continue,
                Some(ended) = calls.join_next() => match ended {
                    Ok(ended) => {
                        self.reports.ended(&ended);
                        Input::Answered { id: ended.id, result: ended.result }
                    }
                    Err(error) => return Err(format!("a request failed unexpectedly: {error}")),
                },
                () = stop.cancelled(), if leave_by.is_none() => {
                    leave_by = Some(now + FAREWELL);
                    Input::Leadership(Leadership::Leaving)
                }
                () = self.clock.sleep_until(wakeup) => Input::Tick,
            };
            // A result may arrive after the term has ended. The engine must learn of the term's end before it processes
            // the result.
            self.lead(&mut term, &mut calls, leave_by.is_some());
            self.step(input, term, &mut calls, leave_by.is_some());
        }
    }

    /// Answers a query from the webhook, unless the client has given up.
    fn answer(&mut self, question: Question) {
        match question {
            Question::WouldBind { answer, .. } if answer.is_closed() => {}
            Question::MayEvict { answer, .. } if answer.is_closed() => {}
            Question::WouldBind { namespace, labels, ports, owner, answer } => {
                let now = self.clock.now();
                let known = self.engine.would_bind(&namespace, &labels, &ports, now);
                let is_refused = owner.is_some_and(|owner| self.engine.creations_fail(&owner, now));
                let _ = answer.send((known, is_refused));
            }
            Question::MayEvict { pod, request, answer } => {
                let _ = answer.send(self.engine.may_evict(&pod, &request, self.clock.now()));
            }
        }
    }

    /// Answers a query from the debug server, unless the client has given up.
    fn explain(&mut self, question: explain::ask::Question) {
        use explain::ask::Question;
        let now = self.clock.now();
        match question {
            Question::Pod(_, answer) if answer.is_closed() => {}
            Question::Node(_, answer) if answer.is_closed() => {}
            Question::Compare(answer) if answer.is_closed() => {}
            Question::Pod(pod, answer) => _ = answer.send(self.engine.explain(&pod, now)),
            Question::Node(node, answer) => _ = answer.send(self.engine.explain_node(&node, now)),
            Question::Compare(answer) => _ = answer.send(self.engine.compare_groups(now)),
        }
    }

    /// Passes the wall clock's time to the engine if the wall clock was set.
    fn mind_wall_clock(&mut self, term: Option<u64>, calls: &mut JoinSet<Ended>, leaving: bool) {
        let Some(Parted { shows, step }) = self.wall.look(wall(), self.clock.now()) else { return };
        if let Some(step) = step {
            let (by, direction) = match step {
                Step::Forwards(by) => (by, "forwards"),
                Step::Back(by) => (by, "back"),
            };
            warn!(
                by = %Spelled(by),
                "the clock of this node was set {direction}, or the machine was suspended; waits do not \
                 change, only stored times do. If this recurs, check the node's time service"
            );
            self.metrics.clock_stepped(direction);
        }
        self.step(Input::Clock(shows), term, calls, leaving);
    }

    /// Informs the engine if this replica became or stopped being the leader. Returns the end of the term.
    fn lead(&mut self, term: &mut Option<u64>, calls: &mut JoinSet<Ended>, leaving: bool) -> Option<Moment> {
        let present = self.authority.term();
        let number = present.map(|present| present.number);
        if number != *term {
            let before = std::mem::replace(term, number);
            if before.is_some() {
                self.step(Input::Leadership(Leadership::Standby), None, calls, leaving);
            }
            if let Some(LeaseTerm { transitions, is_settled, .. }) = present {
                let leads = Leadership::Leading { term: transitions.into(), is_settled };
                self.step(Input::Leadership(leads), number, calls, leaving);
            }
            self.metrics.leads(number.is_some());
        }
        present.map(|present| present.until)
    }

    fn step(&mut self, input: Input, term: Option<u64>, calls: &mut JoinSet<Ended>, leaving: bool) {
        for effect in self.engine.step(input, self.clock.now()) {
            self.carry_out(effect, term, leaving, calls);
        }
    }

    fn carry_out(&self, effect: Effect, term: Option<u64>, leaving: bool, calls: &mut JoinSet<Ended>) {
        match effect {
            Effect::Send { request, .. } if leaving && !request.is_of_a_farewell() => {}
            Effect::Send { id, request, waited } => {
                if let Request::Call(call) = &request {
                    if let Some(waited) = waited {
                        self.metrics.waited(call.action(), waited);
                    }
                    self.reports.sends(call, self.clock.now());
                }
                calls.spawn(self.carrier.clone().carry_out(id, request, term));
            }
            Effect::Planned(call) => planned(&call),
            Effect::Took(span, took) => self.metrics.took(span, took),
            Effect::Notice(notice) => {
                self.journal.record(Transition::Said(notice.clone()), self.clock.now());
                self.reports.notice(&notice);
            }
            Effect::Happened(what) => {
                self.reports.happened(&what);
                self.journal.record(what, self.clock.now());
            }
            Effect::Relist(watch, scope) => {
                warn!(
                    kind = watch.as_str(),
                    %scope,
                    reason = %Reason::ListDoubted,
                    "most objects are reported as deleted: listing once more to confirm"
                );
                self.relists.ask(watch, &scope);
            }
            Effect::Shows(picture) => self.show(picture),
            Effect::Released(key, uid) => {
                self.views.released.insert(key, uid);
            }
            Effect::Outdated(later) => self.authority.is_outdated(later),
            Effect::Selected(namespace, selected) => {
                let selection = if selected { Selection::Selected } else { Selection::Left(Instant::now()) };
                self.views.selections.insert(namespace, selection);
            }
            Effect::HoldTooShort(group) => {
                self.metrics.hold_too_short(&group);
                let last = self.clock.now();
                let mut short = self.views.too_short.entry(group).or_insert(TooShort { pods: 0, last });
                *short = TooShort { pods: short.pods + 1, last };
            }
        }
    }

    fn show(&self, picture: Picture) {
        match picture {
            Picture::Binding(view) => {
                self.views.bindings.insert(view.key.clone(), Arc::new(view));
            }
            Picture::BindingGone(key) => {
                self.views.bindings.remove(&key);
            }
            Picture::Origin(view) => {
                self.views.origins.insert(view.origin.clone(), Arc::new(view));
            }
            Picture::OriginGone(origin) => {
                self.views.origins.remove(&origin);
            }
            Picture::Group(view) => {
                if !self.views.groups.contains_key(&view.group) {
                    self.metrics.serves(&view.group);
                }
                self.views.groups.insert(view.group.clone(), Arc::new(view));
            }
            Picture::GroupGone(group) => {
                self.metrics.serves_no_more(&group);
                self.views.too_short.remove(&group);
                self.views.groups.remove(&group);
            }
        }
    }
}
