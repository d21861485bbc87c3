//! Workloads of pods, recognized by their labels. Headgate does not expect a binding for a new pod if its workload has
//! existed for a while without a bound pod.
//!
//! A binding may select a pod a moment after the pod is created. Users often apply a Deployment before its Service. In
//! a blue/green deployment, the selector of a Service moves between two sets of pods. One unbound pod is therefore weak
//! evidence; a workload without any bound pod is stronger evidence.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use crate::model::{Labels, Moment, limits::WORKLOADS};

/// How long Headgate keeps the record of a workload after its last pod was deleted. A workload with one pod has no pod
/// while the pod is replaced.
const REMEMBERED: Duration = Duration::from_hours(1);

/// The interval between two checks for expired records.
const SWEEP: Duration = Duration::from_secs(60);

/// Labels that differ between the pods or the versions of one workload.
const OF_ONE: [&str; 11] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-completion-index",
    "batch.kubernetes.io/job-name",
    "controller-revision-hash",
    "controller-uid",
    "job-name",
    "pod-template-generation",
    "pod-template-hash",
    "rollouts-pod-template-hash",
    "statefulset.kubernetes.io/pod-name",
];

/// A workload: its namespace and a hash of its labels. Because of the hash, Headgate does not keep tenants' labels
/// after the pods are deleted. Headgate treats two workloads with the same hash as one workload.
type Name = (Arc<str>, u64);

#[derive(Clone, Debug)]
struct Workload {
    since: Moment,
    pods: usize,
    /// The time at which the last pod of the workload was deleted.
    gone: Option<Moment>,
    /// Whether any pod of the workload was a target.
    was_bound: bool,
}

/// All known workloads. See the module docs.
#[derive(Clone, Debug, Default)]
pub struct Workloads {
    all: BTreeMap<Name, Workload>,
    /// For each namespace, the workloads whose last pod was deleted, in the order of these deletions. A workload may
    /// have new pods since then.
    ended: BTreeMap<Arc<str>, VecDeque<(Moment, u64)>>,
    /// The time of the last check of all namespaces for expired records.
    swept: Moment,
}

fn name(namespace: &Arc<str>, labels: &Labels) -> Name {
    let mut hash = DefaultHasher::new();
    labels.pairs().filter(|(key, _)| !OF_ONE.contains(key)).for_each(|pair| pair.hash(&mut hash));
    (namespace.clone(), hash.finish())
}

impl Workloads {
    /// Records a new pod with these labels.
    pub fn came(&mut self, namespace: &Arc<str>, labels: &Labels, now: Moment) {
        self.forget(now);
        let first = Workload { since: now, pods: 0, gone: None, was_bound: false };
        let workload = self.all.entry(name(namespace, labels)).or_insert(first);
        workload.pods += 1;
        workload.gone = None;
    }

    /// Records that a pod with these labels was deleted.
    pub fn left(&mut self, namespace: &Arc<str>, labels: &Labels, now: Moment) {
        let name = name(namespace, labels);
        let Some(workload) = self.all.get_mut(&name) else { return };
        workload.pods = workload.pods.saturating_sub(1);
        if workload.pods > 0 {
            return;
        }
        workload.gone = Some(now);
        let ended = self.ended.entry(name.0.clone()).or_default();
        ended.push_back((now, name.1));
        if ended.len() > WORKLOADS.most {
            let first = ended.pop_front();
            self.drop_ended(namespace, first);
        }
    }

    /// Records that a pod with these labels is a target.
    pub fn is_bound(&mut self, namespace: &Arc<str>, labels: &Labels) {
        if let Some(workload) = self.all.get_mut(&name(namespace, labels)) {
            workload.was_bound = true;
        }
    }

    /// The time at which the first pod of the workload with these labels appeared. `None`: the workload is unknown, or
    /// one of its pods was a target.
    pub fn unbound_since(&self, namespace: &str, labels: &Labels) -> Option<Moment> {
        let workload = self.all.get(&name(&namespace.into(), labels)).filter(|workload| !workload.was_bound);
        workload.map(|workload| workload.since)
    }

    /// Removes the records of workloads whose last pod was deleted an hour ago. The check covers all namespaces, so it
    /// does not run for every pod.
    fn forget(&mut self, now: Moment) {
        if now.since(self.swept) < SWEEP {
            return;
        }
        self.swept = now;
        let is_over = |(gone, _): &mut (Moment, u64)| now.since(*gone) >= REMEMBERED;
        let mut over = Vec::new();
        self.ended.retain(|namespace, ended| {
            while let Some(first) = ended.pop_front_if(is_over) {
                over.push((namespace.clone(), first));
            }
            !ended.is_empty()
        });
        for (namespace, first) in over {
            self.drop_ended(&namespace, Some(first));
        }
    }

    fn drop_ended(&mut self, namespace: &Arc<str>, ended: Option<(Moment, u64)>) {
        let Some((gone, hash)) = ended else { return };
        let name = (namespace.clone(), hash);
        if self.all.get(&name).is_some_and(|workload| workload.gone == Some(gone)) {
            self.all.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::START + Duration::from_secs(seconds)
    }

    fn labels(app: &str, revision: &str) -> Labels {
        Labels::from_iter([("app", app), ("pod-template-hash", revision)])
    }

    #[test]
    fn the_versions_and_the_pods_of_a_workload_are_one() {
        let (mut workloads, here) = (Workloads::default(), Arc::from("here"));
        workloads.came(&here, &labels("db", "a"), at(1));
        workloads.came(&here, &labels("db", "b"), at(2));
        assert_eq!(workloads.unbound_since("here", &labels("db", "c")), Some(at(1)));
        let pods = ["0", "1"]
            .map(|pod| Labels::from_iter([("app", "db"), ("statefulset.kubernetes.io/pod-name", pod)]));
        assert!(pods.iter().all(|pod| workloads.unbound_since("here", pod) == Some(at(1))));
        for (namespace, app) in [("there", "db"), ("here", "web")] {
            assert_eq!(workloads.unbound_since(namespace, &labels(app, "a")), None);
        }
    }

    #[test]
    fn once_bound_it_is_not_unbound_again() {
        let (mut workloads, here) = (Workloads::default(), Arc::from("here"));
        workloads.came(&here, &labels("web", "a"), at(1));
        workloads.is_bound(&here, &labels("web", "a"));
        workloads.left(&here, &labels("web", "a"), at(2));
        workloads.came(&here, &labels("web", "b"), at(3));
        assert_eq!(workloads.unbound_since("here", &labels("web", "b")), None);
    }

    #[test]
    fn of_a_namespace_a_thousand_without_pods_are_remembered_and_of_another_as_many() {
        let mut workloads = Workloads::default();
        let namespaces = ["here", "there"].map(Arc::<str>::from);
        for at_ in 0..=WORKLOADS.most {
            for namespace in &namespaces {
                let labels = labels(&format!("job-{at_}"), "a");
                workloads.came(namespace, &labels, at(1));
                workloads.left(namespace, &labels, at(2));
            }
        }
        assert_eq!(workloads.all.len(), 2 * WORKLOADS.most);
        for namespace in ["here", "there"] {
            assert_eq!(workloads.unbound_since(namespace, &labels("job-0", "a")), None);
            assert_eq!(workloads.unbound_since(namespace, &labels("job-1", "a")), Some(at(1)));
        }
    }

    #[test]
    fn one_without_pods_is_remembered_for_an_hour() {
        let (mut workloads, here) = (Workloads::default(), Arc::from("here"));
        workloads.came(&here, &labels("db", "a"), at(0));
        for (gone, back) in [(10, 3609), (4000, 7599)] {
            workloads.left(&here, &labels("db", "a"), at(gone));
            workloads.came(&here, &labels("db", "a"), at(back));
            assert_eq!(workloads.unbound_since("here", &labels("db", "a")), Some(at(0)));
        }
        workloads.left(&here, &labels("db", "a"), at(8000));
        workloads.came(&here, &labels("web", "a"), at(11_600));
        assert_eq!(workloads.unbound_since("here", &labels("db", "a")), None);
        assert!(workloads.ended.is_empty() && workloads.all.len() == 1);
    }
}
