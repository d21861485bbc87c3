//! Operations that the hold must not slow down, on real nodes: the restart of a container that no longer answers, and
//! the end of a Job at its deadline. Compares a namespace with held pods to one without.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use headgate_harness::{
    cluster::Cluster,
    injection::{self, Stage},
    pods, wait,
    webhook::{Configuration, bare_pod},
};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use localstack_world::World;
use serde_json::{Value, json};

use crate::{Size, report::Row};

/// How often an object is checked.
const PERIOD: Duration = Duration::from_millis(100);
/// The timeout of a check.
const PATIENCE: Duration = Duration::from_secs(240);
/// The deadline of a Job in seconds.
const DEADLINE: i32 = 3;
/// The port of a pod's server.
const PORT: u16 = 8080;

/// Runs the measure on a thread in the local world's network; see the module docs. The floor is the namespace without
/// the label.
pub async fn measure(world: &'static World, size: &Size) -> Vec<Row> {
    let stage = Stage::new(world, "held").await;
    let headgate = stage.headgate(&[]).await;
    let configuration = Configuration::install(&stage.s, &[&headgate]).await;
    wait::until("pods are held", || async {
        let probe =
            injection::create(&stage.labelled, &bare_pod("probe", &json!({"app": "web"})), true).await;
        if injection::injected(&probe).is_some() { Ok(()) } else { Err(headgate.text()) }
    })
    .await;
    let (mut restarts, mut ends) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for run in 0..size.runs {
        for (at, namespace) in [&stage.labelled, &stage.plain].into_iter().enumerate() {
            restarts[at].push(restart(namespace, &format!("wedged-{at}-{run}"), at == 0).await);
            ends[at].push(end_of_job(namespace, &format!("job-{run}")).await);
        }
    }
    configuration.remove().await;
    let [held, bare] = restarts;
    let [job_held, job_bare] = ends;
    vec![
        Row::of(
            "a container that answers nobody any more → started again (held; floor: a pod without Headgate)",
            "s",
            &held,
            &bare,
        ),
        Row::of(
            "a Job that is out of time → failed, in a namespace with the label (floor: without)",
            "s",
            &job_held,
            &job_bare,
        ),
    ]
}

/// A server that returns its name, with a liveness probe.
fn server() -> Value {
    json!({
        "name": "web",
        "image": "headgate.local/skipper:1",
        "imagePullPolicy": "Never",
        "args": [
            format!("-address=:{PORT}"), "-support-listener=:9911", "-wait-for-healthcheck-interval=0s",
            "-inline-routes=all: * -> inlineContent(\"ok\") -> <shunt>",
        ],
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "readinessProbe": {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 1},
        "livenessProbe": {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 1},
    })
}

/// Seconds from the moment when the process of a pod is stopped to the restart of its container.
async fn restart(namespace: &Cluster, name: &str, is_held: bool) -> f64 {
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [server()]},
    });
    let made = injection::create(namespace, &pod, false).await;
    assert_eq!(injection::injected(&made).is_some(), is_held, "{made}");
    let runs = async |restarts: i32| {
        let pod = namespace.api::<Pod>().get(name).await.unwrap();
        let containers = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
        containers
            .iter()
            .any(|is| is.started == Some(true) && is.restart_count == restarts && (restarts > 0 || is.ready))
    };
    until("the pod is ready", || runs(0)).await;
    let stopped = Instant::now();
    pods::signal(name, "STOP").await;
    until("its container is started again", || runs(1)).await;
    let seconds = stopped.elapsed().as_secs_f64();
    namespace.delete_pod(name, 0).await;
    seconds
}

/// Seconds from the creation of a Job that never ends on its own to its condition `Failed`.
async fn end_of_job(namespace: &Cluster, name: &str) -> f64 {
    let made = Instant::now();
    namespace
        .create::<Job>(json!({
            "metadata": {"name": name},
            "spec": {
                "activeDeadlineSeconds": DEADLINE,
                "backoffLimit": 0,
                "template": {
                    "metadata": {"labels": {"app": "job"}},
                    "spec": {"restartPolicy": "Never", "containers": [server()]},
                },
            },
        }))
        .await;
    until("the Job has failed", || async {
        let job = namespace.api::<Job>().get(name).await.unwrap();
        let conditions = job.status.and_then(|status| status.conditions).unwrap_or_default();
        conditions.iter().any(|is| is.type_ == "Failed" && is.status == "True")
    })
    .await;
    made.elapsed().as_secs_f64()
}

async fn until<F: Future<Output = bool>>(what: &str, is: impl Fn() -> F) {
    let began = Instant::now();
    while !is().await {
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(PERIOD).await;
    }
}
