//! The conditions after all faults: the rollout is complete, and AWS holds exactly the living pods and the foreign
//! target.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use headgate_harness::{
    aws::Aws,
    cluster::Running,
    recorder::{APP, Traced},
    scenario::targets,
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::api::ListParams;
use tokio::time::sleep;

use super::stage::{Stage, Workload};
use crate::stage::{REPLICAS, workload::PORT};

/// Much longer than any rollout takes here, even if the gates of several pods wait for 90 s one after the other,
/// because their address was a target shortly before (docs/guides/workloads.md).
const DEADLINE: Duration = Duration::from_secs(420);
/// The AWS API is throttled, and Headgate uses it too.
const PERIOD: Duration = Duration::from_millis(500);
/// How long the conditions must hold.
const STAYS: Duration = Duration::from_secs(2);

/// A violated condition.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Differs {
    /// A short name.
    what: &'static str,
    /// The details.
    detail: String,
}

/// The duration of each wait, and the last details.
pub type Waited = BTreeMap<&'static str, (Duration, String)>;

/// Waits until all conditions hold, and still hold a moment later. `old`: by workload, the pods that should terminate.
///
/// # Errors
/// The violated condition at the timeout, or one that held only for a moment.
pub async fn wait(stage: &Stage, old: &BTreeMap<&str, Running>) -> Result<Waited, String> {
    let (end, mut waited) = (Instant::now() + DEADLINE, Waited::new());
    for workload in &stage.workloads {
        let old = &old[workload.name];
        let mut since = Instant::now();
        while let Err(differs) = look(&stage.aws, workload, old).await {
            if Instant::now() > end {
                return Err(format!("{}, after {DEADLINE:?} of waiting: {}", workload.name, differs.detail));
            }
            sleep(PERIOD).await;
            let (time, detail) = waited.entry(differs.what).or_default();
            *time += since.elapsed();
            *detail = differs.detail;
            since = Instant::now();
        }
    }
    sleep(STAYS).await;
    for workload in &stage.workloads {
        let again = look(&stage.aws, workload, &old[workload.name]).await;
        again.map_err(|differs| format!("{}, after it was quiet: {}", workload.name, differs.detail))?;
    }
    Ok(waited)
}

/// Checks a workload.
async fn look(aws: &Aws, workload: &Workload, old: &Running) -> Result<(), Differs> {
    rolled(workload, old).await?;
    let wanted = targets(&workload.cluster.running(APP).await, PORT);
    let held = aws.targets(&workload.group.arn).await;
    compare(&wanted, &workload.foreign, &held)?;
    if aws.is_settled(workload.name).await {
        Ok(())
    } else {
        Err(differs("load balancer", "it is not settled".into()))
    }
}

fn differs(what: &'static str, detail: String) -> Differs {
    Differs { what, detail }
}

/// Whether the rollout is complete: the right number of pods, none of them old, all with the hold and an open gate.
async fn rolled(workload: &Workload, old: &Running) -> Result<(), Differs> {
    let count = i32::try_from(REPLICAS).expect("a few");
    let said = |error: kube::Error| differs("API server", error.to_string());
    let deployment = workload.cluster.api::<Deployment>().get(APP).await.map_err(said)?;
    let status = deployment.status.unwrap_or_default();
    let all = [status.replicas, status.updated_replicas, status.available_replicas];
    if status.observed_generation != deployment.metadata.generation || all != [Some(count); 3] {
        return Err(differs("roll", format!("the roll is not complete: {status:?}")));
    }
    let ours = ListParams::default().labels(&format!("app={APP}"));
    let pods = workload.cluster.api::<Pod>().list(&ours).await.map_err(said)?.items;
    let is_old = |pod: &Pod| pod.metadata.name.as_ref().is_some_and(|name| old.contains_key(name));
    let left: Vec<_> = pods.iter().filter(|pod| is_old(pod)).map(|pod| &pod.metadata.name).collect();
    if !left.is_empty() || pods.len() != REPLICAS as usize {
        return Err(differs("old pods", format!("{} pods, and old ones: {left:?}", pods.len())));
    }
    let bare = pods.iter().find(|pod| !workload.care.is_given_to(pod));
    if let Some(pod) = bare {
        return Err(differs("hold", format!("{:?} has not {:?}", pod.metadata.name, workload.care)));
    }
    let gates = workload.cluster.gates(APP).await;
    let is_open = |name: &&String| gates[*name].as_ref().is_some_and(|gate| gate.status == "True");
    let shut: Vec<&String> = gates.keys().filter(|name| !is_open(name)).collect();
    if shut.is_empty() {
        Ok(())
    } else {
        Err(differs("gates", format!("the gates of {shut:?} are not open")))
    }
}

/// Whether a target group holds exactly these pods, all healthy, and the foreign target.
fn compare(wanted: &BTreeSet<String>, foreign: &str, held: &BTreeMap<String, String>) -> Result<(), Differs> {
    let held: BTreeMap<_, _> = held.iter().filter(|(_, state)| *state != "draining").collect();
    let mut all: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    all.insert(foreign);
    let there: BTreeSet<&str> = held.keys().map(|target| target.as_str()).collect();
    if all != there {
        let missing: Vec<_> = all.difference(&there).collect();
        let extra: Vec<_> = there.difference(&all).collect();
        return Err(differs("targets", format!("AWS lacks {missing:?} and has besides {extra:?}")));
    }
    let ill = held.iter().find(|(target, state)| **target != foreign && **state != "healthy");
    ill.map_or(Ok(()), |(target, state)| Err(differs("health", format!("{target} is {state}"))))
}

/// The number of calls with the foreign target since it was registered.
pub fn calls_about_the_foreign_target(workload: &Workload) -> usize {
    let names_it = |entry: &&Traced| match entry {
        Traced::Call { action, targets, .. } => {
            matches!(&**action, "RegisterTargets" | "DeregisterTargets")
                && targets.contains(&workload.foreign)
        }
        _ => false,
    };
    let all = workload.recorder.look(|record| record.trace.iter().filter(names_it).count());
    all.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(held: &[(&str, &str)]) -> Result<(), String> {
        let wanted = BTreeSet::from(["10.0.0.1:8080".to_owned(), "10.0.0.2:8080".to_owned()]);
        let held = held.iter().map(|(target, state)| ((*target).to_owned(), (*state).to_owned())).collect();
        compare(&wanted, "10.0.0.250:9", &held).map_err(|differs| differs.detail)
    }

    #[test]
    fn the_pods_and_the_foreign_target_are_wanted_and_what_drains_is_on_its_way_out() {
        let all = [("10.0.0.1:8080", "healthy"), ("10.0.0.2:8080", "healthy"), ("10.0.0.250:9", "unhealthy")];
        assert_eq!(looked(&all), Ok(()));
        assert_eq!(looked(&[&all[..], &[("10.0.0.3:8080", "draining")]].concat()), Ok(()));
    }

    #[test]
    fn a_missing_pod_a_pod_too_many_an_ill_pod_and_a_missing_foreign_target_are_told() {
        let [first, second, foreign] =
            [("10.0.0.1:8080", "healthy"), ("10.0.0.2:8080", "healthy"), ("10.0.0.250:9", "unhealthy")];
        let missing = looked(&[first, foreign]).unwrap_err();
        assert!(missing.contains("lacks [\"10.0.0.2:8080\"]"), "{missing}");
        let extra = looked(&[first, second, foreign, ("10.0.0.3:8080", "healthy")]).unwrap_err();
        assert!(extra.contains("besides [\"10.0.0.3:8080\"]"), "{extra}");
        let ill = looked(&[first, ("10.0.0.2:8080", "initial"), foreign]).unwrap_err();
        assert!(ill.contains("10.0.0.2:8080 is initial"), "{ill}");
        let gone = looked(&[first, second, ("10.0.0.250:9", "draining")]).unwrap_err();
        assert!(gone.contains("lacks [\"10.0.0.250:9\"]"), "{gone}");
    }
}
