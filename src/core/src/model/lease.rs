//! The Lease object that names the leader, and how long it leads.

use std::{sync::Arc, time::Duration};

use super::Moment;

/// The content of the Lease object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The holder. `None`: the Lease was released.
    pub holder: Option<Box<str>>,
    /// How long the holder leads after a change, as the holder wrote it. `None`: no valid value.
    pub duration: Option<Duration>,
    /// How often the holder has changed.
    pub transitions: u32,
    /// Whether the last holder has recorded at its clean exit that none of its calls can take effect late.
    pub is_settled: bool,
    /// The time by the holder's clock. It is only compared with earlier values.
    pub acquired: Option<Box<str>>,
    /// The time by the holder's clock. It is only compared with earlier values.
    pub renewed: Option<Box<str>>,
}

/// A Lease as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The `resourceVersion`.
    pub version: Box<str>,
    /// The content.
    pub record: Record,
    /// The replicas in backoff because they could not lead.
    pub rests: Vec<Rest>,
}

/// The annotation of a replica that could not lead and has released the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The name of the replica.
    pub identity: Box<str>,
    /// When it released the Lease, by its own clock. It is only compared with earlier values. Empty: the writer fills
    /// it in.
    pub since: Box<str>,
    /// How long the replica does not try to acquire the Lease.
    pub pause: Duration,
    /// The reason word.
    pub reason: Box<str>,
}

/// A terminated container, from the status of its pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedContainer {
    /// The name of the pod, which is in Headgate's own namespace.
    pub pod: Box<str>,
    /// Why it terminated, as the kubelet reports it.
    pub reason: Box<str>,
    /// The content of its termination log.
    pub message: Box<str>,
}

/// A Lease to write. The writer fills in the times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The new holder. `None`: the Lease is released.
    pub holder: Option<Arc<str>>,
    /// The duration of the Lease.
    pub duration: Duration,
    /// The new number of changes of the holder.
    pub transitions: u32,
    /// See [`Record::is_settled`].
    pub is_settled: bool,
    /// Whether the holder has changed, so that the time of acquisition is now.
    pub acquired_now: bool,
    /// The replicas in backoff because they could not lead.
    pub rests: Vec<Rest>,
}

/// A time in which this replica leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerm {
    /// The number of the term. A term that continues after an interruption gets a new number.
    pub number: u64,
    /// How often the Lease had changed its holder by then. No earlier term of any replica has this value or a larger one,
    /// unless somebody has deleted the Lease.
    pub transitions: u32,
    /// Whether no call of the holder before can take effect late.
    pub is_settled: bool,
    /// The leader begins nothing at this time or later.
    pub until: Moment,
}
