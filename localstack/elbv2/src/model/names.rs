//! Validates and parses names and ARNs.

use super::Refusal;

/// The kind of resource in an ARN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArnKind {
    /// `…:loadbalancer/{net,app}/NAME/ID`
    LoadBalancer,
    /// `…:targetgroup/NAME/ID`
    TargetGroup,
    /// `…:listener/{net,app}/NAME/LB-ID/ID`
    Listener,
    /// `…:listener-rule/app/NAME/LB-ID/LISTENER-ID/ID`
    Rule,
}

impl ArnKind {
    fn words(self) -> &'static str {
        match self {
            Self::LoadBalancer => "load balancer",
            Self::TargetGroup => "target group",
            Self::Listener => "listener",
            Self::Rule => "rule",
        }
    }
}

/// A well-formed ARN of this service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arn {
    /// The kind of resource.
    pub kind: ArnKind,
    /// The text of the ARN.
    pub text: String,
}

impl Arn {
    /// Parses an ARN of any kind.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.splitn(6, ':');
        let head = (fields.next()?, fields.next()?, fields.next()?);
        let (region, account, resource) = (fields.next()?, fields.next()?, fields.next()?);
        if head.0 != "arn"
            || !head.1.starts_with("aws")
            || head.2 != "elasticloadbalancing"
            || region.is_empty()
            || account.len() != 12
            || !account.bytes().all(|b| b.is_ascii_digit())
        {
            return None;
        }
        let parts: Vec<&str> = resource.split('/').collect();
        let kind = match parts.as_slice() {
            ["loadbalancer", "net" | "app" | "gwy", _, _] => ArnKind::LoadBalancer,
            ["targetgroup", _, _] => ArnKind::TargetGroup,
            ["listener", "net" | "app" | "gwy", _, _, _] => ArnKind::Listener,
            ["listener-rule", "net" | "app" | "gwy", _, _, _, _] => ArnKind::Rule,
            _ => return None,
        };
        let hex = parts.last()?;
        let sound = parts.iter().all(|part| !part.is_empty())
            && hex.len() >= 16
            && hex.bytes().all(|b| b.is_ascii_hexdigit());
        sound.then(|| Self { kind, text: text.to_owned() })
    }

    /// Parses an ARN that must be of one kind. For other ARNs, the error is always a ValidationError, never a "not
    /// found".
    pub fn expect_kind(text: &str, kind: ArnKind) -> Result<Self, Refusal> {
        Self::parse(text)
            .filter(|arn| arn.kind == kind)
            .ok_or_else(|| Refusal::validation(format!("'{text}' is not a valid {} ARN", kind.words())))
    }
}

/// Checks a name. A name has 1 to 32 letters, digits and hyphens, and no hyphen at either end. The name of a load
/// balancer must not begin with `internal-`.
pub fn check_name(kind: ArnKind, name: &str) -> Result<(), Refusal> {
    let what = match kind {
        ArnKind::LoadBalancer => "Load balancer name",
        ArnKind::TargetGroup | ArnKind::Listener | ArnKind::Rule => "Target group name",
    };
    let wrong = |why: &str| Err(Refusal::validation(format!("{what} '{name}' {why}")));
    if name.is_empty() || name.len() > 32 {
        wrong("must be between 1 and 32 characters long")
    } else if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        wrong("can only contain characters that are alphanumeric characters or hyphens(-)")
    } else if name.starts_with('-') || name.ends_with('-') {
        wrong("cannot begin or end with '-'")
    } else if kind == ArnKind::LoadBalancer && name.starts_with("internal-") {
        wrong("cannot begin with 'internal-'")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_arn_is_named_in_the_refusal() {
        let refusal = Arn::expect_kind("web", ArnKind::TargetGroup).unwrap_err();
        assert_eq!(refusal.code(), "ValidationError");
        assert_eq!(refusal.to_string(), "'web' is not a valid target group ARN");
    }

    #[test]
    fn an_arn_of_another_kind_is_malformed() {
        let arn = "arn:aws:elasticloadbalancing:us-east-1:123456789012:loadbalancer/net/a/50dc6c495c0c9188";
        assert!(Arn::expect_kind(arn, ArnKind::LoadBalancer).is_ok());
        assert!(Arn::expect_kind(arn, ArnKind::TargetGroup).is_err());
    }

    #[test]
    fn an_arn_with_a_short_account_is_malformed() {
        let arn = "arn:aws:elasticloadbalancing:us-east-1:12:targetgroup/web/50dc6c495c0c9188";
        assert!(Arn::parse(arn).is_none());
    }

    #[test]
    fn names_may_have_double_hyphens_inside_but_none_at_the_ends() {
        assert!(check_name(ArnKind::TargetGroup, "a--b").is_ok());
        assert!(check_name(ArnKind::TargetGroup, "-a").is_err());
        assert!(check_name(ArnKind::TargetGroup, "a_b").is_err());
        assert!(check_name(ArnKind::TargetGroup, &"a".repeat(33)).is_err());
    }

    #[test]
    fn only_load_balancers_must_not_be_called_internal() {
        assert!(check_name(ArnKind::LoadBalancer, "internal-a").is_err());
        assert!(check_name(ArnKind::TargetGroup, "internal-a").is_ok());
    }
}
