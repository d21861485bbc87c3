//! The ledgers in the API server: one TargetLedger for each target group, in Headgate's own namespace. Those of other
//! installations are not seen.
//!
//! Every request has a time-out; a write names the state it replaces, so that nothing is ever written over unseen.
//! This module says how a request ended, never what to do about it. An object that cannot be read is handed on as such,
//! with its name: it does not hide the others.

use std::{fmt::Debug, future::Future, sync::Arc, time::Duration};

use headgate_core::{
    CallId, Input,
    ledger::{LedgerFailure, LedgerVersion, PackedLedger, StoredLedger, object_name},
    model::{
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
use tokio::time::timeout;

use crate::{
    api::{TargetLedger, TargetLedgerSpec, target_ledger::LedgerFamily},
    kube::{installation, words::plain},
};

/// One small object. A write that takes longer than this may still be applied, which its version guards.
const TIMEOUT: Duration = Duration::from_secs(5);
/// All of them.
const LIST_TIMEOUT: Duration = Duration::from_secs(15);

/// A request of the engine about ledgers.
#[derive(Clone, Debug)]
pub enum Request {
    /// Read all.
    LoadAll,
    /// Read one.
    Load(TargetGroupArn),
    /// Create it, or replace this state of it.
    Write(Option<LedgerVersion>, PackedLedger),
    /// Delete this state of it.
    Drop(TargetGroupArn, LedgerVersion),
}

impl Request {
    /// The verb, as Kubernetes and the metrics name it.
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::LoadAll => "list",
            Self::Load(_) => "get",
            Self::Write(None, _) => "create",
            Self::Write(Some(_), _) => "update",
            Self::Drop(..) => "delete",
        }
    }

    /// Whether it changes anything.
    pub const fn writes(&self) -> bool {
        matches!(self, Self::Write(..) | Self::Drop(..))
    }

    /// Its end, as the engine is told it.
    pub fn failed(&self, id: CallId, failure: LedgerFailure) -> Input {
        match self {
            Self::LoadAll => Input::LedgersLoaded { id, result: Err(failure) },
            Self::Load(_) => Input::LedgerLoaded { id, result: Err(failure) },
            Self::Write(..) => Input::LedgerWritten { id, result: Err(failure) },
            Self::Drop(..) => Input::LedgerDropped { id, result: Err(failure) },
        }
    }
}

/// How a request ended, if it failed.
pub fn failure(input: &Input) -> Option<&LedgerFailure> {
    match input {
        Input::LedgersLoaded { result, .. } => result.as_ref().err(),
        Input::LedgerLoaded { result, .. } => result.as_ref().err(),
        Input::LedgerWritten { result, .. } => result.as_ref().err(),
        Input::LedgerDropped { result, .. } => result.as_ref().err(),
        _ => None,
    }
}

/// The ledgers of this Headgate.
#[derive(Clone)]
pub struct Ledgers {
    /// To read: whatever stands in an object, it is not lost by what stands in another.
    loose: Api<DynamicObject>,
    /// To write.
    strict: Api<TargetLedger>,
    /// What the names of this installation's end in.
    suffix: Option<Arc<str>>,
}

impl Ledgers {
    /// Those in `namespace`, Headgate's own, of the installation whose Lease is called `lease`.
    pub fn new(client: Client, namespace: &str, lease: &str) -> Self {
        let kind = ApiResource::erase::<TargetLedger>(&());
        let loose = Api::namespaced_with(client.clone(), namespace, &kind);
        let suffix = installation::ledger_suffix(lease).map(Arc::from);
        Self { loose, strict: Api::namespaced(client, namespace), suffix }
    }

    fn name(&self, group: &TargetGroupArn) -> String {
        object_name(group) + self.suffix.as_deref().unwrap_or_default()
    }

    /// Carries out a request and says how it ended.
    pub async fn answer(&self, id: CallId, request: &Request) -> Input {
        match request {
            Request::LoadAll => Input::LedgersLoaded { id, result: self.load_all().await },
            Request::Load(group) => Input::LedgerLoaded { id, result: self.load(group).await },
            Request::Write(base, ledger) => {
                Input::LedgerWritten { id, result: self.write(base.as_ref(), ledger).await }
            }
            Request::Drop(group, base) => Input::LedgerDropped { id, result: self.delete(group, base).await },
        }
    }

    /// All of them.
    pub async fn load_all(&self) -> Result<Vec<StoredLedger>, LedgerFailure> {
        // No resourceVersion: a consistent read, never older than what the last leader wrote.
        let listed = within(LIST_TIMEOUT, self.loose.list(&ListParams::default())).await?;
        let own =
            |object: &DynamicObject| installation::is_own_ledger(&object.name_any(), self.suffix.as_deref());
        Ok(listed.items.into_iter().filter(own).filter_map(stored).collect())
    }

    async fn load(&self, group: &TargetGroupArn) -> Result<Option<StoredLedger>, LedgerFailure> {
        match within(TIMEOUT, self.loose.get(&self.name(group))).await {
            Ok(object) => Ok(stored(object)),
            Err(LedgerFailure::Conflict) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn write(
        &self,
        base: Option<&LedgerVersion>,
        ledger: &PackedLedger,
    ) -> Result<LedgerVersion, LedgerFailure> {
        let name = self.name(&ledger.group);
        let mut object = TargetLedger::new(&name, pack(ledger));
        let post = PostParams::default();
        let written = match base {
            None => within(TIMEOUT, self.strict.create(&post, &object)).await?,
            Some(base) => {
                object.metadata.resource_version = Some(base.as_str().to_owned());
                within(TIMEOUT, self.strict.replace(&name, &post, &object)).await?
            }
        };
        version(&written)
            .ok_or_else(|| LedgerFailure::Unavailable("the answer has no resourceVersion".into()))
    }

    /// Deletes this state of one, and no other.
    pub async fn delete(&self, group: &TargetGroupArn, base: &LedgerVersion) -> Result<(), LedgerFailure> {
        let only = Preconditions { resource_version: Some(base.as_str().to_owned()), uid: None };
        let parameters = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
        within(TIMEOUT, self.strict.delete(&self.name(group), &parameters)).await.map(|_| ())
    }
}

async fn within<T>(
    time: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, LedgerFailure> {
    match timeout(time, request).await {
        Ok(result) => result.map_err(|error| class(&error)),
        Err(_) => Err(LedgerFailure::Unavailable(format!("no answer within {time:?}").into())),
    }
}

fn class(error: &kube::Error) -> LedgerFailure {
    let kube::Error::Api(status) = error else {
        return LedgerFailure::Unavailable(plain(error).into());
    };
    match status.code {
        404 if !is_about_a_ledger(status) => LedgerFailure::Denied(
            format!(
                "the kind TargetLedger is not installed ({}): run `headgate crd | kubectl apply -f -`",
                status.message.trim()
            )
            .into(),
        ),
        404 | 409 => LedgerFailure::Conflict,
        403 => LedgerFailure::Denied(
            format!(
                "{}; expected the Role of config/rbac/own-namespace.yaml in Headgate's own namespace",
                status.message
            )
            .into(),
        ),
        400 | 413 | 422 => LedgerFailure::Denied(status.message.clone().into()),
        _ => LedgerFailure::Unavailable(plain(error).into()),
    }
}

/// Of an object that is not there, Kubernetes says which; of a kind that is not there, it says nothing.
fn is_about_a_ledger(status: &Status) -> bool {
    status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}

fn version<K: Resource>(object: &K) -> Option<LedgerVersion> {
    object.meta().resource_version.as_deref().map(LedgerVersion::new)
}

pub(super) fn stored(object: DynamicObject) -> Option<StoredLedger> {
    let version = version(&object)?;
    let name = object.metadata.name?.into();
    let mut data = object.data;
    let spec = data.get_mut("spec").map(serde_json::Value::take).unwrap_or_default();
    let content = serde_json::from_value::<TargetLedgerSpec>(spec)
        .map_err(|error| {
            format!("its spec is not one of a TargetLedger: {}", excerpt(&error.to_string())).into()
        })
        .and_then(|spec| unpack(spec).map_err(Into::into));
    Some(StoredLedger { name, version, content })
}

fn unpack(spec: TargetLedgerSpec) -> Result<PackedLedger, String> {
    let group = TargetGroupArn::parse(&spec.target_group_arn).map_err(|_| {
        format!("spec.targetGroupARN is {:?}, no ARN of a target group", excerpt(&spec.target_group_arn))
    })?;
    let family = match spec.ip_family {
        LedgerFamily::IPv4 => IpFamily::V4,
        LedgerFamily::IPv6 => IpFamily::V6,
    };
    Ok(PackedLedger {
        group,
        family,
        registered: spec.registered.0,
        intended: spec.intended.0,
        removed: spec.removed.0,
        removed_since: spec.removed_since.0,
    })
}

pub(super) fn pack(ledger: &PackedLedger) -> TargetLedgerSpec {
    TargetLedgerSpec {
        target_group_arn: ledger.group.as_str().to_owned(),
        ip_family: match ledger.family {
            IpFamily::V4 => LedgerFamily::IPv4,
            IpFamily::V6 => LedgerFamily::IPv6,
        },
        registered: ByteString(ledger.registered.clone()),
        intended: ByteString(ledger.intended.clone()),
        removed: ByteString(ledger.removed.clone()),
        removed_since: ByteString(ledger.removed_since.clone()),
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
        let ledger = PackedLedger {
            group: TargetGroupArn::parse(ARN).unwrap(),
            family: IpFamily::V4,
            registered: vec![1; 14],
            intended: vec![2; 28],
            removed: vec![3; 14],
            removed_since: vec![4; 4],
        };
        let spec = serde_json::to_value(pack(&ledger)).unwrap();
        assert_eq!(content(&spec), Ok(ledger));
    }

    #[test]
    fn an_object_that_cannot_be_read_says_why_and_keeps_its_name() {
        for (spec, why) in [
            (json!({"targetGroupARN": ARN, "ipFamily": "IPv4", "registered": "%%"}), "invalid symbol"),
            (json!({"targetGroupARN": ARN, "ipFamily": "IPv5"}), "IPv5"),
            (json!({"targetGroupARN": "web", "ipFamily": "IPv4"}), "no ARN of a target group"),
            (json!("garbage"), "not one of a TargetLedger"),
            (Value::Null, "not one of a TargetLedger"),
        ] {
            let said = content(&spec).unwrap_err();
            assert!(said.to_lowercase().contains(&why.to_lowercase()), "{spec}: {said}");
        }
        assert_eq!(&*stored(object(&Value::Null)).unwrap().name, "web-6d0ecf831eec9f09");
    }

    fn api_error(code: u16, message: &str, name: &str) -> LedgerFailure {
        let status =
            json!({"status": "Failure", "code": code, "message": message, "details": {"name": name}});
        class(&kube::Error::Api(serde_json::from_value(status).unwrap()))
    }

    #[test]
    fn a_missing_kind_a_missing_right_and_a_missing_object_are_told_apart() {
        let LedgerFailure::Denied(text) = api_error(404, "404 page not found", "") else {
            panic!("not denied")
        };
        assert!(text.contains("headgate crd | kubectl apply -f -"), "{text}");
        let LedgerFailure::Denied(text) = api_error(403, "no", "web") else { panic!("not denied") };
        assert!(text.contains("config/rbac/own-namespace.yaml"), "{text}");
        assert_eq!(api_error(404, "not found", "web"), LedgerFailure::Conflict);
        assert_eq!(api_error(409, "changed", "web"), LedgerFailure::Conflict);
        assert!(matches!(api_error(422, "invalid", "web"), LedgerFailure::Denied(_)));
        assert!(matches!(api_error(503, "later", ""), LedgerFailure::Unavailable(_)));
    }
}
