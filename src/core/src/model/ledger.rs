//! The ledger: Headgate's record of the targets that it registered in a target group, and for which pods.
//!
//! Each target group has one small TargetLedger object. Headgate writes the ledger **before** it sends a
//! `RegisterTargets` call. After a crash at any time, the next leader therefore knows which targets belong to Headgate.
//! A target that is in the group but not in the ledger is foreign. A deregistered target remains in the ledger until no
//! delayed call can register it again.
//!
//! * **Guarantees** that an unreadable ledger causes an error with the name of the object. Headgate neither empties nor
//!   overwrites an unreadable ledger.
//! * **Assumes** that [`registration`](crate::targets::registration) decides when to read and write a ledger.

use std::{fmt, sync::Arc};

use thiserror::Error;

use crate::model::{
    IpFamily, TargetGroupArn, Uid,
    claims::{Content, Packed},
};

/// The 64-bit FNV-1a hash of a pod's UID. 8 bytes are enough, because a ledger distinguishes only pods with the same
/// address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodMark(u64);

impl PodMark {
    /// The hash of this UID.
    pub fn of(uid: &Uid) -> Self {
        Self(fnv_1a(uid.as_str()))
    }

    /// Returns the stored form in big-endian order.
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// Parses the stored form.
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_be_bytes(bytes))
    }
}

/// The 64-bit FNV-1a hash of a text, which is identical in every process.
pub fn fnv_1a(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

impl fmt::Debug for PodMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The content of a stored ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedLedger {
    /// The target group.
    pub group: TargetGroupArn,
    /// The IP family of the targets.
    pub family: IpFamily,
    /// The targets and the bindings of the group.
    pub content: Packed,
}

impl PackedLedger {
    /// Packs the content of a ledger. Targets of another family are left out, because the group cannot have them.
    pub fn of(group: &TargetGroupArn, family: IpFamily, content: &Content) -> Self {
        Self { group: group.clone(), family, content: content.pack(family) }
    }
}

/// The name of the object with the ledger of `group`: the group's name in lower case and the ID at the end of its ARN.
/// The name has at most 49 characters. Two groups never share an object name, even if a group is deleted and created
/// again under the same name.
pub fn object_name(group: &TargetGroupArn) -> String {
    let id = group.as_str().rsplit('/').next().unwrap_or_default();
    format!("{}-{id}", group.name()).to_ascii_lowercase()
}

/// The version of a stored ledger: the opaque `resourceVersion` of its object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LedgerVersion(Arc<str>);

impl LedgerVersion {
    /// The version as the API server writes it.
    pub fn new(version: impl Into<Arc<str>>) -> Self {
        Self(version.into())
    }

    /// The version as the API server writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A ledger as read from the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLedger {
    /// The name of the ledger's object: [`object_name`], optionally followed by a dot and the owner.
    pub name: Box<str>,
    /// The version of the object.
    pub version: LedgerVersion,
    /// The content, or a message that describes why the content is unreadable.
    pub content: Result<PackedLedger, Box<str>>,
}

impl StoredLedger {
    /// The part of the name that identifies the target group.
    pub fn stem(&self) -> &str {
        self.name.split('.').next().unwrap_or_default()
    }

    /// The target group and the content.
    pub fn open(&self) -> Result<(TargetGroupArn, Content), LedgerError> {
        let unreadable = |why: Box<str>| LedgerError { ledger: self.name.clone(), why };
        let packed = self.content.as_ref().map_err(|why| unreadable(why.clone()))?;
        if object_name(&packed.group) != self.stem() {
            let why = format!("it is about target group {}, whose ledger has another name", packed.group);
            return Err(unreadable(why.into()));
        }
        let content = Content::unpack(&packed.content, packed.family);
        Ok((packed.group.clone(), content.map_err(|error| unreadable(error.to_string().into()))?))
    }
}

/// A request to the ledger store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerRequest {
    /// Reads all ledgers with strong consistency.
    LoadAll,
    /// Reads the ledger of this target group with strong consistency.
    Load(TargetGroupArn),
    /// Replaces this version of the ledger; the request carries the version as `resourceVersion`. If the version is
    /// `None`, Headgate creates the ledger.
    Write(Option<LedgerVersion>, PackedLedger),
    /// Deletes the ledger of this target group if its version has not changed.
    Delete(TargetGroupArn, LedgerVersion),
}

impl LedgerRequest {
    /// The verb that Kubernetes and the metrics use.
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::LoadAll => "list",
            Self::Load(_) => "get",
            Self::Write(None, _) => "create",
            Self::Write(Some(_), _) => "update",
            Self::Delete(..) => "delete",
        }
    }
}

/// Why a ledger cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "TargetLedger {ledger}: invalid ({why}), so nothing is registered. Restore it, or deregister targets without pods and \
     delete it."
)]
pub struct LedgerError {
    /// The name of its object.
    pub ledger: Box<str>,
    /// The error.
    pub why: Box<str>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::claims::Claim,
        testing::{arn, target},
    };

    fn mark(uid: &str) -> PodMark {
        PodMark::of(&Uid::new(uid))
    }

    fn some() -> Content {
        let claim = |pod| Claim { pod: mark(pod), binding: Some("Service default/web".into()) };
        let claims = [(target(1, 80), claim("a")), (target(1, 81), claim("a")), (target(2, 80), claim("b"))];
        Content { term: 3, claims: claims.into(), holders: ["default".into()].into() }
    }

    fn packed() -> PackedLedger {
        PackedLedger::of(&arn("blue"), IpFamily::V4, &some())
    }

    fn stored(packed: PackedLedger) -> StoredLedger {
        let name = object_name(&arn("blue")).into();
        StoredLedger { name, version: LedgerVersion::new("1"), content: Ok(packed) }
    }

    #[test]
    fn a_stored_ledger_is_opened_again_and_a_version_stays_as_it_was_written() {
        assert_eq!(stored(packed()).open(), Ok((arn("blue"), some())));
        assert_eq!(LedgerVersion::new("4711").as_str(), "4711");
    }

    #[test]
    fn the_mark_of_a_pod_is_the_fnv_1a_of_its_uid_and_never_changes() {
        // Test vectors of the 64-bit FNV-1a hash.
        assert_eq!(format!("{:?}", mark("")), "cbf29ce484222325");
        assert_eq!(format!("{:?}", mark("foobar")), "85944171f73967e8");
    }

    #[test]
    fn a_ledger_that_makes_no_sense_is_an_error_that_names_the_object() {
        let torn = PackedLedger { content: Packed { claims: vec![0; 15], ..packed().content }, ..packed() };
        let other = PackedLedger { group: arn("green"), ..packed() };
        for (bad, why) in [
            (Ok(torn), "claims has 15 bytes"),
            (Ok(other), "it is about target group arn:aws:"),
            (Err("spec.claims is not base64".into()), "spec.claims is not base64"),
        ] {
            let said = StoredLedger { content: bad, ..stored(packed()) }.open().unwrap_err().to_string();
            assert!(said.starts_with("TargetLedger blue-0123456789abcdef: invalid ("), "{said}");
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn the_object_is_named_after_the_group_and_its_id() {
        let arn = TargetGroupArn::parse(
            "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/Web-TCP/6d0ecf831eec9f09",
        );
        assert_eq!(object_name(&arn.unwrap()), "web-tcp-6d0ecf831eec9f09");
    }

    #[test]
    fn each_request_is_named_by_the_verb_of_its_rights() {
        let (one, packed) = (LedgerVersion::new("1"), packed());
        let requests = [
            LedgerRequest::LoadAll,
            LedgerRequest::Load(arn("blue")),
            LedgerRequest::Write(None, packed.clone()),
            LedgerRequest::Write(Some(one.clone()), packed),
            LedgerRequest::Delete(arn("blue"), one),
        ];
        assert_eq!(requests.map(|request| request.verb()), ["list", "get", "create", "update", "delete"]);
    }
}
