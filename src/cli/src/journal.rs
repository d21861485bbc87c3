//! The past for people: a line for each thing that has become otherwise.

use headgate::journal::report::{Entry, Past};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// The past of one object, indented, with what the replica cannot know of it; empty if there is nothing to say.
pub fn past(past: &Past) -> Vec<String> {
    let mut lines = Vec::new();
    let mut uid = None;
    for entry in &past.entries {
        // A pod of a StatefulSet has the name of the one before.
        if uid.is_some_and(|uid| uid != &entry.uid) {
            lines.push(format!("  another one of this name, UID {}", entry.uid));
        }
        uid = Some(&entry.uid);
        lines.push(format!("  {}  {}", time(&entry.at), line(entry)));
    }
    lines.extend(unknown(past).map(|unknown| format!("  {unknown}")));
    lines
}

/// What the replica that answers cannot know, if it came to lead after the past began.
pub fn unknown(past: &Past) -> Option<String> {
    let (since, leads) = (past.since.as_ref()?, past.leads_since.as_ref()?);
    let begins = past.entries.first().map_or(since, |first| &first.at);
    let said = "this replica leads since then: what AWS answered and showed before, another one knew";
    (begins.0 < leads.0).then(|| format!("{}  {said}", time(leads)))
}

/// What has become of it, without its name.
pub fn line(entry: &Entry) -> String {
    let target = entry.target_group.as_ref().zip(entry.target.as_ref());
    let place = target.map(|(group, target)| format!("{} {target}: ", name(group))).unwrap_or_default();
    let reason = entry.reason.as_deref().unwrap_or_default();
    let because = match &entry.message {
        _ if reason.is_empty() => String::new(),
        Some(why) => format!(" ({reason}: {why})"),
        None => format!(" ({reason})"),
    };
    let or_not_there = |state: &Option<String>| state.as_deref().unwrap_or("not there").to_owned();
    let said = match &*entry.what {
        "wanted" => format!("should be there{because}"),
        "registered" => "AWS has taken its registration".to_owned(),
        "not-registered" => format!("AWS has not taken its registration{because}"),
        "health" => format!("{} → {}{because}", or_not_there(&entry.before), or_not_there(&entry.now)),
        "unwanted" => format!("should go{because}"),
        "deregistered" => "AWS has taken its removal".to_owned(),
        "not-deregistered" => format!("AWS has not taken its removal{because}"),
        "gate" => format!("readiness gate {}", entry.now.as_deref().unwrap_or_default()),
        "eviction-waits" => format!("its eviction waits{because}"),
        "eviction-allowed" => format!("its eviction is let through{because}"),
        "ended" => "nothing in it answers any more".to_owned(),
        "gone" => "its object is gone".to_owned(),
        "node-goes" => format!("is about to go{because}"),
        "node-stays" => "stays".to_owned(),
        "leads" => "this replica leads".to_owned(),
        "stands-by" => "this replica leads no more".to_owned(),
        "said" => format!("said: {reason}: {}", entry.message.as_deref().unwrap_or_default()),
        other => format!("{other}{because}"),
    };
    place + &said
}

/// The name in an ARN of a target group.
fn name(arn: &str) -> &str {
    arn.split('/').nth(1).unwrap_or(arn)
}

fn time(time: &MicroTime) -> String {
    time.0.strftime("%H:%M:%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use headgate::{
        journal::report::{WORDS, entry},
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
        core.map(|core| entry(core, times())).collect()
    }

    #[test]
    fn a_pod_that_is_gone_is_followed_from_its_address_to_its_end() {
        let mut entries = entries();
        entries.truncate(15);
        let leads_since = Some(times().time(at(3)));
        let said = past(&Past { since: Some(times().time(at(0))), leads_since, forgotten: 0, entries });
        let expected = "\
  04:49:28.000Z  blue 10.0.0.1:8080: should be there (PodSelected: the pod has got its IP, or has come to be selected)
  04:49:29.000Z  blue 10.0.0.1:8080: AWS has not taken its registration (Throttled)
  04:49:30.000Z  blue 10.0.0.1:8080: AWS has taken its registration
  04:49:31.000Z  blue 10.0.0.1:8080: not there → healthy
  04:49:32.000Z  readiness gate open
  04:49:33.000Z  blue 10.0.0.1:8080: healthy → unhealthy (Target.Timeout)
  04:49:34.000Z  its eviction waits (EvictionWaitsForZone)
  04:49:35.000Z  its eviction is let through (EvictionAllowed: the pod has its hold, and its zones keep enough healthy targets)
  04:49:36.000Z  blue 10.0.0.1:8080: should go (PodEvicting)
  04:49:37.000Z  blue 10.0.0.1:8080: AWS has not taken its removal (Unavailable)
  04:49:38.000Z  blue 10.0.0.1:8080: AWS has taken its removal
  04:49:39.000Z  blue 10.0.0.1:8080: draining → not there
  04:49:40.000Z  nothing in it answers any more
  04:49:41.000Z  its object is gone
  another one of this name, UID u-2
  04:49:42.000Z  said: NeverHealthy: look
  04:49:30.000Z  this replica leads since then: what AWS answered and showed before, another one knew";
        assert_eq!(said.join("\n").trim_start(), expected);
    }

    #[test]
    fn who_has_led_since_it_began_has_nothing_to_excuse() {
        let since = Some(times().time(at(0)));
        let own = Past { since, leads_since: Some(times().time(at(0))), forgotten: 0, entries: entries() };
        assert_eq!(unknown(&own), None);
        assert_eq!(unknown(&Past::default()), None);
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
