//! What an operator sees of the program.

use std::process::Stdio;

use headgate_harness::{http, scenario::Scenario, shared_world::beside_others, wait};
use localstack_world::debian;
use serde_json::Value;
use tokio::{io::AsyncWriteExt, process::Command};

#[test]
fn probes_metrics_and_bindings_show_what_is() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "metrics").await;
        let group = s.web(0).await;
        let headgate = s.headgate().await;
        wait::until("the binding is in force", || async {
            let shown = headgate.probe("/debug/bindings").await?;
            if shown.contains(&group.arn) { Ok(()) } else { Err(shown) }
        })
        .await;
        s.cluster.scale("web", 3).await;
        s.wait_registered(&group, "web", 3, 8080).await;
        headgate.probe("/livez").await.unwrap();
        let (namespace, name) = (&s.cluster.namespace, &group.name);
        let binding = |kind: &str| {
            format!(
                "headgate_binding_targets{{namespace=\"{namespace}\",service=\"web\",port=\"http\",target_group=\"{name}\",kind=\"{kind}\"}}"
            )
        };
        for line in [binding("wanted"), binding("registered"), binding("healthy")] {
            wait::until_equal(&line, &Some(3.0), || headgate.metric(&line)).await;
        }
        for zone in s.facts().zones.iter().map(|zone| &*zone.name) {
            let here = [("target_group", &**name), ("zone", zone)];
            let wanted = headgate.sum("headgate_wanted_targets", &here).await;
            let healthy =
                headgate.sum("headgate_targets", &[&here[..], &[("state", "healthy")]].concat()).await;
            assert_eq!(wanted, healthy, "{zone}");
        }
        let all = headgate.sum("headgate_targets", &[("target_group", name), ("state", "healthy")]).await;
        assert_eq!(all, Some(3.0));
        assert_eq!(headgate.metric("headgate_pod_ip_to_register_seconds_count").await, Some(3.0));
        let registers = "headgate_aws_calls_total{action=\"RegisterTargets\",outcome=\"ok\"}";
        assert!(headgate.metric(registers).await.unwrap() >= 1.0);
        let shown: Value = serde_json::from_str(&headgate.probe("/debug/bindings").await.unwrap()).unwrap();
        assert_eq!(shown["bindings"][0]["targets"].as_array().unwrap().len(), 3);
        assert_eq!(shown["bindings"][0]["targets"][0]["state"], "healthy");
        let waits = "headgate_aws_throttle_wait_seconds_count{action=\"RegisterTargets\"}";
        assert!(headgate.metric(waits).await.unwrap() >= 1.0);
        let first = shown["bindings"][0]["targets"][0]["pod"].as_str().unwrap();
        s.cluster.delete_pod(first, 30).await;
        wait::until("its target is shown on its way out", || async {
            let shown = headgate.probe("/debug/bindings").await?;
            let shown: Value = serde_json::from_str(&shown).unwrap();
            let targets = shown["bindings"][0]["targets"].as_array().unwrap().clone();
            let ends = |target: &&Value| target["pod"] == first && target["ending"] == "PodTerminating";
            if targets.iter().any(|target| ends(&target)) { Ok(()) } else { Err(shown.to_string()) }
        })
        .await;
    });
}

#[test]
fn sigterm_ends_cleanly_and_leaves_the_targets() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "sigterm").await;
        let group = s.web(2).await;
        let headgate = s.headgate().await;
        s.wait_registered(&group, "web", 2, 8080).await;
        let (code, log) = headgate.terminate().await;
        assert_eq!(code, Some(0), "{log}");
        s.wait_registered(&group, "web", 2, 8080).await;
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);
    });
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn promtool_finds_nothing_wrong_with_the_metrics_and_a_scraper_gets_the_format_it_asks_for() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "promtool").await;
            let group = s.web(1).await;
            let headgate = s.headgate().await;
            s.wait_registered(&group, "web", 1, 8080).await;
            let folder = debian::unpacked("prometheus", &[], &|said| eprintln!("{said}")).await.unwrap();
            let (kind, page) = http::accepting(headgate.admin(), "/metrics", "*/*").await;
            assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
            let mut promtool = Command::new(folder.join("usr/bin/promtool"))
                .args(["check", "metrics"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            promtool.stdin.take().unwrap().write_all(page.as_bytes()).await.unwrap();
            let checked = promtool.wait_with_output().await.unwrap();
            let said = [checked.stdout, checked.stderr].map(|text| String::from_utf8(text).unwrap()).join("");
            assert!(checked.status.success() && said.is_empty(), "{said}");
            let prometheus =
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
            let (kind, page) = http::accepting(headgate.admin(), "/metrics", prometheus).await;
            assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
            assert!(page.ends_with("# EOF\n"), "{page}");
        });
    }
}
