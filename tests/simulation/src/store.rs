//! Where the ledgers of a world are kept: objects with versions, and the requests in flight.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{coverage::Coverage, words::Sender, words::forbidden, words::no_answer};
use headgate_core::{
    engine::Input,
    ledger::{Ledger, LedgerRequest, LedgerVersion, Noted, PackedLedger, PodMark, StoredLedger, object_name},
    model::{Failure, FailureClass, Moment, RequestId, Target, TargetGroupArn, WallTime, claims::Content},
    requests::{Answer, Request},
};

/// A write that was given up may land this much later.
const LATEST: u64 = 15_000;

/// What a ledger says. By claims it does not say how far a target is.
pub fn read(packed: &PackedLedger) -> Ledger {
    if !cfg!(feature = "claims") {
        return Ledger::unpack(packed).unwrap();
    }
    let mut ledger = Ledger::default();
    for (target, claim) in Content::unpack(&packed.claims, packed.family).unwrap().claims {
        ledger.note(target, Noted::Registered, claim.pod);
    }
    ledger
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
        let Some((_, packed)) = self.objects.get(&object_name(group)) else { return false };
        let said = read(packed).get(target);
        said.is_some_and(|(noted, pod)| noted != Noted::Removed && pod == mark)
    }

    /// For which pod the ledger notes `target`.
    pub fn mark(&self, group: &TargetGroupArn, target: &Target) -> Option<PodMark> {
        let (_, packed) = self.objects.get(&object_name(group))?;
        read(packed).get(target).map(|(_, mark)| mark)
    }

    /// The groups that have a ledger, each with its content.
    pub fn all(&self) -> impl Iterator<Item = (&TargetGroupArn, Ledger)> {
        self.objects.values().map(|(_, packed)| (&packed.group, read(packed)))
    }

    /// Whether the ledger of `group` says that exactly these targets are registered, and nothing else, but for what `may_stay`.
    pub fn says_exactly(
        &self,
        group: &TargetGroupArn,
        targets: &BTreeSet<Target>,
        may_stay: impl Fn(&Target, Noted, Option<WallTime>) -> bool,
    ) -> bool {
        let Some((_, packed)) = self.objects.get(&object_name(group)) else { return targets.is_empty() };
        let ledger = read(packed);
        let mut said = ledger.iter().filter(|(target, noted, _)| {
            targets.contains(target) || !may_stay(target, *noted, ledger.out_since(target))
        });
        targets.iter().all(|target| ledger.get(target).is_some())
            && said.all(|(target, noted, _)| noted == Noted::Registered && targets.contains(target))
    }

    /// Since when a target is noted to be out, if that is noted.
    pub fn out_since(&self, group: &TargetGroupArn, target: &Target) -> Option<WallTime> {
        let (_, packed) = self.objects.get(&object_name(group))?;
        read(packed).out_since(target)
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
