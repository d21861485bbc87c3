//! Stores the ledgers in the API server: one TargetLedger for each target group, in Headgate's own namespace. Ledgers
//! of other installations are ignored.
//!
//! A write contains the version of the object that it replaces, so it never overwrites an unseen change. This module
//! only sends requests and returns their results. An invalid ledger is returned as an error with its name, and other
//! ledgers are still read.

use std::sync::Arc;

use headgate_core::{
    Answer, Failure, FailureClass,
    ledger::{LedgerRequest, LedgerVersion, PackedLedger, StoredLedger, object_name},
    model::{
        claims::Packed,
        excerpt::excerpt,
        target_group::{IpFamily, TargetGroupArn},
    },
};
use k8s_openapi::ByteString;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, PostParams, Preconditions},
    core::{ApiResource, Status},
};

use crate::{
    api::{TargetLedger, TargetLedgerSpec, target_ledger::LedgerFamily},
    kube::{failure, installation},
};

/// The error code that means that the CRD is not installed.
pub const NOT_INSTALLED: &str = "NotInstalled";

/// The ledgers of this installation.
#[derive(Clone)]
pub struct Ledgers {
    /// The untyped API for reads, so that one invalid ledger does not affect other ledgers.
    loose: Api<DynamicObject>,
    /// The typed API for writes.
    strict: Api<TargetLedger>,
    /// The suffix of the names of this installation's ledgers.
    suffix: Option<Arc<str>>,
}

impl Ledgers {
    /// Creates the store for the installation with this `lease`, whose ledgers are in `namespace`.
    pub fn new(client: Client, namespace: &str, lease: &str) -> Self {
        let kind = ApiResource::erase::<TargetLedger>(&());
        let loose = Api::namespaced_with(client.clone(), namespace, &kind);
        let suffix = installation::ledger_suffix(lease).map(Arc::from);
        Self { loose, strict: Api::namespaced(client, namespace), suffix }
    }

    fn name(&self, group: &TargetGroupArn) -> String {
        object_name(group) + self.suffix.as_deref().unwrap_or_default()
    }

    /// Sends a request and returns the result.
    pub async fn answer(&self, request: &LedgerRequest) -> Result<Answer, Failure> {
        match request {
            LedgerRequest::LoadAll => self.load_all().await.map(Answer::Ledgers),
            LedgerRequest::Load(group) => self.load(group).await.map(Answer::Ledger),
            LedgerRequest::Write(base, ledger) => {
                self.write(base.as_ref(), ledger).await.map(Answer::Written)
            }
            LedgerRequest::Delete(group, base) => self.delete(group, base).await.map(|()| Answer::Done),
        }
    }

    /// Reads all ledgers.
    pub async fn load_all(&self) -> Result<Vec<StoredLedger>, Failure> {
        // Without a resourceVersion, the read is consistent, so it includes every write of the previous leader.
        let listed = self.loose.list(&ListParams::default()).await.map_err(|error| failed(&error))?;
        let own =
            |object: &DynamicObject| installation::is_own_ledger(&object.name_any(), self.suffix.as_deref());
        Ok(listed.items.into_iter().filter(own).filter_map(stored).collect())
    }

    async fn load(&self, group: &TargetGroupArn) -> Result<Option<StoredLedger>, Failure> {
        match self.loose.get(&self.name(group)).await.map_err(|error| failed(&error)) {
            Ok(object) => Ok(stored(object)),
            Err(Failure { class: FailureClass::Gone, .. }) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn write(
        &self,
        base: Option<&LedgerVersion>,
        ledger: &PackedLedger,
    ) -> Result<LedgerVersion, Failure> {
        let name = self.name(&ledger.group);
        let mut object = TargetLedger::new(&name, pack(ledger));
        let post = PostParams::default();
        let written = match base {
            None => self.strict.create(&post, &object).await,
            Some(base) => {
                object.metadata.resource_version = Some(base.as_str().to_owned());
                self.strict.replace(&name, &post, &object).await
            }
        };
        let written = written.map_err(|error| failed(&error))?;
        version(&written).ok_or_else(|| {
            Failure::new(FailureClass::Unavailable, "NoVersion", "the answer has no resourceVersion")
        })
    }

    /// Deletes a ledger if its version is still `base`.
    pub async fn delete(&self, group: &TargetGroupArn, base: &LedgerVersion) -> Result<(), Failure> {
        let only = Preconditions { resource_version: Some(base.as_str().to_owned()), uid: None };
        let parameters = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
        let deleted = self.strict.delete(&self.name(group), &parameters).await;
        deleted.map(|_| ()).map_err(|error| failed(&error))
    }
}

fn failed(error: &kube::Error) -> Failure {
    let failure = failure::of(error);
    match (error, failure.class) {
        (kube::Error::Api(status), FailureClass::Gone) if !is_about_a_ledger(status) => {
            let message = format!(
                "the kind TargetLedger is not installed ({}): run `headgate crd | kubectl apply -f -`",
                failure.message.trim()
            );
            Failure::new(FailureClass::Denied, NOT_INSTALLED, message)
        }
        (_, FailureClass::Denied) => {
            let message = format!(
                "{}. Create the Role of config/rbac/own-namespace.yaml in Headgate's own namespace",
                failure.message
            );
            Failure { message: message.into(), ..failure }
        }
        _ => failure,
    }
}

/// Whether an error concerns a single ledger. If a ledger does not exist, the error names the ledger. If the kind
/// TargetLedger does not exist, the error names no object.
fn is_about_a_ledger(status: &Status) -> bool {
    status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}

fn version<K: Resource>(object: &K) -> Option<LedgerVersion> {
    object.meta().resource_version.as_deref().map(LedgerVersion::new)
}

/// Reads a stored TargetLedger. Returns `None` for an object without a name or version, which the API server never
/// sends.
pub fn stored(object: DynamicObject) -> Option<StoredLedger> {
    let version = version(&object)?;
    let name = object.metadata.name?.into();
    let mut data = object.data;
    let spec = data.get_mut("spec").map(serde_json::Value::take).unwrap_or_default();
    let content = serde_json::from_value::<TargetLedgerSpec>(spec)
        .map_err(|error| {
            format!("its spec is not that of a TargetLedger: {}", excerpt(&error.to_string())).into()
        })
        .and_then(|spec| unpack(spec).map_err(Into::into));
    Some(StoredLedger { name, version, content })
}

fn unpack(spec: TargetLedgerSpec) -> Result<PackedLedger, String> {
    let group = TargetGroupArn::parse(&spec.target_group_arn).map_err(|_| {
        format!("spec.targetGroupARN is {:?}, not the ARN of a target group", excerpt(&spec.target_group_arn))
    })?;
    let family = match spec.ip_family {
        LedgerFamily::IPv4 => IpFamily::V4,
        LedgerFamily::IPv6 => IpFamily::V6,
    };
    Ok(PackedLedger {
        group,
        family,
        content: Packed {
            term: spec.term,
            claims: spec.claims.0,
            bindings: spec.bindings.into_iter().map(Arc::from).collect(),
            namespaces: spec.namespaces.into_iter().map(Arc::from).collect(),
        },
    })
}

pub(super) fn pack(ledger: &PackedLedger) -> TargetLedgerSpec {
    TargetLedgerSpec {
        target_group_arn: ledger.group.as_str().to_owned(),
        ip_family: match ledger.family {
            IpFamily::V4 => LedgerFamily::IPv4,
            IpFamily::V6 => LedgerFamily::IPv6,
        },
        term: ledger.content.term,
        claims: ByteString(ledger.content.claims.clone()),
        bindings: ledger.content.bindings.iter().map(ToString::to_string).collect(),
        namespaces: ledger.content.namespaces.iter().map(ToString::to_string).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ARN: &str = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/web/6d0ecf831eec9f09";

    fn object(spec: &Value) -> DynamicObject {
        let object = json!({
            "apiVersion": "headgate.dev/v1alpha1", "kind": "TargetLedger",
            "metadata": {"name": "web-6d0ecf831eec9f09", "resourceVersion": "7"}, "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    }

    fn content(spec: &Value) -> Result<PackedLedger, Box<str>> {
        stored(object(spec)).unwrap().content
    }

    #[test]
    fn what_is_packed_is_read_again() {
        for namespaces in [vec![], vec!["a".into(), "b".into()]] {
            let ledger = PackedLedger {
                group: TargetGroupArn::parse(ARN).unwrap(),
                family: IpFamily::V4,
                content: Packed {
                    term: 7,
                    claims: vec![1; 16],
                    bindings: vec!["Service shop/web".into()],
                    namespaces,
                },
            };
            let spec = serde_json::to_value(pack(&ledger)).unwrap();
            assert_eq!(content(&spec), Ok(ledger));
        }
    }

    #[test]
    fn an_object_that_cannot_be_read_says_why_and_keeps_its_name() {
        for (spec, why) in [
            (json!({"targetGroupARN": ARN, "ipFamily": "IPv4", "term": 1, "claims": "%%"}), "invalid symbol"),
            (
                json!({"targetGroupARN": ARN, "ipFamily": "IPv4", "registered": "CgAAAQ=="}),
                "missing field `term`",
            ),
            (json!({"targetGroupARN": ARN, "ipFamily": "IPv5", "term": 1}), "IPv5"),
            (
                json!({"targetGroupARN": "web", "ipFamily": "IPv4", "term": 1}),
                "not the ARN of a target group",
            ),
            (json!("garbage"), "not that of a TargetLedger"),
            (Value::Null, "not that of a TargetLedger"),
        ] {
            let said = content(&spec).unwrap_err();
            assert!(said.to_lowercase().contains(&why.to_lowercase()), "{spec}: {said}");
        }
        assert_eq!(&*stored(object(&Value::Null)).unwrap().name, "web-6d0ecf831eec9f09");
    }

    fn api_error(code: u16, message: &str, name: &str) -> Failure {
        let status =
            json!({"status": "Failure", "code": code, "message": message, "details": {"name": name}});
        failed(&kube::Error::Api(serde_json::from_value(status).unwrap()))
    }

    #[test]
    fn a_missing_kind_a_missing_right_and_a_missing_object_are_told_apart() {
        let missing = api_error(404, "404 page not found", "");
        assert_eq!((missing.class, &*missing.code), (FailureClass::Denied, NOT_INSTALLED));
        assert!(missing.message.contains("headgate crd | kubectl apply -f -"), "{}", missing.message);
        let denied = api_error(403, "no", "web");
        assert_eq!(denied.class, FailureClass::Denied);
        assert!(denied.message.contains("config/rbac/own-namespace.yaml"), "{}", denied.message);
        for (code, class) in [
            (404, FailureClass::Gone),
            (409, FailureClass::Conflict),
            (422, FailureClass::Refused),
            (503, FailureClass::Unavailable),
        ] {
            assert_eq!(api_error(code, "text", "web").class, class, "{code}");
        }
    }
}
