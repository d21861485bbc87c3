//! Taking over: the claims of the time before whose pods nobody here knows, and what becomes of them. See `removal.rs`.

use std::{sync::Arc, time::Duration};

use super::{
    Orphan, Registrations,
    entry::{Entry, Goes, TakeOut, Wish},
};
use crate::{
    ledger::PodMark,
    model::{AskedHold, Cause, HealthState, Moment, ObjectKey, Owner, Target, Written},
    targets::claims::State,
};

/// Who has an address, as far as this cluster knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// No pod, or only one that has ended and may have lost it since.
    Nobody,
    /// A pod of this cluster, which nothing can turn out to want there.
    Pod,
    /// A living pod, which a doubtful Service beside it may turn out to want there.
    Doubtful(ObjectKey),
}

/// What a read that counts has shown of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// No such target, or one that is draining.
    Missing,
    /// It is there.
    There(HealthState),
}

/// Since when AWS has a target no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// This replica saw it go.
    Here {
        /// Then.
        at: Moment,
        /// Nothing.
        after: Option<Written>,
    },
    /// Nothing says so.
    Ledger(Written),
}

impl Since {
    /// When this has passed since then.
    pub fn ends(self, bound: Duration) -> Moment {
        match self {
            Self::Here { at, .. } => at + bound,
            Self::Ledger(written) => written.ends(bound),
        }
    }
}

/// What is known of a target that was taken out: nothing has to be kept for it.
#[derive(Clone, Copy, Debug)]
pub struct Tombstone<'a>(std::marker::PhantomData<&'a ()>);

impl Tombstone<'_> {
    /// Whether it may be put back.
    pub const fn may_be_put_back(self) -> bool {
        false
    }

    /// Whose it was.
    pub fn mark(self) -> PodMark {
        crate::targets::claims::nobody()
    }

    /// The same.
    pub fn marks(self) -> impl Iterator<Item = PodMark> {
        std::iter::empty()
    }

    /// The hold that was asked for it.
    pub fn asked_hold(self) -> AskedHold {
        AskedHold::default()
    }

    /// Since when AWS has had it no more.
    pub const fn out_since(self) -> Option<Since> {
        None
    }
}

/// The namespace of an object that binds, as the ledger names it: `Service shop/web`.
fn namespace(binding: &str) -> Option<Arc<str>> {
    Some(binding.split_once(' ')?.1.split_once('/')?.0.into())
}

impl Entry {
    /// Whether it was judged stale, and its removal was never sent.
    fn is_stale_and_unsent(&self) -> bool {
        let is_judged = !self.is_wanted() && self.orphan().is_none() && self.told().is_some();
        is_judged && self.cause == Cause::StaleTarget && self.attempts == 0
    }
}

impl Registrations {
    /// What the claims name that nobody wants here.
    pub(super) fn note_inherited(&mut self, now: Moment) {
        let all: Vec<(Target, PodMark)> =
            self.claims.states().filter_map(|(target, state)| Some((*target, state.pod()?))).collect();
        for (target, mark) in all {
            self.note_family(target.ip);
            if !self.knows(&target) {
                let mut entry = Entry::inherited(mark, now);
                if let Some(namespace) = self.claims.binding(&target).and_then(|binding| namespace(binding)) {
                    entry.last.pod.namespace = namespace;
                }
                self.insert(target, entry);
            }
        }
        self.change_all();
    }

    /// The targets that came with the ledger, that nothing wants and that have not been judged for good.
    pub fn orphans(&self) -> impl Iterator<Item = (&Target, &Orphan)> {
        self.entries.iter().filter_map(|(target, entry)| Some((target, entry.orphan()?)))
    }

    /// Those that were judged stale, and whose removals were never sent: a doubt calls them off.
    pub fn stale_and_unsent(&self) -> impl Iterator<Item = &Target> {
        self.entries.which(Entry::is_stale_and_unsent)
    }

    /// Those that a late call has brought back: none.
    pub fn back_and_unsent(&self) -> impl Iterator<Item = &Target> {
        std::iter::empty()
    }

    /// The pod of such a target leaves.
    pub const fn goes_for(&self, _target: &Target, _pod: &Owner, _cause: Cause, _now: Moment) {}

    /// When the ledger told of this orphan.
    pub fn orphan_since(&self, target: &Target) -> Option<Moment> {
        self.entries.get(target).filter(|entry| entry.orphan().is_some()).map(|entry| entry.since)
    }

    /// Whether anything that came with the ledger waits for a read.
    pub fn waits_for_read(&self) -> bool {
        self.entries.values().any(|entry| {
            entry.orphan() == Some(&Orphan::Unjudged)
                || (entry.is_wanted()
                    && matches!(entry.state, Some(State::Unsettled { until, call: None, .. }) if until <= self.now))
        })
    }

    /// This living pod may yet turn out to be wanted at `target`: its removal is called off, if it was never sent.
    pub fn call_off(&mut self, target: &Target, pod: &ObjectKey) {
        self.change(*target, |entry| {
            if entry.is_stale_and_unsent() {
                entry.wish = Wish::Gone(Goes::Orphan(Orphan::Doubted(pod.clone())));
                entry.through = None;
            }
        });
    }

    /// For which pod the ledger has this orphan.
    pub fn claimed_for(&self, target: &Target) -> Option<PodMark> {
        self.entries.get(target).filter(|entry| entry.orphan().is_some())?.claimed()
    }

    /// The pod of an orphan has gone, or lost the address, as this replica has seen: it goes at once.
    pub fn pod_is_gone(&mut self, target: &Target, owner: Owner, cause: Cause, now: Moment) {
        self.now = now;
        self.change(*target, |entry| {
            entry.last = owner;
            (entry.cause, entry.since, entry.attempts) = (cause, now, 0);
            entry.pod_ends();
            entry.wish = Wish::Gone(Goes::Now);
        });
    }

    /// Decides what becomes of an orphan. `holder`: who has its address; `living`: the one living pod that has it, if it is
    /// one, and why that leaves, if it does; `sight`: what the last read has shown of it, if that counts; `exclusive`:
    /// whether the group is ours alone.
    pub fn judge(
        &mut self,
        target: &Target,
        holder: &Holder,
        living: Option<(Owner, Option<Cause>)>,
        sight: Option<Sight>,
        exclusive: bool,
        now: Moment,
    ) {
        self.now = now;
        let (living, leaves) = living.map_or((None, None), |(pod, leaves)| (Some(pod), leaves));
        self.change(*target, |entry| {
            if entry.orphan().is_none() {
                return;
            }
            let its = living.as_ref().filter(|pod| entry.claimed() == Some(PodMark::of(&pod.uid)));
            let mut goes = |cause: Cause| {
                let replaced = its.filter(|_| cause.spares_the_pod()).cloned();
                (entry.cause, entry.since, entry.attempts) = (cause, now, 0);
                entry.pod_ends();
                if let Some(owner) = its {
                    entry.last = owner.clone();
                    entry.lives_on = true;
                    entry.take_out = if cause.spares_the_pod() { TakeOut::No } else { TakeOut::Due };
                }
                entry.wish = Wish::Gone(replaced.map_or(Goes::Now, Goes::Replaced));
            };
            if let Some(cause) = leaves {
                return goes(cause);
            }
            let waits = |entry: &mut Entry, orphan| entry.wish = Wish::Gone(Goes::Orphan(orphan));
            match (holder, sight) {
                (Holder::Doubtful(pod), _) => waits(entry, Orphan::Doubted(pod.clone())),
                // Too early to tell: it may have been registered a moment ago.
                (Holder::Nobody, None | Some(Sight::There(HealthState::Initial))) => {
                    waits(entry, Orphan::Unjudged);
                }
                (Holder::Nobody, Some(Sight::There(HealthState::Healthy | HealthState::ZonalShift)))
                    if !exclusive =>
                {
                    waits(entry, Orphan::Suspect);
                }
                (Holder::Pod, _) | (Holder::Nobody, Some(_)) => goes(Cause::StaleTarget),
            }
        });
    }
}
