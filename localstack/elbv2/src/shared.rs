//! The model with its lock, the clock, the trace and the notifications.
//!
//! All access to the model uses [`Shared::with`], which first applies all overdue changes. No caller therefore sees a
//! state in which an overdue change is missing. The lock is never held across an await.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Clock;
use crate::flows::Flows;
use crate::gate::{Caller, Fate, Gate, Place};
use crate::model::Model;
use crate::trace::Trace;

/// The state that all tasks share.
#[derive(Debug)]
pub struct Shared {
    model: Mutex<Model>,
    /// The checks before the action of a call. The gate is locked only while the model is locked.
    gate: Mutex<Gate>,
    pub trace: Trace,
    pub flows: Flows,
    pub clock: Clock,
    /// Notified when a new timer is due before all other timers.
    pub timers: Notify,
    /// Notified when a probe must be run.
    pub probes: Notify,
}

impl Shared {
    /// Creates the shared state for a model.
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

    /// Runs `work` on the current model, and records the resulting events.
    pub fn with<R>(&self, work: impl FnOnce(&mut Model, Duration) -> R) -> R {
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let before = model.next_due();
        model.advance(now);
        let result = work(&mut model, now);
        // A change can be due immediately, such as a message without delay.
        model.advance(now);
        let events = model.take_events();
        if !events.is_empty() {
            // The trace is updated under the lock, so that the trace has the real order of events.
            self.trace.record(self.clock.at(now), events);
        }
        let cuts = model.take_cuts();
        if !cuts.is_empty() {
            // The flows are cut under the lock, so that no flow can be added in between.
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

    /// Decides about a call that has arrived. Returns the decision and the delay of the answer.
    pub fn judge(&self, caller: Caller<'_>) -> (Fate, Duration) {
        self.with(|model, now| {
            let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            let (behaviour, settings) = model.behaviour_mut();
            let place = Place { region: &settings.region, account: &settings.account };
            let (fate, delay) = gate.judge(behaviour, place, caller, now);
            (fate, delay + gate.latency(behaviour))
        })
    }

    /// Deletes all resources, and resets the behavior, the rate limits and the random generators. `and` runs under the
    /// same lock.
    pub fn reset<R>(&self, and: impl FnOnce() -> R) -> R {
        self.with(|model, _| {
            model.reset();
            *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = Gate::new(model.settings().seed);
            and()
        })
    }

    /// Applies due changes to the model until the task is cancelled.
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
