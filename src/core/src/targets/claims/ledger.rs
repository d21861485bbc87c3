//! The ledger of one target group, as one term writes it.
//!
//! One write is in flight at a time. A write carries the version that it replaces. Only what this term has written and has had
//! acknowledged counts as written: a write of a leader before may still be under way, and ours makes it fail. After a conflict
//! or an unknown outcome nothing counts until the next write is acknowledged.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    ledger::{LedgerVersion, PodMark},
    model::{
        RequestId, Target,
        claims::{Claims, Content, Outcome, Request},
    },
};

/// What reading the ledger means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// It could not be read, or nobody had asked.
    Nothing,
    /// A later term has written it: the lead is lost.
    LaterTerm,
    /// This term has not written it yet.
    First(Claims),
    /// This term has written it before.
    Again(Claims),
}

/// What a request in flight does.
#[derive(Clone, Debug)]
enum InFlight {
    Load,
    Drop,
    Write(Content),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct LedgerWriter {
    term: u64,
    /// The version to replace; `None`: there is none.
    version: Option<LedgerVersion>,
    /// Whether that is known. Otherwise it is read first.
    is_known: bool,
    /// What this term has written last, if that was acknowledged and nothing came in between.
    written: Option<Content>,
    in_flight: Option<(RequestId, InFlight)>,
    /// Whether this term has written it once.
    is_ready: bool,
}

impl LedgerWriter {
    /// One that was found in this version and is not written yet.
    pub const fn new(term: u64, version: Option<LedgerVersion>) -> Self {
        Self { term, version, is_known: true, written: None, in_flight: None, is_ready: false }
    }

    /// Whether this term has written it once. Nothing is sent for the group before that.
    pub const fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Whether no request is in flight.
    pub const fn is_idle(&self) -> bool {
        self.in_flight.is_none()
    }

    /// The version that the next write replaces; `None`: there is no ledger.
    pub const fn version(&self) -> Option<&LedgerVersion> {
        self.version.as_ref()
    }

    /// What this term has written last, if nothing else may be there.
    pub const fn last_written(&self) -> Option<&Content> {
        self.written.as_ref()
    }

    /// Whether it is known what is there; otherwise it is read first.
    pub const fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether there is one, or may be.
    pub const fn exists(&self) -> bool {
        !self.is_known || self.version.is_some() || self.in_flight.is_some()
    }

    /// Whether the ledger has this claim now, and still has it after the write in flight.
    pub fn has(&self, target: &Target, pod: PodMark) -> bool {
        let names = |content: &Content| content.claims.get(target).is_some_and(|claim| claim.pod == pod);
        self.written.as_ref().is_some_and(names) && self.writing().is_none_or(names)
    }

    /// Whether the ledger has no claim on this target, now and after the write in flight.
    pub fn is_free(&self, target: &Target) -> bool {
        let names = |content: &Content| content.claims.contains_key(target);
        self.written.as_ref().is_some_and(|content| !names(content)) && !self.writing().is_some_and(names)
    }

    fn writing(&self) -> Option<&Content> {
        match &self.in_flight {
            Some((_, InFlight::Write(content))) => Some(content),
            _ => None,
        }
    }

    /// The next request, if one is due.
    pub fn next(&self, claims: Claims, holders: BTreeSet<Arc<str>>) -> Option<Request> {
        let desired = Content { term: self.term, claims, holders };
        if self.in_flight.is_some() || self.written.as_ref() == Some(&desired) {
            return None;
        }
        if !self.is_known {
            return Some(Request::Load);
        }
        Some(Request::Write(self.version.clone(), desired))
    }

    /// A request leaves.
    pub fn sent(&mut self, id: RequestId, request: Request) {
        let does = match request {
            Request::Load => InFlight::Load,
            Request::Write(_, content) => InFlight::Write(content),
        };
        self.in_flight = Some((id, does));
    }

    /// It is deleted, because nothing uses the group any more.
    pub fn drops(&mut self, id: RequestId) {
        self.in_flight = Some((id, InFlight::Drop));
    }

    /// A read has ended that gave nothing, or gives it to [`Self::found`].
    pub fn load_ended(&mut self, id: RequestId) {
        self.ends(id);
    }

    fn ends(&mut self, id: RequestId) -> Option<InFlight> {
        self.in_flight.take_if(|(own, _)| *own == id).map(|(_, does)| does)
    }

    /// A write has ended. A conflict is an unknown outcome: something else is there now.
    pub fn written(&mut self, id: RequestId, result: Result<LedgerVersion, Outcome>) {
        let content = match self.ends(id) {
            Some(InFlight::Write(content)) => content,
            Some(InFlight::Drop) => return self.forget(),
            _ => return,
        };
        match result {
            Ok(version) => {
                (self.version, self.written) = (Some(version), Some(content));
                self.is_ready = true;
            }
            Err(Outcome::Refused) => {}
            Err(Outcome::Done | Outcome::Gone | Outcome::Unknown) => self.forget(),
        }
    }

    /// A read has ended.
    pub fn loaded(
        &mut self,
        id: RequestId,
        result: Result<Option<(LedgerVersion, Content)>, Outcome>,
    ) -> Loaded {
        match (self.ends(id), result) {
            (Some(InFlight::Load), Ok(found)) => self.found(found),
            _ => Loaded::Nothing,
        }
    }

    /// It was read, by a request of its own or with all others.
    pub fn found(&mut self, found: Option<(LedgerVersion, Content)>) -> Loaded {
        let (version, content) = found.map_or((None, Content::default()), |(at, is)| (Some(at), is));
        if content.term > self.term {
            self.is_ready = false;
            return Loaded::LaterTerm;
        }
        (self.version, self.is_known) = (version, true);
        if self.is_ready { Loaded::Again(content.claims) } else { Loaded::First(content.claims) }
    }

    /// A watch has shown this version; `None`: that it was deleted. One that a write in flight may have made says nothing.
    pub fn seen(&mut self, version: Option<&LedgerVersion>) {
        if self.in_flight.is_none() && self.is_known && self.version.as_ref() != version {
            self.forget();
        }
    }

    fn forget(&mut self) {
        (self.written, self.is_known) = (None, false);
    }
}
