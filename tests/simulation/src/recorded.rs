//! What the engine did in each world, as one number: a rebuilt engine does the same.
//!
//! Each effect has a text that names no Rust type and no id, and none of the sentences that users read: those may
//! change. The effects of a step are carried out in the order of their texts, so that it does not matter in which order
//! an engine gives them. `HEADGATE_SIM_RECORD=1` writes the numbers anew.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    hash::{DefaultHasher, Hasher},
    path::PathBuf,
    time::Duration,
};

use headgate_core::{
    engine::{Effect, Span},
    ledger::{Ledger, LedgerRequest, LedgerVersion, Noted, PackedLedger},
    model::{
        Call, CallItem, Moment, Notice, Reason, WallTime,
        eviction::{Check, MarkWrite, Ruling},
        leaving::{Asked, Mark},
        notice::About,
    },
    requests::Request,
    view::{BindingView, EndingView, GateView, GroupView, OriginView, Picture, TargetView},
};

/// If it is set, each effect is printed, so that those of two engines can be compared.
const SHOWN: &str = "HEADGATE_SIM_EFFECTS";

/// The effects of a world.
pub struct Done {
    hasher: DefaultHasher,
    shows: bool,
}

impl Done {
    pub fn new() -> Self {
        Self { hasher: DefaultHasher::new(), shows: std::env::var_os(SHOWN).is_some() }
    }

    /// Brings the effects of a step into their order, and notes them.
    pub fn note(&mut self, replica: usize, effects: Vec<Effect>, now: Moment) -> Vec<Effect> {
        let mut told: Vec<(String, Effect)> =
            effects.into_iter().map(|effect| (text(&effect), effect)).collect();
        told.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (text, _) in &told {
            self.add(replica, text, now);
        }
        told.into_iter().map(|(_, effect)| effect).collect()
    }

    /// Notes what was answered when an eviction was asked for.
    pub fn note_ruling(&mut self, replica: usize, ruling: &Ruling, now: Moment) {
        let text = match ruling {
            Ruling::Pass(reason) => format!("eviction passes {reason}"),
            Ruling::Regardless(reason, uid) => format!("eviction passes regardless {reason} {uid}"),
            Ruling::Wait { reason, retry, uid, mark } => {
                let mark = mark.map(mark_text).unwrap_or_default();
                format!("eviction waits {reason} {} {uid} {mark}", retry.as_nanos())
            }
        };
        self.add(replica, &text, now);
    }

    fn add(&mut self, replica: usize, text: &str, now: Moment) {
        if self.shows {
            println!("{} {replica} {text}", nanos(now));
        }
        self.hasher.write_u128(nanos(now));
        self.hasher.write_usize(replica);
        self.hasher.write(text.as_bytes());
        self.hasher.write_u8(b'\n');
    }

    pub fn number(&self) -> u64 {
        self.hasher.finish()
    }
}

/// Compares the numbers of all worlds from seed 0 on with those that are recorded, or records them.
///
/// # Errors
/// Which worlds differ.
pub fn compare(mut worlds: Vec<(u64, u64)>) -> Result<(), String> {
    worlds.sort_unstable();
    let lines: Vec<String> = worlds.iter().map(|(seed, number)| format!("{seed} {number:016x}")).collect();
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/recorded.txt");
    if std::env::var_os("HEADGATE_SIM_RECORD").is_some() {
        return fs::write(&file, lines.join("\n") + "\n").map_err(|error| error.to_string());
    }
    let recorded = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let recorded: BTreeSet<&str> = recorded.lines().collect();
    let other: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !recorded.contains(line)).collect();
    let Some(first) = other.first() else { return Ok(()) };
    Err(format!(
        "{} of {} worlds are not as recorded, {first} for one; {SHOWN}=1 HEADGATE_SIM_SEED=.. prints what the engine does \
         in one, here and at the commit before",
        other.len(),
        lines.len()
    ))
}

fn nanos(at: Moment) -> u128 {
    at.elapsed().as_nanos()
}

fn wall(at: WallTime) -> u128 {
    at.since(WallTime::default()).as_nanos()
}

fn list<T>(items: impl IntoIterator<Item = T>, text: impl Fn(T) -> String) -> String {
    let all: Vec<String> = items.into_iter().map(text).collect();
    all.join(", ")
}

/// An effect, without its id.
fn text(effect: &Effect) -> String {
    match effect {
        Effect::Send { request, waited, .. } => request_text(request, *waited),
        Effect::Planned(call) => format!("planned {}", call_text(call)),
        Effect::Notice(Notice { about, reason, .. }) => {
            let (kind, key, uid) = match about {
                About::Service(key, uid) => ("service", key, uid),
                About::TargetBinding(key, uid) => ("targetbinding", key, uid),
                About::Pod(key, uid) => ("pod", key, uid),
            };
            format!("notice {kind} {key} {uid} {reason}")
        }
        Effect::Relist(scope) => format!("relist {scope}"),
        Effect::HoldTooShort(group) => format!("hold too short {}", group.name()),
        Effect::Took(span, took) => {
            let span = match span {
                Span::RegisterToHealthy => "register to healthy",
                Span::HealthyToGate => "healthy to gate",
                Span::Departure => "departure",
            };
            format!("took {span} {}", took.as_nanos())
        }
        Effect::Shows(Picture::Binding(view)) => format!("view {}", binding_text(view)),
        Effect::Shows(Picture::BindingGone(key)) => format!("view gone {key}"),
        Effect::Shows(Picture::Group(view)) => format!("view {}", group_text(view)),
        Effect::Shows(Picture::GroupGone(group)) => format!("view gone group {}", group.name()),
        Effect::Shows(Picture::Origin(OriginView { origin, uid, exists, problems })) => {
            let problems = list(problems, |problem| format!("{:?} {}", problem.ports, problem.reason));
            format!("view origin {origin} {uid} exists {exists}: {problems}")
        }
        Effect::Shows(Picture::OriginGone(origin)) => format!("view gone origin {origin}"),
        Effect::Released(key, uid) => format!("released {key} {uid}"),
        Effect::Selected(namespace, is) => format!("selected {namespace} {is}"),
    }
}

fn request_text(request: &Request, waited: Option<Duration>) -> String {
    match request {
        Request::Call(call) => {
            format!("call {} waited {:?}", call_text(call), waited.map(|waited| waited.as_nanos()))
        }
        Request::Ledger(LedgerRequest::LoadAll) => "ledgers load".to_owned(),
        Request::Ledger(LedgerRequest::Load(group)) => format!("ledger load {}", group.name()),
        Request::Ledger(LedgerRequest::Write(base, ledger)) => {
            let base = base.as_ref().map(LedgerVersion::as_str);
            format!("ledger write over {base:?} {}", ledger_text(ledger))
        }
        Request::Ledger(LedgerRequest::Delete(group, base)) => {
            format!("ledger drop {} of {}", base.as_str(), group.name())
        }
        Request::Gate(write) => {
            let condition = &write.condition;
            format!(
                "gate {} {} open {} turns {} {} since {}",
                write.pod,
                write.uid,
                condition.open,
                condition.turns,
                condition.reason,
                nanos(write.since)
            )
        }
        Request::Check(Check { pod, uid, labels, departing }) => {
            format!("eviction check {pod} {uid} {labels:?} beside {departing:?}").replace("Labels", "")
        }
        Request::Mark(MarkWrite { pod, uid, mark }) => format!("mark {pod} {uid} {}", mark_text(*mark)),
    }
}

fn call_text(call: &Call) -> String {
    match call {
        Call::Register { group, items } | Call::Deregister { group, items } => {
            format!("{} {} {}", call.action(), group.name(), list(items, item_text))
        }
        Call::ReadHealth { group } => format!("{} {}", call.action(), group.name()),
        Call::FindGroup { reference } => format!("{} {reference}", call.action()),
    }
}

fn item_text(item: &CallItem) -> String {
    let CallItem { target, pod, uid, reason, since, attempt } = item;
    format!("{target} {pod} {uid} {reason} {} {attempt}", nanos(*since))
}

fn ledger_text(packed: &PackedLedger) -> String {
    let Ok(ledger) = Ledger::unpack(packed) else { return "cannot be read".to_owned() };
    let entries = list(ledger.iter(), |(target, noted, mark)| {
        let noted = match noted {
            Noted::Intended => "intended",
            Noted::Registered => "registered",
            Noted::Removed => "removed",
        };
        format!("{target} {noted} {mark:?} {:?}", ledger.out_since(target).map(wall))
    });
    format!("{}: {entries}", packed.group.name())
}

fn mark_text(mark: Mark) -> String {
    match mark {
        Mark::Asked(Asked { held, early, begun, since, asked }) => format!(
            "asked held {held} early {early} begun {} since {} asked {}",
            wall(begun),
            wall(since),
            wall(asked)
        ),
        Mark::Waits { at, reason } => format!("waits {} {reason}", wall(at)),
        Mark::Deregistered { at, bound } => format!("deregistered {} {}", wall(at), bound.as_nanos()),
        Mark::MayGo { at, reason } => format!("may go {} {reason}", wall(at)),
        Mark::Undone => "undone".to_owned(),
        Mark::Stays => "stays".to_owned(),
        Mark::Disbelieved => "disbelieved".to_owned(),
    }
}

fn binding_text(view: &BindingView) -> String {
    let BindingView { key, targets, ending, hold, said } = view;
    let targets = list(targets, |TargetView { target, pod, registered, state, gate }| {
        let gate = match gate {
            GateView::None => "no gate",
            GateView::Closed => "closed",
            GateView::Open => "open",
        };
        format!(
            "{target} {pod} registered {registered} {:?} {gate}",
            state.map(headgate_core::model::health::HealthState::as_str)
        )
    });
    let ending = list(ending, |EndingView { target, pod, reason, registered, state }| {
        format!(
            "{target} {pod} {reason} registered {registered} {:?}",
            state.map(headgate_core::model::health::HealthState::as_str)
        )
    });
    let reasons: Vec<Reason> = said.iter().map(|(reason, _)| *reason).collect();
    let said = list(reasons, |reason| reason.to_string());
    format!("binding {key}: {targets}; ending {ending}; hold {} {}; {said}", hold.seconds, hold.bound)
}

fn group_text(view: &GroupView) -> String {
    let mut text = format!("group {}:", view.group.name());
    for (state, count) in &view.states {
        _ = write!(text, " {} {count}", state.as_str());
    }
    let GroupView { foreign, suspects, contested, never_healthy, paused, unplaced, held, .. } = view;
    _ = write!(
        text,
        " foreign {foreign} suspects {suspects} contested {contested} never healthy {never_healthy} paused {paused:?} \
         unplaced {unplaced} held {held} until {:?} read {:?}",
        view.held_until.map(nanos),
        view.last_read.map(nanos)
    );
    text
}
