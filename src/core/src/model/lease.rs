//! The Lease object, which names the leader and limits how long the leader may act.

use std::{sync::Arc, time::Duration};

use super::Moment;

/// The content of the Lease object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The holder, or `None` if the Lease was released.
    pub holder: Option<Box<str>>,
    /// The Lease duration as the holder wrote it, or `None` if the value is invalid.
    pub duration: Option<Duration>,
    /// How often the holder has changed.
    pub transitions: u32,
    /// Whether the last holder has recorded at its clean exit that none of its calls can take effect late.
    pub is_settled: bool,
    /// The time by the holder's clock. It is only compared with earlier values.
    pub acquired: Option<Box<str>>,
    /// The time of the last renewal by the holder's clock, which Headgate compares only with earlier values.
    pub renewed: Option<Box<str>>,
}

/// A Lease as read from the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The `resourceVersion`.
    pub version: Box<str>,
    /// The content.
    pub record: Record,
    /// The replicas in backoff, which could not act as leader.
    pub rests: Vec<Rest>,
}

/// The annotation about a replica that could not act as leader and has released the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The name of the replica.
    pub identity: Box<str>,
    /// When the replica released the Lease, by its own clock. Headgate compares this time only with earlier values. If
    /// the time is empty, the writer of the Lease sets it.
    pub since: Box<str>,
    /// How long the replica does not try to acquire the Lease.
    pub pause: Duration,
    /// The reason.
    pub reason: Box<str>,
}

/// A terminated container, from the status of its pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedContainer {
    /// The name of the pod, which is in Headgate's own namespace.
    pub pod: Box<str>,
    /// The kubelet's reason for the termination.
    pub reason: Box<str>,
    /// The content of the container's termination log.
    pub message: Box<str>,
}

/// A Lease to write. The writer of the Lease sets the times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The new holder, or `None` to release the Lease.
    pub holder: Option<Arc<str>>,
    /// The duration of the Lease.
    pub duration: Duration,
    /// The new number of holder changes.
    pub transitions: u32,
    /// See [`Record::is_settled`].
    pub is_settled: bool,
    /// Whether the holder has changed, so that the time of acquisition is now.
    pub acquired_now: bool,
    /// The replicas in backoff, which could not act as leader.
    pub rests: Vec<Rest>,
}

/// A period in which this replica is the leader.
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
