//! What must hold of each step of a replica, and of each of its effects.

use std::{collections::BTreeSet, time::Duration};

use super::{Around, Replica, removes};
use crate::{aws::STALE, held::is_of, words::GROUPS};
use crate::{history::History, words::Key};
use headgate_core::{
    leadership::Watch,
    ledger::PodMark,
    model::{Call, CallItem, Cause, Moment, ObjectKey, TargetGroupArn, Uid},
    view::BindingView,
};

/// AWS's limit for Register and Deregister, which the engine must keep.
const PER_SECOND: f64 = 4.0;
pub const BURST: f64 = 20.0;
/// A group whose removal has failed may wait this long before the next try (its backoff, and jitter of the same).
const BACKOFF: Duration = Duration::from_secs(5);
/// In a burst an engine spends a token while it counts so many for each group in which pods are going.
const FOR_EACH_GROUP: f64 = 4.0;
/// Removals of one group wait for each other while it was called this short ago.
const ACTIVE: Duration = Duration::from_secs(2);
/// While tokens are few, removals wait for each other no longer than this.
const LONGEST_HOLD: Duration = Duration::from_secs(4);
/// After AWS has throttled, the engine is slow for so long.
const RECOVERY: Duration = Duration::from_secs(60);

impl Replica {
    /// A step is over; `asks`: the watches that were asked to list once more in it.
    pub fn check_step(&mut self, asks: &[Watch], around: &mut Around<'_>) -> Result<(), String> {
        for seen in self.oracle.seen() {
            around.coverage.saw(seen);
        }
        let should = self.oracle.asks();
        if asks != should {
            return Err(format!("{asks:?} are asked for another list, and {should:?} should be"));
        }
        if let Some(group) = self.engine.overslept(around.now) {
            return Err(format!("{} sleeps, and something is due in it", group.name()));
        }
        // What others took out is not ours to take out at once, should a late call bring it back, or have brought it back.
        self.confirmed.retain(|(group, target), confirmed| {
            around.aws.has_since(group, target).is_some_and(|since| since <= *confirmed)
        });
        // A doubt calls off what was not sent yet, and is forgotten when the pod has gone.
        let Self { oracle, confirmed, from_ledgers, .. } = self;
        from_ledgers.retain(|key| {
            let stays = oracle.is_gone(&key.1) && confirmed.contains_key(key);
            if !stays {
                confirmed.remove(key);
            }
            stays
        });
        self.bound.extend(self.oracle.in_force().map(|key| (key.group.clone(), around.now)));
        self.check_removals_are_prompt(around)?;
        self.check_gates_are_prompt(around)?;
        if around.aws.foreign_targets_are_untouched() {
            Ok(())
        } else {
            Err("a foreign target was removed".into())
        }
    }

    pub fn check_call(&mut self, call: &Call, around: &mut Around<'_>) -> Result<(), String> {
        if call.is_look_up() {
            return Ok(());
        }
        if !self.leads {
            return Err(format!("{} by a replica that does not lead", call.action()));
        }
        if !self.oracle.has_seen_all() {
            return Err(format!("{} before every watch has listed", call.action()));
        }
        if self.loaded.is_none() {
            return Err(format!("{} before the ledgers are loaded", call.action()));
        }
        let (Call::Register { group, items } | Call::Deregister { group, items }) = call else {
            return Ok(());
        };
        let is_paused = |item: &&CallItem| match &*item.pod.namespace {
            "?" => self.oracle.all_are_paused(group),
            _ => self.oracle.is_paused_of(group, &item.target, &item.uid),
        };
        if let Some(item) = items.iter().find(is_paused) {
            return Err(format!("{} of {} in {}, which is paused", call.action(), item.target, group.name()));
        }
        let gained = around.now.since(self.tokens.1).as_secs_f64() * PER_SECOND;
        self.tokens = ((self.tokens.0 + gained).min(BURST) - 1.0, around.now);
        if self.tokens.0 < -1e-6 {
            return Err("more calls than AWS's limit allows".into());
        }
        if items.is_empty() || items.len() > 100 {
            return Err(format!("a call with {} targets", items.len()));
        }
        items.iter().try_for_each(|item| {
            around.coverage.cause(item.reason);
            match call {
                Call::Register { .. } => self.check_registration(group, item, around),
                _ => self.check_removal(group, item, around),
            }
        })
    }

    fn check_registration(
        &mut self,
        group: &TargetGroupArn,
        item: &CallItem,
        around: &mut Around<'_>,
    ) -> Result<(), String> {
        let (key, name) = ((group.clone(), item.target), group.name());
        if let Some(racing) = self.calls.values().find(|call| removes(call, &key)) {
            return Err(format!("{} is registered while {} is in flight", item.target, racing.action()));
        }
        if let Some((waits, target)) = self.overdue(around) {
            return Err(format!("a registration goes before the removal of {target} from {}", waits.name()));
        }
        let owner = self.oracle.owner(group, &item.target).map(|pod| &pod.facts.uid);
        if owner != Some(&item.uid) {
            return Err(format!(
                "{} is registered in {name} for {}, and is {owner:?}'s",
                item.target, item.uid
            ));
        }
        self.check_puts_back(group, item, around)?;
        let History { registered_for, own_since, taken_out, .. } = &mut *around.history;
        let before = registered_for.insert(key.clone(), item.uid.clone());
        let is_new = before.as_ref() != Some(&item.uid) || taken_out.get(&key) >= own_since.get(&key);
        if is_new {
            own_since.insert(key.clone(), around.now);
        }
        if !around.store.says(group, &item.target, PodMark::of(&item.uid)) {
            return Err(format!("{} is registered in {name} and not in the ledger", item.target));
        }
        // It is there since before its registration was confirmed: any read that counts has shown it.
        let known = self.confirmed.get(&key).copied().max(self.loaded).filter(|known| *known <= item.since);
        let there = around.aws.has_since(group, &item.target);
        if item.reason == Cause::TargetMissing
            && there.zip(known).is_some_and(|(since, known)| since <= known)
        {
            return Err(format!("{} is said to be missing in {name}, and never was", item.target));
        }
        Ok(())
    }

    fn check_removal(
        &mut self,
        group: &TargetGroupArn,
        item: &CallItem,
        around: &mut Around<'_>,
    ) -> Result<(), String> {
        self.check_the_pod_has_gone(group, item, around)?;
        let (key, aws, name) = ((group.clone(), item.target), &mut *around.aws, group.name());
        if self.oracle.wanted(group).contains(&item.target) {
            let because = if self.oracle.is_doubted(&item.target) { " because of one list" } else { "" };
            return Err(format!("{} of a living pod is removed from {name}{because}", item.target));
        }
        if item.reason == Cause::ForeignTarget
            && self.oracle.is_exclusive(group)
            && !self.oracle.is_in_doubt()
        {
            aws.expel(group, &item.target, around.now);
        } else if !around.history.ever.contains(&key) {
            return Err(format!("{} is removed from {name} and was never registered", item.target));
        }
        let read = self.just_read.as_ref().filter(|(read, _)| read == group && item.since == around.now);
        // A target group may be deleted when the read of it has ended, and the answer is still on its way.
        if item.reason == Cause::TargetReappeared
            && let Some((_, began)) = read
            && aws.arn(name) == Some(group)
            && !aws.had(group, &item.target, *began - STALE)
        {
            return Err(format!("{} is said to be back in {name}, and is not", item.target));
        }
        if item.reason == Cause::StaleTarget && item.attempt == 1 {
            let may_be_wanted =
                self.oracle.is_in_doubt() || self.oracle.waits_for_readiness(group, &item.target);
            if !self.oracle.is_gone(&item.target) && may_be_wanted {
                return Err(format!("{} of a pod that may be wanted is removed from {name}", item.target));
            }
        }
        if item.reason == Cause::StaleTarget && item.since == around.now {
            let healthy = aws.healthy_since(group, &item.target);
            let ip = &item.target.ip;
            let answers = around.cluster.elsewhere.contains(ip) || around.cluster.lives_at(ip);
            if let (Some(since), Some((_, began))) = (healthy, read)
                && since + STALE < *began
                && !self.oracle.is_held(&item.target)
                && !self.oracle.is_exclusive(group)
                && answers
            {
                return Err(format!("{} of another cluster is removed from {name}", item.target));
            }
        }
        // From one that is no more, or that is there again under another ARN, nothing need be held.
        if aws.arn(name) == Some(group) && self.is_known(group) {
            self.told.check_removal(group, item, &self.oracle, around.history, self.grace, around.now)?;
        }
        around.history.taken_out.insert(key.clone(), around.now);
        self.takes_out(&key, around);
        self.confirmed.remove(&key);
        self.removed.insert(group.clone(), around.now);
        Ok(())
    }

    /// A removal that is said to be for what became of the pod is for that.
    fn check_the_pod_has_gone(
        &self,
        group: &TargetGroupArn,
        item: &CallItem,
        around: &Around<'_>,
    ) -> Result<(), String> {
        let goes = matches!(
            item.reason,
            Cause::PodDeleted | Cause::PodTerminating | Cause::PodFinished | Cause::IpChanged
        );
        // It may have got it again before the removal could be sent, as while that was paused.
        let was_lost =
            |uid: &Uid| item.reason == Cause::IpChanged && self.oracle.has_had_another_ip(uid, &item.target);
        let pod = around.history.registered_for.get(&(group.clone(), item.target));
        self.check_nobody_took_it(item, around)?;
        match pod.filter(|uid| is_of(item, uid)) {
            Some(uid)
                if goes
                    && item.since == around.now
                    && self.oracle.lives_alone(uid, &item.target)
                    && !was_lost(uid) =>
            {
                Err(format!(
                    "{} is removed from {} for {:?}, and {uid} lives",
                    item.target,
                    group.name(),
                    item.reason
                ))
            }
            _ => Ok(()),
        }
    }

    /// No status of another node's pod takes a target from a pod that has its address, and has had it ever since the replica
    /// was told.
    fn check_nobody_took_it(&self, item: &CallItem, around: &Around<'_>) -> Result<(), String> {
        let told = self.oracle.all_pods().find(|pod| is_of(item, &pod.facts.uid));
        let Some(told) = told.filter(|_| item.reason == Cause::IpChanged && item.since == around.now) else {
            return Ok(());
        };
        let (uid, ip) = (&told.facts.uid, &item.target.ip);
        let shows = told.facts.ips.contains(ip) && told.lives() && told.facts.has_sandbox;
        let keeps =
            around.cluster.keeps(ip, uid, told.ip_since) && !self.oracle.node_may_be_lost(told, around.now);
        if shows && keeps && !self.oracle.shares_with_its_node(told) && !told.had_another_ip {
            return Err(format!("{} is taken from {uid}, which has the address", item.target));
        }
        Ok(())
    }

    /// A target whose pod is gone is removed in the very step that says so, unless the backoff of its own group stands
    /// in the way, or AWS's limit: while tokens are few, or the group was called just now, removals may wait a moment
    /// for each other.
    fn check_removals_are_prompt(&mut self, around: &Around<'_>) -> Result<(), String> {
        let slow = self.throttled.is_some_and(|throttled| around.now.since(throttled) < RECOVERY);
        let may = self.loaded.is_some() && self.valid_until >= around.now;
        let ready = self.oracle.has_seen_all() && may && !slow;
        let overdue = if ready { self.overdue(around).cloned() } else { None };
        let Some(key) = overdue else {
            self.held = None;
            return Ok(());
        };
        let since = match &self.held {
            Some((held, since)) if *held == key => *since,
            _ => around.now,
        };
        self.held = Some((key.clone(), since));
        let gained = around.now.since(self.tokens.1).as_secs_f64() * PER_SECOND;
        let tokens = (self.tokens.0 + gained).min(BURST);
        let called = self.removed.get(&key.0).is_some_and(|sent| around.now.since(*sent) < ACTIVE);
        let at_once = tokens >= self.plenty(around) && !called;
        if at_once || (tokens >= 1.0 && around.now.since(since) > LONGEST_HOLD) {
            return Err(format!("{} of {} is not removed, and its pod is gone", key.1, key.0.name()));
        }
        Ok(())
    }

    /// With so many tokens a removal waits for no other: 16 for three groups, for which its engine counts four each. It
    /// counts at most 4 fewer than are counted here: its bucket gains nothing while it is as full as the calls in flight let
    /// it be, each counts as arrived after a second at the latest, and in a second 4 tokens come. A group that was made
    /// again counts twice while anything was bound to it as it was before, or removed from that, a moment ago. The last
    /// token of a full bucket is never kept.
    fn plenty(&self, around: &Around<'_>) -> f64 {
        let lately = |(_, last): &(&TargetGroupArn, &Moment)| around.now.since(**last) < BACKOFF;
        let mut groups: BTreeSet<&TargetGroupArn> =
            self.removed.iter().chain(&self.bound).filter(lately).map(|(group, _)| group).collect();
        groups.extend(GROUPS.iter().filter_map(|name| around.aws.arn(name)));
        let groups = u32::try_from(groups.len().max(GROUPS.len())).map_or(f64::MAX, f64::from);
        (FOR_EACH_GROUP * groups).min(BURST - 1.0) + PER_SECOND
    }

    /// A target that is there, whose pod is gone or has not been ready for too long, and whose removal has no reason to
    /// wait but for AWS's limit.
    fn overdue(&self, around: &Around<'_>) -> Option<&Key> {
        let there = self.confirmed.keys().filter(|(group, target)| {
            let failed = self.failed.get(group);
            let backing_off = failed.is_some_and(|failed| around.now.since(*failed) < BACKOFF);
            !backing_off && around.aws.has(group, target)
        });
        let mut goes =
            there.filter(|(group, target)| self.oracle.is_gone(target) || self.oracle.is_lost(group, target));
        goes.find(|(group, target)| !self.oracle.may_be_paused(group, target))
    }

    /// What others read of a binding.
    pub fn check_view(&self, view: &BindingView, around: &Around<'_>) -> Result<(), String> {
        let (group, name) = (&view.key.group, view.key.group.name());
        let registered = view.targets.iter().filter(|target| target.registered);
        for target in registered.map(|target| target.target) {
            if !around.history.taken.contains(&(group.clone(), target)) {
                return Err(format!("{target} counts as registered in {name}, and AWS never took it"));
            }
        }
        let shown = view.targets.iter().map(|target| target.target).collect();
        let targets = self.oracle.targets_of(&view.key);
        if targets != shown {
            return Err(format!("{} shows {shown:?}, and has {targets:?}", view.key));
        }
        Ok(())
    }

    /// A deleted TargetBinding is let go.
    pub fn check_release(&mut self, key: &ObjectKey, uid: &Uid, around: &Around<'_>) -> Result<(), String> {
        let Some((targets, deleted)) = self.left.remove(&(key.clone(), uid.clone())) else { return Ok(()) };
        let stays = |key: &&Key| {
            let asked = self.calls.values().any(|call| removes(call, key));
            let there = around.aws.has_since(&key.0, &key.1).is_some_and(|since| since <= deleted);
            there && (asked || self.confirmed.contains_key(*key))
        };
        match targets.iter().find(stays) {
            Some((group, target)) => {
                Err(format!("{key} is let go, and {target} is still in {}", group.name()))
            }
            None => Ok(()),
        }
    }

    /// Nothing that was due has been slept through.
    pub fn check_woken(&self, now: Moment) -> Result<(), String> {
        match self.oracle.next_due() {
            Some(due) if due <= now && self.runs() => Err("something is due and nobody was woken".into()),
            _ => Ok(()),
        }
    }
}
