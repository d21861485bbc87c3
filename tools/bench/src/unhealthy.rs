//! Many target groups have one unhealthy target each: how many Describe calls that costs, and how long the readiness
//! gate of a new pod in a quiet group takes.
//!
//! There is no floor: without repeated reads, it would never notice.

use std::{collections::VecDeque, time::Duration};

use headgate_harness::{headgate::Headgate, recorder::Micros};
use localstack_world::Facts;
use tokio::task::JoinSet;

use crate::{
    Size,
    contender::Contender,
    gate::{opened, serve},
    report::Row,
    stage::{Stage, target},
    tape::{Tape, millis},
};

/// The port of the first listener.
const LISTENER: u16 = 29_100;
/// The pause between two new pods.
const PACE: Duration = Duration::from_secs(2);
const SECOND: Micros = 1_000_000;

/// Runs the measure; see the module docs.
pub async fn measure(facts: &Facts, size: &Size) -> Vec<Row> {
    let stage = Stage::new(facts, "unhealthy").await;
    let balancer = stage.aws.nlb("unhealthy").await.0;
    let mut groups = Vec::new();
    for at in 0..=size.unhealthy {
        let name = format!("unhealthy-{at}");
        let arn = stage.aws.create_ip_group(&name, crate::stage::PORT).await;
        let listener = LISTENER + u16::try_from(at).unwrap();
        stage.aws.listen(&balancer, listener, &arn).await;
        let group = headgate_harness::aws::Group {
            name: name.clone(),
            arn,
            dns_name: String::new(),
            listener_port: listener,
        };
        stage.bind(&name, &group).await;
        groups.push(group);
    }
    let quiet = groups.pop().unwrap();
    let headgate = Headgate::start(facts, &facts.kubeconfig, &[&stage.only_here()]).await;
    // Nothing listens at their addresses.
    let pods = groups.iter().map(|group| (format!("{}-pod", group.name), group.name.clone())).collect();
    let pods = stage.running_pods(pods).await;
    let mut tape = Tape::from_now(&stage.aws).await;
    for (group, (_, ip)) in groups.iter().zip(&pods) {
        loop {
            let unhealthy = stage.aws.turned(&group.name, "unhealthy").await;
            if unhealthy.iter().any(|(turned, _)| *turned == target(ip)) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    let began = tape.read().await.len();
    let mut servers = JoinSet::new();
    let mut times = Vec::new();
    for at in 0..size.cycles {
        let (name, ip) = (format!("new-{at}"), stage.fresh_ip());
        serve(&mut servers, &ip).await;
        stage.gated_pod(&name, &quiet.name).await;
        stage.give_ip(&name, &ip).await;
        let opened = opened(&stage, &name).await;
        let healthy = stage.aws.turned(&quiet.name, "healthy").await;
        let became = healthy.iter().find(|(healthy, _)| *healthy == target(&ip));
        let (_, became) = became.unwrap_or_else(|| panic!("{ip} was healthy before its gate opened"));
        times.push(millis(*became, opened) / 1000.0);
        tokio::time::sleep(PACE).await;
    }
    let calls = tape.read().await[began..].iter().filter(|call| call.action.starts_with("Describe"));
    let busiest = busiest(calls.map(|call| call.arrived).collect());
    Contender::Headgate(headgate).end().await;
    let beside = format!("an unhealthy target in each of {} groups", size.unhealthy);
    let slowest = times.iter().copied().fold(0.0, f64::max);
    vec![
        Row::of(format!("{beside}: Describe calls in the busiest second"), "calls", &[busiest], &[]),
        Row::of(format!("{beside}: healthy → readiness gate open in a quiet group"), "s", &times, &[]),
        Row::of(format!("{beside}: the same, the longest"), "s", &[slowest], &[]),
    ]
}

/// The largest number of these calls in any second.
#[allow(clippy::cast_precision_loss)] // far below 2^52
fn busiest(mut calls: Vec<Micros>) -> f64 {
    calls.sort_unstable();
    let (mut second, mut most) = (VecDeque::new(), 0);
    for call in calls {
        second.push_back(call);
        while second.front().is_some_and(|first| call - first >= SECOND) {
            second.pop_front();
        }
        most = most.max(second.len());
    }
    most as f64
}
