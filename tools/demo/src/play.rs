//! The order of a run: set up, start the load, move the pods, stop, judge.

use std::{net::IpAddr, sync::Arc, time::Duration};

use headgate_harness::{
    cluster,
    headgate::Headgate,
    judge::{self, Explained},
    recorder::Recorder,
    webhook::Configuration,
};
use localstack_load::{Client, ClientKind, Mode, Plan, Run as Load, Target};
use localstack_world::Facts;

use crate::{
    report::Run,
    screen::{self, Counts, Scene, Screen},
    stage::{Care, REPLICAS, Stage},
};

/// New connections per second to the first listener, from seven clients that resolve by TTL and one that is pinned.
const WEB_RATE: f64 = 240.0;
/// New connections per second to the second listener.
const WEBSECURE_RATE: f64 = 40.0;
const TIMEOUT: Duration = Duration::from_secs(5);

/// What happens to the pods during the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// `kubectl rollout restart`.
    Restart,
    /// `kubectl scale` up, and down again.
    Scale,
    /// `kubectl drain` of the node with the most pods.
    Drain,
    /// `kubectl uncordon`, and a restart so that the node is used again.
    Uncordon,
}

impl Phase {
    /// All phases, in the order of the demo.
    pub const ALL: [Self; 4] = [Self::Restart, Self::Scale, Self::Drain, Self::Uncordon];

    /// The usual duration on two cores, until everything is quiet.
    fn usual(self) -> Duration {
        Duration::from_secs(match self {
            Self::Restart | Self::Uncordon => 14,
            Self::Scale => 12,
            Self::Drain => 10,
        })
    }

    fn title(self) -> &'static str {
        match self {
            Self::Restart => "rolling restart",
            Self::Scale => "scale to 9 and back",
            Self::Drain => "drain of one node",
            Self::Uncordon => "uncordon, and a restart that uses the node again",
        }
    }
}

/// The usual duration of a run before its first phase.
const STAGE: Duration = Duration::from_secs(12);

/// The usual duration of a run with these phases on two cores.
pub fn usual(phases: &[Phase]) -> Duration {
    STAGE + phases.iter().map(|phase| phase.usual()).sum::<Duration>()
}

/// One run. Its name is also that of its namespace and load balancer.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// `careful` or `plain`.
    pub name: &'static str,
    /// The number of the run.
    pub number: usize,
    /// Its settings.
    pub care: Care,
    /// The usual duration of the later runs.
    pub later: Duration,
    /// The label of namespaces whose pods the webhook sees.
    pub mine: &'static str,
    /// Its phases.
    pub phases: &'static [Phase],
}

/// Starts a Headgate for the runs with these names, and registers its webhook for pods of namespaces with the label
/// `mine`. `bound`: how long load balancers keep sending, in AWS seconds.
pub async fn start(facts: &Facts, runs: &[&str], mine: &str, bound: f64) -> (Headgate, Configuration) {
    let arguments = [
        format!("--namespaces={}", runs.join(",")),
        // They do not exist yet.
        "--own-namespace=default".to_owned(),
        "--webhook-address=127.0.0.1:0".to_owned(),
        format!("--nlb-propagation-bound={:.0}ms", bound * facts.time_scale * 1000.0),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let headgate = Headgate::start(facts, &facts.kubeconfig, &arguments).await;
    let client = cluster::client(facts).await;
    let configuration = Configuration::install_as(client, mine.into(), mine.into(), &[&headgate]).await;
    (headgate, configuration)
}

/// Plays a run while `headgate` manages its namespace.
pub async fn play(facts: &Facts, headgate: &Headgate, script: Script) -> Run {
    let Script { name, number, care, later, mine, phases } = script;
    let stage = Stage::set(facts, name, care, mine).await;
    let recorder = Arc::new(Recorder::start(&stage.aws, &stage.cluster, name));
    let loads: Arc<std::sync::Mutex<Vec<Load>>> = Arc::default();
    let scene = Scene { run: name, number, care, ..Scene::default() };
    let screen = Screen::start(scene, look(facts, recorder.clone(), loads.clone()));
    let rest = usize::try_from(REPLICAS).expect("a few");

    screen.left(usual(phases) + later);
    screen.phase("waiting until every load balancer node sends to every pod");
    stage.wait_quiet(rest).await;
    let started = start_load(facts, &stage);
    loads.lock().unwrap().extend(started);
    let mut drained = None;
    for (at, phase) in phases.iter().enumerate() {
        let title = phase.title();
        screen.left(phases[at..].iter().map(|phase| phase.usual()).sum::<Duration>() + later);
        screen.phase(title);
        mark(&loads, title);
        match phase {
            Phase::Restart => stage.restart().await,
            Phase::Scale => {
                stage.scale(9).await;
                stage.wait_quiet(9).await;
                stage.scale(REPLICAS).await;
            }
            Phase::Drain => {
                let node = stage.busiest_node().await;
                stage.drain(&node).await;
                drained = Some(node);
            }
            Phase::Uncordon => {
                if let Some(node) = drained.take() {
                    stage.uncordon(&node).await;
                }
                stage.restart().await;
            }
        }
        screen.phase(&format!("{title}: until all is quiet"));
        stage.wait_quiet(rest).await;
    }
    screen.left(later);
    screen.phase("ending");
    let loads = std::mem::take(&mut *loads.lock().unwrap());
    let mut counts = Counts::default();
    let (mut behind, mut lost) = (0, Vec::new());
    for load in loads {
        let report = load.stop().await.expect("the load can be accounted for");
        counts = sum(counts, report.counts);
        behind += report.counts.behind;
        lost.extend(judge::lost(&report));
    }
    // Connections are traced when they end, so wait for those of the last requests.
    let explained = async {
        while recorder.look(|record| judge::examine(record, &lost).lost.iter().any(Explained::is_unseen)) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let _ = tokio::time::timeout(TIMEOUT, explained).await;
    screen.end().await;
    let recorder = Arc::into_inner(recorder).expect("nobody looks any more");
    let record = recorder.stop().await;
    let findings = judge::examine(&record, &lost);
    stage.scale(0).await;
    Run::new(counts, behind, findings, record.dropped, &waits(headgate, name))
}

fn start_load(facts: &Facts, stage: &Stage) -> Vec<Load> {
    let dns = facts.dns.parse().expect("the address of the name server");
    let following = Client::default();
    let web = [vec![following; 6], vec![Client::pinned(), Client::keep_alive()]].concat();
    let websecure =
        vec![following, following, following, Client { kind: ClientKind::Pinned, mode: Mode::KeepAlive }];
    let plans = [(web, WEB_RATE), (websecure, WEBSECURE_RATE)];
    plans
        .into_iter()
        .zip(&stage.groups)
        .map(|((clients, rate), group)| {
            let target = Target::Name { name: group.dns_name.clone(), dns };
            let plan = Plan { clients, timeout: TIMEOUT, ..Plan::new(target, group.listener_port, rate) };
            Load::start(plan).expect("the plan is sound")
        })
        .collect()
}

fn mark(loads: &std::sync::Mutex<Vec<Load>>, phase: &str) {
    for load in loads.lock().unwrap().iter() {
        load.mark(phase);
    }
}

fn sum(counts: Counts, more: localstack_load::Counts) -> Counts {
    Counts {
        offered: counts.offered + more.offered,
        ok: counts.ok + more.ok,
        retried: counts.retried + more.retried,
        lost: counts.lost + more.lost,
    }
}

fn look(facts: &Facts, recorder: Arc<Recorder>, loads: Arc<std::sync::Mutex<Vec<Load>>>) -> screen::Look {
    let zones: Vec<_> = facts.zones.iter().map(|zone| (zone.name.clone(), zone.cidr)).collect();
    Box::new(move || {
        let zone_of = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => zones.iter().position(|(_, cidr)| cidr.contains(&ip)),
            IpAddr::V6(_) => None,
        };
        let seen = recorder.look(|record| screen::zones(record, zone_of, zones.len()));
        let names = zones.iter().map(|(name, _)| name.clone());
        let counts =
            loads.lock().unwrap().iter().fold(Counts::default(), |all, load| sum(all, load.counts()));
        (counts, names.zip(seen).collect())
    })
}

/// The times of Headgate from its log: pod IP to RegisterTargets, and deletion to DeregisterTargets, in milliseconds.
fn waits(headgate: &Headgate, namespace: &str) -> (Vec<f64>, Vec<f64>) {
    let prefix = format!("{namespace}/");
    let of = |message: &str, reasons: &[&str]| {
        let lines = headgate.logged(|line| {
            line["message"] == message
                && line["attempt"] == 1
                && line["pod"].as_str().is_some_and(|pod| pod.starts_with(&prefix))
                && line["reason"].as_str().is_some_and(|reason| reasons.contains(&reason))
        });
        lines.iter().filter_map(|line| line["wait_ms"].as_f64()).collect()
    };
    (
        of("registering", &["PodSelected"]),
        of("deregistering", &["PodTerminating", "PodDeleted", "PodFinished"]),
    )
}
