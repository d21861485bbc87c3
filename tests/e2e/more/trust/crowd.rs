//! One client with as many connections as possible does not lock out others.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use futures::{StreamExt, stream};
use headgate_harness::{
    cluster::{Cluster, client_without_retries},
    crowd::{Crowd, LARGE},
    headgate::Headgate,
    scenario::Scenario,
    shared_world::alone,
    wait,
    webhook::{Configuration, bare_pod},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{EvictParams, PostParams},
};
use serde_json::json;

/// Concurrent requests to the API server.
const AT_ONCE: usize = 4;
/// Many more than a Headgate has open without an attack.
const FEW: usize = 100;

/// A pod without a node.
async fn create(pods: &Api<Pod>, name: &str, dry_run: bool) -> bool {
    let mut pod = bare_pod(name, &json!({"app": "web"}));
    pod["spec"]["schedulerName"] = "nobody".into();
    let parameters = PostParams { dry_run, ..PostParams::default() };
    let created = pods.create(&parameters, &serde_json::from_value(pod).unwrap()).await.unwrap();
    created.metadata.annotations.is_some_and(|all| all.contains_key("headgate.dev/injected"))
}

/// Sends probe requests repeatedly while `during` runs. Returns their number, and the failures.
async fn probed<T>(headgate: &Headgate, during: impl Future<Output = T>) -> (T, usize, Vec<String>) {
    let done = AtomicBool::new(false);
    let (mut answered, mut failed) = (0, Vec::new());
    let probing = async {
        while !done.load(Relaxed) {
            for path in ["/livez", "/readyz", "/metrics"] {
                match headgate.probe(path).await {
                    Ok(_) => answered += 1,
                    Err(error) => failed.push(error),
                }
            }
        }
    };
    let during = async {
        let ended = during.await;
        done.store(true, Relaxed);
        ended
    };
    let (ended, ()) = futures::join!(during, probing);
    (ended, answered, failed)
}

#[test]
fn a_crowd_at_the_webhook_makes_the_api_server_miss_no_call() {
    alone(|world| async move {
        let s = Scenario::new(world, "crowd").await;
        let labelled: Cluster = s.cluster.within(&s.name("yes"));
        let mine = s.name("mine");
        let labels = [(mine.as_str(), ""), ("headgate.dev/inject", "true")];
        s.cluster.create_namespace(&labelled.namespace, &labels).await;
        let serves = format!("--namespaces={},{}", s.cluster.namespace, labelled.namespace);
        let arguments = ["--webhook-address=127.0.0.1:0", &serves];
        let headgate = Headgate::start(s.facts(), &s.facts().kubeconfig, &arguments).await;
        let configuration = Configuration::install(&s, &[&headgate]).await;
        let client = client_without_retries(s.facts()).await;
        let pods: Api<Pod> = Api::namespaced(client, &labelled.namespace);
        wait::until("the API server asks about new pods", || async {
            if create(&pods, "probe", true).await { Ok(()) } else { Err(headgate.text()) }
        })
        .await;

        let authorities = configuration.trusted().await.unwrap().remove(0);
        let crowd = Crowd::at_https(&headgate.webhook().await, &authorities, LARGE);
        // On a busy machine, it may take time until there are more connections than the webhook keeps.
        wait::until("the crowd is there, comes again, and is said", || async {
            match (crowd.counts.closed.load(Relaxed), headgate.text().contains("too many connections")) {
                (500.., true) => Ok(()),
                seen => Err((seen, crowd.counts.opened.load(Relaxed))),
            }
        })
        .await;
        let calls = async {
            let names: Vec<String> = (0..200).map(|at| format!("web-{at}")).collect();
            let made = stream::iter(&names).map(|name| create(&pods, name, false)).buffered(AT_ONCE);
            let missed = made.collect::<Vec<_>>().await.iter().filter(|injected| !**injected).count();
            let pods = &pods;
            let evict = stream::iter(&names[..50])
                .map(|name| async move { pods.evict(name, &EvictParams::default()).await.unwrap() });
            evict.buffered(AT_ONCE).collect::<Vec<_>>().await;
            missed
        };
        let (missed, answered, failed) = probed(&headgate, calls).await;
        wait::until_equal("every eviction was asked about", &Some(50.0), || {
            headgate.sum("headgate_eviction_requests_total", &[])
        })
        .await;
        eprintln!(
            "the crowd opened {} connections; {answered} probes were answered",
            crowd.counts.opened.load(Relaxed)
        );
        assert_eq!(missed, 0, "new pods that were missed");
        assert_eq!(failed, [""; 0]);
        drop(crowd);
        wait::until("the descriptors are free again", || async {
            let open = headgate.descriptors();
            if open < FEW { Ok(()) } else { Err(open) }
        })
        .await;
        configuration.remove().await;
    });
}
