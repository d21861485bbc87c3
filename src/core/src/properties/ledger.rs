//! Properties of ledgers with removed targets, in Headgate's form and with changes by other writers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::{any_text, holds, target_group};
use crate::{
    ledger::{Ledger, LedgerVersion, Noted, PackedLedger, PodMark, StoredLedger, object_name},
    model::{IpFamily, Target, TargetGroupArn, Uid},
    testing::arn,
};

fn noted() -> impl Strategy<Value = Noted> {
    prop::sample::select(vec![Noted::Registered, Noted::Intended, Noted::Removed])
}

fn ledger(family: IpFamily) -> impl Strategy<Value = Ledger> {
    let ip = match family {
        IpFamily::V4 => any::<Ipv4Addr>().prop_map(IpAddr::V4).boxed(),
        IpFamily::V6 => any::<Ipv6Addr>().prop_map(IpAddr::V6).boxed(),
    };
    prop::collection::vec((ip, 1..=u16::MAX, noted(), any_text()), 0..60).prop_map(|entries| {
        let mut ledger = Ledger::default();
        for (ip, port, noted, uid) in entries {
            ledger.note(Target::new(ip, port), noted, PodMark::of(&Uid::new(uid)));
        }
        ledger
    })
}

fn family() -> impl Strategy<Value = IpFamily> {
    prop::sample::select(vec![IpFamily::V4, IpFamily::V6])
}

fn stored(name: &str, content: Result<PackedLedger, Box<str>>) -> StoredLedger {
    StoredLedger { name: name.into(), version: LedgerVersion::new("1"), content }
}

#[test]
fn what_is_packed_is_unpacked_again_tombstones_too() {
    holds(family().prop_flat_map(|family| (Just(family), ledger(family))), |(family, ledger)| {
        let packed = ledger.pack(&arn("blue"), family);
        let size = if family == IpFamily::V4 { 14 } else { 26 };
        let bytes = packed.registered.len() + packed.intended.len() + packed.removed.len();
        prop_assert_eq!(bytes, ledger.iter().count() * size);
        let count = |noted| ledger.iter().filter(|(_, is, _)| *is == noted).count() * size;
        prop_assert_eq!(packed.removed.len(), count(Noted::Removed));
        prop_assert_eq!(Ledger::unpack(&packed), Ok(ledger.clone()));
        let stored = stored(&object_name(&arn("blue")), Ok(packed));
        prop_assert_eq!(stored.open(), Ok((arn("blue"), ledger)));
        Ok(())
    });
}

#[test]
fn any_bytes_are_a_ledger_of_no_more_entries_than_they_hold_or_refused_in_a_bounded_message() {
    let bytes = || {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            (any::<[u8; 14]>(), 0..20_usize).prop_map(|(entry, times)| entry.repeat(times)),
        ]
    };
    holds((family(), bytes(), bytes(), bytes()), |(family, registered, intended, removed)| {
        let size = if family == IpFamily::V4 { 14 } else { 26 };
        let most = (registered.len() + intended.len() + removed.len()) / size;
        let packed = PackedLedger {
            group: arn("blue"),
            family,
            registered,
            intended,
            removed,
            removed_since: Vec::new(),
            namespaces: Vec::new(),
            claims: Box::default(),
        };
        if let Ok(read) = Ledger::unpack(&packed) {
            prop_assert!(read.iter().count() == most && read.iter().all(|(target, ..)| target.port > 0));
            prop_assert_eq!(read.pack(&arn("blue"), family), packed);
        } else {
            let said = stored(&object_name(&arn("blue")), Ok(packed)).open().unwrap_err().to_string();
            prop_assert!(said.len() <= super::LONGEST_MESSAGE && said.contains("Restore it"));
        }
        Ok(())
    });
}

#[test]
fn a_ledger_counts_for_the_target_group_of_its_name_alone() {
    holds((target_group::arn(), target_group::arn(), any_text()), |(one, other, whose)| {
        let read = |text: &str| TargetGroupArn::parse(text).unwrap();
        let (one, other) = (read(&one), read(&other));
        let name = object_name(&one);
        prop_assert!(name.len() <= 49);
        let packed = |group: &TargetGroupArn| Ledger::default().pack(group, IpFamily::V4);
        let named = format!("{name}.{whose}");
        prop_assert!(stored(&named, Ok(packed(&one))).open().is_ok());
        let misnamed = stored(&name, Ok(packed(&other))).open();
        prop_assert_eq!(misnamed.is_ok(), object_name(&other) == name);
        Ok(())
    });
}
