//! The container of the leader of two replicas is killed on real nodes with SIGKILL, like the kernel does when memory
//! runs out. Then a pod is deleted. The Lease has default settings.
//!
//! Two times are measured: from the kill, and from the moment when a watch of this program shows in the leader's pod
//! status that it has terminated. The difference is the kubelet's time.

use futures::{StreamExt, pin_mut};
use headgate_harness::{
    aws::Group,
    pods,
    recorder::{Micros, now},
    rights::{OWN_NAMESPACE, ROLE, grant, let_read_grants, rules_of, service_account},
    scenario::Scenario,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    runtime::{WatchStreamExt, watcher},
};
use localstack_world::World;
use tokio::task::JoinHandle;

use crate::{
    Size,
    report::Row,
    tape::{Tape, millis},
};

/// Runs the measure on a thread in the local world's network; see the module docs. There is no floor: it has no second
/// replica.
pub async fn measure(world: &'static World, size: &Size) -> Vec<Row> {
    let s = Scenario::new(world, "killed").await;
    let group = s.web(2).await;
    grant(&s, "headgate", &rules_of(ROLE)).await;
    grant(&s, "headgate-own-namespace", &rules_of(OWN_NAMESPACE)).await;
    let_read_grants(&s).await;
    service_account(&s).await;
    pods::load_image(s.facts()).await;
    pods::deploy(s.facts(), &s.cluster, 2, &[]).await;
    let (mut after_kill, mut after_status) = (Vec::new(), Vec::new());
    for _ in 0..size.runs {
        let (killed, known, arrived) = once(&s, &group).await;
        after_kill.push(millis(killed, arrived) / 1000.0);
        after_status.push(millis(known, arrived) / 1000.0);
    }
    vec![
        Row::of("SIGKILL of the leader's container → the standby's first Deregister", "s", &after_kill, &[]),
        Row::of("– of that, from the status that proves its death", "s", &after_status, &[]),
    ]
}

/// When the leader was killed, when its pod's status showed that, and when the first DeregisterTargets arrived.
async fn once(s: &Scenario, group: &Group) -> (Micros, Micros, Micros) {
    pods::wait_ready(&s.cluster, 2).await;
    let web = s.wait_registered(group, "web", 2, 8080).await;
    let (leader, identity) = pods::holder(&s.cluster, "").await;
    let mut tape = Tape::from_now(&s.aws).await;
    let proof = proof(s.cluster.api(), &leader, identity);
    let killed = now();
    pods::kill(&leader).await;
    let (name, ip) = web.first_key_value().unwrap();
    s.cluster.delete_pod(name, 30).await;
    let arrived = tape.arrival("DeregisterTargets", &group.name, &format!("{ip}:8080")).await;
    (killed, proof.await.unwrap(), arrived)
}

/// Waits until the status of a pod shows that this container has terminated. Returns when that was seen.
fn proof(pods: Api<Pod>, pod: &str, identity: String) -> JoinHandle<Micros> {
    let only = watcher::Config::default().fields(&format!("metadata.name={pod}"));
    let says = move |pod: &Pod| {
        let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        let states = containers.flat_map(|container| [&container.state, &container.last_state]);
        let ended = states.flatten().filter_map(|state| state.terminated.as_ref());
        ended.into_iter().any(|ended| ended.message.as_ref() == Some(&identity))
    };
    tokio::spawn(async move {
        let seen = watcher(pods, only).default_backoff().applied_objects();
        pin_mut!(seen);
        while let Some(pod) = seen.next().await {
            if pod.as_ref().is_ok_and(&says) {
                break;
            }
        }
        now()
    })
}
