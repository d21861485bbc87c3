//! The Lease object that names the leader, and the time for which it does.

use std::{sync::Arc, time::Duration};

use super::Moment;

/// What stands in the Lease object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The holder; `None`: it was released.
    pub holder: Option<Box<str>>,
    /// How long after a change it must be respected, as written by the holder; `None`: no sensible value.
    pub duration: Option<Duration>,
    /// How often the holder has changed.
    pub transitions: u32,
    /// By the holder's clock: compared, never read.
    pub acquired: Option<Box<str>>,
    /// By the holder's clock: compared, never read.
    pub renewed: Option<Box<str>>,
}

/// A Lease as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The `resourceVersion`.
    pub version: Box<str>,
    /// The content.
    pub record: Record,
    /// Who could not lead and rests.
    pub rests: Vec<Rest>,
}

/// The annotation of a replica that could not lead, and has released the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// How it calls itself.
    pub identity: Box<str>,
    /// When, by its own clock: compared, never used. Empty: the writer fills it in.
    pub since: Box<str>,
    /// For how long it does not stand for the Lease.
    pub pause: Duration,
    /// The reason word.
    pub reason: Box<str>,
}

/// A terminated container, from the status of its pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedContainer {
    /// The name of the pod, which is in Headgate's own namespace.
    pub pod: Box<str>,
    /// Why it has ended, in a word of the kubelet.
    pub reason: Box<str>,
    /// What it had left in its termination log.
    pub message: Box<str>,
}

/// What to write; the writer fills in the times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The new holder; `None`: it is released.
    pub holder: Option<Arc<str>>,
    /// For how long.
    pub duration: Duration,
    /// How often the holder has changed by then.
    pub transitions: u32,
    /// Whether the holder is another one than before, so that the time of acquisition is now.
    pub acquired_now: bool,
    /// Who could not lead and rests.
    pub rests: Vec<Rest>,
}

/// A time in which this replica leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerm {
    /// Counts the terms of this replica: an interrupted one continues under a new number.
    pub number: u64,
    /// Nothing may be begun at this moment or later.
    pub until: Moment,
}
