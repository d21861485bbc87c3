//! The model behind its lock, with the clock, the trace and the wake-up calls around it.
//!
//! Everything that touches the model goes through [`Shared::with`], which first brings it up to the present:
//! nobody ever sees a state in which something overdue has not happened. The lock is never held across an
//! await.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Clock;
use crate::dataplane::flows::Flows;
use crate::model::Model;
use crate::trace::Trace;

/// Shared by all tasks.
#[derive(Debug)]
pub struct Shared {
    model: Mutex<Model>,
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
