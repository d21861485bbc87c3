//! The rule that decides whether a namespace may bind a target group, with and without grants.
//!
//! ```text
//!  a grant names the group ──► allowed: the namespaces of all grants that name the group
//!  no grant ─── required ────► allowed: none
//!            └─ optional ────► allowed: namespaces with targets in the group, or the first to register a target
//! ```

use std::sync::Arc;

use crate::model::{
    GroupRef, TargetGroupArn,
    grant::{GrantFacts, Holders, Permit, Refusal},
};

/// The known grants, and whether each binding requires a grant.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    all: Vec<GrantFacts>,
    required: bool,
}

impl Grants {
    /// Creates the rule without any grants.
    pub const fn new(required: bool) -> Self {
        Self { all: Vec::new(), required }
    }

    /// Whether a namespace may bind only target groups that a grant names.
    pub const fn is_required(&self) -> bool {
        self.required
    }

    /// Replaces all grants, and returns whether the grants changed.
    pub fn set(&mut self, all: Vec<GrantFacts>) -> bool {
        let changed = self.all != all;
        self.all = all;
        changed
    }

    /// Whether any grant names this target group.
    pub fn name(&self, group: &TargetGroupArn) -> bool {
        self.all.iter().any(|grant| grant.names(group))
    }

    /// Checks whether `namespace` may bind `group`. `holders` are the namespaces that have targets in the group.
    ///
    /// # Errors
    /// Why the namespace is not allowed to bind the group, and how to allow the binding.
    pub fn rule(
        &self,
        namespace: &str,
        group: &TargetGroupArn,
        holders: Holders<'_>,
    ) -> Result<Permit, Refusal> {
        let naming: Vec<&GrantFacts> = self.all.iter().filter(|grant| grant.names(group)).collect();
        if naming.is_empty() {
            return self.rule_without_grant(namespace, holders);
        }
        let mut own = naming.iter().filter(|grant| grant.namespaces.contains(namespace)).peekable();
        if own.peek().is_none() {
            return Err(Refusal::OtherNamespaces(naming.iter().map(|grant| grant.name.clone()).collect()));
        }
        Ok(Permit { exclusive: own.any(|grant| grant.exclusive), shared: false })
    }

    /// Checks whether a look-up of `reference` could find a target group that `namespace` may bind.
    ///
    /// # Errors
    /// The reason why no look-up result would allow the binding.
    pub fn could(&self, namespace: &str, reference: &GroupRef) -> Result<(), Refusal> {
        let names = |grant: &&GrantFacts| grant.groups.iter().any(|pattern| pattern.may_match(reference));
        let naming: Vec<&GrantFacts> = self.all.iter().filter(names).collect();
        if !self.required || naming.iter().any(|one| one.namespaces.contains(namespace)) {
            return Ok(());
        }
        Err(match &naming[..] {
            [] => Refusal::NoGrant,
            _ => Refusal::OtherNamespaces(naming.iter().map(|grant| grant.name.clone()).collect()),
        })
    }

    fn rule_without_grant(&self, namespace: &str, holders: Holders<'_>) -> Result<Permit, Refusal> {
        if self.required {
            return Err(Refusal::NoGrant);
        }
        let is_own = |holder: &Arc<str>| **holder == *namespace;
        let (is_free, shared, first) = match holders {
            Holders::Unknown => (true, false, None),
            Holders::These(all) => {
                (all.is_empty() || all.iter().any(is_own), all.len() > 1, all.iter().next())
            }
        };
        match first {
            Some(first) if !is_free => Err(Refusal::Held(first.clone())),
            _ => Ok(Permit { exclusive: false, shared }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{model::grant::GroupPattern, testing::arn};

    fn grant(name: &str, group: &str, namespaces: &[&str], exclusive: bool) -> GrantFacts {
        GrantFacts {
            name: name.into(),
            groups: vec![GroupPattern::parse(group).unwrap()],
            namespaces: namespaces.iter().map(|name| Arc::from(*name)).collect(),
            exclusive,
        }
    }

    fn grants(required: bool, all: Vec<GrantFacts>) -> Grants {
        let mut grants = Grants::new(required);
        grants.set(all);
        grants
    }

    fn these(names: &[&str]) -> BTreeSet<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    const MAY: Permit = Permit { exclusive: false, shared: false };

    #[test]
    fn a_group_that_a_grant_names_may_be_bound_from_its_namespaces_whoever_holds_it() {
        for required in [false, true] {
            let some = grants(
                required,
                vec![grant("front", "web*", &["a"], false), grant("more", "web", &["b"], true)],
            );
            let rule = |namespace, group| some.rule(namespace, &arn(group), Holders::These(&these(&["c"])));
            assert_eq!(rule("a", "web-2"), Ok(MAY));
            assert_eq!(rule("a", "web"), Ok(MAY));
            assert_eq!(rule("b", "web"), Ok(Permit { exclusive: true, shared: false }));
            assert_eq!(rule("b", "web-2"), Err(Refusal::OtherNamespaces(vec!["front".into()])));
            assert_eq!(rule("c", "web"), Err(Refusal::OtherNamespaces(vec!["front".into(), "more".into()])));
            assert!(some.name(&arn("web")) && !some.name(&arn("other")));
        }
    }

    #[test]
    fn a_group_that_none_names_is_the_one_s_that_was_first_unless_grants_are_required() {
        let none = grants(false, vec![grant("front", "web", &["a"], true)]);
        let rule = |namespace, holders: &[&str]| {
            none.rule(namespace, &arn("other"), Holders::These(&these(holders)))
        };
        assert_eq!(rule("b", &[]), Ok(MAY), "nobody has it");
        assert_eq!(rule("b", &["b"]), Ok(MAY));
        assert_eq!(rule("b", &["a"]), Err(Refusal::Held("a".into())));
        assert_eq!(rule("b", &["a", "b"]), Ok(Permit { exclusive: false, shared: true }));
        assert_eq!(rule("c", &["a", "b"]), Err(Refusal::Held("a".into())));
        assert_eq!(none.rule("b", &arn("other"), Holders::Unknown), Ok(MAY), "the leader knows");
        let required = grants(true, Vec::new());
        for holders in [Holders::Unknown, Holders::These(&these(&["b"]))] {
            assert_eq!(required.rule("b", &arn("other"), holders), Err(Refusal::NoGrant));
        }
    }

    #[test]
    fn the_same_grants_once_more_change_nothing() {
        let mut grants = Grants::new(false);
        assert!(!grants.set(Vec::new()));
        assert!(grants.set(vec![grant("front", "web", &["a"], false)]));
        assert!(!grants.set(vec![grant("front", "web", &["a"], false)]));
    }
}
