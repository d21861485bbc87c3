//! What is asked of the API server about pods that leave, and nodes: the requests in flight, and what becomes of them.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    cluster::Cluster,
    coverage::Coverage,
    words::{Sender, forbidden, no_answer},
};
use headgate_core::{
    engine::Input,
    model::{
        Moment, ObjectKey, RequestId, Uid,
        eviction::{Check, MarkWrite},
        leaving::Mark,
        node::DetachedWrite,
    },
    requests::Answer,
};

/// Requests are given up after this time.
const GIVEN_UP: Duration = Duration::from_secs(5);
/// One that was given up may land this much later, in milliseconds.
const LATEST: u64 = 15_000;

/// What is asked about a pod that leaves, or a node that goes.
#[derive(Clone, Debug)]
pub enum Asks {
    Mark(MarkWrite),
    Check(Check),
    Detached(DetachedWrite),
}

/// The requests. See the module.
#[derive(Debug, Default)]
pub struct Requests {
    pub open: Vec<(RequestId, Sender, Moment, Asks)>,
    late: Vec<(Moment, ObjectKey, Uid, Mark)>,
    late_on_nodes: Vec<(Moment, DetachedWrite)>,
    /// The pods on which something was written late.
    pub confused: BTreeSet<Uid>,
}

impl Requests {
    /// Time has passed.
    pub fn pass(&mut self, cluster: &mut Cluster, now: Moment, coverage: &mut Coverage) {
        for (at, pod, uid, mark) in std::mem::take(&mut self.late) {
            if at > now {
                self.late.push((at, pod, uid, mark));
            } else if cluster.write_mark(&pod, &uid, mark).is_ok() {
                self.confused.insert(uid);
                coverage.saw("mark: written late, after it was given up");
            }
        }
        let is_due = |(at, _): &mut (Moment, DetachedWrite)| *at <= now;
        for (_, write) in self.late_on_nodes.extract_if(.., is_due) {
            if cluster.write_detached(&write).is_ok() {
                coverage.saw("node: written late, after it was given up");
            }
        }
    }

    /// The process that sent these is gone: they may still arrive.
    pub fn sender_died(&mut self, sender: Sender, rng: &mut fastrand::Rng, now: Moment) {
        for (id, from, sent, request) in std::mem::take(&mut self.open) {
            if from != sender {
                self.open.push((id, from, sent, request));
            } else if rng.bool() {
                match request {
                    Asks::Mark(MarkWrite { pod, uid, mark, .. }) => self.is_late(pod, uid, mark, rng, now),
                    Asks::Detached(write) => self.is_late_on_node(write, rng, now),
                    Asks::Check(_) => {}
                }
            }
        }
    }

    pub fn is_late(&mut self, pod: ObjectKey, uid: Uid, mark: Mark, rng: &mut fastrand::Rng, now: Moment) {
        self.late.push((now + Duration::from_millis(rng.u64(1..LATEST)), pod, uid, mark));
    }

    fn is_late_on_node(&mut self, write: DetachedWrite, rng: &mut fastrand::Rng, now: Moment) {
        self.late_on_nodes.push((now + Duration::from_millis(rng.u64(1..LATEST)), write));
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
        let (id, sender, sent, request) = self.open.swap_remove(at);
        let fate = match (faults, overdue) {
            (true, Some(_)) => rng.u8(80..96),
            (true, None) => rng.u8(0..100),
            (false, _) => 0,
        };
        let result = match request {
            Asks::Check(check) => {
                let (what, result) = match fate {
                    80.. => ("check: no answer", Err(no_answer())),
                    _ => match cluster.check(&check) {
                        Ok(checked) if checked.refused.is_some() => ("check: refused", Ok(checked)),
                        Ok(checked) => ("check: answered", Ok(checked)),
                        Err(failure) => ("check: pod gone", Err(failure)),
                    },
                };
                coverage.saw(what);
                result.map(Answer::Checked)
            }
            Asks::Mark(MarkWrite { pod, uid, mark }) => {
                let (what, result) = match fate {
                    80..=84 => ("mark: write never arrived", Err(no_answer())),
                    85..=89 => {
                        let _ = cluster.write_mark(&pod, &uid, mark);
                        ("mark: answer lost", Err(no_answer()))
                    }
                    90..=94 => {
                        self.is_late(pod, uid, mark, rng, now);
                        ("mark: write never arrived", Err(no_answer()))
                    }
                    95.. => ("mark: refused", Err(forbidden())),
                    _ => match cluster.write_mark(&pod, &uid, mark) {
                        Ok(()) => ("mark: written", Ok(())),
                        Err(failure) => ("mark: pod gone", Err(failure)),
                    },
                };
                coverage.saw(what);
                result.map(|()| Answer::Done)
            }
            Asks::Detached(write) => {
                let (what, result) = match fate {
                    80..=84 => ("node: write never arrived", Err(no_answer())),
                    85..=89 => {
                        let _ = cluster.write_detached(&write);
                        ("node: answer lost", Err(no_answer()))
                    }
                    90..=94 => {
                        self.is_late_on_node(write, rng, now);
                        ("node: write never arrived", Err(no_answer()))
                    }
                    95.. => ("node: refused", Err(forbidden())),
                    _ => match cluster.write_detached(&write) {
                        Ok(()) => ("node: written", Ok(())),
                        Err(failure) => ("node: gone", Err(failure)),
                    },
                };
                coverage.saw(what);
                result.map(|()| Answer::Done)
            }
        };
        Some((sender, sent, Input::Answered { id, result }))
    }
}
