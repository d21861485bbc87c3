//! How a world must end.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::World;
use crate::{cluster::REPLICAS, cluster::any_node, words::GROUPS};
use headgate_core::model::{
    Cause, ObjectKey, PodFacts, Target, Uid,
    eviction::Limits,
    leaving::Mark,
    pod::PassedOver,
    policy::PAUSED,
    signal::{DISRUPTED, DYING},
};

/// After the faults have stopped, everything must be right within this time.
const QUIET: Duration = Duration::from_secs(240);
/// Some answers take no longer than this, all together.
const MOMENTS: Duration = Duration::from_secs(30);
/// A target that vanished is seen and there again within this time, the first times.
const A_READ: Duration = Duration::from_secs(75);
/// What has stayed for so long after it had vanished is not removed by somebody else any more.
const STAYS: Duration = Duration::from_secs(10 * 60 + 75);
/// Afterwards it is put off for so long at most.
const PUT_OFF: Duration = Duration::from_secs(5 * 60);
/// What is counted then.
const VANISHES: &str = "aws: a target vanishes again and again";
/// Nobody gives it up.
const FOREVER: Duration = Duration::from_secs(1_000_000);
/// Within so long it is noted in the ledger that a target was taken out.
const NOTED: Duration = Duration::from_secs(6);
/// Within so long another replica leads, and has read the ledgers.
const TAKEN_OVER: Duration = Duration::from_secs(3);
/// Gates cannot be written for so long.
const REFUSED: Duration = Duration::from_secs(20);
/// So many registrations in that time are enough to find out what fits into all groups.
const CALLS_WHEN_FULL: u64 = 60;

impl World {
    /// The faults stop; then everything must come right.
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.faults = false;
        self.drains.clear();
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
            self.a_gate_is_wiped_out_again_and_again()?;
        }
        match self.rng.u8(0..12) {
            0..=1 => self.pods_leave_and_come_back()?,
            2..=5 => self.a_node_is_drained()?,
            6..=7 => self.a_node_is_about_to_go()?,
            8 => self.a_pod_is_given_up_and_drained_again()?,
            9 => self.a_target_vanishes_again_and_again()?,
            10 => self.all_are_evicted_where_they_are()?,
            _ => self.a_pod_is_unbound_and_drained()?,
        }
        // What served is replaced as a whole, in some worlds by pods that do not answer there.
        self.saw("event: all ports changed");
        if self.rng.u8(0..3) == 0 {
            self.saw("aws: no place for more");
            // Those that leave may come back.
            let leave = self.cluster.pods.values().filter(|pod| pod.leaving.is_some());
            self.aws.fill_up(leave.count());
        }
        self.cluster.change_ports();
        for replica in 0..REPLICAS {
            self.deliver_all(replica)?;
        }
        self.comes_right()?;
        if self.rng.u8(0..3) == 0 { self.takes_what_fits() } else { Ok(()) }
    }

    /// Somebody writes the whole status of a pod, and once more as soon as its gate is open again: no watch has seen that.
    fn a_gate_is_wiped_out_again_and_again(&mut self) -> Result<(), String> {
        let Some(pod) = self.cluster.wipe_gate_out(&mut self.rng) else { return Ok(()) };
        self.tells("event: gate wiped out again and again")?;
        for _ in 0..20 {
            self.pass(Duration::from_millis(100))?;
            if !self.gates.open.is_empty() {
                break;
            }
        }
        while !self.gates.open.is_empty() {
            self.end_gate_write()?;
        }
        self.cluster.wipe_gate_of(&pod);
        (0..REPLICAS).for_each(|replica| self.cluster.cut_all(replica));
        self.comes_right()
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

    /// A node is drained, or all of its zone are, and nothing goes wrong.
    fn a_node_is_drained(&mut self) -> Result<(), String> {
        self.saw("drain: of a node, and nothing goes wrong");
        self.cluster.lift_budgets();
        if self.rng.u8(0..3) > 0 {
            // Whoever starts now has never seen them ready.
            self.cluster.nobody_is_ready();
            self.tells("event: nobody is ready, and a standby starts")?;
            if let Some(standby) =
                (0..REPLICAS).find(|at| self.lease.is_some_and(|(leader, _)| leader != *at))
            {
                self.crash(standby);
            }
            self.nothing_happens(MOMENTS)?;
        }
        let node = any_node(&mut self.rng);
        self.promised = Some(self.now);
        self.drain_node(&node, FOREVER);
        if self.rng.u8(0..4) > 0 {
            for node in self.cluster.neighbours(&node) {
                self.drain_node(&node, FOREVER);
            }
        }
        (0..REPLICAS).try_for_each(|replica| self.deliver_all(replica))?;
        self.is_drained()?;
        self.cluster.nodes_are_well();
        self.comes_right()
    }

    /// Whoever drains a pod gives up, and comes back when it was undone; what was written of it before lands only then.
    fn a_pod_is_given_up_and_drained_again(&mut self) -> Result<(), String> {
        // Of late words that a wrong clock has dated it cannot be told what they are about.
        if self.settings.leaving.given_up_after > QUIET || self.clocks.are_wrong() {
            return Ok(());
        }
        self.cluster.lift_budgets();
        let Some((pod, uid)) = self.one_that_would_be_taken_out() else { return Ok(()) };
        self.saw("drain: of a pod that was given up, and late words land");
        self.cordon_node_of(&pod);
        self.drain(pod.clone(), uid.clone(), None, Duration::from_secs(6));
        let before = self.settings.started + self.now.elapsed();
        self.nothing_happens(MOMENTS)?;
        self.cluster.nodes_are_well();
        self.comes_right()?;
        if self.cluster.pods.get(&pod).is_none_or(|there| there.uid != uid || there.terminating) {
            return Ok(());
        }
        for mark in [
            Mark::Deregistered { at: before, bound: self.settings.bounds.network },
            Mark::MayGo { at: before + self.settings.bounds.network, reason: Cause::EvictionAllowed },
        ] {
            let _ = self.cluster.write_mark(&pod, &uid, mark);
        }
        self.cordon_node_of(&pod);
        self.promised = Some(self.now);
        self.drain(pod, uid, None, FOREVER);
        self.is_drained()?;
        self.cluster.nodes_are_well();
        self.comes_right()
    }

    /// All pods of an app are evicted at once, and their nodes stay, as a descheduler does it. In some worlds something is
    /// written on one of them that should hold it up for ever.
    fn all_are_evicted_where_they_are(&mut self) -> Result<(), String> {
        self.saw("drain: of all pods of an app, whose nodes stay");
        self.cluster.lift_budgets();
        let Some((first, uid)) = self.one_that_would_be_taken_out() else { return Ok(()) };
        let labels = self.cluster.pods[&first].labels.clone();
        if self.rng.bool() {
            self.forge(&first, &uid);
            (0..REPLICAS).try_for_each(|replica| self.deliver_all(replica))?;
        }
        let its = |pod: &&PodFacts| pod.labels == labels && !pod.terminating && !pod.finished;
        let pods = self.cluster.pods.values().filter(its).map(|pod| (pod.key.clone(), pod.uid.clone()));
        for (pod, uid) in pods.collect::<Vec<_>>() {
            self.drain(pod, uid, None, FOREVER);
        }
        self.promised = Some(self.now);
        self.is_drained()
    }

    /// Somebody else takes the same target out, whenever it is there again.
    fn a_target_vanishes_again_and_again(&mut self) -> Result<(), String> {
        let Some(key) = self.aws.any_of_ours(&mut self.rng) else { return Ok(()) };
        let Some((leader, _)) = self.lease else { return Err("nobody leads".into()) };
        if !self.scene(leader).wanted(&key.0).iter().any(|wanted| wanted.target == key.1) {
            // It may stay, and need not come back.
            return Ok(());
        }
        self.saw(VANISHES);
        let told = self.coverage.count("told: UnknownWriter");
        if told > 0 {
            // It may have been this one, and that not be over: then it would not be told once more.
            self.nothing_happens(STAYS)?;
        }
        for _ in 0..4 {
            self.aws.take_out(&key, self.now);
            self.nothing_happens(A_READ)?;
        }
        if self.coverage.count("told: UnknownWriter") == told {
            return Err(format!("{} vanishes again and again, and nobody is told", key.1));
        }
        self.comes_right()
    }

    /// A pod is selected by nothing any more, and drained at once.
    fn a_pod_is_unbound_and_drained(&mut self) -> Result<(), String> {
        self.cluster.lift_budgets();
        let Some((pod, uid)) = self.cluster.drainable(&mut self.rng) else { return Ok(()) };
        self.saw("drain: of a pod that was just unbound");
        self.cordon_node_of(&pod);
        self.cluster.unbind(&pod);
        (0..REPLICAS).try_for_each(|replica| self.deliver_all(replica))?;
        if self.rng.bool() {
            self.end_call()?;
        }
        if let (true, Some((leader, _))) = (self.rng.bool(), self.lease) {
            // Whoever leads then has not taken it out.
            self.saw("replica: crashed when it had taken a target out");
            self.nothing_happens(NOTED)?;
            self.crash(leader);
            self.nothing_happens(TAKEN_OVER)?;
        }
        self.promised = Some(self.now);
        self.drain(pod, uid, None, FOREVER);
        self.is_drained()?;
        self.cluster.nodes_are_well();
        self.comes_right()
    }

    /// Whatever is drained goes, in a bounded time, and when no load balancer sends to it any more.
    fn is_drained(&mut self) -> Result<(), String> {
        // For its zones, for the answer to a question or two, and for the load balancer.
        let Limits { patience, .. } = self.settings.leaving;
        self.nothing_happens(patience + self.settings.bounds.network + MOMENTS)?;
        self.promised = None;
        match self.still_drained() {
            Some(pod) => {
                Err(format!("{} is still there, and its eviction was asked for all the time", pod.name))
            }
            None => self.comes_right(),
        }
    }

    /// A target without a hold, if there is one.
    fn one_that_would_be_taken_out(&mut self) -> Option<(ObjectKey, Uid)> {
        let (leader, _) = self.lease?;
        let scene = self.scene(leader);
        let wanted = GROUPS.iter().filter_map(|name| self.aws.arn(name)).flat_map(|arn| scene.wanted(arn));
        let pods = wanted.map(|wanted| wanted.pod).filter(|pod| pod.ending.sleeps == 0);
        let pods: Vec<(ObjectKey, Uid)> = pods.map(|pod| (pod.key.clone(), pod.uid.clone())).collect();
        pods.get(self.rng.usize(0..pods.len().max(1))).cloned()
    }

    /// A node is about to die, or to be drained; then it stays after all.
    fn a_node_is_about_to_go(&mut self) -> Result<(), String> {
        let node = any_node(&mut self.rng);
        // Chance is left as it is.
        let disrupted = if &*node == "b1" { DISRUPTED[1] } else { DISRUPTED[0] };
        let taint = if self.rng.bool() { DYING[0] } else { disrupted };
        self.cluster.mark_node(&node, Some(taint));
        self.tells("event: a node is about to go, and nothing goes wrong")?;
        self.comes_right()?;
        self.those_that_nobody_evicts_have_left(&node, taint)?;
        self.cluster.nodes_are_well();
        self.tells("event: it stays after all")?;
        self.comes_right()?;
        let is_early = |pod: &PodFacts| pod.leaving.as_deref().is_some_and(|leaving| leaving.ask.early);
        match self.cluster.pods.values().find(|pod| is_early(pod) && !pod.terminating && !pod.finished) {
            Some(pod) if self.cluster.nodes_are_watched() => {
                Err(format!("at the end {} is to leave early, and its node stays", pod.key.name))
            }
            _ => Ok(()),
        }
    }

    /// Of the targets on a node that is to be drained which nobody evicts, one has left, or waits to be let go; more when that
    /// one has ended.
    fn those_that_nobody_evicts_have_left(&mut self, node: &Arc<str>, taint: &str) -> Result<(), String> {
        let Some((leader, _)) = self.lease.filter(|_| self.cluster.nodes_are_watched()) else {
            return Ok(());
        };
        let scene = self.scene(leader);
        let apart = self.replicas[leader].engine.apart();
        let is_passed_over = |by: PassedOver| by.by_all || by.by_cluster_autoscaler && taint == DISRUPTED[1];
        let here = |pod: &&PodFacts| pod.node.as_ref() == Some(node) && is_passed_over(pod.passed_over);
        let pods: Vec<&PodFacts> = self.cluster.pods.values().filter(here).collect();
        let is_to_leave = |pod: &&&PodFacts| {
            let wanted = GROUPS.iter().filter_map(|name| self.aws.arn(name)).flat_map(|arn| scene.asked(arn));
            let mut its =
                wanted.filter(|wanted| wanted.pod.uid == pod.uid && scene.has_its_address(wanted.pod));
            its.any(|wanted| wanted.by.is_content_with(wanted.pod) && !wanted.by.may_say(PAUSED, "true"))
        };
        let leaves = |pod: &&PodFacts| {
            let leaving = pod.leaving.as_deref();
            leaving.is_some_and(|leaving| leaving.is_out() || leaving.waits.is_some())
                || apart.get(&pod.key).is_some_and(|apart| apart.node_goes)
        };
        match pods.iter().find(is_to_leave) {
            Some(pod) if !pods.iter().any(leaves) => Err(format!(
                "{} is a target on a node that is to be drained, and nobody evicts it",
                pod.key.name
            )),
            _ => Ok(()),
        }
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
        if self.coverage.count(VANISHES) > 0 {
            // Now it has vanished once more: it is registered again after the longest pause at the latest.
            self.nothing_happens(PUT_OFF)?;
        }
        let Some((leader, _)) = self.lease else { return Err("at the end nobody leads".into()) };
        for name in GROUPS {
            let Some(arn) = self.aws.arn(name) else { continue };
            let scene = self.scene(leader);
            let wanted = scene.wanted(arn).into_iter();
            // One that never was ready may have to be it first.
            let due = wanted.filter(|wanted| wanted.pod.is_ready() && !wanted.by.may_say(PAUSED, "true"));
            let due: BTreeSet<Target> = due.map(|wanted| wanted.target).collect();
            let asked: BTreeSet<Target> = scene.asked(arn).iter().map(|asked| asked.target).collect();
            let ours = self.aws.ours(name);
            let fit = due.len().min(quota.saturating_sub(self.aws.count(name) - ours.len()));
            if ours.len() < fit || (!asked.is_empty() && !ours.is_subset(&asked)) {
                return Err(format!("{name} has {ours:?}; it should have at least {fit} of {due:?}"));
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
            while !self.aws.open.is_empty()
                || !self.store.open.is_empty()
                || !self.gates.open.is_empty()
                || !self.requests.open.is_empty()
            {
                self.end_call()?;
                self.end_request()?;
                self.end_ledger_request()?;
                self.end_gate_write()?;
            }
            let wakeups = self.replicas.iter_mut().filter_map(|it| it.engine.next_wakeup(self.now));
            let asks = self.drains.iter().map(|drain| drain.next);
            let due = wakeups.chain(asks).min().unwrap_or(until);
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
            self.deliver_node(replica)?;
        }
        Ok(())
    }

    fn check_end(&self) -> Result<(), String> {
        let Some((leader, _)) = self.lease else { return Err("at the end nobody leads".into()) };
        self.properties.converges(!self.drains.is_empty(), &self.scene(leader))
    }
}
