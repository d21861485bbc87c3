//! The names of the AWS Load Balancer Controller, and the relevant part of its kind TargetGroupBinding.

use headgate_core::model::object::ObjectKey;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{
    ResourceExt,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use serde::Deserialize;
use serde_json::Value;

/// Its API group.
pub const GROUP: &str = "elbv2.k8s.aws";
/// The finalizer of a TargetGroupBinding.
pub const FINALIZER: &str = "elbv2.k8s.aws/resources";
/// The prefix of the type of its readiness gates. The name of the TargetGroupBinding follows.
pub const GATE: &str = "target-health.elbv2.k8s.aws/";
/// The Lease of its leader, in LBC's namespace.
pub const LEASE: &str = "aws-load-balancer-controller-leader";
/// The annotation with the state of a TargetGroupBinding that LBC last reconciled.
const CHECKPOINT: &str = "elbv2.k8s.aws/checkpoint";
/// Prefixes of labels on objects that LBC made itself. They end in `stack`, `stack-name` or `stack-namespace`.
const MADE: [&str; 4] =
    ["ingress.k8s.aws/", "service.k8s.aws/", "gateway.k8s.aws.alb/", "gateway.k8s.aws.nlb/"];

/// The kind.
pub fn kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1beta1", "TargetGroupBinding"))
}

/// The type of the readiness gate that belongs to a TargetGroupBinding.
pub fn gate_of(name: &str) -> String {
    format!("{GATE}{name}")
}

/// The `spec` of a TargetGroupBinding.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// The ARN of the target group.
    #[serde(rename = "targetGroupARN")]
    pub arn: Option<String>,
    /// The name of the target group. LBC's webhook sets the ARN from it.
    #[serde(rename = "targetGroupName")]
    pub name: Option<String>,
    /// `ip` or `instance`.
    pub target_type: Option<String>,
    /// The protocol of the target group, if it is known.
    #[serde(rename = "targetGroupProtocol")]
    pub protocol: Option<String>,
    /// `ipv4` or `ipv6`.
    pub ip_address_type: Option<String>,
    /// Whether LBC deregisters only targets that it registered itself.
    #[serde(rename = "multiClusterTargetGroup")]
    pub multi_cluster: bool,
    /// The ARN of a role in another account.
    pub iam_role_arn_to_assume: Option<String>,
    /// Rules for security groups that LBC manages.
    pub networking: Option<Value>,
    /// The port of a Service in the same namespace.
    pub service_ref: ServiceRef,
}

/// `spec.serviceRef`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub struct ServiceRef {
    /// The name of the Service.
    pub name: String,
    /// The number or name of its port.
    pub port: IntOrString,
}

impl Default for ServiceRef {
    fn default() -> Self {
        Self { name: String::new(), port: IntOrString::Int(0) }
    }
}

impl ServiceRef {
    /// The port in its original notation.
    pub fn port(&self) -> String {
        match &self.port {
            IntOrString::Int(number) => number.to_string(),
            IntOrString::String(name) => name.clone(),
        }
    }
}

impl Spec {
    /// The target group by ARN if that is known, or else by name.
    pub fn target_group(&self) -> Option<&str> {
        self.arn.as_deref().or(self.name.as_deref()).filter(|named| !named.is_empty())
    }

    /// Whether its addresses are IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.ip_address_type.as_deref() == Some("ipv6")
    }
}

/// A TargetGroupBinding.
#[derive(Clone, Debug, PartialEq)]
pub struct Tgb {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// The UID.
    pub uid: String,
    /// The `resourceVersion`.
    pub version: String,
    /// Whether it has a `deletionTimestamp`.
    pub leaves: bool,
    /// Whether LBC's finalizer keeps it.
    pub is_kept: bool,
    /// All of its finalizers.
    pub finalizers: Vec<String>,
    /// The object from which LBC made it, if it did.
    pub made_from: Option<String>,
    /// Whether LBC has reconciled this state of it.
    pub is_taken: bool,
    /// Its `spec`.
    pub spec: Spec,
    /// Everything needed to create it again: name, labels, annotations and `spec`, without LBC's own data.
    pub again: Value,
}

impl Tgb {
    /// Reads an object.
    ///
    /// # Errors
    /// Its `spec` is invalid.
    pub fn read(object: &DynamicObject) -> Result<Self, serde_json::Error> {
        let spec = object.data.get("spec").cloned().unwrap_or_default();
        let metadata = &object.metadata;
        let mut again = serde_json::json!({
            "apiVersion": format!("{GROUP}/v1beta1"), "kind": "TargetGroupBinding",
            "metadata": {"name": object.name_any()}, "spec": spec.clone(),
        });
        if let Some(labels) = &metadata.labels {
            again["metadata"]["labels"] = serde_json::json!(labels);
        }
        let own = |name: &str| name.starts_with(GROUP) || name.starts_with("kubectl.kubernetes.io/");
        let annotations: serde_json::Map<String, Value> = object
            .annotations()
            .iter()
            .filter(|(name, _)| !own(name))
            .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
            .collect();
        if !annotations.is_empty() {
            again["metadata"]["annotations"] = annotations.into();
        }
        let is_kept = object.finalizers().iter().any(|name| name == FINALIZER);
        let noted = object.annotations().get(CHECKPOINT).is_some_and(|noted| !noted.is_empty());
        let observed = object.data["status"]["observedGeneration"].as_i64();
        Ok(Self {
            key: ObjectKey::new(object.namespace().unwrap_or_default(), object.name_any()),
            uid: metadata.uid.clone().unwrap_or_default(),
            version: metadata.resource_version.clone().unwrap_or_default(),
            leaves: metadata.deletion_timestamp.is_some(),
            is_kept,
            finalizers: object.finalizers().to_vec(),
            made_from: made_from(object),
            is_taken: is_kept && (noted || (observed.is_some() && observed == metadata.generation)),
            spec: serde_json::from_value(spec)?,
            again,
        })
    }
}

/// The Ingress, Service or Gateway from which LBC made it.
fn made_from(object: &DynamicObject) -> Option<String> {
    object.labels().iter().find_map(|(label, value)| {
        let is_made = MADE.iter().any(|prefix| label.starts_with(prefix)) && label.contains("stack");
        is_made.then(|| format!("{label}={value}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(more: &Value) -> Tgb {
        let mut object = json!({
            "apiVersion": "elbv2.k8s.aws/v1beta1", "kind": "TargetGroupBinding",
            "metadata": {"name": "web", "namespace": "shop", "uid": "t-1", "resourceVersion": "7", "generation": 2,
                "finalizers": [FINALIZER, "other"], "annotations": {"elbv2.k8s.aws/checkpoint": "abc", "team": "a"}},
            "spec": {"targetGroupARN": "arn:x", "targetType": "ip", "serviceRef": {"name": "web", "port": "http"}},
        });
        json_patch::merge(&mut object, more);
        Tgb::read(&serde_json::from_value(object).unwrap()).unwrap()
    }

    #[test]
    fn a_binding_is_read_with_what_it_takes_to_make_it_again() {
        let tgb = read(&json!({}));
        assert!(tgb.is_kept && tgb.is_taken && !tgb.leaves && tgb.made_from.is_none());
        assert_eq!((&*tgb.spec.service_ref.name, &*tgb.spec.service_ref.port()), ("web", "http"));
        assert_eq!(tgb.again["metadata"], json!({"name": "web", "annotations": {"team": "a"}}));
        assert_eq!(tgb.again["spec"]["targetGroupARN"], "arn:x");
    }

    #[test]
    fn lbc_has_it_when_its_finalizer_and_a_sign_of_a_pass_are_there() {
        let no_sign = json!({"metadata": {"annotations": {"elbv2.k8s.aws/checkpoint": ""}}});
        assert!(!read(&no_sign).is_taken);
        let seen = json!({"metadata": {"annotations": null}, "status": {"observedGeneration": 2}});
        assert!(read(&seen).is_taken);
        let seen_before = json!({"metadata": {"annotations": null}, "status": {"observedGeneration": 1}});
        assert!(!read(&seen_before).is_taken);
        assert!(!read(&json!({"metadata": {"finalizers": ["other"]}})).is_taken);
    }

    #[test]
    fn one_that_lbc_has_made_itself_is_known_by_its_labels() {
        let made = json!({"metadata": {"labels": {"ingress.k8s.aws/stack-name": "shop"}}});
        assert_eq!(read(&made).made_from.as_deref(), Some("ingress.k8s.aws/stack-name=shop"));
        assert_eq!(read(&json!({"metadata": {"labels": {"app": "stack"}}})).made_from, None);
    }
}
