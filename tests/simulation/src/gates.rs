//! What is written to the readiness gates of a world: the requests in flight, and what becomes of them.

use std::time::Duration;

use crate::{cluster::Cluster, coverage::Coverage, words::Sender, words::forbidden, words::no_answer};
use headgate_core::{
    engine::Input,
    model::{Moment, RequestId, gate::GateWrite},
    requests::Answer,
};

/// Requests are given up after this time.
const GIVEN_UP: Duration = Duration::from_secs(5);
/// One that was given up may land this much later, in milliseconds.
const LATEST: u64 = 15_000;

/// The requests. See the module.
#[derive(Debug, Default)]
pub struct Gates {
    pub open: Vec<(RequestId, Sender, Moment, GateWrite)>,
    late: Vec<(Moment, GateWrite)>,
    /// Whether Kubernetes allows none.
    pub refuses: bool,
}

impl Gates {
    /// Time has passed.
    pub fn pass(&mut self, cluster: &mut Cluster, now: Moment, coverage: &mut Coverage) {
        for (at, write) in std::mem::take(&mut self.late) {
            if at > now {
                self.late.push((at, write));
            } else if cluster.write_gate(&write).is_ok() {
                coverage.saw("gate: written late, after it was given up");
            }
        }
    }

    /// The process that sent these is gone: they may still arrive.
    pub fn sender_died(&mut self, sender: Sender, rng: &mut fastrand::Rng, now: Moment) {
        for (id, from, sent, write) in std::mem::take(&mut self.open) {
            if from != sender {
                self.open.push((id, from, sent, write));
            } else if rng.bool() {
                self.is_late(write, rng, now);
            }
        }
    }

    fn is_late(&mut self, write: GateWrite, rng: &mut fastrand::Rng, now: Moment) {
        self.late.push((now + Duration::from_millis(rng.u64(1..LATEST)), write));
    }

    /// Whether a request has waited so long for its answer that its sender gives it up.
    pub fn overdue(&self, now: Moment) -> bool {
        self.open.iter().any(|(_, _, sent, _)| now.since(*sent) > GIVEN_UP)
    }

    /// Ends one of the requests in flight in a way that chance decides; without faults as it should.
    pub fn end_one(
        &mut self,
        cluster: &mut Cluster,
        rng: &mut fastrand::Rng,
        faults: bool,
        now: Moment,
        coverage: &mut Coverage,
    ) -> Option<(Sender, Moment, Input)> {
        if self.open.is_empty() {
            return None;
        }
        let overdue = self.open.iter().position(|(_, _, sent, _)| now.since(*sent) > GIVEN_UP);
        let at = overdue.unwrap_or_else(|| rng.usize(0..self.open.len()));
        let (id, sender, sent, write) = self.open.swap_remove(at);
        let fate = match (faults, overdue) {
            _ if self.refuses => 96,
            (true, Some(_)) => rng.u8(80..96),
            (true, None) => rng.u8(0..100),
            (false, _) => 0,
        };
        let (what, result) = match fate {
            80..=85 => ("gate: write never arrived", Err(no_answer())),
            86..=90 => {
                let _ = cluster.write_gate(&write);
                ("gate: answer lost", Err(no_answer()))
            }
            91..=95 => {
                self.is_late(write.clone(), rng, now);
                ("gate: write never arrived", Err(no_answer()))
            }
            96..=97 => ("gate: refused", Err(forbidden())),
            _ => match cluster.write_gate(&write) {
                Ok(()) if write.condition.open => ("gate: opened", Ok(())),
                Ok(()) if write.condition.turns => ("gate: closed", Ok(())),
                Ok(()) => ("gate: explained", Ok(())),
                Err(gone) => ("gate: pod gone", Err(gone)),
            },
        };
        coverage.saw(what);
        Some((sender, sent, Input::Answered { id, result: result.map(|()| Answer::Done) }))
    }
}
