//! Writes Events on Services, pods, TargetBindings, grants and IngressDaemonSets. A separate task writes the Events, so
//! that no other task waits.
//!
//! Each Warning is also a log line. If an Event cannot be written, the task drops and counts it. The task logs when
//! writing Events starts to fail and when writing succeeds again.

mod queue;

pub use queue::{Receiver, Sender, channel};

use std::{sync::Arc, time::Duration};

use headgate_core::{
    EventAction, Reason,
    model::{
        excerpt::shown,
        notice::{About, LONGEST, Notice},
        object::ObjectKey,
    },
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::time::timeout;
use tracing::{info, warn};

use self::queue::Allowance;
use crate::{
    kube::words::plain,
    metrics::Metrics,
    runtime::{
        clock::Clock,
        outage::{Outage, Spelled, What},
    },
};

/// The page of the docs with a section for each reason.
const REASONS: &str = "reference/reasons.html";
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum rate of Normal Events per second across all namespaces, after the first hundred.
const GOOD_NEWS_A_SECOND: f64 = 10.0;

/// Writes Events until the sender is dropped. If `docs` is set, each Event ends with a link to the section about its
/// reason.
pub async fn write(client: Client, mut notices: Receiver, metrics: Arc<Metrics>, docs: Option<Box<str>>) {
    let instance = std::env::var("POD_NAME").ok();
    let reporter = Reporter { controller: "headgate.dev/headgate".into(), instance };
    let (clock, mut outage) = (Clock::start(), Outage::default());
    // If a thousand pods are replaced, three Events for each pod would overload the API server. The log and the journal
    // contain the omitted Events.
    let mut allowance = Allowance::new(GOOD_NEWS_A_SECOND, clock.now());
    while let Some(notice) = notices.recv().await {
        if notice.reason.is_good_news() && !allowance.take(clock.now()) {
            continue;
        }
        // Each Event needs its own recorder. A shared recorder would count a second problem with the same reason as a
        // repetition of the first, and drop the second text. Headgate has already removed real repetitions.
        let recorder = Recorder::new(client.clone(), reporter.clone());
        let (regarding, event) = render(&notice, docs.as_deref());
        let written = timeout(WRITE_TIMEOUT, recorder.publish(&event, &regarding)).await;
        let error = match written {
            Ok(Ok(())) => {
                metrics.event_written(true);
                if let Some(told) = outage.worked(clock.now()) {
                    let lost = told.failures;
                    info!(lost, "Events can be written again, after {}", Spelled(told.lasted));
                }
                continue;
            }
            Ok(Err(error)) => plain(&error),
            Err(_) => format!("no answer within {WRITE_TIMEOUT:?}"),
        };
        metrics.event_written(false);
        let Some(told) = outage.failed(&error, clock.now()) else { continue };
        let since = match told.what {
            What::GoesOn => format!(" for {} now", Spelled(told.lasted)),
            _ => String::new(),
        };
        warn!(
            reason = %notice.reason, about = regarding.name, error, lost = told.failures,
            "cannot write Events{since}; this log contains their texts"
        );
    }
}

fn render(notice: &Notice, docs: Option<&str>) -> (ObjectReference, Event) {
    const OWN: &str = "headgate.dev/v1alpha1";
    let of = |key: &ObjectKey| (Some(key.namespace.to_string()), key.name.to_string());
    let (version, kind, (namespace, name), uid) = match &notice.about {
        About::Service(key, uid) => ("v1", "Service", of(key), uid),
        About::Pod(key, uid) => ("v1", "Pod", of(key), uid),
        About::TargetBinding(key, uid) => (OWN, "TargetBinding", of(key), uid),
        About::IngressDaemonSet(key, uid) => (OWN, "IngressDaemonSet", of(key), uid),
        // Kubernetes stores Events about cluster-scoped objects in the namespace `default`.
        About::Grant(name, uid) => (OWN, "TargetGroupGrant", (None, name.to_string()), uid),
    };
    let regarding = ObjectReference {
        api_version: Some(version.into()),
        kind: Some(kind.into()),
        namespace,
        name: Some(name),
        uid: Some(uid.to_string()),
        ..ObjectReference::default()
    };
    let event = Event {
        type_: if notice.reason.is_good_news() { EventType::Normal } else { EventType::Warning },
        reason: notice.reason.to_string(),
        note: Some(linked(&notice.note, notice.reason, docs)),
        action: EventAction::of(notice).as_str().into(),
        secondary: None,
    };
    (regarding, event)
}

/// Adds a link to a note.
fn linked(note: &str, reason: Reason, docs: Option<&str>) -> String {
    let note = shorten(&shown(note));
    match docs {
        None => note,
        Some(docs) => format!("{note} {docs}/{REASONS}#{}", reason.as_str().to_ascii_lowercase()),
    }
}

/// Shortens a note to at most [`LONGEST`] characters.
fn shorten(note: &str) -> String {
    match note.char_indices().nth(LONGEST - 1) {
        Some((end, last)) if end + last.len_utf8() < note.len() => format!("{}…", &note[..end]),
        _ => note.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::model::object::Uid;

    use super::*;

    #[test]
    fn an_event_names_its_object_by_uid_and_carries_the_reason_word() {
        let about = About::Service(ObjectKey::new("shop", "web"), Uid::new("s-1"));
        let notice = Notice { about, reason: Reason::InvalidBinding, note: "part \"x\"".into() };
        let (regarding, event) = render(&notice, None);
        assert_eq!((regarding.kind.as_deref(), regarding.uid.as_deref()), (Some("Service"), Some("s-1")));
        assert_eq!((&*event.reason, &*event.action), ("InvalidBinding", "Bind"));
        assert_eq!(event.note.as_deref(), Some("part \"x\""));
        let (_, linked) = render(&notice, Some("https://docs.example"));
        let note = "part \"x\" https://docs.example/reference/reasons.html#invalidbinding";
        assert_eq!(linked.note.as_deref(), Some(note));
    }

    #[test]
    fn an_event_on_a_grant_is_about_an_object_of_no_namespace() {
        let about = About::Grant("front".into(), Uid::new("g-1"));
        let (regarding, _) =
            render(&Notice { about, reason: Reason::InvalidGrant, note: String::new() }, None);
        assert_eq!((regarding.kind.as_deref(), regarding.namespace), (Some("TargetGroupGrant"), None));
    }

    #[test]
    fn the_reference_explains_every_action() {
        let page = include_str!("../../../../docs/reference/events.md");
        for action in EventAction::ALL {
            assert!(page.contains(&format!("\n| `{}` | ", action.as_str())), "{action:?}");
        }
    }

    #[test]
    fn good_news_is_a_normal_event() {
        let about = About::Pod(ObjectKey::new("shop", "web-0"), Uid::new("u-1"));
        let of = |reason| render(&Notice { about: about.clone(), reason, note: String::new() }, None).1.type_;
        assert!(matches!(of(Reason::TargetsHealthy), EventType::Normal));
        assert!(matches!(of(Reason::TargetUnhealthy), EventType::Warning));
    }

    #[test]
    fn a_long_note_is_cut_at_a_character_and_keeps_its_link() {
        let just = "ä".repeat(LONGEST);
        assert_eq!(linked(&just, Reason::NotReady, None), just);
        let note = linked(&"ä".repeat(2000), Reason::NotReady, Some("https://docs.example"));
        let rest = note.trim_start_matches('ä');
        assert_eq!(note.matches('ä').count(), LONGEST - 1);
        assert_eq!(rest, "… https://docs.example/reference/reasons.html#notready");
    }
}
