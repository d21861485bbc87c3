//! What is asked of the API server for a set, and what becomes of it.

use std::{collections::BTreeSet, sync::Arc};

use headgate_core::model::{
    object::{ObjectKey, Uid},
    request::RequestId,
    time::WallTime,
};

use super::{Revision, plan::Why, status::Status};

/// What is asked of the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Make a pod of this name for this node, of this revision.
    Make {
        /// The name.
        name: Arc<str>,
        /// The node.
        node: Arc<str>,
        /// The revision.
        revision: Revision,
    },
    /// Delete this life of a pod.
    Delete {
        /// The name.
        name: Arc<str>,
        /// Which life of it.
        uid: Uid,
        /// Only if it is as it was: it did not serve then.
        version: Option<Arc<str>>,
        /// Why.
        why: Why,
    },
    /// Evict this life of a pod.
    Evict {
        /// The name.
        name: Arc<str>,
        /// Which life of it.
        uid: Uid,
        /// Why.
        why: Why,
    },
    /// Make the set the controller of this life of a pod.
    Adopt {
        /// The name.
        name: Arc<str>,
        /// Which life of it.
        uid: Uid,
    },
    /// The set is not the controller of this life of a pod any more.
    Release {
        /// The name.
        name: Arc<str>,
        /// Which life of it.
        uid: Uid,
    },
    /// Keep the template as it is now as a revision of this number.
    KeepRevision {
        /// Its hash.
        revision: Revision,
        /// The higher, the newer.
        number: i64,
    },
    /// A revision is what the set asks for again: it gets this number.
    RenumberRevision {
        /// The name of the ControllerRevision.
        name: Arc<str>,
        /// Which life of it.
        uid: Uid,
        /// The higher, the newer.
        number: i64,
    },
    /// Make the set the controller of this life of a ControllerRevision.
    AdoptRevision {
        /// The name of the ControllerRevision.
        name: Arc<str>,
        /// Which life of it.
        uid: Uid,
    },
    /// Delete this life of a ControllerRevision.
    DropRevision {
        /// The name of the ControllerRevision.
        name: Arc<str>,
        /// Which life of it.
        uid: Uid,
    },
    /// Keep a budget.
    KeepBudget {
        /// Its `minAvailable`.
        least: usize,
        /// Which life of it there is; `None`: it is made.
        uid: Option<Uid>,
    },
    /// Make the set the controller of this life of a budget.
    AdoptBudget {
        /// The name of the PodDisruptionBudget.
        name: Arc<str>,
        /// Which life of it.
        uid: Uid,
    },
    /// Delete the budget.
    DropBudget(Uid),
    /// Let a node have an annotation, or not.
    Annotate {
        /// The node.
        node: Arc<str>,
        /// The key.
        key: Arc<str>,
        /// The value; `None`: none.
        value: Option<Arc<str>>,
    },
    /// Write the status, upon this version of the set.
    Write {
        /// The version.
        version: Arc<str>,
        /// What to write.
        status: Box<Status>,
    },
}

/// Something that is asked for a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Comes back with the answer.
    pub id: RequestId,
    /// The set.
    pub set: ObjectKey,
    /// Which life of it.
    pub uid: Uid,
    /// What is asked.
    pub ask: Ask,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done; of a pod that was made, which life of its name.
    Done(Option<Uid>),
    /// Somebody has the name.
    Exists,
    /// There is no such object, or it is another life of its name.
    Gone,
    /// It was changed since it was seen.
    Conflict,
    /// It will not be done.
    Refused(Box<str>),
    /// Not now: a budget, or whoever guards evictions, says no.
    NotNow(Box<str>),
    /// Nobody knows whether it was done.
    Unknown(Box<str>),
}

/// How it stands with those who detach the nodes of a set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// What is to be asked.
    pub wants: Vec<Ask>,
    /// The nodes in their turn on which nothing may be done yet.
    pub closed: BTreeSet<Arc<str>>,
    /// When something is over that is waited for.
    pub due: Option<WallTime>,
}
