//! The secret path as it is stored, and as somebody may have left it.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::ResourceExt;
use proptest::prelude::*;
use serde_json::json;

use crate::{
    properties::{any_json, any_text, holds, text},
    webhook::path::{
        Kind, SecretPath,
        stored::{PATHS, Stored, certificate_made, read},
    },
};

#[test]
fn a_path_is_read_back_as_it_was_stored() {
    holds((any::<i64>(), any::<i64>(), 0..4_u8), |(now, later, how)| {
        let mut stored = Stored::make(now).unwrap();
        if how > 0 {
            stored = stored.replaced(later).unwrap();
        }
        if how > 1 {
            stored = stored.confirmed(later, 3600);
        }
        if how > 2 {
            stored = stored.without_previous();
        }
        let mut secret = Secret::default();
        stored.put(&mut secret).unwrap();
        prop_assert_eq!(read(&secret), Some(stored));
        Ok(())
    });
}

#[test]
fn any_text_is_a_secret_path_of_64_digits_or_none() {
    holds(prop_oneof![any_text(), text("[0-9a-fA-F]{60,66}"), text("[0-9a-f]{64}")], |digits| {
        match SecretPath::parse(&digits) {
            Some(path) => {
                prop_assert!(digits.len() == 64 && SecretPath::is_in(&path.path(Kind::Inject)));
                prop_assert_eq!(path.path(Kind::Evict), format!("/{digits}/evict"));
            }
            None => prop_assert!(
                digits.len() != 64
                    || digits.bytes().any(|byte| !byte.is_ascii_hexdigit() || byte.is_ascii_uppercase())
            ),
        }
        Ok(())
    });
}

#[test]
fn whatever_stands_in_the_secret_it_is_a_whole_path_or_none() {
    let data = prop::collection::btree_map(
        prop::sample::select(vec!["path", "path-before", "tls.crt"]),
        prop_oneof![text("[0-9a-f]{64}"), any_text()],
        0..4,
    );
    let times = prop_oneof![
        (any::<i64>(), any::<Option<i64>>())
            .prop_map(|(made, named)| json!({"made": made, "named": named}).to_string()),
        any_json().prop_map(|json| json.to_string()),
        any_text(),
    ];
    holds((data, times, any_text()), |(data, times, contents)| {
        let bytes = |text: String| ByteString(text.into_bytes());
        let data: BTreeMap<String, ByteString> =
            data.into_iter().map(|(name, text)| (name.to_owned(), bytes(text))).collect();
        let mut secret = Secret { data: Some(data), ..Secret::default() };
        secret.annotations_mut().insert(PATHS.to_owned(), times);
        secret.annotations_mut().insert(crate::webhook::secret::CONTENTS.to_owned(), contents);
        let _ = certificate_made(&secret);
        if let Some(stored) = read(&secret) {
            prop_assert!(stored.served().iter().all(|(path, _)| SecretPath::is_in(&path.path(Kind::Inject))));
        }
        Ok(())
    });
}
