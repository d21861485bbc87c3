//! The model behind its lock, with the clock, the trace and the wake-up calls around it.
//!
//! Everything that touches the model goes through [`Shared::with`], which first brings it up to the present:
//! nobody ever sees a state in which something overdue has not happened. The lock is never held across an
//! await.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Clock;
use crate::flows::Flows;
use crate::gate::{Caller, Fate, Gate, Place};
use crate::model::Model;
use crate::trace::Trace;

/// Shared by all tasks.
#[derive(Debug)]
pub struct Shared {
    model: Mutex<Model>,
    /// What calls meet before their action; taken while the model is held.
    gate: Mutex<Gate>,
    /// What happened.
    pub trace: Trace,
    /// Open connections and requests.
    pub flows: Flows,
    /// What time it is.
    pub clock: Clock,
    /// Rung when a timer became due earlier than any before it.
    pub timers: Notify,
    /// Rung when there are probes to run.
    pub probes: Notify,
}

impl Shared {
    /// Around a model.
    pub fn new(model: Model, trace_capacity: usize) -> Self {
        Self {
            gate: Mutex::new(Gate::new(model.settings().seed)),
            model: Mutex::new(model),
            trace: Trace::new(trace_capacity),
            flows: Flows::default(),
            clock: Clock::start(),
            timers: Notify::new(),
            probes: Notify::new(),
        }
    }

    /// Runs `work` on the model as of now, and records what came of it.
    pub fn with<R>(&self, work: impl FnOnce(&mut Model, Duration) -> R) -> R {
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let before = model.next_due();
        model.advance(now);
        let result = work(&mut model, now);
        // What is due at once, such as a message without delay, happens at once.
        model.advance(now);
        let events = model.take_events();
        if !events.is_empty() {
            // Under the lock, so that the trace has the order in which things happened.
            self.trace.record(self.clock.at(now), events);
        }
        let cuts = model.take_cuts();
        if !cuts.is_empty() {
            // Under the lock, so that no flow can be entered in between.
            self.flows.cut(&cuts);
        }
        let (after, probes) = (model.next_due(), model.has_probes());
        drop(model);
        if after.is_some_and(|after| before.is_none_or(|before| after < before)) {
            self.timers.notify_one();
        }
        if probes {
            self.probes.notify_one();
        }
        result
    }

    /// What becomes of a call that has arrived, and how long its answer takes.
    pub fn judge(&self, caller: Caller<'_>) -> (Fate, Duration) {
        self.with(|model, now| {
            let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            let (behaviour, settings) = model.behaviour_mut();
            let place = Place { region: &settings.region, account: &settings.account };
            let (fate, delay) = gate.judge(behaviour, place, caller, now);
            (fate, delay + gate.latency(behaviour))
        })
    }

    /// Everything gone, behaviour, rates and random numbers as at the start; `and` happens together with it.
    pub fn reset<R>(&self, and: impl FnOnce() -> R) -> R {
        self.with(|model, _| {
            model.reset();
            *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = Gate::new(model.settings().seed);
            and()
        })
    }

    /// Keeps the model up to date, for ever.
    pub async fn keep_time(&self) {
        const IDLE: Duration = Duration::from_secs(3600);
        loop {
            let due = self.with(|model, now| model.next_due().unwrap_or(now + IDLE));
            tokio::select! {
                () = tokio::time::sleep_until(self.clock.instant(due)) => {}
                () = self.timers.notified() => {}
            }
        }
    }
}
