//! What happens while versions change: pods are created, and targets are checked.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use headgate_harness::{
    aws::{Aws, Group},
    cluster::{Cluster, OWN_GATE},
    webhook::bare_pod,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

/// The pause between two pods.
const PODS: Duration = Duration::from_millis(250);
/// The pause between two checks of the targets.
const TARGETS: Duration = Duration::from_millis(250);

/// The counts of one step.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Pods that were created.
    pub created: u64,
    /// The names of those that got no gate or no hold.
    pub missed: Vec<String>,
    /// The number of checks.
    pub looks: u64,
    /// Targets that were not registered at a check.
    pub lost: BTreeSet<String>,
}

/// The counts of the present and earlier steps.
#[derive(Clone, Default)]
pub struct Tally(Arc<Mutex<(usize, BTreeMap<usize, Counts>)>>);

impl Tally {
    /// Begins another step.
    pub fn begin(&self, step: usize) {
        let mut tally = self.0.lock().unwrap();
        tally.0 = step;
        tally.1.entry(step).or_default();
    }

    /// The counts of a step.
    pub fn of(&self, step: usize) -> Counts {
        self.0.lock().unwrap().1.get(&step).cloned().unwrap_or_default()
    }

    fn count(&self, step: usize, count: impl FnOnce(&mut Counts)) {
        count(self.0.lock().unwrap().1.entry(step).or_default());
    }

    fn step(&self) -> usize {
        self.0.lock().unwrap().0
    }
}

/// Creates pods one after the other until it is dropped or aborted. Each is deleted at once.
pub fn create_pods(cluster: &Cluster, tally: &Tally) -> JoinHandle<()> {
    let (pods, tally): (Api<Pod>, Tally) = (cluster.api(), tally.clone());
    tokio::spawn(async move {
        let mut ticks = interval(PODS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for number in 0_u64.. {
            ticks.tick().await;
            let name = format!("new-{number}");
            let step = tally.step();
            let mut pod = bare_pod(&name, &json!({"app": "new"}));
            // Nothing starts it: only its spec matters.
            pod["spec"]["schedulerName"] = "nobody".into();
            let pod = serde_json::from_value(pod).unwrap();
            let Ok(made) = pods.create(&PostParams::default(), &pod).await else { continue };
            let is_given = has_gate_and_hold(&made);
            tally.count(step, |counts| {
                counts.created += 1;
                if !is_given {
                    counts.missed.push(name.clone());
                }
            });
            let _ = pods.delete(&name, &DeleteParams::default().grace_period(0)).await;
        }
    })
}

/// Whether it has gate and hold.
pub fn has_gate_and_hold(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let gated = spec.readiness_gates.iter().flatten().any(|gate| gate.condition_type == OWN_GATE);
    let held = spec.containers.iter().all(|container| {
        let pre_stop = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
        pre_stop.is_some_and(|pre_stop| pre_stop.sleep.is_some())
    });
    gated && held
}

/// Checks repeatedly whether all of these are registered.
pub fn watch_targets(aws: Aws, group: &Group, targets: BTreeSet<String>, tally: &Tally) -> JoinHandle<()> {
    let (arn, tally) = (group.arn.clone(), tally.clone());
    tokio::spawn(async move {
        let mut ticks = interval(TARGETS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let step = tally.step();
            let registered = aws.registered(&arn).await;
            tally.count(step, |counts| {
                counts.looks += 1;
                counts.lost.extend(targets.difference(&registered).cloned());
            });
        }
    })
}
