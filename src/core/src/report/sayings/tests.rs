//! Tests that every text fits into an Event, even with the longest names, and contains its object.

use std::sync::Arc;

use super::*;
use crate::{
    binding::{annotation::unknown, settle},
    model::{
        Bindings, GroupRef, HealthState, Owner, Resolution, Settled, Uid,
        grant::Refusal,
        limits::{ALL, Excess},
        notice::LONGEST,
        signal::Drainer,
    },
    testing::{arn, group, pod, service, target},
};

/// The length of " (and 123 more)" in an Event on a Service or TargetBinding.
const MORE: usize = 15;
const LATE: Duration = Duration::from_secs(86_399);

/// Checks that the text contains each of `words`.
fn has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "\"{word}\" is not in: {text}");
    }
}

/// The longest name that an object can have.
fn name(end: &str) -> String {
    "n".repeat(253 - end.len()) + end
}

fn key(end: &str) -> ObjectKey {
    ObjectKey::new("s".repeat(63), name(end))
}

fn long_group() -> String {
    "g".repeat(32)
}

/// A target group of this name.
fn the(name: &str) -> TargetGroupArn {
    arn(name)
}

/// The longest address and port.
fn address() -> Target {
    Target::new("2600:1f14:abcd:abcd:abcd:abcd:abcd:abcd".parse().unwrap(), 65535)
}

fn failure(class: FailureClass) -> Failure {
    let message = "User: arn:aws:sts::123456789012:assumed-role/headgate/1 is not authorized. ".repeat(9);
    Failure::new(class, "TooManyTargets", message)
}

fn binding() -> Binding {
    let web = service("web").port(&"p".repeat(15), 80).annotated(&long_group()).build();
    let found = Arc::new(group(&long_group()));
    let origin = Origin::Service(web.key.clone());
    let settled = settle(&origin, &web, &Settled::default(), |_: &GroupRef| Resolution::Found(found.clone()));
    let bindings: Bindings = settled.bindings;
    let mut binding = bindings.into_values().next().unwrap();
    binding.port.target_port = TargetPort::Name("q".repeat(15).into());
    binding
}

fn troubles() -> Vec<String> {
    let (arn, failure) = (the(&long_group()), failure(FailureClass::Full));
    let [waiting, owner] = ["-waits", "-owns"].map(key);
    let mut all: Vec<String> = [
        TroubleKind::Unfit(Cause::NoSuchPort),
        TroubleKind::Unfit(Cause::WrongIpFamily),
        TroubleKind::ClaimedTwice(Origin::TargetBinding(key("-tb"))),
        TroubleKind::HostNetwork { waiting, owner, target: address() },
        TroubleKind::ListDoubted,
    ]
    .iter()
    .map(|trouble| binding_trouble(&binding(), trouble, &name("-7d4b9c6f5-x2x9z")))
    .collect();
    all.extend([
        paused(&arn, &Origin::TargetBinding(key("-tb"))),
        paused(&arn, &Origin::Service(key("-svc"))),
        read_only(&arn),
        throttled("RegisterTargets and DeregisterTargets"),
        removals_paused(&arn),
        removal_held(&arn, 1440),
        kept_for_zone(&arn),
        zone_not_served(&arn, 1000, &address()),
        unknown_writer(&arn),
        full(&arn, 1000, &failure),
        holds_too_short(&short(None), &key("-pod")),
        suspect(&arn, &address()),
        unknown(&format!("headgate.dev/{}", "x".repeat(63))),
    ]);
    let refusals = [
        Refusal::OtherNamespaces(vec![name("-g").into(); 3]),
        Refusal::NoGrant,
        Refusal::Held(name("").into()),
    ];
    // For a withheld binding, the text also contains how long the targets remain.
    let withheld = " Targets remain for 10 min.".len();
    let refused = refusals.map(|refusal| refusal.said(&"s".repeat(63), &long_group()));
    assert!(refused.iter().all(|text| text.chars().count() + withheld <= LONGEST), "{refused:?}");
    all.extend(refused);
    all.extend(ALL.iter().map(|limit| Excess { limit, found: 99_999_999 }.to_string()));
    let item = CallItem {
        pod: key("-pod"),
        uid: Uid::new("u"),
        target: address(),
        reason: Cause::PodHasIp,
        since: crate::model::Moment::START,
        attempt: 1,
    };
    for class in [FailureClass::Denied, FailureClass::Gone, FailureClass::Refused] {
        for item in [None, Some(&item)] {
            let refusal = refusal(&arn, "DeregisterTargets", &self::failure(class), item);
            all.extend(refusal.map(|(_, text)| text));
        }
    }
    all
}

fn short(after: Option<Duration>) -> Short {
    Short { group: the(&long_group()), target: address(), after, bound: Duration::from_secs(3600) }
}

fn of_pods() -> Vec<String> {
    let place = format!("target {} of target group {}", address(), long_group());
    let message = format!(
        "{place}: the pod is less ready than register-when or the target group requires; {place}: initial"
    );
    let health = HealthState::UnhealthyDraining.into();
    let never = NeverHealthy {
        target: address(),
        owner: Owner { pod: key("-pod"), uid: Uid::new("u") },
        waited: LATE,
        health,
    };
    let mut holder = pod("x", "u").on(&name(".ec2.internal")).build();
    holder.key = key("-holder");
    let signal = |fate| Signal {
        fate,
        sign: format!("it has the taint {}", name("/gone")).into(),
        drainer: Drainer::Any,
        cordoned: true,
    };
    let mut all: Vec<String> = [
        News::StillClosed(LATE, message.clone()),
        News::OpenedLate(LATE, format!("pod IP {}, {message}", address().ip)),
        News::WithoutBinding,
        News::Unreadable(message),
        News::Refused("pods \"web\" is forbidden: User cannot patch resource \"pods/status\"".into()),
    ]
    .iter()
    .map(|news| gate(news).1)
    .collect();
    for cause in Cause::ALL {
        all.extend(eviction(*cause, &name(" disruption budget"), LATE));
    }
    for fate in [Fate::Dying, Fate::Deleted, Fate::Cordoned, Fate::Disrupted] {
        for passed_over in [PassedOver::default(), PassedOver { by_all: true, ..PassedOver::default() }] {
            all.push(node_goes(&name(".ec2.internal"), &signal(fate), passed_over));
        }
    }
    all.extend([
        never_healthy(&the(&long_group()), &never),
        hold_too_short(&short(None)),
        hold_too_short(&short(Some(LATE))),
        goes_not_ready(Cause::ZoneHasNoRoom, LATE),
        goes_not_ready(Cause::ReplacementTooSlow, LATE),
        waits_for_host_network(&address(), &key("-pod")),
        has_host_network(&address(), &key("-pod")),
        node_stays(&name(".ec2.internal")),
        waits_for_address(address().ip, &holder),
        another_shows_the_address(address().ip, &holder),
    ]);
    all
}

#[test]
fn every_text_fits_into_an_event_however_long_its_names_are() {
    let bound = troubles().into_iter().map(|text| (text, LONGEST - MORE));
    for (text, most) in bound.chain(of_pods().into_iter().map(|text| (text, LONGEST))) {
        let count = text.chars().count();
        assert!(count <= most, "{count} characters, {} too many: {text}", count - most);
    }
}

#[test]
fn every_text_begins_with_a_capital_or_an_annotation_and_ends_as_a_sentence() {
    for text in troubles().into_iter().chain(of_pods()) {
        let begins = text.starts_with(|c: char| c.is_ascii_uppercase()) || text.starts_with("headgate.dev/");
        assert!(begins && text.ends_with('.'), "{text}");
        assert!(!text.contains("; expected"), "{text}");
    }
}

#[test]
fn a_gate_names_the_target_group_that_it_waits_for_and_counts_the_others() {
    let message =
        "target 10.0.0.1:80 of target group web: initial; target 10.0.0.1:81 of target group api: unhealthy";
    let (_, text) = gate(&News::StillClosed(LATE, message.into()));
    has(&text, &["closed for 86399 s. Target group web: initial (and 1 more)"]);
    let (_, text) = gate(&News::Refused("403: no".into()));
    has(&text, &[OWN_GATE, "403: no", "patch on pods/status"]);
    let (_, text) = gate(&News::WithoutBinding);
    has(&text, &["no binding selected the pod", annotation::TARGET_GROUPS]);
}

#[test]
fn a_text_names_its_object_and_what_to_do() {
    let blue = the("blue");
    has(&read_only(&blue), &["Target group blue: ", "--read-only"]);
    has(
        &removals_paused(&blue),
        &["Target group blue: ", "headgate.dev/paused", "spec.paused", "end the pause"],
    );
    has(&removal_held(&blue, 0), &["Target group blue: ", "--replacement-grace", "health check"]);
    has(&suspect(&blue, &target(7, 80)), &["Target 10.0.0.7:80 of blue is ", "Remove the target"]);
    has(&unknown_writer(&blue), &["Target group blue: ", "TargetGroupBinding", "one controller"]);
    has(&kept_for_zone(&blue), &["Target group blue: ", MIN_HEALTHY_PER_ZONE, "--eviction-patience"]);
    let after = Duration::from_secs(60);
    has(&goes_not_ready(Cause::ZoneHasNoRoom, after), &["no node in the zone accepts new pods within 60 s"]);
    has(&goes_not_ready(Cause::ReplacementTooSlow, after), &["became healthy within 60 s"]);
    has(&node_stays("node-7"), &["node node-7", "registered again"]);
}

#[test]
fn an_eviction_says_what_it_waits_for_and_why_it_is_allowed() {
    let ends = |cause| eviction(cause, "403", Duration::from_secs(61)).unwrap_or_default();
    has(&ends(Cause::EvictionWaitsForBudget), &["allows no disruption now (403)"]);
    has(&ends(Cause::EvictionWaitsForDeparture), &["have terminated (403)"]);
    has(&ends(Cause::DeregistrationTooSlow), &["61 s", "AWS has not accepted"]);
    has(&ends(Cause::EvictionUncheckable), &["61 s", "(403)", "create on pods/eviction"]);
    has(&ends(Cause::ZoneHasNoRoom), &["61 s", "no node in the zone accepts new pods"]);
    has(&ends(Cause::ReplacementTooSlow), &["61 s", "no replacement in the zone became healthy"]);
    has(&ends(Cause::LeavingNotCredible), &["24 h", "config/admission"]);
    has(&ends(Cause::EvictionGivenUp), &["61 s", "registers the pod again"]);
}

/// The list of texts in `docs/reference/events.md`, which `make docs` writes and the style check reads.
mod docs {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    const PAGE: &str = "docs/reference/events.md";
    const BEGIN: &str = "<!-- generated from the code: make docs -->\n";
    const END: &str = "<!-- end -->\n";

    /// The text with short names in place of the longest names.
    fn with_short_names(text: &str) -> String {
        let text = [
            (long_group(), "web"),
            (address().to_string(), "10.0.1.7:8080"),
            (address().ip.to_string(), "10.0.1.7"),
            ("p".repeat(15), "http"),
            ("q".repeat(15), "http"),
        ]
        .iter()
        .fold(text.to_owned(), |text, (long, short)| text.replace(long, short));
        let is_long = |word: &&str| ["nnnn", "ssss", "xxxx"].iter().any(|part| word.contains(part));
        let words = text.split(' ').map(|word| {
            if !is_long(&word) {
                return word.to_owned();
            }
            let end: String = word.chars().rev().take_while(|c| ".,:;)".contains(*c)).collect();
            let begin = if word.starts_with('(') { "(" } else { "" };
            format!("{begin}NAME{}", end.chars().rev().collect::<String>())
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_reference_lists_the_texts_as_the_code_has_them() {
        let texts: BTreeSet<String> =
            troubles().iter().chain(&of_pods()).map(|text| with_short_names(text)).collect();
        let wanted: String = texts.iter().map(|text| ["- ", text, "\n"].concat()).collect();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
        let page = fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the page has the line where the list begins");
        let (there, after) = rest.split_once(END).expect("the page has the line where the list ends");
        let wanted = format!("\n{wanted}\n");
        if std::env::var_os("HEADGATE_WRITE_DOCS").is_some() {
            fs::write(&path, [before, BEGIN, &wanted, END, after].concat()).unwrap();
            return;
        }
        assert!(there == wanted, "{PAGE} is out of date: run `make docs`. Expected:\n{wanted}");
    }
}
