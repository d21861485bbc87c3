//! The grants of an administrator, which decide the target groups that each namespace may bind.

use std::{collections::BTreeSet, sync::Arc};

use thiserror::Error;

use super::{GroupRef, Target, TargetGroupArn, excerpt::brief};

/// A pattern for the names or ARNs of target groups. Each `*` matches any number of characters.
///
/// Headgate compares a pattern that begins with `arn:` with the whole ARN, and any other pattern with the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPattern(Arc<str>);

/// Why a text is not a [`GroupPattern`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "\"{text}\" matches no target group: it {piece}. Write a name or an ARN; * stands for any characters, as in web-*."
)]
pub struct PatternError {
    text: Box<str>,
    piece: &'static str,
}

impl GroupPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// The pattern cannot match the name or ARN of any target group.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let is_arn = text.starts_with("arn:");
        let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '*');
        let of_arn = |c: char| of_name(c) || matches!(c, ':' | '/' | '_');
        let piece = if text.is_empty() {
            "is empty"
        } else if text.len() > 256 {
            "is longer than 256 characters"
        } else if is_arn && !text.chars().all(of_arn) {
            "has characters that no ARN has"
        } else if !is_arn && !text.chars().all(of_name) {
            "has characters other than letters, digits, - and *"
        } else {
            return Ok(Self(text.into()));
        };
        Err(PatternError { text: brief(text).into(), piece })
    }

    /// Whether the pattern matches this target group.
    pub fn matches(&self, group: &TargetGroupArn) -> bool {
        let of = if self.0.starts_with("arn:") { group.as_str() } else { group.name() };
        glob(&self.0, of)
    }

    /// Whether the pattern may match the target group that this reference names. If the reference is a name, the
    /// account and region are unknown.
    pub fn may_match(&self, reference: &GroupRef) -> bool {
        match reference {
            GroupRef::Arn(arn) => self.matches(arn),
            GroupRef::Name(name) if !self.0.starts_with("arn:") => glob(&self.0, name),
            GroupRef::Name(name) => {
                let Some((_, of_group)) = self.0.rsplit_once("targetgroup/") else { return true };
                let (name, literal) = (format!("{name}/"), of_group.split('*').next().unwrap_or_default());
                name.starts_with(literal) || literal.starts_with(&name)
            }
        }
    }

    /// The pattern in its original text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether `text` matches `pattern`, in which each `*` stands for any characters. The number of steps is at most the
/// product of the lengths of `text` and `pattern`.
fn glob(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

/// The relevant fields of a TargetGroupGrant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantFacts {
    /// The name of the grant.
    pub name: Arc<str>,
    /// The target groups.
    pub groups: Vec<GroupPattern>,
    /// The namespaces that the grant names or that its selector currently matches.
    pub namespaces: BTreeSet<Arc<str>>,
    /// Whether the namespaces may also remove foreign targets (`ownership: exclusive`).
    pub exclusive: bool,
}

impl GrantFacts {
    /// Whether the grant names this target group.
    pub fn names(&self, group: &TargetGroupArn) -> bool {
        self.groups.iter().any(|pattern| pattern.matches(group))
    }
}

/// The namespaces that have targets in a target group. If no grant names the group, these namespaces own the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holders<'a> {
    /// Headgate has not read the ledger yet.
    Unknown,
    /// These namespaces own the target group.
    These(&'a BTreeSet<Arc<str>>),
}

/// Facts about the target groups that namespaces bind.
pub trait Held {
    /// The namespaces that have targets in a group.
    fn holders(&self, group: &TargetGroupArn) -> Holders<'_>;
    /// Whether the referenced group is known from a ledger or an earlier binding.
    fn knows(&self, reference: &GroupRef) -> bool;
    /// The targets of a group that Headgate may have registered in AWS.
    fn told(&self, group: &TargetGroupArn) -> BTreeSet<Target>;
}

/// The permissions of a namespace for a target group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    /// Whether the namespace may remove foreign targets.
    pub exclusive: bool,
    /// Whether other namespaces also own the target group, which no grant names.
    pub shared: bool,
}

/// Why a namespace is not allowed to bind a target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// These grants name the target group, but not the namespace.
    OtherNamespaces(Vec<Arc<str>>),
    /// No grant names the target group, but a grant is required.
    NoGrant,
    /// No grant names the target group, and this other namespace was the first to register a target in the group.
    Held(Arc<str>),
}

impl Refusal {
    /// The report for a user: why the binding is rejected, and which grant would allow it.
    pub fn said(&self, namespace: &str, name: &str) -> String {
        let namespace = brief(namespace);
        match self {
            Self::OtherNamespaces(grants) => {
                let first = brief(grants.first().map_or("", |name| name));
                let grant = match grants.len() {
                    0 | 1 => format!("TargetGroupGrant {first}"),
                    all => format!("one of {all} grants, such as {first}"),
                };
                format!("Target group {name} is not granted to namespace {namespace}. Extend {grant}.")
            }
            Self::NoGrant => format!(
                "Target group {name} is not granted to any namespace (--grants=required). Create a TargetGroupGrant for \
                 namespace {namespace}."
            ),
            Self::Held(holder) => format!(
                "Target group {name} was bound first by namespace {}. Create a TargetGroupGrant for both namespaces.",
                brief(holder)
            ),
        }
    }
}

/// A rejected binding of a namespace that has targets in the group. Existing targets remain for a while, and no target
/// is added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// The targets that the group had when the binding was rejected.
    pub stay: Arc<BTreeSet<Target>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::arn;

    #[test]
    fn a_name_may_be_that_of_a_group_whose_arn_a_pattern_matches() {
        let web = GroupRef::Name("web".into());
        for (pattern, expected) in [
            ("web", true),
            ("we*", true),
            ("api", false),
            ("arn:*", true),
            ("arn:aws:elasticloadbalancing:*:123456789012:targetgroup/*", true),
            ("arn:aws:elasticloadbalancing:*:123456789012:targetgroup/we*", true),
            ("arn:aws:elasticloadbalancing:*:123456789012:targetgroup/web/*", true),
            ("arn:aws:elasticloadbalancing:*:123456789012:targetgroup/web/0123456789abcdef", true),
            ("arn:aws:elasticloadbalancing:*:123456789012:targetgroup/web-2/*", false),
            ("arn:aws:elasticloadbalancing:*:123456789012:targetgroup/api*", false),
        ] {
            assert_eq!(GroupPattern::parse(pattern).unwrap().may_match(&web), expected, "{pattern}");
        }
    }

    fn matches(pattern: &str, group: &str) -> bool {
        GroupPattern::parse(pattern).unwrap().matches(&arn(group))
    }

    #[test]
    fn a_pattern_is_held_against_the_name_or_the_arn() {
        for (pattern, group, expected) in [
            ("web", "web", true),
            ("web", "web-2", false),
            ("web*", "web", true),
            ("web*", "web-2", true),
            ("*web", "my-web", true),
            ("*web", "web-2", false),
            ("w*b*2", "web-12", true),
            ("w*b*2", "web-21", false),
            ("a*a", "a", false),
            ("*", "anything", true),
            ("arn:*", "web", true),
            ("arn:aws:elasticloadbalancing:us-east-1:*:targetgroup/web/*", "web", true),
            ("arn:aws:elasticloadbalancing:us-east-1:*:targetgroup/web/*", "web-2", false),
            ("arn:aws:elasticloadbalancing:eu-central-1:*:targetgroup/web/*", "web", false),
        ] {
            assert_eq!(matches(pattern, group), expected, "{pattern} {group}");
        }
        assert!(GroupPattern::parse(arn("web").as_str()).unwrap().matches(&arn("web")));
    }

    #[test]
    fn a_text_that_matches_nothing_is_refused_with_what_was_expected() {
        for bad in
            ["", "no_name", "a b", "arn:aws:elasticloadbalancing:us-east-1:1:targetgroup/a b/*", "web?"]
        {
            let said = GroupPattern::parse(bad).unwrap_err().to_string();
            assert!(said.contains("Write a name or an ARN"), "{said}");
        }
        assert!(GroupPattern::parse(&"a".repeat(257)).is_err());
        assert_eq!(GroupPattern::parse("web-*").unwrap().as_str(), "web-*");
    }

    #[test]
    fn a_refusal_says_why_and_what_would_be_needed() {
        let said = |refusal: Refusal| refusal.said("b", "web");
        let grants = |count: usize| (0..count).map(|at| format!("g{at}").into()).collect();
        assert_eq!(
            said(Refusal::OtherNamespaces(grants(1))),
            "Target group web is not granted to namespace b. Extend TargetGroupGrant g0."
        );
        assert!(said(Refusal::OtherNamespaces(grants(2))).ends_with(" Extend one of 2 grants, such as g0."));
        assert!(said(Refusal::NoGrant).contains("not granted to any namespace (--grants=required)"));
        assert!(said(Refusal::Held("a".into())).contains("bound first by namespace a"));
    }
}
