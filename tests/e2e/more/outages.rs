//! Outages of the local world, and their end.

use std::collections::BTreeSet;

use headgate_harness::{
    browser::Browser,
    gateway::{Gateway, PODS},
    headgate::Headgate,
    proxy::Proxy,
    scenario::{Scenario, targets},
    shared_world::{alone, beside_others},
    wait,
};
use localstack_world::Component;
use serde_json::Value;

/// A `headgate` whose connection to the API server can be cut.
async fn behind_a_proxy(s: &Scenario) -> (Proxy, Headgate) {
    let proxy = Proxy::to_api_server(s.facts()).await;
    let kubeconfig = proxy.kubeconfig(s.facts(), &s.facts().folder);
    let only = format!("--namespaces={}", s.cluster.namespace);
    let headgate = Headgate::start(s.facts(), &kubeconfig, &[&only]).await;
    (proxy, headgate)
}

#[test]
fn what_happened_while_the_watch_was_cut_is_made_good() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "cut").await;
        let group = s.web(3).await;
        let (proxy, headgate) = behind_a_proxy(&s).await;
        let before = s.wait_registered(&group, "web", 3, 8080).await;
        proxy.cut();
        wait::until("headgate notices", || async {
            let failures = headgate.metric("headgate_watch_failures_total{kind=\"pods\"}").await;
            failures.ok_or("no failure yet")
        })
        .await;
        assert_eq!(s.aws.registered(&group.arn).await, targets(&before, 8080), "silence is never a removal");
        let (victim, _) = before.iter().next().unwrap();
        s.cluster.delete_pod(victim, 0).await;
        wait::until("the victim's replacement runs", || async {
            let now = s.cluster.running("web").await;
            if now.len() == 3 && !now.contains_key(victim) { Ok(()) } else { Err(now) }
        })
        .await;
        proxy.heal();
        s.wait_registered(&group, "web", 3, 8080).await;
    });
}

#[test]
fn connections_that_died_without_a_word_are_noticed_and_made_again() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "silent").await;
        let group = s.web(3).await;
        let (proxy, _headgate) = behind_a_proxy(&s).await;
        let before = s.wait_registered(&group, "web", 3, 8080).await;
        proxy.freeze();
        let (victim, _) = before.iter().next().unwrap();
        s.cluster.delete_pod(victim, 0).await;
        wait::until("the victim's replacement runs", || async {
            let now = s.cluster.running("web").await;
            if now.len() == 3 && !now.contains_key(victim) { Ok(()) } else { Err(now) }
        })
        .await;
        s.wait_registered(&group, "web", 3, 8080).await;
    });
}

#[test]
fn a_list_that_leaves_all_pods_out_takes_nothing_away_unless_a_second_one_says_the_same() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "doubt").await;
        let group = s.web(3).await;
        let gateway = Gateway::to(s.cluster.client.clone()).await;
        let only = format!("--namespaces={}", s.cluster.namespace);
        let kubeconfig = gateway.kubeconfig(&s.facts().folder);
        let headgate = Headgate::start(s.facts(), &kubeconfig, &[&only]).await;
        s.wait_registered(&group, "web", 3, 8080).await;
        let listed = |count: u64| headgate.logged(|line| is_list_of("pods", line, count)).len();
        let before = listed(3);
        gateway.mislead(PODS, 1);
        s.cluster.wait_warning("web", "ListDoubted", "for a second list").await;
        wait::until("a second list has said what is", || async {
            if listed(3) > before { Ok(()) } else { Err(headgate.text()) }
        })
        .await;
        assert_eq!(listed(0), 1, "the first was empty");
        s.cluster.scale("web", 4).await;
        let running = s.wait_registered(&group, "web", 4, 8080).await;
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);

        gateway.mislead(PODS, 2);
        s.wait_targets(&group, &BTreeSet::new()).await;
        let reasons = headgate.logged(|line| line["message"] == "deregistering");
        assert!(reasons.len() == running.len(), "{reasons:?}");
        assert!(reasons.iter().all(|line| line["reason"] == "PodDeleted"), "{reasons:?}");
    });
}

/// Whether this log line reports a list of this many objects of a kind.
fn is_list_of(kind: &str, line: &Value, count: u64) -> bool {
    line["message"] == "listed" && line["kind"] == kind && line["count"] == count
}

#[test]
fn the_api_server_may_restart() {
    alone(|world| async move {
        let s = Scenario::new(world, "apiserver").await;
        let group = s.web(2).await;
        let headgate = s.headgate().await;
        s.wait_registered(&group, "web", 2, 8080).await;
        world.restart_component(Component::ApiServer).await.unwrap();
        s.cluster.scale("web", 4).await;
        s.wait_registered(&group, "web", 4, 8080).await;
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);
        s.cluster.scale("web", 1).await;
        s.wait_registered(&group, "web", 1, 8080).await;
        headgate.probe("/livez").await.unwrap();
    });
}

#[test]
fn aws_may_be_away_for_a_while() {
    alone(|world| async move {
        let s = Scenario::new(world, "away").await;
        let group = s.web(2).await;
        let headgate = s.headgate().await;
        s.wait_registered(&group, "web", 2, 8080).await;
        s.aws.set_available(false).await;
        s.cluster.scale("web", 3).await;
        s.cluster.wait_running("web", 3).await;
        s.cluster.scale("web", 1).await;
        s.cluster.wait_running("web", 1).await;
        wait::until("headgate has tried", || async {
            let failed = headgate.logged(|line| {
                line["action"] == "DeregisterTargets"
                    && line["message"].as_str().unwrap().starts_with("failed")
            });
            if failed.is_empty() { Err(headgate.text()) } else { Ok(()) }
        })
        .await;
        assert_eq!(headgate.metric("headgate_aws_reachable").await, Some(0.0));
        // A broken connection has another cause than a refused one.
        let said = headgate.logged(|line| line["reason"] == "AwsUnreachable" && line["level"] == "WARN");
        assert!((1..=3).contains(&said.len()), "{said:#?}");
        s.aws.set_available(true).await;
        s.wait_registered(&group, "web", 1, 8080).await;
        // AWS accepts the call a moment before its answer arrives.
        let reachable = || headgate.metric("headgate_aws_reachable");
        wait::until_equal("headgate knows that AWS is back", &Some(1.0), reachable).await;
        let over = headgate.logged(|line| line["reason"] == "AsExpected" && line["level"] == "INFO");
        assert!(over.len() == 1 && over[0]["message"].as_str().unwrap().contains(", after "), "{over:?}");
    });
}

/// Counts what a screen reader would read aloud: each change of a live region, with its time in milliseconds. Also
/// counts changes of the text about problems.
const LISTEN: &str = "(() => {
    const seen = { childList: true, characterData: true, subtree: true };
    window.aloud = []; window.drawn = new Set();
    const live = '[aria-live]:not([aria-live=off]), [role=status], [role=alert], [role=log], [role=timer], output';
    const regions = document.querySelectorAll(live);
    for (const region of regions) new MutationObserver(() => aloud.push(performance.now())).observe(region, seen);
    const top = document.querySelector('#top');
    new MutationObserver(() => drawn.add(top.innerText)).observe(top, seen);
    return regions.length;
})()";

#[test]
fn during_an_outage_the_page_counts_on_but_is_read_aloud_at_most_once_in_ten_seconds() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "aloud").await;
        let group = s.web(2).await;
        let aws = Proxy::to_aws(s.facts()).await;
        let endpoint = format!("http://{}", aws.address());
        let only = format!("--namespaces={}", s.cluster.namespace);
        let through = [("AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2", &*endpoint)];
        let headgate = Headgate::start_within(s.facts(), &s.facts().kubeconfig, &[&only], &through).await;
        s.wait_registered(&group, "web", 2, 8080).await;
        let page = Proxy::to(headgate.debug().to_owned()).await;
        let browser = Browser::start().await;
        browser.open(&format!("http://{}/", page.address())).await;
        browser.wait_text("#announcement", |text| text == "No problems.").await;
        assert_eq!(browser.evaluate(LISTEN).await, 1, "one live region");

        // AWS becomes unreachable, then the page's connection breaks repeatedly, then AWS is reachable again.
        aws.cut();
        s.cluster.scale("web", 3).await;
        browser.wait_text("#announcement", |text| text.starts_with("AwsUnreachable, AWS")).await;
        wait::until("the age on the page has changed ten times", || async {
            let drawn = browser.evaluate("drawn.size").await;
            if drawn.as_u64() >= Some(10) { Ok(()) } else { Err(drawn) }
        })
        .await;
        for _ in 0..4 {
            page.cut();
            browser.wait_text("#link", |text| text.starts_with("Not connected")).await;
            page.heal();
            browser.wait_text("#link", |text| text == "Live").await;
        }
        aws.heal();
        browser.wait_text("#top", |text| text.starts_with("OK")).await;
        browser.wait_text("#announcement", |text| text == "No problems.").await;
        let aloud: Vec<f64> = serde_json::from_value(browser.evaluate("aloud").await).unwrap();
        assert!(aloud.len() >= 2, "the outage and its end: {aloud:?}");
        assert!(aloud.windows(2).all(|pair| pair[1] - pair[0] >= 10_000.0), "{aloud:?}");
    });
}
