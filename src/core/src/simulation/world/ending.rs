//! How a world must end.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use super::World;
use crate::{
    gate::Shown,
    ledger::Noted,
    simulation::{
        aws::GROUPS,
        cluster::{REPLICAS, is_deaf},
        oracle::Selecting,
    },
    target::Target,
    target_group::TargetGroupArn,
};

/// After the faults have stopped, everything must be right within this time.
const QUIET: Duration = Duration::from_secs(240);
/// Gates cannot be written for so long.
const REFUSED: Duration = Duration::from_secs(20);
/// So many registrations in that time are enough to find out what fits into all groups.
const CALLS_WHEN_FULL: u64 = 60;

impl World {
    /// The faults stop; then everything must come right.
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.faults = false;
        self.aws.mend();
        self.cluster.correct();
        self.cluster.elsewhere.clear();
        self.note(|| "the faults stop".to_owned());
        for replica in 0..REPLICAS {
            self.replicas[replica].cut_off_until = None;
            if let Some(until) = &mut self.replicas[replica].frozen_until {
                *until = self.now;
            }
            self.wake(replica)?;
            self.cluster.cut_all(replica);
            self.relist(replica);
            self.deliver_all(replica)?;
        }
        self.comes_right()?;
        if self.rng.u8(0..3) == 0 {
            self.pods_leave_and_come_back()?;
        }
        // What served is replaced as a whole, in some worlds by pods that do not answer there.
        self.saw("event: all ports changed");
        if self.rng.u8(0..3) == 0 {
            self.saw("aws: no place for more");
            self.aws.fill_up();
        }
        self.cluster.change_ports();
        for replica in 0..REPLICAS {
            self.deliver_all(replica)?;
        }
        self.comes_right()?;
        if self.rng.u8(0..3) == 0 { self.takes_what_fits() } else { Ok(()) }
    }

    /// All pods are not ready, or not selected, for long enough that nobody need remember any call; then they come back. In
    /// some worlds the leader dies before, or just then; in some no gate can be written for a while.
    fn pods_leave_and_come_back(&mut self) -> Result<(), String> {
        let event = self.cluster.pods_leave(&mut self.rng);
        self.tells(event)?;
        self.comes_right()?;
        let Some((leader, _)) = self.lease else { return Err("nobody leads".into()) };
        let dies = self.rng.u8(0..4);
        if dies == 0 {
            self.crash(leader);
        }
        self.gates.refuses = dies == 2;
        self.cluster.pods_come_back();
        self.tells("event: pods come back")?;
        if dies == 1 {
            // Some of what it was about to do is done.
            for _ in 0..self.rng.u8(0..4) {
                self.end_gate_write()?;
                self.end_ledger_request()?;
            }
            self.saw("replica: crashed while targets are put back");
            self.crash(leader);
        }
        if self.gates.refuses {
            self.nothing_happens(REFUSED)?;
            self.gates.refuses = false;
        }
        self.comes_right()
    }

    /// Both replicas are told what has happened just now.
    fn tells(&mut self, event: &'static str) -> Result<(), String> {
        self.saw(event);
        (0..REPLICAS).try_for_each(|replica| self.deliver_all(replica))
    }

    /// Somebody takes everything out while the quota is low: what fits comes back, and nobody calls all the time.
    fn takes_what_fits(&mut self) -> Result<(), String> {
        let quota = self.rng.usize(1..5);
        self.aws.empty(quota, self.now);
        let before = self.coverage.count("effect: Register");
        self.nothing_happens(QUIET)?;
        let calls = self.coverage.count("effect: Register") - before;
        if calls > CALLS_WHEN_FULL {
            return Err(format!("{calls} registrations in {QUIET:?}, and nothing fits"));
        }
        let Some((leader, _)) = self.lease else { return Err("at the end nobody leads".into()) };
        for name in GROUPS {
            let Some(arn) = self.aws.arn(name) else { continue };
            let (wanted, ours) = (self.replicas[leader].oracle.wanted(arn), self.aws.ours(name));
            let fit = wanted.len().min(quota.saturating_sub(self.aws.count(name) - ours.len()));
            if ours.len() != fit || !ours.is_subset(&wanted) {
                return Err(format!("{name} has {ours:?}; it should have {fit} of {wanted:?}"));
            }
        }
        Ok(())
    }

    /// Nothing happens for a while; then everything must be right.
    fn comes_right(&mut self) -> Result<(), String> {
        self.nothing_happens(QUIET)?;
        self.check_end()
    }

    fn nothing_happens(&mut self, quiet: Duration) -> Result<(), String> {
        let until = self.now + quiet;
        while self.now < until {
            while !self.aws.open.is_empty() || !self.store.open.is_empty() || !self.gates.open.is_empty() {
                self.end_call()?;
                self.end_ledger_request()?;
                self.end_gate_write()?;
            }
            let wakeups = self.replicas.iter_mut().filter_map(|it| it.engine.next_wakeup(self.now));
            let due = wakeups.min().unwrap_or(until);
            self.pass(due.since(self.now).clamp(Duration::from_millis(1), Duration::from_secs(5)))?;
            for replica in 0..REPLICAS {
                self.relist(replica);
                self.deliver_all(replica)?;
            }
        }
        Ok(())
    }

    fn deliver_all(&mut self, replica: usize) -> Result<(), String> {
        while !self.cluster.watches[replica].are_silent() {
            self.deliver_service(replica)?;
            self.deliver_pod(replica)?;
            self.deliver_binding(replica)?;
        }
        Ok(())
    }

    fn check_end(&self) -> Result<(), String> {
        let Some((leader, _)) = self.lease else { return Err("at the end nobody leads".into()) };
        let oracle = &self.replicas[leader].oracle;
        if let Some(binding) = self.cluster.bindings.values().find(|binding| binding.ending) {
            return Err(format!("at the end the deleted TargetBinding {} is still there", binding.key));
        }
        let mut current: BTreeSet<&TargetGroupArn> = BTreeSet::new();
        for name in GROUPS {
            let Some(arn) = self.aws.arn(name) else { continue };
            current.insert(arn);
            let (wanted, mut ours) = (oracle.wanted(arn), self.aws.ours(name));
            // What was registered by a leader before, and only has to be ready to be wanted, stays.
            let may_stay = |target: &Target| oracle.waits_for_readiness(arn, target);
            ours.retain(|target| wanted.contains(target) || !may_stay(target));
            if wanted != ours {
                return Err(format!("at the end {name} has {ours:?} and should have {wanted:?}"));
            }
            // That it was taken out is remembered while its pod may have to close its gate for being put back.
            let may_be_noted = |target: &Target, noted: Noted| {
                may_stay(target) || (noted == Noted::Removed && oracle.may_be_put_back(target))
            };
            if !self.store.says_exactly(arn, &wanted, may_be_noted) {
                let all: Vec<_> = self.store.all().filter(|(group, _)| *group == arn).collect();
                return Err(format!("at the end the ledger of {name} says {all:?}, and has {wanted:?}"));
            }
            if let Some(stranger) = self.aws.strangers(arn).find(|_| oracle.is_exclusive(arn)) {
                return Err(format!("at the end {name} is Headgate's alone, and has {stranger}"));
            }
        }
        self.check_gates_at_the_end(leader)?;
        match self.store.all().find(|(group, _)| !current.contains(group)) {
            Some((group, ledger)) => {
                Err(format!("at the end {group} is no more, and has the ledger {ledger:?}"))
            }
            None => Ok(()),
        }
    }

    /// Every gate is open that should be, and none for an address that its pod does not have.
    fn check_gates_at_the_end(&self, leader: usize) -> Result<(), String> {
        let oracle = &self.replicas[leader].oracle;
        for pod in oracle.all_pods().filter(|pod| !pod.facts.terminating && !pod.facts.finished) {
            let (name, ips) = (&pod.facts.key.name, &pod.facts.ips);
            let Some(shown) = pod.facts.gate.as_deref().map(|gate| gate.shown) else { continue };
            if shown.is_open_for(ips) {
                continue;
            }
            if matches!(shown, Shown::Open(_)) {
                return Err(format!("at the end the gate of {name} at {ips:?} is {shown:?}"));
            }
            // Of two pods at one address, one does not really have it.
            let shares = |ip: &IpAddr| oracle.all_pods().filter(|pod| pod.facts.ips.contains(ip)).count() > 1;
            let serves = |bound: Selecting<'_>| {
                let unused = self.aws.is_unused(&bound.key.group);
                let answers = |target: &Target| !is_deaf(target);
                bound.target.as_ref().is_some_and(if unused { |_| true } else { answers })
                    && !(unused && bound.waits_when_unused)
            };
            let is_alone = ips.first().is_some_and(|ip| !shares(ip));
            if is_alone && !oracle.keeps_closed(pod) && oracle.selecting(pod).all(serves) {
                return Err(format!("at the end the gate of {name} at {ips:?} is {shown:?}"));
            }
        }
        Ok(())
    }
}
