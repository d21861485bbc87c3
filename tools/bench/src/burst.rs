//! A thousand pods in twenty groups are replaced as fast as the API server allows, with AWS's token buckets. Then again
//! with AWS's latency and jitter.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use headgate_harness::{figures::percentile, headgate::Headgate, recorder::Micros};
use localstack_world::Facts;
use serde_json::json;

use crate::{
    Size,
    bound::{AtOnce, Bound, Bucket, Left, at_once, earliest},
    contender::Contender,
    report::Row,
    sight::deletions_seen,
    stage::{AT_ONCE, Stage, target},
    tape::{Call, Tape, millis},
};

const AWS: Bucket = Bucket { burst: 20.0, per_second: 4.0 };
/// The maximum number of targets in a call of Headgate.
const CHUNK: usize = 100;
/// The time until a call is answered, in milliseconds, like in the stand-in's profile `typical-nlb`. The stand-in
/// counts the call at once, and changes targets halfway.
const LATENCY: [f64; 2] = [30.0, 250.0];
/// The time from Headgate's call to its arrival, and from an answer to its processing. A delay up to this time does not
/// count as waiting.
const ON_THE_WAY: Micros = 20_000;

/// Runs the measure; see the module docs. The floor's column is the best possible value if the future were known.
pub async fn measure(facts: &Facts, size: &Size) -> Vec<Row> {
    let mut rows = Vec::new();
    let at_once = [("grouped", [0.0, 0.0]), ("interleaved", [0.0, 0.0])];
    for (order, latency) in at_once.into_iter().chain([("grouped", LATENCY), ("interleaved", LATENCY)]) {
        let is_late = latency[1] > 0.0;
        let mut runs = Vec::new();
        for run in 0..if is_late { size.late_bursts } else { size.runs } {
            let name = if is_late { format!("{order}-late-{run}") } else { format!("{order}-{run}") };
            let stage = Stage::new(facts, &name).await;
            let run = one(&stage, order == "grouped", latency, size).await;
            eprintln!(
                "{name}: last Deregister {:.3} s after the earliest possible, {} calls for removals; last Register {:.3} s after \
                 the earliest possible then, IP to Register {:.3} s; {} refused",
                run.last - run.bound.last,
                run.removals,
                run.last_addition - run.addition_bound.last,
                run.registered,
                run.refused
            );
            runs.push(run);
            stage.settings(json!({"throttling": null, "api_latency_ms": [0.0, 0.0]})).await;
            stage.end_pods().await;
        }
        let order = if is_late { format!("{order}, answers after 30 to 250 ms") } else { order.to_owned() };
        let pick = |of: fn(&Run) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
        let what = |what: &str| {
            format!(
                "{} pods in {} groups replaced, {order}: {what}",
                size.burst.0 * size.burst.1,
                size.burst.0
            )
        };
        rows.push(Row::of(what("last deletion after the first"), "s", &pick(|run| run.writing), &[]));
        rows.push(Row::of(
            what("last Deregister after the first deletion"),
            "s",
            &pick(|run| run.last),
            &pick(|run| run.bound.last),
        ));
        rows.push(Row::of(
            what("last Deregister after the earliest possible"),
            "s",
            &pick(|run| run.last - run.bound.last),
            &[],
        ));
        rows.push(Row::of(
            what("the same; beside it, every removal sent at once, computed"),
            "s",
            &pick(|run| run.last),
            &pick(|run| run.at_once.bound.last),
        ));
        rows.push(Row::of(
            what("a pod's deletion → Deregister, mean; beside it, the same"),
            "s",
            &pick(|run| run.each),
            &pick(|run| mean(&run.at_once.waits)),
        ));
        rows.push(Row::of(
            what("DeregisterTargets"),
            "calls",
            &pick(|run| count(run.removals)),
            &pick(|run| count(run.bound.calls)),
        ));
        rows.push(Row::of(
            what("RegisterTargets"),
            "calls",
            &pick(|run| count(run.additions)),
            &pick(|run| count(run.addition_bound.calls)),
        ));
        rows.push(Row::of(
            what("pod IP → RegisterTargets; beside it, what the tokens that the removals left allow"),
            "s",
            &pick(|run| run.registered),
            &pick(|run| run.allowed),
        ));
        rows.push(Row::of(
            what("last RegisterTargets after the earliest possible after the removals"),
            "s",
            &pick(|run| run.last_addition - run.addition_bound.last),
            &[],
        ));
        rows.push(Row::of(
            what("RegisterTargets while a removal waited for a token"),
            "calls",
            &pick(|run| count(run.overtakers)),
            &[],
        ));
        let clean = runs.iter().filter(|run| run.refused == 0).count();
        let of = what(&format!("bursts without a refused call, of {}", runs.len()));
        rows.push(Row::of(of, "bursts", &[count(clean)], &[]));
        let latest = runs.iter().map(|run| run.last - run.bound.last).fold(f64::MIN, f64::max);
        rows.push(Row::of(
            what("last Deregister after the earliest possible, the worst"),
            "s",
            &[latest],
            &[],
        ));
    }
    rows
}

#[allow(clippy::cast_precision_loss)] // small numbers
fn count(number: usize) -> f64 {
    number as f64
}

#[allow(clippy::cast_precision_loss)] // small numbers
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

struct Run {
    writing: f64,
    last: f64,
    each: f64,
    bound: Bound,
    at_once: AtOnce,
    removals: usize,
    additions: usize,
    /// The time from a pod's IP to its registration: the median, and the best value with the tokens that removals left.
    registered: f64,
    allowed: f64,
    last_addition: f64,
    addition_bound: Bound,
    overtakers: usize,
    /// The number of calls of both kinds that AWS throttled.
    refused: usize,
}

async fn one(stage: &Stage, grouped: bool, latency: [f64; 2], size: &Size) -> Run {
    let (groups, pods) = size.burst;
    let name = stage.cluster.namespace.clone();
    let mut bound = Vec::new();
    for at in 0..groups {
        let app = format!("app-{at}");
        let group = stage.group(&format!("{name}-{at}")).await;
        stage.bind(&app, &group).await;
        bound.push((app, group));
    }
    // In the order of their later deletion.
    let mut order = Vec::new();
    for (outer, inner) in pairs(if grouped { (groups, pods) } else { (pods, groups) }) {
        let (group, pod) = if grouped { (outer, inner) } else { (inner, outer) };
        order.push((format!("app-{group}-{pod}"), format!("app-{group}")));
    }
    let apps: BTreeMap<String, String> = order.iter().cloned().collect();
    let running = stage.running_pods(order).await;
    let headgate = Headgate::start(&stage.facts, &stage.facts.kubeconfig, &[&stage.only_here()]).await;
    for (_, group) in &bound {
        stage.wait_targets(group, pods).await;
    }
    let [burst, per_second] = [AWS.burst, AWS.per_second];
    let others = json!([1000.0, 1000.0]);
    let buckets = json!({"registration": [burst, per_second], "describe": [200.0, 50.0], "modify": others, "create": others});
    stage.settings(json!({"throttling": buckets, "api_latency_ms": latency})).await;
    // Headgate's own bucket is also full again.
    tokio::time::sleep(size.rest).await;

    let mut tape = Tape::from_now(&stage.aws).await;
    let replace = |(name, ip): (String, String)| {
        let app = apps[&name].clone();
        async move {
            let deleted = stage.delete(&name).await;
            let (fresh, fresh_ip) = (format!("{name}-new"), stage.fresh_ip());
            stage.pod(&fresh, &app).await;
            let came = stage.give_ip(&fresh, &fresh_ip).await;
            (app, (target(&ip), deleted), (target(&fresh_ip), came))
        }
    };
    let replaced: Vec<_> = stream::iter(running).map(replace).buffered(AT_ONCE).collect().await;
    let old: Vec<String> = replaced.iter().map(|(_, (old, _), _)| old.clone()).collect();
    let new: Vec<String> = replaced.iter().map(|(.., (new, _))| new.clone()).collect();
    let removed = tape.arrivals("DeregisterTargets", &old).await;
    let added = tape.arrivals("RegisterTargets", &new).await;
    let calls = tape.read().await.to_vec();

    let first = replaced.iter().map(|(_, (_, deleted), _)| *deleted).min().unwrap();
    let seconds = |at: Micros| millis(first, at) / 1000.0;
    let (mut deletions, mut ips) = (BTreeMap::<String, Vec<f64>>::new(), BTreeMap::<String, Vec<f64>>::new());
    for (app, (_, deleted), (_, came)) in &replaced {
        deletions.entry(app.clone()).or_default().push(seconds(*deleted));
        ips.entry(app.clone()).or_default().push(seconds(*came));
    }
    let each: Vec<f64> =
        replaced.iter().map(|(_, (old, deleted), _)| millis(*deleted, removed[old]) / 1000.0).collect();
    let registered: Vec<f64> =
        replaced.iter().map(|(.., (new, came))| millis(*came, added[new]) / 1000.0).collect();
    let took = |call: &&Call| call.action == "DeregisterTargets" && call.outcome == "ok";
    let left = Left::by(calls.iter().filter(took).map(|call| seconds(call.arrived)).collect(), AWS);
    let of = |action: &str| calls.iter().filter(|call| call.action == action).count();
    let run = Run {
        writing: replaced.iter().map(|(_, (_, deleted), _)| seconds(*deleted)).fold(0.0, f64::max),
        last: old.iter().map(|old| seconds(removed[old])).fold(0.0, f64::max),
        each: mean(&each),
        bound: earliest(&deletions, AWS, CHUNK),
        at_once: at_once(&deletions, AWS, CHUNK),
        removals: of("DeregisterTargets"),
        additions: of("RegisterTargets"),
        registered: percentile(&registered, 50).unwrap_or_default(),
        allowed: percentile(&left.clone().waits(&ips, CHUNK), 50).unwrap_or_default(),
        last_addition: new.iter().map(|new| seconds(added[new])).fold(0.0, f64::max),
        addition_bound: left.earliest(&ips, CHUNK),
        overtakers: overtakers(&headgate, &calls, &old),
        refused: calls.iter().filter(|call| is_refused_change(call)).count(),
    };
    Contender::Headgate(headgate).end().await;
    run
}

fn is_refused_change(call: &Call) -> bool {
    ["RegisterTargets", "DeregisterTargets"].contains(&&*call.action)
        && call.outcome.starts_with("Throttling")
}

fn pairs((outer, inner): (usize, usize)) -> impl Iterator<Item = (usize, usize)> {
    (0..outer).flat_map(move |outer| (0..inner).map(move |inner| (outer, inner)))
}

/// The RegisterTargets that arrived while a known removal only waited for a token: its group had no call in flight.
fn overtakers(headgate: &Headgate, calls: &[Call], old: &[String]) -> usize {
    let old: BTreeSet<&String> = old.iter().collect();
    let seen = deletions_seen(headgate);
    let removals: Vec<(&Call, Micros)> = calls
        .iter()
        .filter(|call| call.action == "DeregisterTargets" && call.outcome == "ok")
        .filter_map(|call| {
            let of = call.targets.iter().filter(|target| old.contains(target));
            Some((call, of.filter_map(|target| seen.get(target).copied()).min()?))
        })
        .collect();
    let waits_at = |at: Micros| {
        removals.iter().any(|(removal, seen)| {
            let in_flight = |call: &Call| {
                call.target_group == removal.target_group
                    && call.arrived <= at + ON_THE_WAY
                    && at <= call.answered + ON_THE_WAY
            };
            seen + ON_THE_WAY < at && at < removal.arrived && !calls.iter().any(in_flight)
        })
    };
    calls.iter().filter(|call| call.action == "RegisterTargets" && waits_at(call.arrived)).count()
}
