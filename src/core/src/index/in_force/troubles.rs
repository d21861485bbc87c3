//! Current problems of bindings and their pods.

use std::collections::BTreeSet;

use super::{Contest, InForce, Subject};
use crate::model::{BindingKey, Cause, ObjectKey, Target, Trouble, TroubleKind};

/// All pods with the same problem, and one example. The example does not change while the problem lasts.
#[derive(Clone, Debug)]
pub struct Troubled {
    example: String,
    subjects: BTreeSet<Subject>,
}

impl InForce {
    /// The problems of a binding, each with the name of an affected pod or target as an example.
    pub fn troubles_of<'a>(
        &'a self,
        binding: &'a BindingKey,
    ) -> impl Iterator<Item = (&'a Trouble, &'a str)> {
        let own = self.troubles.iter().filter(move |(trouble, _)| trouble.binding == *binding);
        own.map(|(trouble, troubled)| (trouble, &*troubled.example))
    }

    /// All current problems.
    pub fn troubles(&self) -> impl Iterator<Item = &Trouble> {
        self.troubles.keys()
    }

    /// Whether this problem exists.
    pub fn has_trouble(&self, trouble: &Trouble) -> bool {
        self.troubles.contains_key(trouble)
    }

    fn begin(&mut self, trouble: Trouble, subject: Subject) {
        let troubled = self.troubles.entry(trouble.clone()).or_insert_with(|| {
            self.changes.troubles.insert(trouble);
            let (pod, target) = &subject;
            let example = target.map_or_else(|| pod.name.to_string(), |target| target.to_string());
            Troubled { example, subjects: BTreeSet::new() }
        });
        troubled.subjects.insert(subject);
    }

    fn end(&mut self, trouble: &Trouble, subject: &Subject) {
        let Some(troubled) = self.troubles.get_mut(trouble) else { return };
        troubled.subjects.remove(subject);
        if troubled.subjects.is_empty() {
            self.troubles.remove(trouble);
            self.changes.troubles.insert(trouble.clone());
        }
    }

    /// Ends the problems of this kind that a pod has. Problems of a target end when the `Claim` on the target is
    /// removed.
    pub fn end_of(&mut self, pod: &ObjectKey, kind: impl Fn(&TroubleKind) -> bool) {
        let subject = (pod.clone(), None);
        let has = |(trouble, troubled): &(&Trouble, &Troubled)| {
            kind(&trouble.kind) && troubled.subjects.contains(&subject)
        };
        for trouble in
            self.troubles.iter().filter(has).map(|(trouble, _)| trouble.clone()).collect::<Vec<_>>()
        {
            self.end(&trouble, &subject);
        }
    }

    /// Records that a pod cannot be a target of a binding, with the reason from the verdict. `None`: the problem has
    /// ended.
    pub fn note_unfit(&mut self, pod: &ObjectKey, binding: &BindingKey, says: Option<Cause>) {
        for cause in [Cause::NoSuchPort, Cause::WrongIpFamily] {
            let trouble = Trouble { binding: binding.clone(), kind: TroubleKind::Unfit(cause) };
            let subject = (pod.clone(), None);
            if says == Some(cause) {
                self.begin(trouble, subject);
            } else {
                self.end(&trouble, &subject);
            }
        }
    }

    /// Records that a list did not contain this pod, and that no second list has confirmed the pod's deletion.
    pub fn note_doubt(&mut self, pod: &ObjectKey, claims: &[(BindingKey, Target)]) {
        for (binding, _) in claims {
            let trouble = Trouble { binding: binding.clone(), kind: TroubleKind::ListDoubted };
            self.begin(trouble, (pod.clone(), None));
        }
    }

    /// Updates the problems after the `Claim`s on a target have changed.
    pub fn note_contest(&mut self, before: &[(Trouble, Subject)], now: &[(Trouble, Subject)]) {
        for (trouble, subject) in before.iter().filter(|one| !now.contains(one)) {
            self.end(trouble, subject);
        }
        for (trouble, subject) in now.iter().filter(|one| !before.contains(one)) {
            self.begin(trouble.clone(), subject.clone());
        }
    }
}

impl Contest {
    /// The problems of all `Claim`s on `target`. The problems depend on which `Claim` makes its pod the owner.
    pub fn troubles(&self, target: Target) -> Vec<(Trouble, Subject)> {
        let Some(owner) = self.prevailing() else { return Vec::new() };
        let mut troubles = Vec::new();
        let mut add = |binding: &BindingKey, pod: &ObjectKey, kind| {
            troubles.push((Trouble { binding: binding.clone(), kind }, (pod.clone(), Some(target))));
        };
        for other in &self.claims {
            let (mine, others) = (&owner.binding, &other.binding);
            if mine.origin != others.origin && owner.owner.uid == other.owner.uid {
                add(mine, &owner.owner.pod, TroubleKind::ClaimedTwice(others.origin.clone()));
                add(others, &other.owner.pod, TroubleKind::ClaimedTwice(mine.origin.clone()));
            }
            if self.is_honest() && owner.owner.uid != other.owner.uid {
                let (waiting, owner) = (other.owner.pod.clone(), owner.owner.pod.clone());
                add(others, &other.owner.pod, TroubleKind::HostNetwork { waiting, owner, target });
            }
        }
        troubles
    }
}
