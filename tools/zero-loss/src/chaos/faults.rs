//! How each fault is made and ended.

use std::time::{Duration, Instant};

use headgate_harness::{
    aws::Aws,
    proxy::Proxy,
    recorder::{Micros, now},
};
use localstack_world::{Component, Facts};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::plan::{Fault, Strike};
use crate::replica::{Replica, wait_recovered};

/// A past fault.
#[derive(Clone, Copy, Debug)]
pub struct Struck {
    /// The fault.
    pub fault: Fault,
    /// When it began.
    pub began: Micros,
    /// Its duration.
    pub lasted: Duration,
    /// The time until all replicas were ready, one led, and AWS had accepted all deregistrations.
    pub recovered_in: Duration,
}

/// Makes a fault, and waits until Headgate has recovered.
pub async fn strike(facts: &Facts, aws: &Aws, replicas: &mut Vec<Replica>, strike: Strike) -> Struck {
    let Strike { fault, lasts, .. } = strike;
    let leader = wait_recovered(replicas).await;
    let (began, since) = (now(), Instant::now());
    match fault {
        Fault::LeaderKilled => kill(replicas, leader, lasts).await,
        Fault::StandbyKilled => kill(replicas, 1 - leader, lasts).await,
        Fault::LeaderStopped => {
            let headgate = &replicas[leader].headgate;
            headgate.signal("STOP").await;
            sleep(lasts).await;
            headgate.signal("CONT").await;
        }
        Fault::ApiServerRestarted => facts.restart_component(Component::ApiServer).await.unwrap(),
        Fault::EtcdRestarted => facts.restart_component(Component::Etcd).await.unwrap(),
        Fault::LeaderCutFromAws => cut(&[&replicas[leader].ways().aws], lasts).await,
        Fault::AllCutFromAws => {
            let ways: Vec<&Proxy> = replicas.iter().map(|replica| &replica.ways().aws).collect();
            cut(&ways, lasts).await;
        }
        Fault::AwsHangs => hang(&replicas[leader].ways().aws, lasts).await,
        Fault::LeaderCutFromApiServer => cut(&[&replicas[leader].ways().api_server], lasts).await,
        Fault::StandbyCutFromApiServer => cut(&[&replicas[1 - leader].ways().api_server], lasts).await,
        Fault::ApiServerHangs => hang(&replicas[leader].ways().api_server, lasts).await,
        Fault::Throttled => {
            let refusal = json!({"code": "Throttling", "message": "Rate exceeded"});
            troubled(aws, &json!({"effect": {"refuse": refusal}}), lasts).await;
        }
        Fault::AwsBroken => {
            troubled(aws, &json!({"effect": {"fail": {"status": 503, "xml": false}}}), lasts).await;
        }
        Fault::AnswersLost => {
            troubled(aws, &json!({"effect": "lose-answer", "probability": 0.5}), lasts).await;
        }
        Fault::AwsSlow => troubled(aws, &json!({"effect": {"delay": [500, 3000]}}), lasts).await,
    }
    let (lasted, ended) = (since.elapsed(), Instant::now());
    wait_recovered(replicas).await;
    Struck { fault, began, lasted, recovered_in: ended.elapsed() }
}

/// Its index among the replicas may then be another replica's, so the leader is determined each time.
async fn kill(replicas: &mut Vec<Replica>, which: usize, away: Duration) {
    let killed = replicas.remove(which).kill().await;
    sleep(away).await;
    replicas.push(killed.start().await);
}

async fn cut(ways: &[&Proxy], time: Duration) {
    for way in ways {
        way.cut();
    }
    sleep(time).await;
    for way in ways {
        way.heal();
    }
}

/// The silence ends with the end of the connections. The fault does not limit the effect of a silent connection beyond
/// that.
async fn hang(way: &Proxy, time: Duration) {
    way.hang();
    sleep(time).await;
    way.cut();
    sleep(Duration::from_millis(200)).await;
    way.heal();
}

async fn troubled(aws: &Aws, fault: &Value, time: Duration) {
    aws.control("POST", "/faults", Some(fault)).await;
    sleep(time).await;
    aws.control("DELETE", "/faults", None).await;
}
