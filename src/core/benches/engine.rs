//! Measures how long the engine takes for one event, by the number of target groups and targets:
//! `cargo bench -p headgate-core`. `cargo bench -p headgate-core -- idle` measures it beside idle objects.
//!
//! AWS and Kubernetes answer at once and their time does not count. The measure covers [`Engine::step`] and
//! [`Engine::next_wakeup`]; the program calls each once per input.

#![allow(clippy::unwrap_used, clippy::cast_precision_loss)] // a panic ends the bench

use std::{
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use headgate_core::{
    Answer, Call, Change, Effect, Engine, Input, Leadership, Moment, Request, Scope, Settings,
    ledger::{LedgerRequest, LedgerVersion},
    model::{
        eviction::Checked,
        gate::{GateFacts, Shown},
        health::HealthState,
        leaving::{Asked, LeavingFacts},
        object::{Labels, ObjectKey, Uid},
        pod::{Ending, PassedOver, PodFacts, Protocol},
        policy::Texts,
        rates::{Limit, Limits},
        readiness::Readiness,
        service::{ServiceFacts, ServicePort, TargetPort},
        target::Target,
        target_group::{GroupRef, IpFamily, LeastHealthy, TargetGroupArn, TargetGroupFacts, TargetType},
        time::WallTime,
    },
};

/// The number of repetitions of each event.
const TIMES: usize = 2_000;

/// The kind of idle objects.
#[derive(Clone, Copy, Debug)]
enum Idle {
    /// Pods whose readiness gates wait for the load balancer.
    Gates,
    /// Pods that were asked to terminate, are deregistered, and wait for the load balancer.
    Departures,
    /// Idle target groups.
    Groups,
}

/// `groups` groups with `pods` pods each, every group in a separate namespace.
struct World {
    engine: Engine,
    now: Moment,
    pods: Vec<PodFacts>,
    spent: Duration,
    inputs: u32,
    versions: u64,
}

fn arn(group: usize) -> TargetGroupArn {
    let text =
        format!("arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/g{group}/0123456789abcdef");
    TargetGroupArn::parse(&text).unwrap()
}

fn pod(group: usize, at: usize) -> PodFacts {
    let number = u32::try_from(group * 1_000 + at).unwrap();
    PodFacts {
        key: ObjectKey::new(format!("ns-{group}"), format!("web-{at}")),
        uid: Uid::new(format!("{number:08x}-0000-4000-8000-000000000000")),
        labels: Labels::from_iter([("app", "web")]),
        created: 0,
        terminating: false,
        finished: false,
        stopped: false,
        has_sandbox: true,
        host_network: false,
        readiness: Readiness::default(),
        gate: None,
        owner: None,
        hold: None,
        node: None,
        passed_over: PassedOver::default(),
        is_evicted: false,
        ending: Ending::default(),
        leaving: None,
        left_over: None,
        ips: vec![IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number))],
        ports: [].into(),
        beyond: [].into(),
    }
}

fn service(group: usize) -> ServiceFacts {
    ServiceFacts {
        key: ObjectKey::new(format!("ns-{group}"), "web"),
        uid: Uid::new(format!("service-{group}")),
        target_groups: Some(format!("g{group}").into()),
        policy: Texts::default(),
        selector: Labels::from_iter([("app", "web")]),
        is_external: false,
        ports: vec![ServicePort {
            name: "http".into(),
            port: 80,
            target_port: TargetPort::Number(8080),
            protocol: Protocol::Tcp,
        }],
        beyond: [].into(),
    }
}

/// A group of fifty pods with events, and `many` idle objects.
fn beside(idle: Idle, many: usize) -> World {
    let mut pods: Vec<PodFacts> = (0..50).map(|at| pod(0, at)).collect();
    pods.extend((0..many).map(|number| match idle {
        Idle::Groups => pod(1 + number, 0),
        Idle::Gates => {
            let gate = GateFacts { shown: Shown::Closed, ..GateFacts::default() };
            PodFacts { gate: Some(Box::new(gate)), ..pod(1 + number / 500, number % 500) }
        }
        Idle::Departures => {
            let (start, hour) = (WallTime::default(), Duration::from_secs(3_600));
            let leaving = LeavingFacts {
                ask: Asked::early(start),
                deregistered: Some((start, hour)),
                ..LeavingFacts::asked(start, start)
            };
            PodFacts { leaving: Some(Box::new(leaving)), ..pod(1 + number / 500, number % 500) }
        }
    }));
    let groups = match idle {
        Idle::Groups => 1 + many,
        Idle::Gates | Idle::Departures => 1 + many.div_ceil(500),
    };
    World::of(groups, pods)
}

impl World {
    fn new(groups: usize, each: usize) -> Self {
        Self::of(groups, (0..groups).flat_map(|group| (0..each).map(move |at| pod(group, at))).collect())
    }

    fn of(groups: usize, pods: Vec<PodFacts>) -> Self {
        let limit = Limit { per_second: 1e6, burst: 1e6 };
        let settings = Settings {
            scopes: vec![Scope::Cluster],
            limits: Limits { changes: limit, reads: limit },
            ..Settings::default()
        };
        let engine = Engine::new(settings);
        let mut world = Self {
            engine,
            now: Moment::START,
            pods: pods.clone(),
            spent: Duration::ZERO,
            inputs: 0,
            versions: 0,
        };
        let seen = world.now;
        world.happens(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
        world.happens(Input::Binding { change: Change::Relisted(Scope::Cluster, vec![]), seen });
        let services = (0..groups).map(service).collect();
        world.happens(Input::Service { change: Change::Relisted(Scope::Cluster, services), seen });
        world.happens(Input::Pod { change: Change::Relisted(Scope::Cluster, pods), seen });
        for _ in 0..200 {
            world.wait(Duration::from_millis(250));
        }
        world
    }

    fn happens(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let began = Instant::now();
            let effects = self.engine.step(input, self.now);
            std::hint::black_box(self.engine.next_wakeup(self.now));
            self.spent += began.elapsed();
            self.inputs += 1;
            inputs.extend(effects.into_iter().filter_map(|effect| self.answer(effect)));
        }
    }

    fn answer(&mut self, effect: Effect) -> Option<Input> {
        self.versions += 1;
        match effect {
            Effect::Send { id, request: Request::Call(call), .. } => {
                let answer = match call {
                    Call::Register { .. } | Call::Deregister { .. } => Answer::Done,
                    Call::ReadHealth { group } => {
                        let number: usize = group.name()[1..].parse().unwrap();
                        let here =
                            self.pods.iter().filter(|pod| *pod.key.namespace == *format!("ns-{number}"));
                        let state = |pod: &PodFacts| {
                            let waits = pod.gate.is_some();
                            if waits { HealthState::Initial } else { HealthState::Healthy }
                        };
                        let seen = |pod: &PodFacts| (Target::new(pod.ips[0], 8080), state(pod).into());
                        Answer::Health(here.map(seen).collect())
                    }
                    Call::FindGroups { references } => {
                        let facts = |reference: &GroupRef| TargetGroupFacts {
                            arn: arn(reference.to_string()[1..].parse().unwrap()),
                            target_type: TargetType::Ip,
                            protocol: "TCP".into(),
                            ip_family: IpFamily::V4,
                            least_healthy: Some(LeastHealthy::DEFAULT),
                        };
                        Answer::Groups(references.iter().map(facts).collect())
                    }
                    Call::ReadAttributes { .. } => Answer::Attributes(LeastHealthy::DEFAULT),
                };
                Some(Input::Answered { id, result: Ok(answer) })
            }
            Effect::Send { id, request: Request::Ledger(request), .. } => {
                let answer = match request {
                    LedgerRequest::LoadAll => Answer::Ledgers(vec![]),
                    LedgerRequest::Load(_) => Answer::Ledger(None),
                    LedgerRequest::Write(..) => {
                        Answer::Written(LedgerVersion::new(self.versions.to_string()))
                    }
                    LedgerRequest::Delete(..) => Answer::Done,
                };
                Some(Input::Answered { id, result: Ok(answer) })
            }
            Effect::Send {
                id, request: Request::Gate(_) | Request::Mark(_) | Request::Detached(_), ..
            } => Some(Input::Answered { id, result: Ok(Answer::Done) }),
            Effect::Send { id, request: Request::Check(_), .. } => {
                let checked = Checked { refused: None, budgets: vec![] };
                Some(Input::Answered { id, result: Ok(Answer::Checked(checked)) })
            }
            _ => None,
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.happens(Input::Tick);
    }

    /// Repeats an event. Prints and returns the average time of one input, in µs.
    fn measure(&mut self, what: &str, mut happens: impl FnMut(&mut Self, usize)) -> f64 {
        (self.spent, self.inputs) = (Duration::ZERO, 0);
        for time in 0..TIMES {
            happens(self, time);
        }
        let each = self.spent.as_secs_f64() * 1e6 / f64::from(self.inputs);
        println!("  {what:<44} {each:>9.1} µs an input ({} inputs)", self.inputs);
        each
    }

    /// Repeatedly changes the readiness of one of the first pods.
    fn readiness_changes(&mut self, pods: usize) -> f64 {
        self.measure("a pod's readiness changes", |world, time| {
            let mut pod = world.pods[time % pods].clone();
            pod.readiness.containers = (time / pods).is_multiple_of(2);
            world.happens(Input::Pod { change: Change::Applied(pod), seen: world.now });
        })
    }

    /// Replaces one of the first pods by another one, with all direct consequences.
    fn replace(&mut self, at: usize, time: usize) {
        let mut pod = self.pods[at].clone();
        pod.terminating = true;
        self.happens(Input::Pod { change: Change::Deleted(pod.clone()), seen: self.now });
        (pod.terminating, pod.uid) = (false, Uid::new(format!("{time:08x}-1111-4000-8000-000000000000")));
        self.pods[at] = pod.clone();
        self.happens(Input::Pod { change: Change::Applied(pod), seen: self.now });
    }
}

fn main() {
    let only_idle = std::env::args().any(|argument| argument == "idle");
    for (groups, each) in [(1, 50), (200, 50), (1, 1_000), (20, 1_000)] {
        if only_idle {
            break;
        }
        println!("{groups} target groups with {each} targets each");
        let mut world = World::new(groups, each);
        let pods = world.pods.len();
        world.readiness_changes(pods);
        world.measure("a tick", |world, _| world.happens(Input::Tick));
        world.measure("a pod goes, another one comes, 10 ms apart", |world, time| {
            world.replace(time % pods, time);
            world.wait(Duration::from_millis(10));
        });
    }
    for idle in [Idle::Gates, Idle::Departures, Idle::Groups] {
        let mut before = None;
        for many in [10, 10_000] {
            println!("a target group with 50 targets beside {many} {idle:?} in which nothing happens");
            let mut world = beside(idle, many);
            let changes = world.readiness_changes(50);
            // Time does not advance, so the reads of waiting targets do not count.
            let replaces = world.measure("a pod goes, another one comes", |world, time| {
                world.replace(time % 50, time);
            });
            let costs = (changes, replaces);
            if let Some((changes, replaces)) = before.replace(costs) {
                println!("  {:.2} and {:.2} times as much", costs.0 / changes, costs.1 / replaces);
            }
        }
    }
}
