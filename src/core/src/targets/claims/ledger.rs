//! The ledger of one target group in one term.
//!
//! One write is in flight at a time. Each write carries the version that it replaces. Only content that this term has
//! written counts, after the API server has acknowledged the write. A write of an earlier leader may still be under
//! way; a write of this term makes it fail. After a conflict or an unknown result, nothing counts until the next
//! acknowledged write.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    ledger::{LedgerVersion, PodMark},
    model::{
        RequestId, Target,
        claims::{Claims, Content, Outcome, Request},
    },
};

/// The result of reading the ledger.
pub(super) enum Loaded {
    /// A later term has written the ledger, so this replica no longer leads.
    LaterTerm,
    /// This term has not written the ledger yet.
    First(Claims),
    /// This term has written the ledger before.
    Again(Claims),
}

/// The effect of a request in flight.
#[derive(Clone, Debug)]
enum InFlight {
    Load,
    Drop,
    Write(Content),
}

/// See the module docs.
#[derive(Clone, Debug)]
pub struct LedgerWriter {
    term: u64,
    /// The version to replace. `None`: there is no ledger.
    version: Option<LedgerVersion>,
    /// Whether `version` is known. If it is not, Headgate reads the ledger first.
    is_known: bool,
    /// The last acknowledged content of this term. `None`: the ledger may have other content.
    written: Option<Content>,
    in_flight: Option<(RequestId, InFlight)>,
    /// Whether this term has written the ledger.
    is_ready: bool,
    /// Whether a later term has written the ledger. This term then asks for nothing any more.
    is_outdated: bool,
    /// The namespaces that hold the group.
    holders: BTreeSet<Arc<str>>,
}

impl LedgerWriter {
    /// A ledger that this term has neither read nor written.
    pub const fn new(term: u64) -> Self {
        Self {
            term,
            version: None,
            is_known: false,
            written: None,
            in_flight: None,
            is_ready: false,
            is_outdated: false,
            holders: BTreeSet::new(),
        }
    }

    /// The namespaces that hold the group.
    pub const fn holders(&self) -> &BTreeSet<Arc<str>> {
        &self.holders
    }

    /// Sets the namespaces that hold the group, for the next write.
    pub fn set_holders(&mut self, holders: BTreeSet<Arc<str>>) {
        self.holders = holders;
    }

    /// Whether a term has begun. Nothing is claimed before that.
    pub const fn has_begun(&self) -> bool {
        self.term > 0
    }

    /// Whether this term has written the ledger. Headgate sends nothing for the group before that.
    pub const fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Whether no request is in flight.
    pub const fn is_idle(&self) -> bool {
        self.in_flight.is_none()
    }

    /// The version that the next write replaces. `None`: there is no ledger.
    pub const fn version(&self) -> Option<&LedgerVersion> {
        self.version.as_ref()
    }

    /// The last content that this term has written. `None`: the ledger may have other content.
    pub const fn last_written(&self) -> Option<&Content> {
        self.written.as_ref()
    }

    /// Whether the version of the ledger is known. If it is not, Headgate reads the ledger first.
    pub const fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether the ledger exists, or may exist.
    pub const fn exists(&self) -> bool {
        !self.is_known || self.version.is_some() || self.in_flight.is_some()
    }

    /// Whether the ledger has this claim now, and will still have it after the write in flight.
    pub fn has(&self, target: &Target, pod: PodMark) -> bool {
        let names = |content: &Content| content.claims.get(target).is_some_and(|claim| claim.pod == pod);
        self.written.as_ref().is_some_and(names) && self.writing().is_none_or(names)
    }

    /// Whether the ledger has no claim on this target, both now and after the write in flight.
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

    /// The request that is due, so that the ledger gets these claims.
    pub fn next(&self, claims: Claims) -> Option<Request> {
        let desired = Content { term: self.term, claims, holders: self.holders.clone() };
        if self.in_flight.is_some() || self.is_outdated || self.written.as_ref() == Some(&desired) {
            return None;
        }
        if !self.is_known {
            return Some(Request::Load);
        }
        Some(Request::Write(self.version.clone(), desired))
    }

    /// Headgate sends a request.
    pub fn sent(&mut self, id: RequestId, request: Request) {
        let does = match request {
            Request::Load => InFlight::Load,
            Request::Write(_, content) => InFlight::Write(content),
        };
        self.in_flight = Some((id, does));
    }

    /// Headgate deletes the ledger, because nothing uses the group any more.
    pub fn drops(&mut self, id: RequestId) {
        self.in_flight = Some((id, InFlight::Drop));
    }

    /// A read has ended. It failed, or [`super::Targets::found`] gets its result.
    pub fn load_ended(&mut self, id: RequestId) {
        self.ends(id);
    }

    fn ends(&mut self, id: RequestId) -> Option<InFlight> {
        self.in_flight.take_if(|(own, _)| *own == id).map(|(_, does)| does)
    }

    /// Handles the end of a write, or of the deletion of the ledger ([`Outcome::Done`]). A conflict counts as an unknown
    /// result, because the ledger has other content now.
    pub fn written(&mut self, id: RequestId, result: Result<LedgerVersion, Outcome>) {
        let content = match self.ends(id) {
            Some(InFlight::Write(content)) => content,
            Some(InFlight::Drop) if matches!(result, Err(Outcome::Done)) => {
                return (self.version, self.written) = (None, None);
            }
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

    /// Takes in the ledger, from a separate request or from a list of all ledgers.
    pub(super) fn found(&mut self, found: Option<(LedgerVersion, Content)>) -> Loaded {
        let (version, content) = found.map_or((None, Content::default()), |(at, is)| (Some(at), is));
        if content.term > self.term {
            (self.is_ready, self.is_outdated) = (false, true);
            return Loaded::LaterTerm;
        }
        (self.version, self.is_known) = (version, true);
        if self.is_ready {
            return Loaded::Again(content.claims);
        }
        self.holders = content.holders;
        Loaded::First(content.claims)
    }

    /// A watch has shown this version. `None`: the ledger was deleted. Ignored while a write is in flight, because that
    /// write may have made the version.
    pub fn seen(&mut self, version: Option<&LedgerVersion>) {
        if self.in_flight.is_none() && self.is_known && self.version.as_ref() != version {
            self.forget();
        }
    }

    fn forget(&mut self) {
        (self.written, self.is_known) = (None, false);
    }
}
