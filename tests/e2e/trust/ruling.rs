//! Whoever knows the secret path, or may patch pods, still does little harm: a request proves nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use headgate_harness::{
    cluster::{Running, pod_spec},
    evictions::Stage,
    intruder::{Intruder, forged_eviction},
    scenario::targets,
    shared_world::beside_others,
    wait,
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

/// One who knows the path by which the API server calls.
struct Insider {
    intruder: Intruder,
    address: String,
    path: String,
}

impl Insider {
    async fn of(stage: &Stage) -> Self {
        let path =
            headgate_harness::webhook::wait_secret(&stage.s.cluster.client, &stage.s.name("webhook")).await;
        let secret = stage.s.cluster.api::<Secret>().get("headgate-webhook-tls").await.unwrap();
        let trusted = String::from_utf8(secret.data.unwrap()["ca.crt"].0.clone()).unwrap();
        let address = stage.headgates[0].webhook().await;
        Self { intruder: Intruder::new(&trusted), address, path: format!("/{path}/evict") }
    }

    /// A forged review of the eviction of a pod; gives whether it was let through.
    async fn forges(&self, stage: &Stage, pod: &str, grace: Option<u32>) -> bool {
        let mut review = forged_eviction(&stage.cluster.namespace, pod);
        review["request"]["object"]["deleteOptions"] = json!({"gracePeriodSeconds": grace});
        let (status, said, _) = self.intruder.send("POST", &self.address, &self.path, &review).await;
        assert_eq!(status, 200, "{said}");
        serde_json::from_str::<Value>(&said).unwrap()["response"]["allowed"] == true
    }
}

async fn registered(stage: &Stage, of: &Running) -> usize {
    stage.s.aws.registered(&stage.group.arn).await.intersection(&targets(of, 8080)).count()
}

#[test]
fn whoever_knows_the_path_takes_no_pod_with_its_hold_out_and_of_the_others_one_at_a_time_for_a_while() {
    beside_others(|world| async move {
        let stage = Stage::with_nodes(world, "insider", 1, &["--eviction-given-up-after=8s"]).await;
        let mut held = pod_spec(&[("http", 8080)]);
        held["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 3}}});
        let (with_hold, without): (Vec<String>, Vec<String>) =
            (0..3).map(|number| (format!("held-{number}"), format!("plain-{number}"))).unzip();
        for (with, without) in with_hold.iter().zip(&without) {
            stage.cluster.pod_with(with, "web", held.clone()).await;
            stage.cluster.pod(without, "web", &[("http", 8080)]).await;
        }
        let all = stage.wait_asked("web", 6).await;
        let group = |names: &[String]| -> Running {
            all.iter()
                .filter(|(pod, _)| names.contains(pod))
                .map(|(pod, ip)| (pod.clone(), ip.clone()))
                .collect()
        };
        let (held, plain) = (group(&with_hold), group(&without));
        let insider = Insider::of(&stage).await;
        let mut fewest = plain.len();
        // The bound is 3 s: those that were taken out together would all be out by then.
        for _ in 0..12 {
            for pod in &without {
                insider.forges(&stage, pod, Some(1)).await;
            }
            for pod in &with_hold {
                insider.forges(&stage, pod, Some(1)).await;
                insider.forges(&stage, pod, None).await;
            }
            assert_eq!(
                registered(&stage, &held).await,
                held.len(),
                "a pod with its hold is out: {}",
                stage.said()
            );
            fewest = fewest.min(registered(&stage, &plain).await);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        assert_eq!(fewest, plain.len() - 1, "one is out at a time: {}", stage.said());
        stage.s.wait_targets(&stage.group, &targets(&all, 8080)).await;
        wait::until("nothing is noted any more", || async {
            let mut noted = BTreeMap::new();
            for pod in all.keys() {
                noted
                    .extend(stage.annotations(pod).await.into_iter().map(|(name, text)| ((pod, name), text)));
            }
            if noted.is_empty() { Ok(()) } else { Err(format!("{noted:?}")) }
        })
        .await;
        assert_eq!(stage.cluster.running("web").await, all, "and all of them live");
        stage.cluster.wait_warning("held-0", "GraceCutsHold", "kubectl drain without --grace-period").await;
        stage.end().await;
    });
}

#[test]
fn what_somebody_writes_on_a_pod_holds_up_its_eviction_for_a_moment_only() {
    beside_others(|world| async move {
        let stage = Stage::with_nodes(world, "forger", 1, &[]).await;
        let names = ["endless", "far", "later"];
        for name in names {
            stage.cluster.pod(name, "web", &[("http", 8080)]).await;
        }
        stage.wait_asked("web", names.len()).await;
        let (now, far) = ("2026-01-01T00:00:00.000Z", "2226-01-01T00:00:00.000Z");
        for name in names {
            let api = stage.cluster.api::<Pod>();
            let uid = api.get(name).await.unwrap().metadata.uid.unwrap();
            let forged = match name {
                "endless" => json!({
                    "headgate.dev/leaving": format!("{uid} since {now} asked {now}"),
                    "headgate.dev/deregistered-at": format!("{uid} {now} bound 4294967295s"),
                }),
                "far" => json!({"headgate.dev/leaving": format!("{uid} since {far} asked {far}")}),
                _ => json!({
                    "headgate.dev/leaving": format!("{uid} since {now} asked {far}"),
                    "headgate.dev/deregistered-at": format!("{uid} {far} bound 1s"),
                }),
            };
            let patch = json!({"metadata": {"annotations": forged}});
            api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        }
        for name in names {
            stage
                .cluster
                .wait_warning(name, "LeavingNotCredible", "install the policies of config/admission")
                .await;
        }
        for name in names {
            stage.evict_until_done(name).await;
        }
        stage.s.wait_targets(&stage.group, &BTreeSet::new()).await;
        stage.end().await;
    });
}
