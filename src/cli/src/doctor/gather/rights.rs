//! Checks whether Headgate's ServiceAccount has the permissions in `config/rbac`.

use headgate::kube::{installation::LEASE, words::plain};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};
use serde::Deserialize;

use crate::{doctor::facts::Looked, explain::reach::Way};

const CLUSTER: &str = include_str!("../../../../../config/rbac/clusterrole.yaml");
const NAMED: &str = include_str!("../../../../../config/rbac/role.yaml");
const GRANTS: &str = include_str!("../../../../../config/rbac/grants.yaml");
const OWN: &str = include_str!("../../../../../config/rbac/own-namespace.yaml");

#[derive(Deserialize)]
struct Role {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

/// A permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    verb: String,
    group: String,
    /// The resource, such as `pods` or `pods/status`.
    resource: String,
    /// The namespace. `None`: all namespaces.
    namespace: Option<String>,
    /// The name of the object. Empty: any name.
    name: String,
}

impl Right {
    fn is_for_evictions(&self) -> bool {
        let marks = self.resource == "pods" && self.verb == "patch";
        marks || self.resource == "pods/eviction" || self.resource == "poddisruptionbudgets"
    }

    fn said(&self) -> String {
        let Self { verb, group, resource, namespace, name } = self;
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        let name = if name.is_empty() { String::new() } else { format!(" {name}") };
        let place = namespace
            .as_ref()
            .map_or_else(|| "in all namespaces".to_owned(), |namespace| format!("in namespace {namespace}"));
        format!("{verb} {resource}{group}{name} {place}")
    }
}

/// Returns the permissions that Headgate needs for the namespaces in the Lease. `evictions`: the webhook for evictions
/// is enabled.
pub fn needed(serves: &str, way: &Way, evictions: bool) -> Vec<Right> {
    let mut all = Vec::new();
    match serves.strip_prefix("the namespaces ") {
        Some(named) => {
            for namespace in named.split(", ") {
                all.extend(read(NAMED, Some(namespace), &[]));
            }
            // Headgate deregisters pods early only if it watches nodes or has the webhook for evictions.
            all.retain(|right| evictions || !right.is_for_evictions());
            all.extend(read(GRANTS, None, &[]));
        }
        None => all.extend(read(CLUSTER, None, &[])),
    }
    let own = Some(&*way.own_namespace);
    all.extend(read(OWN, own, &[(LEASE, &way.lease)]));
    all
}

/// Reads the permissions from a manifest, and replaces the default names with the names of this installation.
fn read(file: &str, namespace: Option<&str>, names: &[(&str, &str)]) -> Vec<Right> {
    // The program contains the manifests, and a test parses each manifest.
    let rules = serde_saphyr::from_str::<Role>(file).map(|role| role.rules).unwrap_or_default();
    let mut all = Vec::new();
    for rule in &rules {
        let name = rule.resource_names.first().map(String::as_str).unwrap_or_default();
        let name = names.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours);
        for (group, resource) in
            rule.api_groups.iter().flat_map(|group| rule.resources.iter().map(move |one| (group, one)))
        {
            all.extend(rule.verbs.iter().map(|verb| Right {
                verb: verb.clone(),
                group: group.clone(),
                resource: resource.clone(),
                namespace: namespace.map(str::to_owned),
                name: name.to_owned(),
            }));
        }
    }
    all
}

/// Returns the permissions that the ServiceAccount does not have, as text.
pub async fn missing(
    client: &Client,
    namespace: &str,
    account: &str,
    needed: Vec<Right>,
) -> Looked<Vec<String>> {
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let mut missing = Vec::new();
    for right in needed {
        let (resource, part) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let attributes = ResourceAttributes {
            group: some(&right.group),
            resource: some(resource),
            subresource: some(part),
            verb: some(&right.verb),
            namespace: right.namespace.clone(),
            name: some(&right.name),
            ..ResourceAttributes::default()
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{namespace}:{account}")),
                groups: Some(vec![
                    "system:serviceaccounts".into(),
                    format!("system:serviceaccounts:{namespace}"),
                    "system:authenticated".into(),
                ]),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let answer = reviews.create(&PostParams::default(), &review).await.map_err(|error| {
            format!(
                "cannot check Headgate's permissions ({}). Grant yourself create on subjectaccessreviews",
                plain(&error)
            )
        })?;
        if !answer.status.is_some_and(|status| status.allowed) {
            missing.push(right.said());
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use headgate::kube::client::Which;

    use super::*;

    fn said(serves: &str, evictions: bool) -> Vec<String> {
        let way = Way {
            own_namespace: "own".into(),
            lease: "team".into(),
            port: 8081,
            address: None,
            which: Which::default(),
        };
        needed(serves, &way, evictions).iter().map(Right::said).collect()
    }

    #[test]
    fn what_is_needed_is_what_the_roles_that_users_apply_give() {
        let all = said("all namespaces", false);
        for right in [
            "list pods in all namespaces",
            "patch pods/status in all namespaces",
            "create targetbindings.headgate.dev in all namespaces",
            "create leases.coordination.k8s.io in namespace own",
            "update leases.coordination.k8s.io team in namespace own",
        ] {
            assert!(all.iter().any(|own| own == right), "{right} is not in {all:?}");
        }
        for serves in ["all namespaces", "namespaces with the labels a=b", "the namespaces a, b"] {
            let all = said(serves, false);
            for right in [
                "list namespaces in all namespaces",
                "watch targetgroupgrants.headgate.dev in all namespaces",
            ] {
                assert!(all.iter().any(|own| own == right), "{right} is not in {all:?}");
            }
        }
    }

    #[test]
    fn named_namespaces_need_rights_of_their_own_and_more_for_evictions() {
        let named = said("the namespaces a, b", true);
        for right in [
            "list pods in namespace a",
            "list pods in namespace b",
            "watch targetgroupgrants.headgate.dev in all namespaces",
            "create events.events.k8s.io in namespace own",
        ] {
            assert!(named.iter().any(|own| own == right), "{right} is not in {named:?}");
        }
        assert!(!named.iter().any(|right| right.starts_with("list pods in all")));
        let for_evictions = "create pods/eviction in namespace a".to_owned();
        assert!(named.contains(&for_evictions));
        assert!(!said("the namespaces a, b", false).contains(&for_evictions));
    }
}
