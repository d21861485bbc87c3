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
    /// Create a pod of this revision for this node.
    Make {
        /// The name of the pod.
        name: Arc<str>,
        /// The node of the pod.
        node: Arc<str>,
        /// The revision of the pod.
        revision: Revision,
    },
    /// Delete the pod with this UID.
    Delete {
        /// The name of the pod.
        name: Arc<str>,
        /// The UID of the pod.
        uid: Uid,
        /// The only `resourceVersion` that may be deleted. In this version, the pod was not ready. `None`: any version.
        version: Option<Arc<str>>,
        /// The reason for the deletion.
        why: Why,
    },
    /// Evict the pod with this UID.
    Evict {
        /// The name of the pod.
        name: Arc<str>,
        /// The UID of the pod.
        uid: Uid,
        /// The reason for the eviction.
        why: Why,
    },
    /// Make the set the controller of the pod with this UID.
    Adopt {
        /// The name of the pod.
        name: Arc<str>,
        /// The UID of the pod.
        uid: Uid,
    },
    /// Remove the set as the controller of the pod with this UID.
    Release {
        /// The name of the pod.
        name: Arc<str>,
        /// The UID of the pod.
        uid: Uid,
    },
    /// Store the current template as a revision with this number.
    KeepRevision {
        /// The hash of the template.
        revision: Revision,
        /// The number of the revision. A higher number is newer.
        number: i64,
    },
    /// Give a new number to a stored revision that is the current revision again.
    RenumberRevision {
        /// The name of the ControllerRevision.
        name: Arc<str>,
        /// The UID of the ControllerRevision.
        uid: Uid,
        /// The number of the revision. A higher number is newer.
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
    /// Create or update the PodDisruptionBudget.
    KeepBudget {
        /// The desired `minAvailable`.
        least: usize,
        /// The UID of the existing PodDisruptionBudget. `None`: create a PodDisruptionBudget.
        uid: Option<Uid>,
    },
    /// Make the set the controller of the PodDisruptionBudget with this UID.
    AdoptBudget {
        /// The name of the PodDisruptionBudget.
        name: Arc<str>,
        /// The UID of the PodDisruptionBudget.
        uid: Uid,
    },
    /// Delete the PodDisruptionBudget with this UID.
    DropBudget(Uid),
    /// Set or remove an annotation of a node.
    Annotate {
        /// The name of the node.
        node: Arc<str>,
        /// The key of the annotation.
        key: Arc<str>,
        /// The value of the annotation. `None`: remove the annotation.
        value: Option<Arc<str>>,
    },
    /// Write the status of the set if the set still has this version.
    Write {
        /// The `resourceVersion` of the set.
        version: Arc<str>,
        /// The status to write.
        status: Box<Status>,
    },
}

/// A request for a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The ID of the request. The answer contains the same ID.
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
    /// The request succeeded. For a created pod, contains the UID of the pod.
    Done(Option<Uid>),
    /// An object with this name already exists.
    Exists,
    /// The object does not exist, or has another UID.
    Gone,
    /// The object has changed in the meantime.
    Conflict,
    /// The API server rejected the request permanently.
    Refused(Box<str>),
    /// A PodDisruptionBudget or an eviction webhook rejected the request for now.
    NotNow(Box<str>),
    /// The result of the request is unknown.
    Unknown(Box<str>),
}

/// The result of all handshakes of a set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// The requests to send.
    pub wants: Vec<Ask>,
    /// The updating nodes on which the controller must not change pods yet.
    pub closed: BTreeSet<Arc<str>>,
    /// The time at which the next wait is over.
    pub due: Option<WallTime>,
}
