//! What a set that is replaced as a whole must wait for, as far as a replica was told.
//!
//! It says too little rather than too much: where the engine may have had a reason to let a target go, nothing is
//! asked of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{history::History, oracle::Oracle, oracle::Shown, words::Key};
use headgate_core::{
    ledger::PodMark,
    model::{Call, CallItem, Cause, Failure, FailureClass, HealthState, Moment, Target, TargetGroupArn, Uid},
    requests::Answer,
};

/// What one replica was told in one term.
#[derive(Debug, Default)]
pub struct Told {
    /// Since when it leads.
    term: Moment,
    /// The targets that it knows to be registered, and since when.
    known: BTreeMap<Key, Moment>,
    /// Those that AWS has taken out, and that were not registered again since. A registration that was sent before may bring
    /// them back late: that one is removed again at once, for the group has gone on without it.
    out: BTreeSet<Key>,
    /// Those that a read has shown healthy since then.
    healthy: BTreeSet<Key>,
    /// What the last read of each group has shown.
    shown: Shown,
    /// When a group had a reason last to let go all that it holds: it is full, nothing is wanted in it, or something
    /// that is wanted is registered already.
    free: BTreeMap<TargetGroupArn, Moment>,
    /// Since when the pod of each target has its address alone: before, it could not be told whose the target was.
    alone: BTreeMap<Key, Moment>,
}

/// Whether a call is about this pod. A new leader knows no more of it than the mark in its ledger.
pub fn is_of(item: &CallItem, uid: &Uid) -> bool {
    *uid == item.uid || item.uid.as_str() == format!("mark {:?}", PodMark::of(uid))
}

impl Told {
    pub fn leads(&mut self, now: Moment) {
        *self = Self { term: now, alone: std::mem::take(&mut self.alone), ..Self::default() };
    }

    /// What the last read of each group has shown.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    /// A call is sent.
    pub fn sends(&mut self, call: &Call) {
        if let Call::Register { group, items } = call {
            for item in items {
                self.out.remove(&(group.clone(), item.target));
            }
        }
    }

    /// A call that was sent then has ended.
    pub fn answered(&mut self, call: &Call, result: &Result<Answer, Failure>, sent: Moment, now: Moment) {
        match (call, result) {
            // What could not be removed may be there as before.
            (Call::Register { group, items }, Ok(_)) | (Call::Deregister { group, items }, Err(_)) => {
                for item in items {
                    self.known.insert((group.clone(), item.target), now);
                }
            }
            (Call::Deregister { group, items }, Ok(_)) => {
                self.out.extend(items.iter().map(|item| (group.clone(), item.target)));
            }
            (Call::Register { group, .. }, Err(failure)) if failure.class == FailureClass::Full => {
                self.free.insert(group.clone(), now);
            }
            (Call::ReadHealth { group }, Ok(Answer::Health(states))) => {
                let mut shown = BTreeMap::new();
                let used = states.iter().any(|(_, health)| health.state.is_in_use());
                for (target, health) in states {
                    let key = (group.clone(), *target);
                    let since = *self.known.entry(key.clone()).or_insert(sent);
                    // Not in use beside others that are: its zone is not served.
                    let serves = match health.state {
                        HealthState::Healthy => true,
                        HealthState::Unused => !used,
                        _ => false,
                    };
                    if since <= sent && serves {
                        self.healthy.insert(key.clone());
                    }
                    shown.insert(key, health.state);
                }
                self.shown.insert(group.clone(), shown);
            }
            _ => {}
        }
    }

    /// Something was said, or time has passed: in this group these are wanted now.
    pub fn wants(&mut self, group: &TargetGroupArn, wanted: &BTreeSet<Target>, now: Moment) {
        if wanted.is_empty() || wanted.iter().any(|target| self.known.contains_key(&(group.clone(), *target)))
        {
            self.free.insert(group.clone(), now);
        }
    }

    /// Something was said: which targets' pods have their addresses alone.
    pub fn hears(&mut self, oracle: &Oracle, history: &History, now: Moment) {
        for (key, uid) in &history.registered_for {
            if oracle.lives_alone(uid, &key.1) {
                self.alone.entry(key.clone()).or_insert(now);
            } else {
                self.alone.remove(key);
            }
        }
    }

    /// A target is removed; whether its set is being replaced, and nothing of the new one is healthy.
    pub fn check_removal(
        &mut self,
        group: &TargetGroupArn,
        item: &CallItem,
        oracle: &Oracle,
        history: &History,
        grace: std::time::Duration,
        now: Moment,
    ) -> Result<(), String> {
        let key = (group.clone(), item.target);
        self.known.remove(&key);
        self.healthy.remove(&key);
        let by_what_is_written = matches!(
            item.reason,
            Cause::NotSelected | Cause::PortChanged | Cause::BindingRemoved | Cause::StaleTarget
        );
        let since = item.since.max(self.term);
        let is_over = now.since(since) >= grace || self.free.get(group).is_some_and(|free| *free >= since);
        if !by_what_is_written || is_over || item.attempt > 1 || self.out.contains(&key) {
            return Ok(());
        }
        let may_serve = match self.shown.get(group) {
            None => true,
            Some(shown) => shown.get(&key) == Some(&HealthState::Healthy),
        };
        let pod = history.registered_for.get(&key).filter(|uid| is_of(item, uid));
        let was_alone = self.alone.get(&key).is_some_and(|alone| *alone <= since);
        let lives = was_alone && pod.is_some_and(|uid| oracle.lives_alone(uid, &item.target));
        let new =
            |key: &Key| !self.healthy.contains(key) && self.known.get(key).is_none_or(|known| *known > since);
        let wanted = oracle.wanted(group);
        if may_serve
            && lives
            && !wanted.is_empty()
            && wanted.iter().all(|target| new(&(group.clone(), *target)))
        {
            return Err(format!(
                "{} is removed from {} before one of {wanted:?} is healthy",
                item.target,
                group.name()
            ));
        }
        Ok(())
    }
}
