//! Formats the history of an object as text: one line per change.

use headgate::journal::{report::Past, sentence::clock};

/// Returns the history of one object as indented lines. The last line states which part of the history the replica does
/// not know.
pub fn past(past: &Past) -> Vec<String> {
    let mut lines = Vec::new();
    let mut uid = None;
    for entry in &past.entries {
        // A new pod of a StatefulSet has the same name as its predecessor, but another UID.
        if uid.is_some_and(|uid| uid != &entry.uid) {
            lines.push(format!("  another pod with this name, UID {}", entry.uid));
        }
        uid = Some(&entry.uid);
        lines.push(format!("  {}  {}", clock(&entry.at), entry.text));
    }
    lines.extend(past.gap.as_ref().map(|gap| format!("  {gap}")));
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use headgate::{
        journal::{
            report::{Entry, WORDS, entry},
            sentence::{gap, with_text},
        },
        runtime::times::Times,
    };
    use headgate_core::{
        Cause, Moment, Reason, Target,
        model::{
            Entry as CoreEntry, Health, HealthState, Notice, Owner, Transition,
            notice::About,
            object::{ObjectKey, Uid},
            target_group::TargetGroupArn,
            transition::{PodStep, TargetStep},
        },
        view::GateView,
    };

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn times() -> Times {
        Times { now: at(1000), time: "2026-03-04T05:06:07Z".parse().unwrap() }
    }

    fn all() -> Vec<Transition> {
        let arn = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/blue/0123456789abcdef";
        let owner = |uid: &str| Owner { pod: ObjectKey::new("shop", "web-0"), uid: Uid::new(uid) };
        let target = |step| {
            let target = Target::new("10.0.0.1".parse().unwrap(), 8080);
            Transition::Target(TargetGroupArn::parse(arn).unwrap(), target, owner("u-1"), step)
        };
        let unhealthy = Health::read("unhealthy", Some("Target.Timeout"), None, None);
        let about = About::Pod(ObjectKey::new("shop", "web-0"), Uid::new("u-2"));
        vec![
            target(TargetStep::Wanted(Cause::PodHasIp)),
            target(TargetStep::NotRegistered(Reason::Throttled)),
            target(TargetStep::Registered),
            target(TargetStep::Shown(None, Some(HealthState::Healthy.into()))),
            Transition::Pod(owner("u-1"), PodStep::Gate(GateView::Open)),
            target(TargetStep::Shown(Some(HealthState::Healthy), Some(unhealthy))),
            Transition::Pod(owner("u-1"), PodStep::Eviction(Cause::EvictionWaitsForZone, false)),
            Transition::Pod(owner("u-1"), PodStep::Eviction(Cause::ZoneAllows, true)),
            target(TargetStep::Unwanted(Cause::PodEvicting)),
            target(TargetStep::NotDeregistered(Reason::Unavailable)),
            target(TargetStep::Deregistered),
            target(TargetStep::Shown(Some(HealthState::Draining), None)),
            Transition::Pod(owner("u-1"), PodStep::Ended),
            Transition::Pod(owner("u-1"), PodStep::Gone),
            Transition::Said(Notice { about, reason: Reason::NeverHealthy, note: "look".to_owned() }),
            Transition::Node("n".into(), Some(Cause::NodeDying)),
            Transition::Node("n".into(), None),
            Transition::Leads(true),
            Transition::Leads(false),
        ]
    }

    fn entries() -> Vec<Entry> {
        let core = (1..).zip(all()).map(|(number, what)| CoreEntry { number, at: at(number), what });
        core.map(|core| with_text(entry(core, times()))).collect()
    }

    #[test]
    fn a_pod_that_is_gone_is_followed_from_its_address_to_its_end() {
        let mut entries = entries();
        entries.truncate(15);
        let leads_since = Some(times().time(at(3)));
        let whole = Past { since: Some(times().time(at(0))), leads_since, entries, ..Past::default() };
        let said = past(&Past { gap: gap(&whole), ..whole });
        let expected = "\
  04:49:28.000Z  blue 10.0.0.1:8080: should be registered (PodSelected: the pod has its IP, and a binding selects it)
  04:49:29.000Z  blue 10.0.0.1:8080: AWS did not accept the registration (Throttled)
  04:49:30.000Z  blue 10.0.0.1:8080: AWS accepted the registration
  04:49:31.000Z  blue 10.0.0.1:8080: absent → healthy
  04:49:32.000Z  readiness gate open
  04:49:33.000Z  blue 10.0.0.1:8080: healthy → unhealthy (Target.Timeout)
  04:49:34.000Z  the eviction waits (EvictionWaitsForZone)
  04:49:35.000Z  the eviction is allowed (EvictionAllowed: the pod has its hold, and its zones keep enough healthy targets)
  04:49:36.000Z  blue 10.0.0.1:8080: should be deregistered (PodEvicting)
  04:49:37.000Z  blue 10.0.0.1:8080: AWS did not accept the deregistration (Unavailable)
  04:49:38.000Z  blue 10.0.0.1:8080: AWS accepted the deregistration
  04:49:39.000Z  blue 10.0.0.1:8080: draining → absent
  04:49:40.000Z  all containers have stopped
  04:49:41.000Z  the pod no longer exists
  another pod with this name, UID u-2
  04:49:42.000Z  reported NeverHealthy: look
  04:49:30.000Z  this replica leads since then; only an earlier leader knew AWS's earlier answers";
        assert_eq!(said.join("\n").trim_start(), expected);
    }

    #[test]
    fn who_has_led_since_it_began_has_nothing_to_excuse() {
        let since = Some(times().time(at(0)));
        let leads_since = Some(times().time(at(0)));
        let own = Past { since, leads_since, entries: entries(), ..Past::default() };
        assert_eq!(gap(&own), None);
        assert_eq!(gap(&Past::default()), None);
    }

    #[test]
    fn refused_calls_unhealthy_targets_and_warnings_are_problems() {
        let problems: Vec<String> =
            entries().into_iter().filter(|entry| entry.problem).map(|entry| entry.what).collect();
        assert_eq!(problems, ["not-registered", "health", "not-deregistered", "said"]);
    }

    #[test]
    fn each_word_is_used_and_all_of_an_entry_is_read_back_from_json() {
        let entries = entries();
        for word in WORDS {
            assert!(entries.iter().any(|entry| entry.what == word), "{word}");
        }
        for entry in entries {
            assert!(WORDS.contains(&&*entry.what), "{entry:?}");
            let json = serde_json::to_string(&entry).unwrap();
            assert_eq!(serde_json::from_str::<Entry>(&json).unwrap(), entry);
        }
    }
}
