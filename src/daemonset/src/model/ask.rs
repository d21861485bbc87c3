//! The requests to the API server for a set, and their results.

use std::{collections::BTreeSet, sync::Arc};

use headgate_core::model::{
    object::{ObjectKey, Uid},
    request::RequestId,
    time::WallTime,
};

use super::{Revision, plan::Why, status::Status};

/// A request to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Create a pod with this name for this node, of this revision.
    Make {
        /// The name.
        name: Arc<str>,
        /// The node.
        node: Arc<str>,
        /// The revision.
        revision: Revision,
    },
    /// Delete the pod with this UID.
    Delete {
        /// The name.
        name: Arc<str>,
        /// The UID of the pod.
        uid: Uid,
        /// Only in this version, in which it was not available.
        version: Option<Arc<str>>,
        /// Why.
        why: Why,
    },
    /// Evict the pod with this UID.
    Evict {
        /// The name.
        name: Arc<str>,
        /// The UID of the pod.
        uid: Uid,
        /// Why.
        why: Why,
    },
    /// Make the set the controller of the pod with this UID.
    Adopt {
        /// The name.
        name: Arc<str>,
        /// The UID of the pod.
        uid: Uid,
    },
    /// Remove the set as the controller of the pod with this UID.
    Release {
        /// The name.
        name: Arc<str>,
        /// The UID of the pod.
        uid: Uid,
    },
    /// Store the present template as a revision with this number.
    KeepRevision {
        /// The hash of the template.
        revision: Revision,
        /// A higher number is newer.
        number: i64,
    },
    /// Give this number to a revision that the set asks for again.
    RenumberRevision {
        /// The name of the ControllerRevision.
        name: Arc<str>,
        /// The UID of the ControllerRevision.
        uid: Uid,
        /// A higher number is newer.
        number: i64,
    },
    /// Make the set the controller of the ControllerRevision with this UID.
    AdoptRevision {
        /// The name of the ControllerRevision.
        name: Arc<str>,
        /// The UID of the ControllerRevision.
        uid: Uid,
    },
    /// Delete the ControllerRevision with this UID.
    DropRevision {
        /// The name of the ControllerRevision.
        name: Arc<str>,
        /// The UID of the ControllerRevision.
        uid: Uid,
    },
    /// Create or update the budget.
    KeepBudget {
        /// Its `minAvailable`.
        least: usize,
        /// The UID of the existing budget. `None`: it is created.
        uid: Option<Uid>,
    },
    /// Make the set the controller of the budget with this UID.
    AdoptBudget {
        /// The name of the PodDisruptionBudget.
        name: Arc<str>,
        /// The UID of the budget.
        uid: Uid,
    },
    /// Delete the budget.
    DropBudget(Uid),
    /// Set or remove an annotation of a node.
    Annotate {
        /// The node.
        node: Arc<str>,
        /// The key.
        key: Arc<str>,
        /// The value. `None`: removes the annotation.
        value: Option<Arc<str>>,
    },
    /// Write the status of this version of the set.
    Write {
        /// The version.
        version: Arc<str>,
        /// What to write.
        status: Box<Status>,
    },
}

/// A request for a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The ID, which the answer contains.
    pub id: RequestId,
    /// The set.
    pub set: ObjectKey,
    /// The UID of the set.
    pub uid: Uid,
    /// The request.
    pub ask: Ask,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded. For a created pod, contains its UID.
    Done(Option<Uid>),
    /// The name exists.
    Exists,
    /// The object does not exist, or has another UID.
    Gone,
    /// The object has changed since it was read.
    Conflict,
    /// It is rejected permanently.
    Refused(Box<str>),
    /// It is rejected for now, by a budget or a webhook for evictions.
    NotNow(Box<str>),
    /// The result is unknown.
    Unknown(Box<str>),
}

/// The state of all handshakes of a set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// The requests to send.
    pub wants: Vec<Ask>,
    /// The updating nodes on which nothing may be done yet.
    pub closed: BTreeSet<Arc<str>>,
    /// When the next wait ends.
    pub due: Option<WallTime>,
}
