//! The counts and records of a run. Counts and records change together, so that `offered = ok + retried + lost + in
//! flight` is always true.

use serde::Serialize;

use crate::record::{Outcome, Record};

/// The numbers of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// The number of requests that were started.
    pub offered: u64,
    /// See [`Outcome::Ok`].
    pub ok: u64,
    /// See [`Outcome::Retried`].
    pub retried: u64,
    /// See [`Outcome::Lost`].
    pub lost: u64,
    /// The number of requests that started later than the tolerance allows. Late requests are also included in the
    /// other counts.
    pub behind: u64,
}

impl Counts {
    /// Returns the number of requests without an outcome.
    pub fn in_flight(&self) -> u64 {
        self.offered - self.ok - self.retried - self.lost
    }

    fn settle(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Ok => self.ok += 1,
            Outcome::Retried => self.retried += 1,
            Outcome::Lost => self.lost += 1,
        }
    }
}

/// The counts and records of a run.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The counts of the whole run.
    pub total: Counts,
    /// The counts per phase. The last phases are missing if they have no requests.
    pub phases: Vec<Counts>,
    /// The counts per client.
    pub clients: Vec<Counts>,
    /// The records of all requests with an outcome, in the order in which the requests were completed.
    pub records: Vec<Record>,
}

impl Ledger {
    pub fn new(clients: usize) -> Self {
        Self { clients: vec![Counts::default(); clients], ..Self::default() }
    }

    /// Counts a started request.
    pub fn offer(&mut self, client: usize, phase: usize) {
        self.each(client, phase, |counts| counts.offered += 1);
    }

    /// Counts a started request as `behind`, because it started too late.
    pub fn behind(&mut self, client: usize, phase: usize) {
        self.each(client, phase, |counts| counts.behind += 1);
    }

    /// Records the outcome of a started request.
    pub fn settle(&mut self, record: Record) {
        self.each(record.client, record.phase, |counts| counts.settle(record.outcome));
        self.records.push(record);
    }

    fn each(&mut self, client: usize, phase: usize, change: impl Fn(&mut Counts)) {
        if self.phases.len() <= phase {
            self.phases.resize(phase + 1, Counts::default());
        }
        let by_client = self.clients.get_mut(client);
        let by_phase = self.phases.get_mut(phase);
        for counts in [Some(&mut self.total), by_client, by_phase].into_iter().flatten() {
            change(counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plan::Mode;

    fn record(client: usize, phase: usize, outcome: Outcome) -> Record {
        Record {
            client,
            mode: Mode::New,
            phase,
            intended_us: 0,
            late: Duration::ZERO,
            duration: Duration::ZERO,
            node: None,
            local_port: None,
            pod: None,
            outcome,
            failure: None,
        }
    }

    #[test]
    fn every_count_appears_in_the_total_once_by_client_and_once_by_phase() {
        let mut ledger = Ledger::new(2);
        let ends = [(0, 0, Outcome::Ok), (1, 0, Outcome::Lost), (0, 2, Outcome::Retried)];
        for (client, phase, outcome) in ends {
            ledger.offer(client, phase);
            ledger.settle(record(client, phase, outcome));
        }
        ledger.offer(1, 2);
        ledger.behind(1, 2);
        assert_eq!(ledger.total, Counts { offered: 4, ok: 1, retried: 1, lost: 1, behind: 1 });
        assert_eq!(ledger.total.in_flight(), 1);
        assert_eq!(ledger.clients[0], Counts { offered: 2, ok: 1, retried: 1, ..Counts::default() });
        assert_eq!(ledger.clients[1], Counts { offered: 2, lost: 1, behind: 1, ..Counts::default() });
        assert_eq!(ledger.phases[0], Counts { offered: 2, ok: 1, lost: 1, ..Counts::default() });
        assert_eq!(ledger.phases[1], Counts::default());
        assert_eq!(ledger.phases[2], Counts { offered: 2, retried: 1, behind: 1, ..Counts::default() });
        assert_eq!(ledger.records.len(), 3);
    }

    #[test]
    fn a_record_is_small_enough_to_keep_two_million() {
        assert!(size_of::<Record>() <= 120, "{} bytes", size_of::<Record>());
    }
}
