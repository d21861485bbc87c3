//! Who leads, and what becomes of the processes.

use std::time::Duration;

use super::{LEASE, RENEW_DEADLINE, World};
use crate::{cluster::REPLICAS, replica::Replica};
use headgate_core::{
    Settings,
    engine::{Input, Leadership},
    model::Moment,
};

impl World {
    /// A pause is over: what came meanwhile is taken in first, and only then does it look at its lease.
    pub(super) fn wake(&mut self, replica: usize) -> Result<(), String> {
        let now = self.now;
        let over = |until: &mut Moment| *until <= now;
        self.replicas[replica].cut_off_until.take_if(over);
        if self.replicas[replica].frozen_until.take_if(over).is_some() {
            self.note(|| format!("[{replica}] goes on"));
            while let Some((input, sent)) = self.replicas[replica].inbox.pop_front() {
                let sender = (replica, self.replicas[replica].life);
                self.answer(sender, input, sent)?;
            }
        }
        Ok(())
    }

    /// The lease is renewed, runs out, and is taken.
    pub(super) fn renew(&mut self) -> Result<(), String> {
        for replica in 0..REPLICAS {
            let it = &mut self.replicas[replica];
            let renews = it.runs() && it.cut_off_until.is_none() && it.leads && it.valid_until >= self.now;
            if let Some((holder, expires)) = &mut self.lease
                && *holder == replica
                && renews
            {
                *expires = self.now + LEASE;
                it.valid_until = self.now + RENEW_DEADLINE;
            }
            let lapsed = it.leads && it.runs() && it.valid_until < self.now;
            // It may notice late; until then it makes no call.
            if lapsed && (self.rng.bool() || !self.faults) {
                self.saw("replica: deposed");
                self.stand_by(replica)?;
            }
        }
        if self.lease.is_none_or(|(_, expires)| expires <= self.now)
            && (self.rng.u8(0..3) > 0 || !self.faults)
        {
            let candidate = self.rng.usize(0..REPLICAS);
            let it = &mut self.replicas[candidate];
            if it.runs() && it.cut_off_until.is_none() && !it.leads {
                self.lease = Some((candidate, self.now + LEASE));
                it.valid_until = self.now + RENEW_DEADLINE;
                it.leads();
                self.saw("replica: elected");
                self.terms += 1;
                let term = self.terms;
                let is_settled = std::mem::take(&mut self.is_settled);
                if is_settled {
                    self.saw("replica: elected after a clean exit");
                }
                self.step(candidate, Input::Leadership(Leadership::Leading { term, is_settled }))?;
            }
        }
        Ok(())
    }

    pub(super) fn stand_by(&mut self, replica: usize) -> Result<(), String> {
        self.replicas[replica].stands_by();
        self.step(replica, Input::Leadership(Leadership::Standby))
    }

    /// The leader gives the lease up.
    pub(super) fn release(&mut self) -> Result<(), String> {
        let Some((holder, _)) = self.lease else { return Ok(()) };
        let it = &self.replicas[holder];
        if !it.runs() || !it.leads || it.valid_until < self.now {
            return Ok(());
        }
        self.saw("replica: gives the lease up");
        // Some get on with their last words before, some do not.
        if self.rng.bool() {
            self.step(holder, Input::Leadership(Leadership::Leaving))?;
        }
        self.lease = None;
        self.is_settled = self.replicas[holder].engine.is_settled();
        self.stand_by(holder)
    }

    /// A process ends, and another one takes its place.
    pub(super) fn crash(&mut self, replica: usize) {
        self.saw("replica: crashed");
        let sender = (replica, self.replicas[replica].life);
        self.aws.sender_died(sender, &mut self.rng, self.now);
        self.store.sender_died(sender, &mut self.rng, self.now);
        self.gates.sender_died(sender, &mut self.rng, self.now);
        self.requests.sender_died(sender, &mut self.rng, self.now);
        self.lives += 1;
        let seed = self.settings.seed.wrapping_add(self.lives << 32);
        let settings = Settings { started: self.clock_of(replica), seed, ..self.settings.clone() };
        self.replicas[replica] = Replica::new(settings, self.lives, self.now);
        self.cluster.restarts(replica);
        if self.faults && self.rng.bool() {
            self.saw("aws: look-ups fail for a while");
            self.aws.look_ups_fail(self.now + Duration::from_millis(self.rng.u64(5_000..60_000)));
        }
    }
}
