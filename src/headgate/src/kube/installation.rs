//! The settings that distinguish installations of Headgate: the name of the Lease, and the managed namespaces.
//!
//! Several installations may run in one namespace. Each installation has a Lease with its own name, and TargetLedgers
//! that are named after the Lease. Replicas with the same Lease must manage the same namespaces, because only one
//! replica is active and treats all targets as its own. The Lease states which namespaces the holder manages, so that a
//! replica with other settings is detected.

use std::fmt;

use headgate_core::Scope;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt, api::ListParams};

/// The default of Headgate's own namespace.
pub const NAMESPACE: &str = "headgate";
/// The default name of the Lease.
pub const LEASE: &str = "headgate";
/// The annotation of the Lease that contains the namespaces that the holder manages.
pub const SERVES: &str = "headgate.dev/serves";
/// The annotation of the Lease that contains the namespaces of earlier holders, if the present holder has not yet
/// opened the gates in these namespaces.
pub const SERVED_BEFORE: &str = "headgate.dev/served-before";

const NAMED: &str = "the namespaces ";

/// The namespaces that an installation manages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serves {
    /// The names of the managed namespaces. If the list is empty, names do not limit the managed namespaces.
    pub namespaces: Vec<String>,
    /// The label selector of the managed namespaces.
    pub selector: Option<String>,
}

impl fmt::Display for Serves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = self.namespaces.clone();
        names.sort();
        names.dedup();
        match (&*names, &self.selector) {
            ([], None) => f.write_str("all namespaces"),
            ([], Some(selector)) => write!(f, "namespaces with the labels {selector}"),
            (names, _) => write!(f, "{NAMED}{}", names.join(", ")),
        }
    }
}

/// Namespaces that are no longer managed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// The namespaces that were managed before.
    before: Serves,
    /// Namespaces of `before` that may still be managed.
    but: Option<Serves>,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.before)?;
        match &self.but {
            None => Ok(()),
            Some(Serves { selector: Some(selector), .. }) => {
                write!(f, " but those with the labels {selector}")
            }
            Some(Serves { namespaces, .. }) => write!(f, " but {}", namespaces.join(", ")),
        }
    }
}

impl Left {
    /// The names of the namespaces in `before`, some of which may be in [`but`](Self::but). `None`: all namespaces.
    ///
    /// # Errors
    /// The namespaces cannot be listed.
    pub async fn names(&self, client: &Client) -> kube::Result<Option<Vec<String>>> {
        self.before.names(client).await
    }

    /// The excluded namespaces.
    ///
    /// # Errors
    /// The namespaces cannot be listed.
    pub async fn but(&self, client: &Client) -> kube::Result<Vec<String>> {
        match &self.but {
            None => Ok(Vec::new()),
            Some(but) => but.names(client).await.map(Option::unwrap_or_default),
        }
    }

    /// The flag with which commands select the namespaces.
    pub fn flag(&self) -> String {
        match (self, &self.before.selector) {
            (Self { but: None, .. }, None) => format!(" --namespaces={}", self.before.namespaces.join(",")),
            (Self { but: Some(Serves { selector: None, .. }), .. }, Some(selector)) => {
                format!(" --namespace-selector='{selector}'")
            }
            _ => " --namespaces=…".to_owned(),
        }
    }
}

impl Serves {
    /// Parses the text form that [`fmt`](fmt::Display::fmt) creates.
    pub fn read(text: &str) -> Option<Self> {
        if text == "all namespaces" {
            Some(Self::default())
        } else if let Some(names) = text.strip_prefix("the namespaces ") {
            Some(Self { namespaces: names.split(", ").map(str::to_owned).collect(), selector: None })
        } else {
            let selector = text.strip_prefix("namespaces with the labels ")?.to_owned();
            Some(Self { namespaces: Vec::new(), selector: Some(selector) })
        }
    }

    /// The scopes to watch.
    pub fn scopes(&self) -> Vec<Scope> {
        match &self.namespaces[..] {
            [] => vec![Scope::Cluster],
            named => named.iter().map(|name| Scope::Namespace(name.as_str().into())).collect(),
        }
    }

    /// The namespaces in `self` that are not in `now`. `None`: `now` includes all namespaces of `self`.
    pub fn left_by(&self, now: &Self) -> Option<Left> {
        let serves_all = now.namespaces.is_empty() && now.selector.is_none();
        if serves_all || self == now {
            return None;
        }
        if self.namespaces.is_empty() || now.namespaces.is_empty() {
            return Some(Left { before: self.clone(), but: Some(now.clone()) });
        }
        let left = self.namespaces.iter().filter(|name| !now.namespaces.contains(name));
        let before = Self { namespaces: left.cloned().collect(), selector: None };
        (!before.namespaces.is_empty()).then_some(Left { before, but: None })
    }

    /// The names of the namespaces. `None`: all namespaces.
    ///
    /// # Errors
    /// The namespaces cannot be listed.
    pub async fn names(&self, client: &Client) -> kube::Result<Option<Vec<String>>> {
        let Some(selector) = &self.selector else {
            return Ok((!self.namespaces.is_empty()).then(|| self.namespaces.clone()));
        };
        let all: Api<Namespace> = Api::all(client.clone());
        let listed = all.list_metadata(&ListParams::default().labels(selector)).await?;
        Ok(Some(listed.iter().map(ResourceExt::name_any).collect()))
    }
}

/// Returns the named namespaces that do not exist. Without permission to read namespaces, the result is empty.
pub async fn missing<'a>(client: &Client, named: impl Iterator<Item = &'a str>) -> Vec<String> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let mut missing = Vec::new();
    for name in named {
        if matches!(namespaces.get_metadata_opt(name).await, Ok(None)) {
            missing.push(name.to_owned());
        }
    }
    missing
}

/// The names in a text form of [`Serves`].
pub fn named(serves: &str) -> impl Iterator<Item = &str> {
    serves.strip_prefix(NAMED).into_iter().flat_map(|names| names.split(", "))
}

/// The suffix in the names of this installation's TargetLedgers. `None`: the Lease has the default name, so the names
/// have no suffix.
pub fn ledger_suffix(lease: &str) -> Option<String> {
    (lease != LEASE).then(|| format!(".{lease}"))
}

/// Whether a TargetLedger belongs to the installation with this suffix. Names of target groups contain no dots.
pub fn is_own_ledger(name: &str, suffix: Option<&str>) -> bool {
    match (name.find('.'), suffix) {
        (None, None) => true,
        (Some(at), Some(suffix)) => &name[at..] == suffix,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serves(namespaces: &[&str], selector: Option<&str>) -> String {
        let namespaces = namespaces.iter().map(ToString::to_string).collect();
        Serves { namespaces, selector: selector.map(str::to_owned) }.to_string()
    }

    #[test]
    fn what_is_served_reads_the_same_in_whatever_order_it_was_given() {
        assert_eq!(serves(&[], None), "all namespaces");
        assert_eq!(serves(&["b", "a", "b"], None), "the namespaces a, b");
        assert_eq!(serves(&[], Some("x=y")), "namespaces with the labels x=y");
        assert_eq!(named(&serves(&["b", "a"], None)).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(named(&serves(&[], None)).count(), 0);
    }

    #[test]
    fn what_is_left_is_what_was_served_and_is_not_any_more() {
        let one = |text: &str| Serves::read(text).unwrap();
        for text in ["all namespaces", "the namespaces a, b", "namespaces with the labels x=y,z"] {
            assert_eq!(one(text).to_string(), text);
        }
        assert_eq!(Serves::read("whatever"), None);
        let left = |before: &str, now: &str| one(before).left_by(&one(now)).map(|left| left.to_string());
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(left("the namespaces a, b, c", "the namespaces b"), is("the namespaces a, c"));
        assert_eq!(left("the namespaces a", "the namespaces a, b"), None);
        assert_eq!(left("all namespaces", "the namespaces a"), is("all namespaces but a"));
        assert_eq!(
            left("namespaces with the labels x", "the namespaces a"),
            is("namespaces with the labels x but a")
        );
        assert_eq!(
            left("the namespaces a, b", "namespaces with the labels x"),
            is("the namespaces a, b but those with the labels x")
        );
        assert_eq!(
            left("all namespaces", "namespaces with the labels x"),
            is("all namespaces but those with the labels x")
        );
        assert_eq!(
            left("namespaces with the labels x", "namespaces with the labels y"),
            is("namespaces with the labels x but those with the labels y")
        );
        for same in ["all namespaces", "the namespaces a", "namespaces with the labels x"] {
            assert_eq!(left(same, same), None);
            assert_eq!(left(same, "all namespaces"), None);
        }
    }

    #[test]
    fn a_command_is_told_of_what_was_left_as_far_as_its_flags_can_say_it() {
        let one = |text: &str| Serves::read(text).unwrap();
        let flag = |before: &str, now: &str| one(before).left_by(&one(now)).unwrap().flag();
        assert_eq!(flag("the namespaces a, b, c", "the namespaces b"), " --namespaces=a,c");
        assert_eq!(flag("namespaces with the labels x", "the namespaces a"), " --namespace-selector='x'");
        for now in ["the namespaces a", "namespaces with the labels x"] {
            assert_eq!(flag("all namespaces", now), " --namespaces=…");
        }
        assert_eq!(flag("the namespaces a", "namespaces with the labels x"), " --namespaces=…");
    }

    #[test]
    fn each_installation_knows_its_own_ledgers() {
        assert_eq!(ledger_suffix("headgate"), None);
        let suffix = ledger_suffix("team.b");
        assert_eq!(suffix.as_deref(), Some(".team.b"));
        for (name, default, team) in [
            ("web-6d0ecf831eec9f09", true, false),
            ("web-6d0ecf831eec9f09.team.b", false, true),
            ("web-6d0ecf831eec9f09.b", false, false),
            ("web-6d0ecf831eec9f09.", false, false),
        ] {
            assert_eq!(is_own_ledger(name, None), default, "{name}");
            assert_eq!(is_own_ledger(name, suffix.as_deref()), team, "{name}");
        }
    }
}
