//! A problem of an IngressDaemonSet has the same reason everywhere: in its status, an Event, `headgate status`,
//! `explain`, `doctor` and the page. Also tests the request whether a node serves.

use headgate_harness::{
    browser::Browser,
    cluster::OWN_GATE,
    daemonsets::Set,
    headgate::{Headgate, command},
    http,
    scenario::{Scenario, http_port},
    shared_world::beside_others,
    wait,
};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// The output of a command for this test's Headgate.
async fn said(set: &Set, headgate: &Headgate, arguments: &[&str]) -> (Option<i32>, String) {
    let address = format!("--address={}", headgate.debug());
    command(set.s.facts(), &[arguments, &[&*address]].concat()).await
}

/// Waits until the set has an Event with this reason, and returns its note.
async fn wait_told(set: &Set, kind: &str, reason: &str) -> String {
    wait::until(&format!("an Event says {reason}"), || async {
        let told = set.s.cluster.events(kind, &set.name).await;
        let found = told.iter().find(|(word, _)| word == reason).map(|(_, note)| note.clone());
        found.ok_or(told)
    })
    .await
}

#[test]
fn whoever_asks_whether_a_node_serves_is_told_while_a_pod_of_it_leaves() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "nodeserves").await;
        let group = s.web(2).await;
        let headgate = s.headgate_that_sees_all(&s.facts().kubeconfig, &[]).await;
        s.wait_registered(&group, "web", 2, 8080).await;
        let pod = s.cluster.running("web").await.into_keys().next().unwrap();
        let node = s.cluster.api::<Pod>().get(&pod).await.unwrap().spec.unwrap().node_name.unwrap();
        let asks = async |node: &str| {
            http::request("GET", headgate.debug(), &format!("/nodes/{node}"), None).await.unwrap()
        };
        let waits = async |code: u16, what: &str| {
            wait::until(what, || async {
                let (is, said) = asks(&node).await;
                if is == code { Ok(said) } else { Err((is, said)) }
            })
            .await
        };
        waits(200, "all of its targets are healthy").await;
        s.cluster.scale("web", 0).await;
        let said = waits(503, "a pod of it leaves").await;
        assert!(
            said.contains(&format!("pod {}/{pod} ", s.cluster.namespace)) || said.contains("no pod"),
            "{said}"
        );
        let (code, said) = asks("no-such-node").await;
        assert!(code == 404 && said.contains("there is no node no-such-node"), "{said}");
    });
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn a_roll_that_stops_is_said_everywhere_with_one_word_and_that_it_goes_on_too() {
        beside_others(|world| async move {
            let update = json!({"progressDeadlineSeconds": 5});
            let set = Set::new(world, "idsshown", &json!({"updateStrategy": update})).await;
            // Pods of the set have no hold, and get no traffic. On a slow machine, Headgate may report short holds
            // after they have ended.
            let quick = ["--show-daemonsets", "--nlb-propagation-bound=1ms"];
            let headgate = set.s.headgate_with(&quick).await;

            let namespace = &set.s.cluster.namespace;
            let (own, explain) = (
                format!("--own-namespace={namespace}"),
                [&*format!("ids/{}", set.name), "-n", namespace].map(str::to_owned),
            );
            let explain = [&["explain"][..], &explain.each_ref().map(String::as_str)].concat();
            let doctor = async || said(&set, &headgate, &["doctor", &own, "-o=json"]).await.1;
            let is_found = |found: &str, reason: &str| {
                let found: Value =
                    serde_json::from_str(found.trim()).unwrap_or_else(|error| panic!("{error}: {found}"));
                found["findings"].as_array().unwrap().iter().any(|one| one["reason"] == reason)
            };
            let found = doctor().await;
            assert!(is_found(&found, "NoLeader"), "no controller runs, and nothing is bound: {found}");
            let group = set.s.group("web").await;
            set.s
                .cluster
                .service(&set.name, &set.name, http_port(), Some(&format!("http={}", group.name)))
                .await;
            let (code, text) = said(&set, &headgate, &explain).await;
            assert!(code == Some(0) && text.contains("\nNot processed yet  "), "{text}");
            let browser = Browser::start().await;
            browser.open(&format!("http://{}/", headgate.debug())).await;
            let line = format!("{namespace}/{}", set.name);
            browser.wait_text("#view", |text| text.contains(&line) && text.contains("no status yet")).await;

            let _controller = set.controller().await;
            set.wait_done().await;
            let mut never = set.template("2");
            never["spec"]["readinessGates"] =
                json!([{"conditionType": OWN_GATE}, {"conditionType": "example.com/never"}]);
            set.patch(json!({"template": never})).await;
            set.wait_reason("Progressing", "ProgressDeadlineExceeded").await;

            wait_told(&set, "Normal", "NodesInTurn").await;
            let told = wait_told(&set, "Warning", "ProgressDeadlineExceeded").await;
            assert!(told.contains("rollout stopped") && told.ends_with('.'), "{told}");
            let status = wait::until("status says it first", || async {
                let (_, text) = said(&set, &headgate, &["status"]).await;
                if text.starts_with("ProgressDeadlineExceeded  IngressDaemonSet ") {
                    Ok(text)
                } else {
                    Err(text)
                }
            })
            .await;
            let node = set.read().await.status.unwrap().turns[0].node.clone();
            let row = status.lines().find(|row| row.starts_with(&line)).unwrap();
            assert!(
                row.contains(&format!("ProgressDeadlineExceeded: {node} (PodsNotReadyYet for ")),
                "{row}"
            );
            assert!(row.ends_with("late)"), "{row}");

            let (_, text) = said(&set, &headgate, &explain).await;
            assert!(
                text.contains("Progressing  False since ") && text.contains("ProgressDeadlineExceeded: "),
                "{text}"
            );
            assert!(text.contains(&format!("\nUpdating {node}  since ")), "{text}");
            assert!(is_found(&doctor().await, "ProgressDeadlineExceeded"));
            browser.wait_text("#top", |text| text.starts_with("ProgressDeadlineExceeded")).await;
            browser.wait_text("#view", |text| text.contains(&node) && text.contains("late")).await;

            let mut good = set.template("3");
            good["spec"]["readinessGates"] = json!([]);
            set.patch(json!({"template": good})).await;
            set.wait_done().await;
            wait_told(&set, "Normal", "AsExpected").await;
            browser
                .wait_text("#top", |text| text.starts_with("OK") || text.starts_with("HoldTooShort"))
                .await;
            browser.wait_text("#view", |text| text.contains("AsExpected")).await;
            assert_eq!(browser.console(), [""; 0]);
            let (_, json) = said(&set, &headgate, &["status", "-o=json"]).await;
            let shown: Value = serde_json::from_str(json.trim()).unwrap();
            let [shown] = &shown["ingressDaemonSets"].as_array().unwrap()[..] else { panic!("{shown}") };
            assert_eq!(
                (&shown["progress"], &shown["nodes"]),
                (&json!("AsExpected"), &json!(set.nodes.len()))
            );
            set.end().await;
        });
    }

    #[test]
    fn pods_that_the_api_server_refuses_are_said_with_its_words() {
        beside_others(|world| async move {
            let mut refused = Value::Null;
            let set = Set::new(world, "idsrefused", &json!({"paused": true})).await;
            refused.clone_from(&set.template("1"));
            refused["spec"]["containers"][0]["image"] = " ".into();
            set.patch(json!({"template": refused, "paused": false})).await;
            let headgate = set.s.headgate_with(&["--show-daemonsets"]).await;
            let _controller = set.controller().await;
            set.wait_reason("PodsCreated", "PodsRefused").await;
            let note = wait_told(&set, "Warning", "PodsRefused").await;
            assert!(note.contains("spec.containers[0].image"), "{note}");
            wait::until("status says it", || async {
                let (_, text) = said(&set, &headgate, &["status"]).await;
                if text.contains("PodsRefused  IngressDaemonSet ") { Ok(()) } else { Err(text) }
            })
            .await;
            set.patch(json!({"template": set.template("1")})).await;
            set.wait_done().await;
            set.wait_reason("PodsCreated", "AsExpected").await;
            set.end().await;
        });
    }
}
