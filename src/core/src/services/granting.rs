//! The handling of bindings that a namespace is not allowed to have.
//!
//! * If the namespace has no targets in the group, the binding is not active.
//! * If the namespace has targets in the group, the binding is **withheld**: existing targets remain for a while, and
//!   no target is added. If a grant is removed by mistake, Headgate deregisters no pod immediately, so an administrator
//!   has time to restore the grant.
//! * Until Headgate has read the ledger of a group, it allows every binding, because the group's owner is unknown. The
//!   leader reads the ledgers before it acts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::Services;
use crate::{
    agenda::Agenda,
    binding::grants::Grants,
    model::{
        self, BindingKey, Cause, GroupRef, Moment, Origin, Ownership, Problem, Reason, Resolution, Settings,
        Settled, Target, TargetGroupArn,
        grant::{GrantFacts, Held, Holders, Permit, Withheld},
        policy::OWNERSHIP,
    },
};

/// The remaining targets of a rejected binding, and the time until which they remain.
#[derive(Clone, Debug)]
pub struct Withholding {
    until: Moment,
    stay: Arc<BTreeSet<Target>>,
}

/// The withheld bindings of one object.
pub type Withholdings = BTreeMap<BindingKey, Withholding>;

/// Decides which bindings the grants allow, as described in the module docs.
#[derive(Clone, Debug, Default)]
pub struct Granting {
    grants: Grants,
    /// How long the targets of a rejected binding remain.
    grace: Duration,
    /// When each withheld binding expires.
    ends: Agenda<Moment, Origin>,
}

impl Granting {
    pub fn new(settings: &Settings) -> Self {
        let grants = Grants::new(settings.grants == model::settings::Granting::Required);
        Self { grants, grace: settings.refusal_grace, ends: Agenda::default() }
    }

    /// The objects with a withheld binding that expires now.
    pub fn pass(&mut self, now: Moment) -> Vec<Origin> {
        std::iter::from_fn(|| self.ends.take(now)).collect()
    }

    /// The time of the next expiry of a withheld binding.
    pub fn next_due(&self) -> Option<Moment> {
        self.ends.next_due()
    }

    /// Removes or withholds the bindings that the namespace is not allowed to have. Returns whether a binding was
    /// rejected.
    pub fn grant(
        &mut self,
        origin: &Origin,
        settled: &mut Settled,
        withheld: &mut Withholdings,
        held: &impl Held,
        now: Moment,
    ) -> bool {
        let namespace = &origin.key().namespace;
        let Settled { bindings, problems, refused, .. } = settled;
        withheld.retain(|key, _| bindings.contains_key(key));
        bindings.retain(|key, binding| {
            let holders = held.holders(&key.group);
            binding.withheld = None;
            let refusal = match self.grants.rule(namespace, &key.group, holders) {
                Ok(permit) => {
                    withheld.remove(key);
                    problems.extend(limit(key, permit, &mut binding.policy.ownership));
                    return true;
                }
                Err(refusal) => refusal,
            };
            binding.policy.ownership = Ownership::Shared;
            let Holders::These(these) = holders else { return true };
            let has_targets = these.contains(namespace);
            if has_targets && !withheld.contains_key(key) {
                let stay = Arc::new(held.told(&key.group));
                withheld.insert(key.clone(), Withholding { until: now + self.grace, stay });
            }
            let stays = withheld.get(key).filter(|it| has_targets && now < it.until);
            binding.withheld = stays.map(|it| Withheld { stay: it.stay.clone() });
            let mut said = refusal.said(namespace, key.group.name());
            if stays.is_some() {
                let minutes = minutes(self.grace);
                said = format!("{said} Targets remain for {minutes} min.");
            }
            problems.push(Problem::of_ports([key.port.clone()], Reason::NotGranted, said));
            *refused = true;
            stays.is_some()
        });
        let ends = withheld.values().map(|it| it.until).filter(|until| now < *until).min();
        self.ends.put(origin, ends);
        *refused
    }

    /// Whether a namespace may bind this target group. `holders` are the namespaces that own the group.
    pub fn allows(&self, namespace: &str, group: &TargetGroupArn, holders: Holders<'_>) -> bool {
        self.grants.rule(namespace, group, holders).is_ok()
    }

    /// Whether a namespace may bind only target groups that a grant names.
    pub const fn is_required(&self) -> bool {
        self.grants.is_required()
    }

    /// Checks whether to look up a target group that a namespace names. Headgate looks up only target groups that the
    /// namespace may bind, or that a ledger or an earlier binding contains.
    ///
    /// # Errors
    /// The reason why no look-up result would allow the binding.
    pub fn may_look_up(
        &self,
        namespace: &str,
        reference: &GroupRef,
        held: &impl Held,
    ) -> Result<(), Resolution> {
        match self.grants.could(namespace, reference) {
            Ok(()) => Ok(()),
            Err(_) if held.knows(reference) => Ok(()),
            Err(refusal) => {
                let name = reference.arn().map_or_else(|| reference.to_string(), |arn| arn.name().to_owned());
                let said = refusal.said(namespace, &name);
                Err(Resolution::Failed(Cause::NotGranted, said.into()))
            }
        }
    }

    /// Whether a grant names this target group.
    pub fn names(&self, group: &TargetGroupArn) -> bool {
        self.grants.name(group)
    }
}

const fn minutes(grace: Duration) -> u64 {
    grace.as_secs().div_ceil(60)
}

/// Limits the ownership mode of a binding to the permissions of the namespace. Returns the problem to report, if any.
fn limit(key: &BindingKey, permit: Permit, ownership: &mut Ownership) -> Option<Problem> {
    let name = key.group.name();
    let (reason, said) = if *ownership == Ownership::Exclusive && !permit.exclusive {
        *ownership = Ownership::Shared;
        let said = format!(
            "Target group {name}: foreign targets remain, because {OWNERSHIP}: exclusive needs a grant. Create a \
             TargetGroupGrant with allow: [Exclusive]."
        );
        (Reason::ExclusiveNotGranted, said)
    } else if permit.shared {
        let said = format!(
            "Target group {name}: several namespaces share it without a grant, and no other namespace may bind it. Create \
             a TargetGroupGrant for these namespaces."
        );
        (Reason::NoGrant, said)
    } else {
        return None;
    };
    Some(Problem::of_ports([key.port.clone()], reason, said))
}

impl Services {
    /// Replaces all grants, and returns the objects that the caller must reevaluate.
    pub(super) fn set_grants(&mut self, all: Vec<GrantFacts>) -> Vec<Origin> {
        if self.granting.grants.set(all) { self.known.keys().cloned().collect() } else { Vec::new() }
    }
}
