//! The compact stored form of a ledger. A ledger with 1000 targets needs 16 kB.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use thiserror::Error;

use super::{Claim, Claims, Content};
use crate::{
    ledger::PodMark,
    model::{IpFamily, Target},
};

/// The stored form of a ledger, as described in the module docs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// The `leaseTransitions` of the leader that wrote the ledger.
    pub term: u64,
    /// One entry per target: address, port (2 bytes), hash of the pod's UID (8 bytes) and number of the binding (2
    /// bytes). All numbers are big-endian.
    pub claims: Vec<u8>,
    /// The bindings as `namespace/name`, numbered from 1. The number 0 stands for an unknown binding.
    pub bindings: Vec<Arc<str>>,
    /// The namespaces that own the target group.
    pub namespaces: Vec<Arc<str>>,
}

/// Why a ledger cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unreadable {
    /// The length in bytes is not a multiple of the entry size.
    #[error("claims has {0} bytes, which is no multiple of an entry of {family}", family = .1.as_str())]
    Torn(usize, IpFamily),
    /// An entry has port 0.
    #[error("claims has an entry for {0} with port 0")]
    NoPort(IpAddr),
    /// Two entries name the same target.
    #[error("claims has two entries for {0}")]
    Twice(Target),
    /// An entry refers to a binding that does not exist.
    #[error("claims has an entry for {0} with binding number {1}, and there are {2} bindings")]
    NoBinding(Target, u16, usize),
}

impl Content {
    /// Packs the content without targets of another IP family, because the target group cannot contain them.
    pub fn pack(&self, family: IpFamily) -> Packed {
        let claims = || self.claims.iter().filter(|(target, _)| family.has(&target.ip));
        let bindings: BTreeSet<&Arc<str>> =
            claims().filter_map(|(_, claim)| claim.binding.as_ref()).collect();
        let bindings: Vec<Arc<str>> = bindings.into_iter().take(usize::from(u16::MAX)).cloned().collect();
        let namespaces = self.holders.iter().cloned().collect();
        let mut packed = Packed { term: self.term, claims: Vec::new(), bindings, namespaces };
        for (target, claim) in claims() {
            let place =
                claim.binding.as_ref().and_then(|binding| packed.bindings.binary_search(binding).ok());
            let number = place.and_then(|place| u16::try_from(place + 1).ok()).unwrap_or_default();
            match target.ip {
                IpAddr::V4(ip) => packed.claims.extend(ip.octets()),
                IpAddr::V6(ip) => packed.claims.extend(ip.octets()),
            }
            packed.claims.extend(target.port.to_be_bytes());
            packed.claims.extend(claim.pod.to_bytes());
            packed.claims.extend(number.to_be_bytes());
        }
        packed
    }

    /// Restores the content that [`pack`](Self::pack) packed.
    ///
    /// # Errors
    /// The bytes do not have the form of a ledger, or an entry is invalid.
    pub fn unpack(packed: &Packed, family: IpFamily) -> Result<Self, Unreadable> {
        let entries = match family {
            IpFamily::V4 => entries::<4>(&packed.claims),
            IpFamily::V6 => entries::<16>(&packed.claims),
        };
        let mut claims = Claims::new();
        for (target, pod, number) in entries.ok_or(Unreadable::Torn(packed.claims.len(), family))? {
            if target.port == 0 {
                return Err(Unreadable::NoPort(target.ip));
            }
            let binding = match usize::from(number).checked_sub(1) {
                None => None,
                Some(place) => {
                    let missing = Unreadable::NoBinding(target, number, packed.bindings.len());
                    Some(packed.bindings.get(place).ok_or(missing)?.clone())
                }
            };
            if claims.insert(target, Claim { pod, binding }).is_some() {
                return Err(Unreadable::Twice(target));
            }
        }
        Ok(Self { term: packed.term, claims, holders: packed.namespaces.iter().cloned().collect() })
    }
}

fn entries<const IP: usize>(bytes: &[u8]) -> Option<Vec<(Target, PodMark, u16)>>
where
    IpAddr: From<[u8; IP]>,
{
    let each = |entry: &[u8]| {
        let (ip, rest) = entry.split_first_chunk::<IP>()?;
        let (port, rest) = rest.split_first_chunk::<2>()?;
        let (mark, number) = rest.split_first_chunk::<8>()?;
        let target = Target::new(IpAddr::from(*ip), u16::from_be_bytes(*port));
        Some((target, PodMark::from_bytes(*mark), u16::from_be_bytes(number.try_into().ok()?)))
    };
    bytes.chunks(IP + 12).map(each).collect()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_map, prelude::*};

    use super::*;
    use crate::model::Uid;

    fn content(of: impl Strategy<Value = IpAddr>) -> impl Strategy<Value = Content> {
        let target = (of, 1_u16..).prop_map(|(ip, port)| Target::new(ip, port));
        let binding = prop::option::of("[a-c]/[a-c]".prop_map(Arc::<str>::from));
        let claim = ("[a-z]{1,8}", binding)
            .prop_map(|(uid, binding)| Claim { pod: PodMark::of(&Uid::new(uid)), binding });
        (any::<u64>(), btree_map(target, claim, 0..40)).prop_map(|(term, claims)| Content {
            term,
            claims,
            holders: ["default".into()].into(),
        })
    }

    proptest! {
        #[test]
        fn what_is_packed_is_read_again(
            four in content(any::<std::net::Ipv4Addr>().prop_map(IpAddr::from)),
            six in content(any::<std::net::Ipv6Addr>().prop_map(IpAddr::from)),
        ) {
            for (content, family, bytes) in [(four, IpFamily::V4, 16), (six, IpFamily::V6, 28)] {
                let packed = content.pack(family);
                prop_assert_eq!(packed.claims.len(), bytes * content.claims.len());
                prop_assert_eq!(Content::unpack(&packed, family), Ok(content));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            term: u64,
            claims in prop::collection::vec(any::<u8>(), 0..200),
            bindings in prop::collection::vec("[a-c]/[a-c]".prop_map(Arc::<str>::from), 0..3),
        ) {
            let packed = Packed { term, claims, bindings, namespaces: Vec::new() };
            for family in [IpFamily::V4, IpFamily::V6] {
                if let Ok(content) = Content::unpack(&packed, family) {
                    let again = Content::unpack(&content.pack(family), family);
                    prop_assert_eq!(again, Ok(content));
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_read_says_what_is_wrong() {
        let entry = |last: u8, port: u8, number: u8| {
            [vec![10, 0, 0, last, 0, port], vec![0; 8], vec![0, number]].concat()
        };
        for (claims, said) in [
            (vec![1; 17], "claims has 17 bytes, which is no multiple of an entry of ipv4"),
            (entry(1, 0, 0), "claims has an entry for 10.0.0.1 with port 0"),
            ([entry(1, 80, 0), entry(1, 80, 0)].concat(), "claims has two entries for 10.0.0.1:80"),
            (
                entry(1, 80, 2),
                "claims has an entry for 10.0.0.1:80 with binding number 2, and there are 1 bindings",
            ),
        ] {
            let packed =
                Packed { term: 1, claims, bindings: vec!["default/web".into()], namespaces: Vec::new() };
            assert_eq!(Content::unpack(&packed, IpFamily::V4).unwrap_err().to_string(), said);
        }
    }
}
