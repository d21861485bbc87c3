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

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use thiserror::Error;

use crate::model::{
    IpFamily, Target, TargetGroupArn, Uid, WallTime,
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

/// The ledger's entry for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Noted {
    /// Headgate may have sent a `RegisterTargets` call for the target.
    Intended,
    /// AWS has accepted the registration.
    Registered,
    /// AWS has accepted the deregistration. A delayed call may still register the target again.
    Removed,
}

/// The content of a ledger: each target with its state and the pod for which it was registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    targets: BTreeMap<Target, (Noted, PodMark)>,
    /// When AWS accepted the deregistration of each removed target, in whole seconds, if known.
    out_since: BTreeMap<Target, WallTime>,
    /// The namespaces that have targets in the group.
    holders: BTreeSet<Arc<str>>,
}

impl Ledger {
    /// Returns the state and the pod of `target`.
    pub fn get(&self, target: &Target) -> Option<(Noted, PodMark)> {
        self.targets.get(target).copied()
    }

    /// Records the state of `target` and replaces its earlier state.
    pub fn note(&mut self, target: Target, noted: Noted, pod: PodMark) {
        self.targets.insert(target, (noted, pod));
        self.out_since.remove(&target);
    }

    /// Records when AWS accepted the deregistration of `target`.
    pub fn note_removed(&mut self, target: Target, pod: PodMark, since: Option<WallTime>) {
        self.note(target, Noted::Removed, pod);
        let whole = |since: WallTime| WallTime::since_1970(Duration::from_secs(since.elapsed().as_secs()));
        self.out_since.extend(since.map(|since| (target, whole(since))));
    }

    /// When AWS accepted the deregistration of a removed target, if known.
    pub fn out_since(&self, target: &Target) -> Option<WallTime> {
        self.out_since.get(target).copied()
    }

    /// Records which namespaces have targets in the group.
    pub fn note_holders(&mut self, holders: BTreeSet<Arc<str>>) {
        self.holders = holders;
    }

    /// The namespaces that have targets in the group.
    pub const fn holders(&self) -> &BTreeSet<Arc<str>> {
        &self.holders
    }

    /// All entries, sorted by target.
    pub fn iter(&self) -> impl Iterator<Item = (&Target, Noted, PodMark)> {
        self.targets.iter().map(|(target, (noted, pod))| (target, *noted, *pod))
    }

    /// The pods of all entries.
    pub fn pods(&self) -> impl Iterator<Item = PodMark> {
        self.targets.values().map(|(_, pod)| *pod)
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Packs the ledger into 14 bytes per IPv4 target or 26 bytes per IPv6 target. Targets of another family than
    /// `family` are omitted, because the group cannot contain them.
    pub fn pack(&self, group: &TargetGroupArn, family: IpFamily) -> PackedLedger {
        let mut packed = PackedLedger {
            group: group.clone(),
            family,
            registered: Vec::new(),
            intended: Vec::new(),
            removed: Vec::new(),
            removed_since: Vec::new(),
            namespaces: self.holders.iter().cloned().collect(),
            claims: Box::default(),
        };
        for (target, noted, pod) in self.iter().filter(|(target, ..)| family.has(&target.ip)) {
            let list = match noted {
                Noted::Registered => &mut packed.registered,
                Noted::Intended => &mut packed.intended,
                Noted::Removed => &mut packed.removed,
            };
            match target.ip {
                IpAddr::V4(ip) => list.extend(ip.octets()),
                IpAddr::V6(ip) => list.extend(ip.octets()),
            }
            list.extend(target.port.to_be_bytes());
            list.extend(pod.to_bytes());
            if noted == Noted::Removed && !self.out_since.is_empty() {
                let seconds = self.out_since(target).map_or(0, |since| since.elapsed().as_secs());
                packed.removed_since.extend(u32::try_from(seconds).unwrap_or_default().to_be_bytes());
            }
        }
        packed
    }

    /// Restores the ledger that [`pack`](Self::pack) packed.
    pub fn unpack(packed: &PackedLedger) -> Result<Self, LedgerError> {
        let holders = packed.namespaces.iter().cloned().collect();
        let mut ledger = Self { holders, ..Self::default() };
        let mut removed = Vec::new();
        for (list, noted, bytes) in [
            ("registered", Noted::Registered, &packed.registered),
            ("intended", Noted::Intended, &packed.intended),
            ("removed", Noted::Removed, &packed.removed),
        ] {
            let entries = match packed.family {
                IpFamily::V4 => entries::<4>(bytes),
                IpFamily::V6 => entries::<16>(bytes),
            };
            for (target, pod) in entries.ok_or(LedgerError::Torn(list, bytes.len(), packed.family))? {
                if target.port == 0 {
                    return Err(LedgerError::NoPort(list, target.ip));
                }
                if ledger.targets.insert(target, (noted, pod)).is_some() {
                    return Err(LedgerError::Twice(target));
                }
                if noted == Noted::Removed {
                    removed.push(target);
                }
            }
        }
        // An empty list means that all times are unknown.
        let since = &packed.removed_since;
        if !since.is_empty() && since.len() != 4 * removed.len() {
            return Err(LedgerError::Times(since.len(), removed.len()));
        }
        for (target, seconds) in removed.into_iter().zip(since.as_chunks::<4>().0) {
            let seconds = u32::from_be_bytes(*seconds).into();
            if seconds > 0 {
                ledger.out_since.insert(target, WallTime::since_1970(Duration::from_secs(seconds)));
            }
        }
        Ok(ledger)
    }
}

/// Parses the entries of a list. Each entry contains an address, a port and the hash of a pod, in big-endian order.
fn entries<const IP: usize>(bytes: &[u8]) -> Option<Vec<(Target, PodMark)>>
where
    IpAddr: From<[u8; IP]>,
{
    let each = |entry: &[u8]| {
        let (ip, rest) = entry.split_first_chunk::<IP>()?;
        let (port, mark) = rest.split_first_chunk::<2>()?;
        let mark: &[u8; 8] = mark.try_into().ok()?;
        let target = Target::new(IpAddr::from(*ip), u16::from_be_bytes(*port));
        Some((target, PodMark::from_bytes(*mark)))
    };
    bytes.chunks(IP + 10).map(each).collect()
}

/// The content of a stored ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedLedger {
    /// The target group.
    pub group: TargetGroupArn,
    /// The IP family of the targets.
    pub family: IpFamily,
    /// Targets that AWS has accepted.
    pub registered: Vec<u8>,
    /// Targets for which Headgate may have sent a `RegisterTargets` call.
    pub intended: Vec<u8>,
    /// Deregistered targets.
    pub removed: Vec<u8>,
    /// When AWS accepted the deregistration of each removed target: seconds since 1970, in 4 big-endian bytes. The
    /// value 0 stands for an unknown time. The list of times may be empty.
    pub removed_since: Vec<u8>,
    /// The namespaces that have targets in the group.
    pub namespaces: Vec<Arc<str>>,
    /// The content of the ledger in the new form, which will replace the other lists.
    pub claims: Box<Packed>,
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

    /// Returns the target group and the content.
    pub fn open(&self) -> Result<(TargetGroupArn, Ledger), LedgerError> {
        let unreadable = |why: Box<str>| LedgerError::Unreadable(self.name.clone(), why);
        let torn = |error: LedgerError| unreadable(error.to_string().into());
        let packed = self.content.as_ref().map_err(|why| unreadable(why.clone()))?;
        if object_name(&packed.group) != self.stem() {
            return Err(torn(LedgerError::OtherGroup(packed.group.clone())));
        }
        Ok((packed.group.clone(), Ledger::unpack(packed).map_err(torn)?))
    }
}

impl PackedLedger {
    /// Packs the content of a target group's ledger in the new form.
    pub fn of(group: &TargetGroupArn, family: IpFamily, content: &Content) -> Self {
        let claims = content.pack(family).into();
        Self { claims, ..Ledger::default().pack(group, family) }
    }
}

impl StoredLedger {
    /// Returns the target group and the content of its ledger in the new form.
    pub fn open_claims(&self) -> Result<(TargetGroupArn, Content), LedgerError> {
        let unreadable = |why: Box<str>| LedgerError::Unreadable(self.name.clone(), why);
        let (group, _) = self.open()?;
        let packed = self.content.as_ref().map_err(|why| unreadable(why.clone()))?;
        let content = Content::unpack(&packed.claims, packed.family);
        Ok((group, content.map_err(|error| unreadable(error.to_string().into()))?))
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
pub enum LedgerError {
    /// The whole ledger is unreadable. The values are the name of the ledger's object and the error.
    #[error(
        "TargetLedger {0}: invalid ({1}), so nothing is registered. Restore it, or deregister targets without pods and delete \
         it."
    )]
    Unreadable(Box<str>, Box<str>),
    /// The size of the list of times does not match the number of removed targets.
    #[error("removedSince has {0} bytes, which is not 4 for each of {1} removed targets")]
    Times(usize, usize),
    /// The length of this list is not a multiple of the entry size for this IP family.
    #[error("{0} has {1} bytes, which is not a multiple of an entry of {family}", family = .2.as_str())]
    Torn(&'static str, usize, IpFamily),
    /// A target in this list has no port.
    #[error("{0} has an entry for {1} with port 0")]
    NoPort(&'static str, IpAddr),
    /// A target appears twice.
    #[error("target {0} appears twice")]
    Twice(Target),
    /// The ledger describes this target group, but has the object name of another group's ledger.
    #[error("it is about target group {0}, whose ledger has another name")]
    OtherGroup(TargetGroupArn),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{arn, target};

    fn mark(uid: &str) -> PodMark {
        PodMark::of(&Uid::new(uid))
    }

    fn some() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.note(target(1, 80), Noted::Registered, mark("a"));
        ledger.note(target(1, 81), Noted::Intended, mark("a"));
        ledger.note(target(2, 80), Noted::Removed, mark("b"));
        ledger
    }

    fn stored(packed: PackedLedger) -> StoredLedger {
        let name = object_name(&arn("blue")).into();
        StoredLedger { name, version: LedgerVersion::new("1"), content: Ok(packed) }
    }

    #[test]
    fn what_is_packed_is_unpacked_again_in_14_bytes_a_target() {
        let packed = some().pack(&arn("blue"), IpFamily::V4);
        assert_eq!((packed.registered.len(), packed.intended.len(), packed.removed.len()), (14, 14, 14));
        assert_eq!(Ledger::unpack(&packed), Ok(some()));
        assert_eq!(stored(packed).open(), Ok((arn("blue"), some())));
    }

    #[test]
    fn when_a_target_was_removed_is_kept_in_whole_seconds_where_it_is_known() {
        let at = WallTime::since_1970(Duration::from_millis(1_800_000_000_900));
        let mut ledger = some();
        ledger.note_removed(Target::new("10.0.0.8".parse().unwrap(), 80), mark("c"), Some(at));
        ledger.note_removed(Target::new("10.0.0.9".parse().unwrap(), 80), mark("c"), None);
        let packed = ledger.pack(&arn("blue"), IpFamily::V4);
        assert_eq!(packed.removed_since.len(), 4 * packed.removed.len() / 14);
        let read = Ledger::unpack(&packed).unwrap();
        assert_eq!(read, ledger);
        let since = |last: u8| read.out_since(&Target::new([10, 0, 0, last].into(), 80));
        let whole = WallTime::since_1970(Duration::from_secs(1_800_000_000));
        assert_eq!((since(8), since(9)), (Some(whole), None));
        let none = PackedLedger { removed_since: Vec::new(), ..packed };
        assert_eq!(Ledger::unpack(&none).map(|ledger| ledger.out_since), Ok(BTreeMap::new()));
    }

    #[test]
    fn a_ledger_is_empty_until_something_is_noted_and_a_version_stays_as_it_was_written() {
        assert!(Ledger::default().is_empty() && !some().is_empty());
        assert_eq!(LedgerVersion::new("4711").as_str(), "4711");
    }

    #[test]
    fn an_ipv6_target_takes_26_bytes_and_comes_back_too() {
        let mut ledger = Ledger::default();
        ledger.note(Target::new("fd00::1".parse().unwrap(), 443), Noted::Registered, mark("a"));
        let packed = ledger.pack(&arn("blue"), IpFamily::V6);
        assert_eq!(packed.registered.len(), 26);
        assert_eq!(Ledger::unpack(&packed), Ok(ledger));
    }

    #[test]
    fn the_mark_of_a_pod_is_the_fnv_1a_of_its_uid_and_never_changes() {
        // Test vectors of the 64-bit FNV-1a hash.
        assert_eq!(format!("{:?}", mark("")), "cbf29ce484222325");
        assert_eq!(format!("{:?}", mark("foobar")), "85944171f73967e8");
    }

    #[test]
    fn a_ledger_that_makes_no_sense_is_an_error_that_names_the_object() {
        let good = || some().pack(&arn("blue"), IpFamily::V4);
        let torn = PackedLedger { registered: vec![0; 15], ..good() };
        let twice = PackedLedger { removed: good().registered, ..good() };
        let no_port = PackedLedger { intended: vec![0; 14], ..good() };
        let times = PackedLedger { removed_since: vec![0; 3], ..good() };
        let other = PackedLedger { group: arn("green"), ..good() };
        for (bad, why) in [
            (Ok(torn), "registered has 15 bytes"),
            (Ok(twice), "target 10.0.0.1:80 appears twice"),
            (Ok(no_port), "intended has an entry for 0.0.0.0 with port 0"),
            (Ok(times), "removedSince has 3 bytes"),
            (Ok(other), "it is about target group arn:aws:"),
            (Err("spec.registered is not base64".into()), "spec.registered is not base64"),
        ] {
            let said = StoredLedger { content: bad, ..stored(good()) }.open().unwrap_err().to_string();
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
        let (one, packed) = (LedgerVersion::new("1"), some().pack(&arn("blue"), IpFamily::V4));
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
