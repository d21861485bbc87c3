//! `headgate status`: its counts match AWS, and its first line names the problem.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::Path,
};

use headgate_harness::{
    headgate::{Headgate, command, command_as},
    kubectl::Kubectl,
    recorder::{Micros, Record, Recorder, Traced},
    scenario::Scenario,
    shared_world::beside_others,
    wait,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// The output of `headgate status` from this replica.
async fn ask(s: &Scenario, headgate: &Headgate, more: &[&str]) -> String {
    let address = format!("--address={}", headgate.debug());
    let (code, said) = command(s.facts(), &[&["status", &address], more].concat()).await;
    assert_eq!(code, Some(0), "{said}");
    said
}

/// The zone of a target, by its address.
fn zone_of(s: &Scenario, target: &SocketAddr) -> String {
    let zone = s.facts().zones.iter().find(|zone| match target {
        SocketAddr::V4(target) => zone.cidr.contains(target.ip()),
        SocketAddr::V6(_) => false,
    });
    zone.unwrap().name.clone()
}

/// The number of targets by zone and state.
type Counted = BTreeMap<(String, String), u64>;

/// The counts of the only target group in a status.
fn counted(status: &Value) -> Counted {
    let mut all = Counted::new();
    for zone in status["targetGroups"][0]["zones"].as_array().unwrap() {
        for (state, count) in zone["states"].as_object().unwrap() {
            all.insert((zone["zone"].as_str().unwrap().to_owned(), state.clone()), count.as_u64().unwrap());
        }
    }
    all
}

/// The targets that AWS shows, with their states.
type Shown = BTreeMap<SocketAddr, String>;

fn count(s: &Scenario, shown: &Shown) -> Counted {
    let mut all = Counted::new();
    for (target, state) in shown {
        *all.entry((zone_of(s, target), state.clone())).or_default() += 1;
    }
    all
}

/// The output of `headgate diff` from this replica, and its exit code.
async fn compare(s: &Scenario, headgate: &Headgate) -> (Option<i32>, Value) {
    let address = format!("--address={}", headgate.debug());
    let (code, said) = command(s.facts(), &["diff", "-o=json", &address]).await;
    assert!(code == Some(0) || code == Some(1), "{said}");
    let all: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    (code, all)
}

/// AWS's answers at each moment of an interval, from the stand-in's trace.
fn said_by_aws(record: &Record, group: &str, from: Micros, until: Micros) -> Vec<Shown> {
    let mut targets = Shown::new();
    let mut said = Vec::new();
    for entry in &record.trace {
        let Traced::Target { target_group, target, to, at } = entry else { continue };
        if target_group != group {
            continue;
        }
        if *at > from && *at <= until {
            said.push(targets.clone());
        }
        if *at > until {
            break;
        }
        if to == "unused" {
            targets.remove(target);
        } else {
            targets.insert(*target, to.clone());
        }
    }
    said.push(targets.clone());
    said
}

fn micros(time: &Value) -> Micros {
    let time: Timestamp = time.as_str().unwrap().parse().unwrap();
    u64::try_from(time.as_microsecond()).unwrap()
}

#[test]
fn every_figure_is_what_aws_said_when_it_was_read_while_a_roll_runs_and_when_it_is_quiet() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "status").await;
        let recorder = Recorder::start(&s.aws, &s.cluster, "web");
        let group = s.web(2).await;
        let headgate = s.headgate().await;
        s.wait_registered(&group, "web", 2, 8080).await;
        let kubectl = Kubectl::new(s.facts(), &s.cluster.namespace);
        let old: BTreeSet<String> = s.cluster.running("web").await.into_keys().collect();
        kubectl.run(&["rollout", "restart", "deployment/web"]).await;
        let mut answers: Vec<Value> = Vec::new();
        let is_over = async || {
            let running = s.cluster.running("web").await;
            let states = s.aws.targets(&group.arn).await;
            let is_new = running.len() == 2 && running.keys().all(|pod| !old.contains(pod));
            is_new && states.len() == 2 && states.values().all(|state| state == "healthy")
        };
        let mut compared: Vec<Value> = Vec::new();
        let asked = async {
            while !is_over().await {
                answers.push(serde_json::from_str(&ask(&s, &headgate, &["-o=json"]).await).unwrap());
                compared.push(compare(&s, &headgate).await.1);
            }
        };
        tokio::time::timeout(wait::DEADLINE * 2, asked)
            .await
            .expect("the roll is over, and the old targets are gone");
        // Headgate reads a group without changes rarely.
        let last = wait::until("the status is quiet too", || async {
            let status: Value = serde_json::from_str(&ask(&s, &headgate, &["-o=json"]).await).unwrap();
            let all = counted(&status);
            let is_quiet = all.values().sum::<u64>() == 2 && all.keys().all(|(_, state)| state == "healthy");
            if is_quiet { Ok(status) } else { Err(status) }
        })
        .await;
        answers.push(last);
        let (code, same) = compare(&s, &headgate).await;
        assert_eq!((code, &same["targetGroups"][0]["differences"]), (Some(0), &json!([])), "{same:#}");
        compared.push(same);
        let said = ask(&s, &headgate, &[]).await;
        assert!(said.starts_with("OK  1 target group, 2 of 2 wanted targets healthy\n"), "{said}");
        let record = recorder.stop().await;
        assert_eq!(record.dropped, 0);
        let mut seen = BTreeSet::new();
        for status in &answers {
            let (read, at) = (&status["targetGroups"][0]["lastRead"], micros(&status["at"]));
            if read.is_null() {
                continue;
            }
            let shown = said_by_aws(&record, &group.name, micros(read), at);
            let may_be: Vec<Counted> = shown.iter().map(|shown| count(&s, shown)).collect();
            let says = counted(status);
            // A zone that had targets a moment ago and is now empty has no states.
            assert!(may_be.contains(&says), "{says:?} is none of {may_be:?}, in {status:#}");
            seen.extend(says.into_keys().map(|(_, state)| state));
        }
        assert!(seen.contains("initial") && seen.contains("draining"), "the roll was seen: {seen:?}");
        let mut sides = BTreeSet::new();
        for all in &compared {
            let (group_is, at) = (&all["targetGroups"][0], micros(&all["at"]));
            let read = &group_is["lastRead"];
            if read.is_null() {
                continue;
            }
            let shown = said_by_aws(&record, &group.name, micros(read), at);
            let differences = group_is["differences"].as_array().unwrap();
            let is_so = |shown: &Shown| {
                let there = shown.values().filter(|state| *state != "draining").count();
                let side_is_right = |it: &Value| {
                    let target: SocketAddr = it["target"].as_str().unwrap().parse().unwrap();
                    let is_there = shown.get(&target).is_some_and(|state| state != "draining");
                    is_there == (it["side"] != "missing")
                };
                group_is["there"] == there && differences.iter().all(side_is_right)
            };
            assert!(shown.iter().any(is_so), "{all:#} is none of {shown:?}");
            sides.extend(differences.iter().map(|it| it["side"].as_str().unwrap().to_owned()));
        }
        assert!(sides.contains("missing"), "the roll was seen: {sides:?}");
        assert_eq!(
            answers.last().unwrap()["targetGroups"][0]["boundBy"][0].as_str().unwrap(),
            format!("Service {}/web port http", s.cluster.namespace)
        );
    });
}

#[test]
fn a_command_is_told_its_cluster_as_kubectl_is() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "which").await;
        let (namespace, kubeconfig) = (&s.cluster.namespace, s.facts().kubeconfig.to_str().unwrap());
        let drain = ["drain", "nobody", "-n", namespace, "--kubeconfig", kubeconfig];
        let nowhere = Path::new("/nonexistent");
        let (code, said) = command_as(s.facts(), nowhere, &drain).await;
        assert_eq!(code, Some(2));
        assert!(said.contains(&format!("there is no pod {namespace}/nobody")), "{said}");
        let (code, said) = command_as(s.facts(), nowhere, &[&drain[..], &["--context=other"]].concat()).await;
        assert_eq!(code, Some(2));
        assert!(said.contains("the context in --context"), "{said}");
    });
}

#[test]
fn what_could_not_be_done_exits_with_another_code_than_findings() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "codes").await;
        for ask in [&["doctor"][..], &["migrate", "lbc"], &["diff"], &["explain", "web"], &["status"]] {
            let (code, said) = command_as(s.facts(), Path::new("/nonexistent"), ask).await;
            assert_eq!(code, Some(2), "{ask:?}: {said}");
        }
    });
}
