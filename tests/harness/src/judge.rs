//! The judge. Pure. It turns the requests, the stand-in's trace and the history of the pods into a verdict, and
//! explains each lost request.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

use localstack_load::{Record as Sent, Report};
use serde::Serialize;

use crate::recorder::{Micros, PodLife, Record, Traced};

/// A request as the client saw it.
#[derive(Clone, Debug)]
pub struct Request {
    /// When it should have started.
    pub start: Micros,
    /// When its result was known.
    pub end: Micros,
    /// The address of the load balancer's node.
    pub node: Option<IpAddr>,
    /// The client's port, which identifies its connection.
    pub local_port: Option<u16>,
    /// Its phase.
    pub phase: String,
    /// The error that the client saw.
    pub error: String,
}

/// The lost requests of a load, in the form that the judge uses.
pub fn lost(report: &Report) -> Vec<Request> {
    let request = |sent: &Sent| Request {
        start: sent.intended_us,
        end: sent.intended_us + u64::try_from(sent.duration.as_micros()).unwrap_or(u64::MAX / 2),
        node: sent.node,
        local_port: sent.local_port,
        phase: report.phases[sent.phase].label.clone(),
        error: sent.failure.as_ref().map(ToString::to_string).unwrap_or_default(),
    };
    report.lost().map(request).collect()
}

/// Why a request was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Sent to a target after DeregisterTargets was answered.
    AfterDeregister,
    /// Sent to a pod that had closed its listener, before DeregisterTargets was answered.
    BeforeDeregister,
    /// The node had no target.
    BeforeRegistrationWasKnown,
    /// Sent to a pod that terminated while the connection was open.
    CutWhileOpen,
    /// The trace of no node contains it.
    NotSeenByANode,
}

impl Rule {
    /// An explanation for a reader who does not know the rules.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::AfterDeregister => {
                "the node still sent to a pod that was gone: nodes of an NLB learn of a deregistration 10 to 120 AWS \
                 seconds after DeregisterTargets was answered, each at its own time"
            }
            Self::BeforeDeregister => {
                "the pod had closed its listener before the load balancer was told: Kubernetes sends SIGTERM without \
                 waiting for anyone"
            }
            Self::BeforeRegistrationWasKnown => {
                "the node knew of no target: nodes of an NLB learn of a registration 30 to 90 AWS seconds after \
                 RegisterTargets was answered"
            }
            Self::CutWhileOpen => "the pod ended while the connection was open",
            Self::NotSeenByANode => "no node of the load balancer accepted the connection",
        }
    }
}

/// A lost request, explained.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// When it should have started, in microseconds since 1970.
    pub at_us: Micros,
    /// The phase.
    pub phase: String,
    /// The node that sent it.
    pub node: Option<IpAddr>,
    /// The target it was sent to.
    pub target: Option<SocketAddr>,
    /// The pod that had this address.
    pub pod: Option<String>,
    /// The reason.
    pub rule: Rule,
    /// Milliseconds from the answer of DeregisterTargets to the connection. Negative if the connection was earlier.
    pub after_deregister_ms: Option<f64>,
    /// Milliseconds from the connection until the node knew of a target.
    pub before_registration_was_known_ms: Option<f64>,
    /// The error that the client saw.
    pub error: String,
}

impl Explained {
    /// Whether no connection matches it.
    pub fn is_unseen(&self) -> bool {
        self.rule == Rule::NotSeenByANode
    }
}

/// The results from the trace of a run.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// New connections to pods after the answer of their deregistration.
    pub after_deregister: u64,
    /// The longest time from the answer of a deregistration to a new connection, in microseconds.
    pub largest_lag: Micros,
    /// The number of pods that terminated.
    pub pods_replaced: usize,
    /// The lost requests, explained.
    pub lost: Vec<Explained>,
    /// Running pods that became unhealthy: the machine was too slow, and the run proves nothing.
    pub unhealthy_alive: Vec<String>,
}

#[derive(Clone, Copy)]
struct Connection<'a> {
    group: Option<&'a str>,
    target: Option<SocketAddr>,
    node: IpAddr,
    client: u16,
    opened: Micros,
    outcome: &'a str,
}

/// Examines a run.
pub fn examine(record: &Record, lost: &[Request]) -> Findings {
    let calls = Calls::of(&record.trace);
    let connections = connections(&record.trace);
    let mut findings = Findings {
        pods_replaced: record.pods.values().filter(|pod| pod.leaving.is_some()).count(),
        unhealthy_alive: unhealthy_alive(record),
        ..Findings::default()
    };
    for connection in &connections {
        if let Some(lag) = calls.since_deregister(connection) {
            findings.largest_lag = findings.largest_lag.max(lag);
            findings.after_deregister += u64::from(connection.outcome == "ok");
        }
    }
    let routes = first_routes(&record.trace);
    let matched = matched(lost, &connections).into_iter();
    findings.lost = lost
        .iter()
        .zip(matched)
        .map(|(request, connection)| explain(request, connection, &calls, &routes, record))
        .collect();
    findings
}

fn connections(trace: &[Traced]) -> Vec<Connection<'_>> {
    let of = |entry| match entry {
        &Traced::Connection { ref target_group, node, client, target, opened, ref outcome, .. } => {
            Some(Connection {
                group: target_group.as_deref(),
                target,
                node,
                client: client.port(),
                opened,
                outcome,
            })
        }
        _ => None,
    };
    trace.iter().filter_map(of).collect()
}

/// Matches each lost request with its connection: the newest from the client's port to the node that was opened before
/// the request ended. The clocks of client and node need not agree for that.
fn matched<'a>(lost: &[Request], connections: &[Connection<'a>]) -> Vec<Option<Connection<'a>>> {
    let mut by_client: BTreeMap<(IpAddr, u16), Vec<&Connection<'a>>> = BTreeMap::new();
    for connection in connections {
        by_client.entry((connection.node, connection.client)).or_default().push(connection);
    }
    let of = |request: &Request| {
        let own = by_client.get(&(request.node?, request.local_port?))?;
        let before = own.iter().filter(|connection| connection.opened <= request.end + SAME_PORT);
        before.max_by_key(|connection| connection.opened).map(|connection| **connection)
    };
    lost.iter().map(of).collect()
}

/// A port is not reused for another connection within this time.
const SAME_PORT: Micros = 1_000_000;

/// When each target was deregistered and registered, by AWS's answers.
#[derive(Default)]
struct Calls<'a> {
    answered: BTreeMap<(&'a str, SocketAddr), Vec<(Micros, bool)>>,
}

impl<'a> Calls<'a> {
    fn of(trace: &'a [Traced]) -> Self {
        let mut calls = Self::default();
        for entry in trace {
            let Traced::Call { action, target_group: Some(group), targets, outcome, answered } = entry else {
                continue;
            };
            let registers = match &**action {
                "RegisterTargets" => true,
                "DeregisterTargets" => false,
                _ => continue,
            };
            if outcome != "ok" {
                continue;
            }
            for target in targets.iter().filter_map(|target| target.parse().ok()) {
                calls.answered.entry((group, target)).or_default().push((*answered, registers));
            }
        }
        calls
    }

    /// When the target was last deregistered before `at`, if it has not been registered since.
    fn deregistered_before(&self, group: &str, target: SocketAddr, at: Micros) -> Option<Micros> {
        let answered = self.answered.get(&(group, target))?;
        let last = answered.iter().filter(|(when, _)| *when <= at).max_by_key(|(when, _)| *when)?;
        (!last.1).then_some(last.0)
    }

    fn deregistered_after(&self, group: &str, target: SocketAddr, at: Micros) -> Option<Micros> {
        let answered = self.answered.get(&(group, target))?;
        answered.iter().filter(|(when, registers)| *when > at && !registers).map(|(when, _)| *when).min()
    }

    fn since_deregister(&self, connection: &Connection<'_>) -> Option<Micros> {
        let deregistered =
            self.deregistered_before(connection.group?, connection.target?, connection.opened)?;
        Some(connection.opened - deregistered)
    }
}

/// When each node started to send to any target.
fn first_routes(trace: &[Traced]) -> BTreeMap<IpAddr, Vec<Micros>> {
    let mut routes: BTreeMap<IpAddr, Vec<Micros>> = BTreeMap::new();
    for entry in trace {
        if let Traced::Route { node, routing: true, at, .. } = entry {
            routes.entry(*node).or_default().push(*at);
        }
    }
    routes
}

fn explain(
    request: &Request,
    connection: Option<Connection<'_>>,
    calls: &Calls<'_>,
    routes: &BTreeMap<IpAddr, Vec<Micros>>,
    record: &Record,
) -> Explained {
    let mut explained = Explained {
        at_us: request.start,
        phase: request.phase.clone(),
        node: request.node,
        target: None,
        pod: None,
        rule: Rule::NotSeenByANode,
        after_deregister_ms: None,
        before_registration_was_known_ms: None,
        error: request.error.clone(),
    };
    let Some(connection) = connection else { return explained };
    let (Some(group), Some(target)) = (connection.group, connection.target) else {
        explained.rule = Rule::BeforeRegistrationWasKnown;
        let known =
            routes.get(&connection.node).into_iter().flatten().filter(|at| **at > connection.opened).min();
        explained.before_registration_was_known_ms = known.map(|at| millis(connection.opened, *at));
        return explained;
    };
    explained.target = Some(target);
    explained.pod = owner(&record.pods, target.ip(), connection.opened).map(|pod| pod.name.clone());
    if let Some(answered) = calls.deregistered_before(group, target, connection.opened) {
        explained.rule = Rule::AfterDeregister;
        explained.after_deregister_ms = Some(millis(answered, connection.opened));
    } else {
        explained.rule =
            if connection.outcome == "refused" { Rule::BeforeDeregister } else { Rule::CutWhileOpen };
        let answered = calls.deregistered_after(group, target, connection.opened);
        explained.after_deregister_ms = answered.map(|answered| millis(answered, connection.opened));
    }
    explained
}

/// The pod that had this address: the last one that got it before `at` and had not terminated long before.
fn owner(pods: &BTreeMap<String, PodLife>, ip: IpAddr, at: Micros) -> Option<&PodLife> {
    let had = pods.values().filter(|pod| pod.ip == Some(ip));
    had.max_by_key(|pod| {
        pod.leaving.map_or(u64::MAX, |leaving| if leaving < at { leaving } else { u64::MAX - 1 })
    })
}

fn unhealthy_alive(record: &Record) -> Vec<String> {
    let mut found = BTreeSet::new();
    for entry in &record.trace {
        let Traced::Target { target, to, at, .. } = entry else { continue };
        let alive =
            |pod: &&PodLife| pod.ip == Some(target.ip()) && pod.leaving.is_none_or(|leaving| leaving > *at);
        if to.starts_with("unhealthy")
            && let Some(pod) = record.pods.values().find(alive)
        {
            found.insert(format!("{} at {target}", pod.name));
        }
    }
    found.into_iter().collect()
}

#[allow(clippy::cast_precision_loss)] // within a run
fn millis(from: Micros, to: Micros) -> f64 {
    if to >= from { (to - from) as f64 / 1000.0 } else { -((from - to) as f64 / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "127.0.0.9";
    const TARGET: &str = "10.0.0.1:80";

    fn call(action: &str, answered: Micros) -> Traced {
        Traced::Call {
            action: action.into(),
            target_group: Some("web".into()),
            targets: vec![TARGET.into()],
            outcome: "ok".into(),
            answered,
        }
    }

    fn connection(client: u16, opened: Micros, target: Option<&str>, outcome: &str) -> Traced {
        Traced::Connection {
            load_balancer: "lb".into(),
            target_group: target.map(|_| "web".into()),
            node: NODE.parse().unwrap(),
            client: SocketAddr::new("127.0.0.1".parse().unwrap(), client),
            target: target.map(|target| target.parse().unwrap()),
            opened,
            outcome: outcome.into(),
        }
    }

    fn lost(local_port: u16, end: Micros) -> Request {
        Request {
            start: end - 10,
            end,
            node: Some(NODE.parse().unwrap()),
            local_port: Some(local_port),
            phase: "restart".into(),
            error: "reset".into(),
        }
    }

    fn pod(name: &str, leaving: Option<Micros>) -> PodLife {
        PodLife { name: name.into(), ip: Some("10.0.0.1".parse().unwrap()), leaving, gone: leaving.is_some() }
    }

    fn record(trace: Vec<Traced>, pods: Vec<PodLife>) -> Record {
        let pods = pods.into_iter().map(|pod| (pod.name.clone(), pod)).collect();
        Record { trace, pods, ..Record::default() }
    }

    #[test]
    fn connections_delivered_after_the_deregister_are_counted_with_the_largest_lag() {
        let trace = vec![
            call("RegisterTargets", 10),
            connection(1, 500, Some(TARGET), "ok"),
            call("DeregisterTargets", 1_000),
            connection(2, 1_500, Some(TARGET), "ok"),
            connection(3, 4_000, Some(TARGET), "refused"),
            call("RegisterTargets", 5_000),
            connection(4, 9_000, Some(TARGET), "ok"),
        ];
        let findings = examine(&record(trace, vec![pod("a", Some(900))]), &[]);
        assert_eq!((findings.after_deregister, findings.largest_lag, findings.pods_replaced), (1, 3_000, 1));
    }

    #[test]
    fn each_lost_request_is_explained_by_its_own_connection() {
        let trace = vec![
            call("RegisterTargets", 10),
            connection(1, 900, Some(TARGET), "refused"),
            connection(2, 950, Some(TARGET), "reset"),
            call("DeregisterTargets", 1_000),
            connection(3, 3_000, Some(TARGET), "refused"),
            connection(4, 4_000, None, "no-target"),
            Traced::Route {
                target_group: "web".into(),
                node: NODE.parse().unwrap(),
                target: TARGET.parse().unwrap(),
                routing: true,
                at: 6_000,
            },
            // The same port later, so not this request.
            connection(1, 9_000_000, Some(TARGET), "ok"),
        ];
        let requests = [lost(1, 910), lost(2, 960), lost(3, 3_010), lost(4, 4_010), lost(5, 5_000)];
        let findings = examine(&record(trace, vec![pod("a", Some(890))]), &requests);
        let rules: Vec<_> = findings.lost.iter().map(|lost| (lost.rule, lost.after_deregister_ms)).collect();
        assert_eq!(
            rules,
            [
                (Rule::BeforeDeregister, Some(-0.1)),
                (Rule::CutWhileOpen, Some(-0.05)),
                (Rule::AfterDeregister, Some(2.0)),
                (Rule::BeforeRegistrationWasKnown, None),
                (Rule::NotSeenByANode, None),
            ]
        );
        assert_eq!(findings.lost[3].before_registration_was_known_ms, Some(2.0));
        assert_eq!(findings.lost[0].pod.as_deref(), Some("a"));
        assert!(findings.lost.iter().all(|lost| !lost.rule.sentence().is_empty()));
    }

    #[test]
    fn a_request_is_found_by_its_port_though_the_clock_of_the_node_is_ahead() {
        let trace =
            vec![connection(7, 20_030, Some(TARGET), "refused"), connection(8, 20_031, None, "no-target")];
        let findings = examine(&record(trace, vec![pod("a", Some(90))]), &[lost(7, 30), lost(9, 30)]);
        let rules: Vec<Rule> = findings.lost.iter().map(|lost| lost.rule).collect();
        assert_eq!(rules, [Rule::BeforeDeregister, Rule::NotSeenByANode]);
    }

    #[test]
    fn a_live_pod_marked_unhealthy_makes_the_run_invalid_and_a_leaving_one_does_not() {
        let unhealthy = |at| Traced::Target {
            target_group: "web".into(),
            target: TARGET.parse().unwrap(),
            to: "unhealthy".into(),
            at,
        };
        let pods = || vec![pod("a", Some(1_000))];
        assert_eq!(examine(&record(vec![unhealthy(500)], pods()), &[]).unhealthy_alive, ["a at 10.0.0.1:80"]);
        assert!(examine(&record(vec![unhealthy(1_500)], pods()), &[]).unhealthy_alive.is_empty());
    }
}
