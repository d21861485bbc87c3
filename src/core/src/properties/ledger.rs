//! Ledgers as other writers may have changed them. That what is packed is read again is tested next to
//! [`Content`](crate::model::claims::Content).

use proptest::prelude::*;

use super::{any_text, holds, target_group};
use crate::{
    ledger::{LedgerVersion, PackedLedger, StoredLedger, object_name},
    model::{
        IpFamily, TargetGroupArn,
        claims::{Content, Packed},
    },
    testing::arn,
};

fn family() -> impl Strategy<Value = IpFamily> {
    prop::sample::select(vec![IpFamily::V4, IpFamily::V6])
}

fn stored(name: &str, content: PackedLedger) -> StoredLedger {
    StoredLedger { name: name.into(), version: LedgerVersion::new("1"), content: Ok(content) }
}

#[test]
fn any_bytes_are_a_ledger_of_no_more_claims_than_they_hold_or_refused_in_a_bounded_message() {
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        (any::<[u8; 14]>(), 0..20_usize)
            .prop_map(|(entry, times)| [&entry[..], &[0; 2]].concat().repeat(times)),
    ];
    holds((family(), bytes), |(family, claims)| {
        let most = claims.len() / if family == IpFamily::V4 { 16 } else { 28 };
        let packed =
            PackedLedger { group: arn("blue"), family, content: Packed { claims, ..Packed::default() } };
        match stored(&object_name(&arn("blue")), packed).open() {
            Ok((_, Content { claims, .. })) => {
                prop_assert!(claims.len() == most && claims.keys().all(|target| target.port > 0));
            }
            Err(error) => {
                let said = error.to_string();
                prop_assert!(said.len() <= super::LONGEST_MESSAGE && said.contains("Restore it"));
            }
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
        let packed = |group: &TargetGroupArn| PackedLedger::of(group, IpFamily::V4, &Content::default());
        let named = format!("{name}.{whose}");
        prop_assert!(stored(&named, packed(&one)).open().is_ok());
        let misnamed = stored(&name, packed(&other)).open();
        prop_assert_eq!(misnamed.is_ok(), object_name(&other) == name);
        Ok(())
    });
}
