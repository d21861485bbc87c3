//! What a state is made of: replicas, pods, requests in flight; and what may happen next.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
};

use headgate_core::{
    Engine, RequestId,
    ledger::{LedgerRequest, PackedLedger},
    model::claims::Claims,
    model::{Change, Moment, ObjectKey, PodFacts, leaving::Annotations},
    requests::Request,
};

use super::fingerprint::{Scribe, print};

/// How many replicas there are.
pub const REPLICAS: usize = 2;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is done and answered.
    Done,
    /// It is done; the answer is lost.
    Unanswered,
    /// It never arrives.
    Lost,
    /// It is given up, and may be done later.
    Late,
    Refused,
    Throttled,
    /// A read shows what was before the last change.
    Stale,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Begin,
    /// Time jumps to when something is due.
    Time,
    /// An event of the watch reaches a replica.
    Event(usize),
    /// A request of a replica, the n-th in flight, ends.
    Ends(usize, usize, Fate),
    /// A late request is done, or never will be.
    Lands(usize),
    Vanishes(usize),
    /// A replica gets the Lease; the leader loses it.
    Elected(usize),
    Deposed(usize),
    /// A process dies, and another one starts.
    Crash(usize),
    /// The eviction of the first pod begins; a replica is asked whether it may go.
    Drain,
    Asks(usize),
    /// The first pod is deleted; its object goes; the second one gets the address.
    Delete,
    Gone,
    Reuse,
}

impl Choice {
    /// Whether it comes by itself, if nothing goes wrong and no user does anything.
    pub const fn is_calm(self) -> bool {
        matches!(
            self,
            Self::Time
                | Self::Event(_)
                | Self::Ends(_, _, Fate::Done)
                | Self::Lands(_)
                | Self::Elected(_)
                | Self::Asks(_)
        )
    }
}

/// A request in flight.
#[derive(Clone, Debug)]
pub struct Flight {
    pub id: RequestId,
    pub request: Request,
    pub sent: Moment,
}

/// What is done late, or never: nobody waits for its answer any more.
#[derive(Clone, Debug)]
pub struct Late {
    pub request: Request,
    pub until: Moment,
    /// When its sender was lost: at that instant, and only then, it may be lost as well.
    pub lost: Option<Moment>,
}

#[derive(Clone, Debug)]
pub struct Replica {
    pub engine: Arc<Engine>,
    /// Whether it leads.
    pub leads: bool,
    /// What the watch has not said yet, and the pods as it has said them.
    pub unsaid: VecDeque<Change<PodFacts>>,
    pub told: BTreeMap<ObjectKey, PodFacts>,
    pub flights: Vec<Flight>,
}

/// A pod as it is.
#[derive(Clone, Debug)]
pub struct Pod {
    pub facts: PodFacts,
    pub annotations: Annotations,
    pub answers_from: Moment,
}

/// What a ledger says.
pub fn read(packed: &PackedLedger) -> Claims {
    crate::store::claims(packed)
}

impl Replica {
    /// The watch says this.
    pub fn hears(&mut self, change: &Change<PodFacts>) {
        match change {
            Change::Applied(pod) => _ = self.told.insert(pod.key.clone(), pod.clone()),
            Change::Deleted(pod) => _ = self.told.remove(&pod.key),
            Change::Relisted(_, all) => {
                self.told = all.iter().map(|pod| (pod.key.clone(), pod.clone())).collect();
            }
        }
    }

    /// Whether nothing of it has changed since then.
    pub fn is_still(&self, before: &Self) -> bool {
        // An engine that takes a step is another one, and what is left to be said, and in flight, grows at its end.
        Arc::ptr_eq(&self.engine, &before.engine)
            && self.leads == before.leads
            && (self.unsaid.len(), self.flights.len()) == (before.unsaid.len(), before.flights.len())
    }

    /// What matters of it.
    pub fn print(&self, to: &mut Scribe) -> fmt::Result {
        print(to, &(&*self.engine, self.leads, &self.unsaid))?;
        self.flights.iter().try_for_each(|Flight { id, request, sent }| {
            print(to, &(id, sent))?;
            print_request(to, request)
        })
    }
}

/// What matters of a request.
pub fn print_request(to: &mut Scribe, request: &Request) -> fmt::Result {
    match request {
        // What is packed holds times.
        Request::Ledger(LedgerRequest::Write(base, packed)) => print(to, &(base, read(packed))),
        _ => print(to, request),
    }
}
