//! What earlier versions have stored for the webhooks is read, and what is added to it loses nothing.

use headgate_core::secret_path::{Named, Step, Times, step};
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::Secret,
};

use super::{
    path::{
        Kind,
        named::{Entry, named, own_entries},
        stored,
    },
    secret,
};
use crate::fixtures::Earlier;

const NOW: i64 = 1_900_000_000;

#[test]
fn a_secret_without_a_path_is_given_one_and_keeps_its_certificate() {
    for earlier in Earlier::all() {
        let before: Secret = earlier.read("secret");
        assert!(stored::is_own(&before), "Headgate has made it");
        assert!(stored::certificate_made(&before).is_some_and(|made| made > 0));
        assert_eq!(stored::read(&before), None, "it has no path yet");
        let certificate = secret::read(&before).unwrap();
        let mut after = before.clone();
        let path = stored::Stored::make(NOW).unwrap();
        path.put(&mut after).unwrap();
        assert_eq!(secret::read(&after).unwrap(), certificate);
        assert_eq!(stored::read(&after), Some(path));
        let data = after.data.as_ref().unwrap();
        for (name, bytes) in before.data.as_ref().unwrap() {
            assert_eq!(data.get(name), Some(bytes), "{name}");
        }
        assert_eq!((&after.type_, &after.metadata.name), (&before.type_, &before.metadata.name));
    }
}

/// Headgate's own entries of both configurations, as they are stored.
fn entries(earlier: &Earlier, how: &str) -> Vec<Entry> {
    let mutating: MutatingWebhookConfiguration = earlier.read(&format!("mutating-{how}"));
    let validating: ValidatingWebhookConfiguration = earlier.read(&format!("validating-{how}"));
    let new_pods = mutating.webhooks.iter().flatten().map(|entry| (&*entry.name, &entry.client_config));
    let evictions = validating.webhooks.iter().flatten().map(|entry| (&*entry.name, &entry.client_config));
    [own_entries(new_pods), own_entries(evictions)].concat()
}

#[test]
fn configurations_that_call_a_bare_path_or_none_are_followed_and_then_told_the_secret_one() {
    for earlier in Earlier::all() {
        let bundle = earlier.read::<Secret>("secret").data.unwrap()["ca.crt"].0.clone();
        for (how, has_path) in [("path", true), ("bare", false), ("url", true)] {
            let all = entries(&earlier, how);
            assert_eq!(all.len(), 3, "two for new pods, one for evictions");
            let path = stored::Stored::make(NOW).unwrap();
            for entry in &all {
                let bare = if has_path { entry.kind.bare() } else { "/" };
                assert_eq!(entry.path(), bare, "{how}");
                assert_eq!(entry.bundle, bundle, "{how}: what the version before has had trusted");
                let [test, write] = entry.operations(&path.present.path(entry.kind)).unwrap();
                assert!(test["op"] == "test" && write["op"] == "add");
                assert!(
                    write["value"].as_str().unwrap().ends_with(&path.present.path(entry.kind)),
                    "{write}"
                );
            }
            assert_eq!(all.iter().filter(|entry| entry.kind == Kind::Evict).count(), 1);
            let is = named(all.iter(), &path.present, NOW);
            assert_eq!(is, Named::Bare { seen: NOW });
            let times = Times::new(std::time::Duration::from_secs(90 * 24 * 3600));
            assert_eq!(
                step(path.times(), is, None, times, NOW),
                Step::Write,
                "no rollback: it was never named"
            );
        }
    }
}
