//! Where the ledgers of a world are kept: objects with versions, and the requests in flight.

use std::{collections::BTreeMap, time::Duration};

use crate::{coverage::Coverage, words::Sender, words::forbidden, words::no_answer};
use headgate_core::{
    engine::Input,
    ledger::{LedgerRequest, LedgerVersion, PackedLedger, PodMark, StoredLedger, object_name},
    model::{
        Failure, FailureClass, Moment, RequestId, Target, TargetGroupArn,
        claims::{Claims, Content},
    },
    requests::{Answer, Request},
};

/// A write that was given up may land this much later.
const LATEST: u64 = 15_000;

/// The claims in a ledger.
pub fn claims(packed: &PackedLedger) -> Claims {
    Content::unpack(&packed.content, packed.family).unwrap().claims
}

/// A request in flight.
#[derive(Debug)]
pub struct Open {
    pub id: RequestId,
    pub sender: Sender,
    pub sent: Moment,
    pub request: LedgerRequest,
}

impl Open {
    /// Whether it has waited so long for its answer that its sender gives it up.
    fn is_overdue(&self, now: Moment) -> bool {
        now.since(self.sent) > Request::Ledger(self.request.clone()).patience()
    }
}

/// The store.
#[derive(Debug, Default)]
pub struct Store {
    objects: BTreeMap<String, (u64, PackedLedger)>,
    versions: u64,
    pub open: Vec<Open>,
    late: Vec<(Moment, LedgerRequest)>,
}

impl Store {
    /// Whether the ledger says now that `target` is ours, for the pod of this mark.
    pub fn says(&self, group: &TargetGroupArn, target: &Target, mark: PodMark) -> bool {
        self.mark(group, target) == Some(mark)
    }

    /// For which pod the ledger notes `target`.
    pub fn mark(&self, group: &TargetGroupArn, target: &Target) -> Option<PodMark> {
        let (_, packed) = self.objects.get(&object_name(group))?;
        claims(packed).get(target).map(|claim| claim.pod)
    }

    /// The groups that have a ledger, each with its content.
    pub fn all(&self) -> impl Iterator<Item = (&TargetGroupArn, Claims)> {
        self.objects.values().map(|(_, packed)| (&packed.group, claims(packed)))
    }

    /// Time has passed.
    pub fn pass(&mut self, now: Moment, coverage: &mut Coverage) {
        let late = std::mem::take(&mut self.late);
        for (at, request) in late {
            if at > now {
                self.late.push((at, request));
            } else if self.apply(&request).is_ok() {
                coverage.saw("ledger: written late, after it was given up");
            }
        }
    }

    /// The process that sent these is gone: they may still arrive.
    pub fn sender_died(&mut self, sender: Sender, rng: &mut fastrand::Rng, now: Moment) {
        for open in std::mem::take(&mut self.open) {
            if open.sender != sender {
                self.open.push(open);
            } else if rng.bool() {
                self.late.push((now + Duration::from_millis(rng.u64(1..LATEST)), open.request));
            }
        }
    }

    /// Whether a request has waited so long for its answer that its sender gives it up.
    pub fn overdue(&self, now: Moment) -> bool {
        self.open.iter().any(|open| open.is_overdue(now))
    }

    /// Ends one of the requests in flight in a way that chance decides; without faults as it should.
    pub fn end_one(
        &mut self,
        rng: &mut fastrand::Rng,
        faults: bool,
        now: Moment,
        coverage: &mut Coverage,
    ) -> Option<(Sender, Input)> {
        if self.open.is_empty() {
            return None;
        }
        let overdue = self.open.iter().position(|open| open.is_overdue(now));
        let at = overdue.unwrap_or_else(|| rng.usize(0..self.open.len()));
        let Open { id, sender, request, .. } = self.open.swap_remove(at);
        let fate = match (faults, overdue) {
            (true, Some(_)) => rng.u8(80..95),
            (true, None) => rng.u8(0..100),
            (false, _) => 0,
        };
        let (what, failure) = match fate {
            80..=84 => ("ledger: request never arrived", Some(no_answer())),
            85..=89 => {
                let _ = self.apply(&request);
                ("ledger: answer lost", Some(no_answer()))
            }
            90..=94 => {
                self.late.push((now + Duration::from_millis(rng.u64(1..LATEST)), request.clone()));
                ("ledger: request never arrived", Some(no_answer()))
            }
            95..=96 => ("ledger: refused", Some(forbidden())),
            _ => ("ledger: answered", None),
        };
        coverage.saw(what);
        let result = match (failure, &request) {
            (Some(failure), _) => Err(failure),
            (None, LedgerRequest::LoadAll) => Ok(Answer::Ledgers(self.load_all())),
            (None, LedgerRequest::Load(group)) => Ok(Answer::Ledger(self.stored(&object_name(group)))),
            (None, LedgerRequest::Write(..)) => {
                let result = self.apply(&request);
                if result.is_err() {
                    coverage.saw("ledger: conflict");
                }
                result.map(Answer::Written)
            }
            (None, LedgerRequest::Delete(..)) => self.apply(&request).map(|_| Answer::Done),
        };
        Some((sender, Input::Answered { id, result }))
    }

    /// All ledgers as they are.
    pub fn load_all(&self) -> Vec<StoredLedger> {
        self.objects.keys().filter_map(|name| self.stored(name)).collect()
    }

    fn stored(&self, name: &str) -> Option<StoredLedger> {
        let (version, packed) = self.objects.get(name)?;
        let version = LedgerVersion::new(version.to_string());
        Some(StoredLedger { name: name.into(), version, content: Ok(packed.clone()) })
    }

    fn apply(&mut self, request: &LedgerRequest) -> Result<LedgerVersion, Failure> {
        self.versions += 1;
        let is = |name: &str| self.stored(name).map(|stored| stored.version);
        let version = LedgerVersion::new(self.versions.to_string());
        match request {
            LedgerRequest::Write(base, packed) if is(&object_name(&packed.group)) == *base => {
                self.objects.insert(object_name(&packed.group), (self.versions, packed.clone()));
                Ok(version)
            }
            LedgerRequest::Delete(group, base) if is(&object_name(group)).as_ref() == Some(base) => {
                self.objects.remove(&object_name(group));
                Ok(version)
            }
            _ => Err(Failure::new(FailureClass::Conflict, "Conflict", "it has changed")),
        }
    }
}
