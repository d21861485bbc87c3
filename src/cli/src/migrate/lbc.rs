//! The names that the AWS Load Balancer Controller (LBC) uses, and the required fields of a TargetGroupBinding.

use headgate_core::model::object::ObjectKey;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{
    ResourceExt,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use serde::Deserialize;
use serde_json::Value;

/// The API group of TargetGroupBindings.
pub const GROUP: &str = "elbv2.k8s.aws";
/// LBC's finalizer on TargetGroupBindings.
pub const FINALIZER: &str = "elbv2.k8s.aws/resources";
/// The prefix of LBC's readiness gates. The suffix is the name of the TargetGroupBinding.
pub const GATE: &str = "target-health.elbv2.k8s.aws/";
/// The name of the Lease of LBC's leader, in LBC's namespace.
pub const LEASE: &str = "aws-load-balancer-controller-leader";
/// The annotation in which LBC stores the last reconciled state of a TargetGroupBinding.
const CHECKPOINT: &str = "elbv2.k8s.aws/checkpoint";
/// The prefixes of the labels on objects that LBC created. The suffix is `stack`, `stack-name` or `stack-namespace`.
const MADE: [&str; 4] =
    ["ingress.k8s.aws/", "service.k8s.aws/", "gateway.k8s.aws.alb/", "gateway.k8s.aws.nlb/"];

/// Returns the API resource of TargetGroupBindings.
pub fn kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1beta1", "TargetGroupBinding"))
}

/// Returns the readiness gate that belongs to a TargetGroupBinding.
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
    /// The name of the target group. LBC's webhook looks up the ARN by this name.
    #[serde(rename = "targetGroupName")]
    pub name: Option<String>,
    /// The target type: `ip` or `instance`.
    pub target_type: Option<String>,
    /// The protocol of the target group. `None`: unknown.
    #[serde(rename = "targetGroupProtocol")]
    pub protocol: Option<String>,
    /// The IP address type: `ipv4` or `ipv6`.
    pub ip_address_type: Option<String>,
    /// Whether LBC deregisters only targets that it registered itself.
    #[serde(rename = "multiClusterTargetGroup")]
    pub multi_cluster: bool,
    /// The ARN of an IAM role in another AWS account.
    pub iam_role_arn_to_assume: Option<String>,
    /// The security group rules that LBC manages.
    pub networking: Option<Value>,
    pub service_ref: ServiceRef,
}

/// `spec.serviceRef`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub struct ServiceRef {
    /// The name of the Service.
    pub name: String,
    /// The number or name of the Service's port.
    pub port: IntOrString,
}

impl Default for ServiceRef {
    fn default() -> Self {
        Self { name: String::new(), port: IntOrString::Int(0) }
    }
}

impl ServiceRef {
    /// Returns the port as the object contains it.
    pub fn port(&self) -> String {
        match &self.port {
            IntOrString::Int(number) => number.to_string(),
            IntOrString::String(name) => name.clone(),
        }
    }
}

impl Spec {
    /// Returns the ARN of the target group, or the name if the ARN is unknown.
    pub fn target_group(&self) -> Option<&str> {
        self.arn.as_deref().or(self.name.as_deref()).filter(|named| !named.is_empty())
    }

    /// Returns whether the targets have IPv6 addresses.
    pub fn is_ipv6(&self) -> bool {
        self.ip_address_type.as_deref() == Some("ipv6")
    }
}

/// A TargetGroupBinding.
#[derive(Clone, Debug, PartialEq)]
pub struct Tgb {
    /// The namespace and name of the TargetGroupBinding.
    pub key: ObjectKey,
    pub uid: String,
    pub version: String,
    /// Whether the object has a `deletionTimestamp`.
    pub leaves: bool,
    /// Whether the object has LBC's finalizer.
    pub is_kept: bool,
    /// All finalizers of the object.
    pub finalizers: Vec<String>,
    /// The label that LBC sets on a TargetGroupBinding that LBC itself created. `None`: LBC did not create the object.
    pub made_from: Option<String>,
    /// Whether LBC has reconciled the current version of the object.
    pub is_taken: bool,
    pub spec: Spec,
    /// The object without LBC's own annotations, for creating the object again. Contains name, labels, annotations and
    /// `spec`.
    pub again: Value,
}

impl Tgb {
    /// Reads the fields from an object.
    ///
    /// # Errors
    /// The `spec` of the object is invalid.
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

/// Returns the label with which LBC marks objects that it created from an Ingress, a Service or a Gateway.
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
