//! The order of a cell: the same scenario twice under the same load, with and without gate and hold.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use headgate_core::model::{hold, load_balancer::LoadBalancerType};
use localstack_load::{Answer, Client, ClientKind, Counts, Mode, Plan, Record, Report, Run, Target};
use localstack_world::{Facts, Nodes};
use serde_json::json;

use headgate_harness::{
    aws::{Aws, Group},
    judge::{self, Findings},
    recorder::{Recorder, now},
};

use crate::{
    cell::{Cell, Hold},
    exposure::Exposure,
    healthy, margin,
    report::Row,
    scenario::Scenario,
    stage::{Care, Side, Stage, nodes::Drained},
};

/// Requests per second, half on new connections and half on kept ones.
pub const RATE: f64 = 200.0;
/// A request that takes longer is lost.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// The clients of every run, and the number of each. They take turns.
pub const CLIENTS: [(&str, Client, usize); 3] = [
    ("new connections", Client { kind: ClientKind::Following, mode: Mode::New }, 3),
    ("keep-alive", Client { kind: ClientKind::Following, mode: Mode::KeepAlive }, 3),
    ("pinned", Client { kind: ClientKind::Pinned, mode: Mode::New }, 1),
];

/// The settings of a cell.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Real seconds per AWS second.
    pub time_scale: f64,
    /// The reserve of the hold above the propagation delay, in seconds: for the wait for a token, AWS's answer, and the
    /// Lease of a killed leader.
    pub margin: u32,
}

impl Setting {
    /// The settings of `make zero-loss`.
    pub fn of(cell: Cell) -> Self {
        let time_scale = match cell.hold {
            Hold::Covering | Hold::EvictionGate => cell.profile.time_scale(),
            Hold::Auto => 1.0,
        };
        Self { time_scale, margin: MARGIN }
    }
}

/// The reserve of `make zero-loss`, in seconds: longer than the Lease, as required.
pub const MARGIN: u32 = 8;

/// The result of a side.
struct Played {
    departures: u64,
    exposed: BTreeMap<&'static str, u64>,
    fewest_healthy: u64,
    counts: BTreeMap<&'static str, Counts>,
    because: BTreeMap<&'static str, BTreeMap<String, u64>>,
    findings: Findings,
    margin_used_ms: Option<u64>,
    holds_too_short: u64,
    seconds: f64,
    /// The time from the first lost request to the last one.
    lost_for: Duration,
    drained: Option<Drained>,
}

impl Played {
    /// Each lost request with the node that sent it and its target, and the pods that looked unhealthy. `None`: no
    /// request was lost.
    fn explained(&self) -> Option<String> {
        let Findings { lost, unhealthy_alive, .. } = &self.findings;
        let all = json!({"lost": lost, "unhealthy_alive": unhealthy_alive});
        (!lost.is_empty()).then(|| format!("{all:#}"))
    }
}

/// Plays a cell. `name` must be unique in this local world. Explanations of lost requests are written to files in
/// `folder`.
pub async fn play(facts: &Facts, cell: Cell, setting: Setting, name: &str, folder: &Path) -> Vec<Row> {
    let Setting { time_scale, margin } = setting;
    let bound = cell.profile.apply(&Aws::new(facts).await, time_scale).await;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some minutes, never negative
    let bound = (bound * time_scale).ceil() as u32;
    let covering = format!("{}s", bound + margin);
    let (care, annotation) = match cell.hold {
        Hold::Covering => (Care::GateAndHold(bound + margin), &*covering),
        Hold::EvictionGate => (Care::GateAlone, &*covering),
        Hold::Auto => {
            let application = cell.profile.is_application();
            let of = if application { LoadBalancerType::Application } else { LoadBalancerType::Network };
            (Care::GateAndHold(hold::Hold::Auto.seconds(of)), "auto")
        }
    };
    let (careful, plain) = (format!("{name}-careful"), format!("{name}-plain"));
    let Cell { profile, cross_zone, .. } = cell;
    let may_be_bare = cell.scenario.may_miss_the_webhook();
    let side = |name, care| Side {
        name,
        profile,
        cross_zone,
        time_scale,
        bound,
        margin,
        care,
        annotation,
        may_be_bare,
        takes_longer: cell.scenario.takes_longer(),
        lease: cell.scenario.lease(),
        is_probed_for_life: cell.scenario == Scenario::WedgedContainer,
        kind: if care == Care::None { cell.scenario.kind_of_control() } else { cell.scenario.kind() },
        ingress: cell.ingress,
        place: cell.scenario.place(),
        asks: cell.scenario.asks(),
    };
    // The state of a scenario is large.
    let with = Box::pin(side_of(facts, cell, side(&careful, care))).await;
    let control = if cell.has_control() {
        profile.apply(&Aws::new(facts).await, time_scale).await;
        Some(Box::pin(side_of(facts, cell, side(&plain, Care::None))).await)
    } else {
        None
    };
    if let Some(explained) = with.explained() {
        let path = folder.join(format!("lost-{}.json", cell.file_name()));
        std::fs::write(&path, explained).expect("what was lost can be written");
        eprintln!("what was lost is explained in {}", path.display());
    }
    let commit = commit();
    let row = |(client, ..): (&'static str, Client, usize)| {
        let ours = with.counts[client];
        let others = control.as_ref().map(|control| control.counts[client]);
        let drained = with.drained.clone();
        Row {
            scenario: cell.scenario.name().into(),
            ingress: crate::cell::ingress(cell.ingress).into(),
            profile: profile.name().into(),
            cross_zone,
            client: client.into(),
            nodes: cell.nodes.to_string(),
            hold: cell.hold.name().into(),
            promised: cell.is_promised(),
            offered: ours.offered,
            retried: ours.retried,
            lost: ours.lost,
            control_lost: others.map(|others| others.lost),
            control_offered: others.map(|others| others.offered),
            behind: ours.behind,
            time_scale,
            hold_seconds: care.hold().unwrap_or_default(),
            margin_used_ms: with.margin_used_ms.unwrap_or_default(),
            holds_too_short: with.holds_too_short,
            control_holds_too_short: control.as_ref().map(|control| control.holds_too_short),
            seconds: with.seconds.round(),
            lost_for_ms: u64::try_from(with.lost_for.as_millis()).unwrap_or(u64::MAX),
            loss_bound_ms: u64::from(bound + margin) * 1000,
            drain_seconds: drained.as_ref().map(|drained| drained.seconds.round()),
            drain_because: drained.map(|drained| drained.because).unwrap_or_default(),
            fewest_healthy: Some(with.fewest_healthy),
            departures: with.departures,
            exposed: with.exposed[client],
            commit: commit.clone(),
            lost_because: with.because[client].clone(),
            control_lost_because: control
                .as_ref()
                .map(|control| control.because[client].clone())
                .unwrap_or_default(),
        }
    };
    CLIENTS.map(row).into()
}

/// The commit that is checked out, for the report. Empty outside of a repository.
fn commit() -> String {
    let git = std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let said = git.ok().filter(|output| output.status.success());
    said.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default().trim().to_owned()
}

async fn side_of(facts: &Facts, cell: Cell, side: Side<'_>) -> Played {
    let mut stage = Stage::set(facts, side).await;
    let recorder = Recorder::start(&stage.aws, &stage.cluster, side.name);
    let load = start_load(facts, &stage.group, RATE);
    let (began, began_at) = (Instant::now(), now());
    cell.scenario.play(&mut stage).await;
    let seconds = began.elapsed().as_secs_f64();
    let report = load.stop().await.expect("the load can be accounted for");
    let record = recorder.stop().await;
    let holds_too_short = stage.holds_too_short().await;
    let drained = stage.drained.take();
    stage.strike().await;
    assert_eq!(record.dropped, 0, "the trace has lost entries");
    let exposure = Exposure::of(&record, Duration::from_secs(side.bound.into()));
    Played {
        departures: exposure.departures,
        exposed: exposed(&report, &exposure),
        fewest_healthy: healthy::fewest(&record, began_at),
        counts: counts(&report),
        because: because(&report),
        findings: judge::examine(&record, &judge::lost(&report)),
        margin_used_ms: margin::longest_ms(&record),
        holds_too_short,
        seconds,
        lost_for: lost_for(&report),
        drained,
    }
}

fn lost_for(report: &Report) -> Duration {
    let times = || report.lost().map(|record| record.intended_us);
    let (first, last) = (times().min().unwrap_or_default(), times().max().unwrap_or_default());
    Duration::from_micros(last - first)
}

/// Sends this many requests per second to the load balancer of a target group, from all [`CLIENTS`], until it is
/// stopped.
pub fn start_load(facts: &Facts, group: &Group, rate: f64) -> Run {
    let dns = facts.dns.parse().expect("the address of the name server");
    let target = Target::Name { name: group.dns_name.clone(), dns };
    let clients = CLIENTS.iter().flat_map(|(_, client, count)| std::iter::repeat_n(*client, *count));
    let answer = match facts.nodes {
        Nodes::Simulated => Answer::Pod,
        // Skipper does not return the request.
        Nodes::Real => Answer::Any,
    };
    let plan = Plan {
        clients: clients.collect(),
        timeout: TIMEOUT,
        answer,
        ..Plan::new(target, group.listener_port, rate)
    };
    Run::start(plan).expect("the plan is sound")
}

/// The results of the requests by client.
fn counts(report: &Report) -> BTreeMap<&'static str, Counts> {
    let mut all = BTreeMap::new();
    for (name, kind, _) in CLIENTS {
        let sum: &mut Counts = all.entry(name).or_default();
        for client in
            report.clients.iter().filter(|client| (client.kind, client.mode) == (kind.kind, kind.mode))
        {
            let Counts { offered, ok, retried, lost, behind } = client.counts;
            sum.offered += offered;
            sum.ok += ok;
            sum.retried += retried;
            sum.lost += lost;
            sum.behind += behind;
        }
    }
    all
}

/// By client, the number of requests that were started while a terminated pod might have received one.
fn exposed(report: &Report, exposure: &Exposure) -> BTreeMap<&'static str, u64> {
    let of = |wanted: Client| {
        let is_its = |record: &&Record| {
            let client = &report.clients[record.client];
            (client.kind, client.mode) == (wanted.kind, wanted.mode)
        };
        report.records.iter().filter(is_its).filter(|record| exposure.has(record.intended_us)).count() as u64
    };
    CLIENTS.map(|(client, wanted, _)| (client, of(wanted))).into()
}

/// Why requests of each client were lost, as the client saw it.
fn because(report: &Report) -> BTreeMap<&'static str, BTreeMap<String, u64>> {
    let of = |wanted: Client| {
        let mut reasons = BTreeMap::new();
        let is_its = |record: &&Record| {
            let client = &report.clients[record.client];
            (client.kind, client.mode) == (wanted.kind, wanted.mode)
        };
        for record in report.lost().filter(is_its) {
            let reason = record.failure.as_ref().map(ToString::to_string).unwrap_or_default();
            *reasons.entry(reason).or_default() += 1;
        }
        reasons
    };
    CLIENTS.map(|(client, wanted, _)| (client, of(wanted))).into()
}
