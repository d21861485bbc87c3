//! What is known of one target, for whoever asks about its pod.

use super::{
    Entry, Need, Orphan, PutBack, Registrations, SetAside,
    entries::Queue,
    entry::{Goes, Wish},
};
use crate::{
    binding::BindingKey,
    model::{Moment, ObjectKey, Reason, Target, Uid},
};

/// What happens to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// AWS has taken it for the pod that should have it.
    Registered,
    /// The ledger says so, and no read has shown it yet.
    Believed,
    /// Its `RegisterTargets` is in flight.
    Registering,
    /// It is to be registered, and waits for nothing of its own.
    ToRegister,
    /// It is to be registered when the ledger says so.
    ToNote,
    /// It is to be registered when the readiness gate of its pod is closed, or then at the latest.
    AfterGate(Option<Moment>),
    /// It is not registered until then: AWS refuses it.
    SetAside(Moment),
    /// It is not registered until then: somebody else removes it again and again.
    Contested(Moment),
    /// It is to be registered when AWS has answered its removal.
    AfterRemoval,
    /// It is to be removed.
    ToRemove,
    /// Its removal is held: all are being replaced.
    Held,
    /// Its `DeregisterTargets` is in flight.
    Removing,
    /// It is there and nothing here wants it: something may yet turn out to.
    Doubted,
    /// It is there and nothing here wants it: another cluster may.
    Suspect,
    /// AWS has taken its removal.
    Removed,
}

/// One target, and whose it is or was last.
#[derive(Clone, Copy, Debug)]
pub struct Account<'a> {
    /// The pod.
    pub uid: &'a Uid,
    /// Through which binding.
    pub binding: Option<&'a BindingKey>,
    /// What happens to it.
    pub under: Under,
    /// Why it should be there, or should not, and since when.
    pub cause: Reason,
    /// When the event that caused this reached Headgate.
    pub since: Moment,
    /// When the last call about it was answered, or the ledger told of it.
    pub ended: Option<Moment>,
    /// How many calls about it were sent since `since`.
    pub attempts: u32,
}

impl Registrations {
    /// What is known of `target`.
    pub fn account(&self, target: &Target) -> Option<Account<'_>> {
        let entry = self.entries.get(target)?;
        Some(Account {
            uid: &entry.owner().unwrap_or(&entry.last).uid,
            binding: entry.binding.as_ref(),
            under: self.under(target, entry),
            cause: entry.cause,
            since: entry.since,
            ended: entry.ended,
            attempts: entry.attempts,
        })
    }

    /// The targets that a pod of this name, and of this UID if that is known, had and should have no more.
    pub fn left_by<'a>(
        &'a self,
        pod: &'a ObjectKey,
        uid: Option<&'a Uid>,
    ) -> impl Iterator<Item = &'a Target> {
        self.entries.which(move |entry| {
            !entry.is_wanted() && entry.last.pod == *pod && uid.is_none_or(|uid| entry.last.uid == *uid)
        })
    }

    fn under(&self, target: &Target, entry: &Entry) -> Under {
        match &entry.wish {
            Wish::There(_) if entry.registering.is_some() => Under::Registering,
            Wish::There(_) if entry.deregistering.is_some() => Under::AfterRemoval,
            Wish::There(_) if entry.put_back != PutBack::No => Under::AfterGate(entry.put_back.until()),
            Wish::There(_) => match (entry.set_aside, entry.need()) {
                (Some(SetAside::Vanishes(until)), _) => Under::Contested(until),
                (Some(SetAside::Refused(until)), _) => Under::SetAside(until),
                (None, Need::Register) if self.entries.queue_of(target) == Some(Queue::Note) => Under::ToNote,
                (None, Need::Register) => Under::ToRegister,
                (None, _) if entry.is_registered() => Under::Registered,
                (None, _) => Under::Believed,
            },
            Wish::Gone(_) if entry.deregistering.is_some() => Under::Removing,
            Wish::Gone(Goes::Orphan(Orphan::Suspect)) => Under::Suspect,
            Wish::Gone(Goes::Orphan(_)) => Under::Doubted,
            Wish::Gone(_) if entry.is_tombstone() => Under::Removed,
            Wish::Gone(_) if self.entries.queue_of(target) == Some(Queue::Held) => Under::Held,
            Wish::Gone(_) => Under::ToRemove,
        }
    }
}
