use headgate_core::secret_path::Named;
use k8s_openapi::api::{
    admissionregistration::v1::{ServiceReference, WebhookClientConfig},
    core::v1::Secret,
};
use serde_json::json;

use super::{named::named, *};

fn secret(digit: char) -> SecretPath {
    SecretPath::parse(&digit.to_string().repeat(DIGITS)).unwrap()
}

#[test]
fn a_secret_is_64_lower_case_digits_and_no_two_are_the_same() {
    let (one, two) = (SecretPath::make().unwrap(), SecretPath::make().unwrap());
    assert_ne!(one.path(Kind::Inject), two.path(Kind::Inject));
    let path = one.path(Kind::Evict);
    assert!(SecretPath::is_in(&path) && path.ends_with("/evict") && path.len() == 1 + 64 + 6, "{path}");
    for other in ["", "abc", &"A".repeat(64), &"g".repeat(64), &"a".repeat(63), &"a".repeat(65)] {
        assert!(SecretPath::parse(other).is_none(), "{other}");
        assert!(!SecretPath::is_in(&format!("/{other}/inject")), "{other}");
    }
}

#[test]
fn a_secret_is_not_shown_by_debug() {
    let stored = Stored::make(0).unwrap().replaced(1).unwrap();
    let shown = format!("{stored:?}");
    assert_eq!(crate::redact::redacted(&shown), shown, "there is none in it");
    assert!(shown.contains("SecretPath(…)"), "{shown}");
}

#[test]
fn secret_paths_are_served_until_they_end_and_those_that_are_named() {
    let secret = vec![(secret('a'), None), (secret('b'), Some(100))];
    let known = Known { look: 1, secret, named: vec![("/inject".into(), None), ("/".into(), Some(50))] };
    let path = |digit: &str, rest: &str| format!("/{}{rest}", digit.repeat(64));
    for (path, now, serves) in [
        (path("a", "/inject"), 1000, true),
        (path("a", "/evict"), 1000, true),
        (path("b", "/evict"), 99, true),
        (path("b", "/evict"), 100, false),
        (path("a", ""), 0, false),
        (path("a", "/"), 0, false),
        (path("a", "/other"), 0, false),
        (path("c", "/inject"), 0, false),
        ("/inject".into(), 0, true),
        ("/".into(), 49, true),
        ("/".into(), 50, false),
        ("/evict".into(), 0, false),
        ("/inject/".into(), 0, false),
        (String::new(), 0, false),
    ] {
        assert_eq!(known.serves(&path, now), serves, "{path} at {now}");
    }
}

/// Publishes what is named, as of a look that begins now.
fn look(publisher: &Publisher, named: &[&str]) {
    let look = publisher.looks.begun.fetch_add(1, Ordering::SeqCst) + 1;
    let named = named.iter().map(|path| ((*path).to_owned(), None)).collect();
    publisher.known.send_replace(Known { look, named, ..Known::default() });
}

#[tokio::test]
async fn an_unknown_path_is_admitted_if_the_next_look_finds_it_and_a_known_one_waits_for_none() {
    let (publisher, paths) = Paths::new();
    look(&publisher, &["/old"]);
    assert!(paths.admit("/old").await);
    let (asks, waits) = (paths.clone(), paths.clone());
    let found = tokio::spawn(async move { asks.admit("/new").await });
    let refused = tokio::spawn(async move { waits.admit("/none").await });
    publisher.looks.wanted.notified().await;
    look(&publisher, &["/new"]);
    assert!(found.await.unwrap());
    assert!(!refused.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_look_that_had_begun_before_the_request_says_nothing_about_it() {
    let (publisher, paths) = Paths::new();
    let begun = publisher.looks.begun.fetch_add(1, Ordering::SeqCst) + 1;
    let asked = tokio::spawn(async move { paths.admit("/new").await });
    publisher.looks.wanted.notified().await;
    publisher.known.send_replace(Known { look: begun, ..Known::default() });
    tokio::task::yield_now().await;
    assert!(!asked.is_finished(), "it waits for another one");
    look(&publisher, &["/new"]);
    assert!(asked.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_of_the_api_server_an_unknown_path_is_refused_in_time() {
    let (publisher, paths) = Paths::new();
    let asked = tokio::time::timeout(Duration::from_secs(2), paths.admit("/new"));
    assert!(!asked.await.expect("sooner than the API server gives up"));
    drop(publisher);
}

fn service(path: Option<&str>) -> WebhookClientConfig {
    let service = ServiceReference {
        name: "hook".into(),
        namespace: "own".into(),
        path: path.map(str::to_owned),
        port: None,
    };
    WebhookClientConfig { service: Some(service), ..WebhookClientConfig::default() }
}

fn url(url: &str) -> WebhookClientConfig {
    WebhookClientConfig { url: Some(url.into()), ..WebhookClientConfig::default() }
}

fn entries(all: &[(&str, WebhookClientConfig)]) -> Vec<Entry> {
    own_entries(all.iter().map(|(name, client)| (*name, client)))
}

#[test]
fn only_own_entries_count_and_their_paths_are_those_that_the_api_server_calls() {
    let all = entries(&[
        ("a.example.com", service(Some("/a"))),
        ("namespaces.inject.headgate.dev", service(None)),
        ("pods.inject.headgate.dev", service(Some("/x"))),
        ("r0.pods.evict.headgate.dev", url("https://[::1]:9443/y/z?a=b")),
        ("r1.pods.evict.headgate.dev", url("https://example.com")),
    ]);
    let paths: Vec<_> = all.iter().map(|entry| (entry.kind, entry.path())).collect();
    assert_eq!(
        paths,
        [
            (Kind::Inject, "/".to_owned()),
            (Kind::Inject, "/x".to_owned()),
            (Kind::Evict, "/y/z".to_owned()),
            (Kind::Evict, "/".to_owned()),
        ]
    );
}

#[test]
fn one_path_that_is_another_one_is_enough_to_write_it_again() {
    let present = secret('a');
    let of = |paths: &[&str]| {
        let all: Vec<_> = paths.iter().map(|path| ("pods.evict.headgate.dev", service(Some(path)))).collect();
        named(entries(&all).iter(), &present)
    };
    let (own, other) = (present.path(Kind::Evict), secret('b').path(Kind::Evict));
    assert_eq!(of(&[&own, &own]), Named::Present);
    assert_eq!(of(&[&own, &other]), Named::Other);
    assert_eq!(of(&[&present.path(Kind::Inject)]), Named::Other, "that of the other question");
    assert_eq!(of(&[&other, "/evict", &own]), Named::Other);
}

#[test]
fn a_path_is_written_into_the_service_or_the_url_and_nothing_else_changes() {
    let path = secret('a').path(Kind::Evict);
    for (before, after) in [
        (service(None), service(Some(&path))),
        (service(Some("/evict")), service(Some(&path))),
        (url("https://[::1]:9443/evict"), url(&format!("https://[::1]:9443{path}"))),
        (url("https://example.com"), url(&format!("https://example.com{path}"))),
    ] {
        let name = "pods.evict.headgate.dev";
        let object = |client| json!({"webhooks": [{"name": "a"}, {"name": name, "clientConfig": client}]});
        let mut is = object(json!(before));
        let all = entries(&[("a", service(None)), (name, before)]);
        let operations = all[0].operations(&path).unwrap();
        let change: json_patch::Patch = serde_json::from_value(json!(operations)).unwrap();
        json_patch::patch(&mut is, &change).unwrap();
        assert_eq!(is, object(json!(after)));
        let mut moved = json!({"webhooks": [{"name": "a"}, {"name": "b", "clientConfig": {}}]});
        assert!(json_patch::patch(&mut moved, &change).is_err(), "the list has changed");
    }
    let odd = entries(&[("pods.evict.headgate.dev", url("https://"))]);
    assert!(odd[0].operations(&path).unwrap_err().contains("expected https://HOST/"));
}

#[test]
fn what_is_stored_is_read_again_beside_all_else_in_the_secret() {
    let mut secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "s", "annotations": {"headgate.dev/certificates": "{}"}},
        "data": {"tls.crt": "YQ=="},
    }))
    .unwrap();
    assert!(stored::is_own(&secret) && read(&secret).is_none());
    let first = Stored::make(5).unwrap();
    for stored in [
        first.clone(),
        first.clone().confirmed(6, 10),
        first.clone().replaced(7).unwrap(),
        first.clone().replaced(7).unwrap().confirmed(8, 10),
        first.clone().replaced(7).unwrap().confirmed(8, 10).without_previous(),
    ] {
        stored.put(&mut secret).unwrap();
        assert_eq!(read(&secret).unwrap(), stored);
        assert_eq!(secret.data.as_ref().unwrap()["tls.crt"].0, b"a");
    }
    assert!(!secret.data.as_ref().unwrap().contains_key("path-before"));
    let next = first.clone().replaced(7).unwrap();
    assert_eq!(next.served(), [(next.present.clone(), None), (first.present.clone(), None)]);
    let confirmed = next.clone().confirmed(8, 10);
    assert_eq!(confirmed.served(), [(next.present, None), (first.present, Some(18))]);
    secret.data.as_mut().unwrap().remove("path");
    assert!(read(&secret).is_none());
}

#[test]
fn the_newest_certificate_of_a_secret_counts() {
    let of = |contents: &str| {
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"annotations": {"headgate.dev/certificates": contents}},
        }))
        .unwrap();
        stored::certificate_made(&secret)
    };
    assert_eq!(of(r#"{"serving": {"from": 3, "until": 9}, "next": null}"#), Some(3));
    assert_eq!(of(r#"{"serving": {"from": 3}, "next": {"from": 7}}"#), Some(7));
    assert_eq!(of("nonsense"), None);
}
