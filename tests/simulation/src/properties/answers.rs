//! What Headgate answers to those who ask how their targets are.

use std::collections::BTreeSet;

use headgate_core::model::{PodFacts, Target, view::BindingView};

use super::{Properties, Scene, broken};
use crate::cluster::lives;

impl Properties {
    /// A binding is shown.
    pub fn shows(&self, view: &BindingView, scene: &Scene<'_>) -> Result<(), String> {
        let (group, name) = (&view.key.group, view.key.group.name());
        for shown in &view.targets {
            let target = shown.target;
            let was_taken = self.accepted.contains(&(group.clone(), target)) || scene.aws.has(group, &target);
            if shown.registered && !was_taken {
                return broken(
                    "answers",
                    format!("{target} is shown as registered in {name}, and AWS never took it"),
                );
            }
            let pod =
                scene.cluster.pods.get(&shown.pod).filter(|pod| lives(pod) && pod.ips.contains(&target.ip));
            if scene.knows(&shown.pod, Some(&target.ip)) && pod.is_none() {
                return broken("answers", format!("{target} is shown in {name}, and its pod is not there"));
            }
        }
        let is_found = scene.aws.arn(name) == Some(group) && scene.found.contains(&Some(group.clone()));
        if !scene.knows_all() || !is_found {
            return Ok(());
        }
        let shown: BTreeSet<Target> = view.targets.iter().map(|shown| shown.target).collect();
        let its = |by: &super::scene::Written<'_>| {
            by.origin == view.key.origin && by.group == name && !by.selector.is_empty()
        };
        let written: Vec<_> = scene.written().into_iter().filter(its).collect();
        let is_wanted = |pod: &&PodFacts| {
            lives(pod) && pod.is_ready() && scene.has_its_address(pod) && !scene.leaves(pod)
        };
        for by in &written {
            let mut pods =
                scene.cluster.pods.values().filter(is_wanted).filter(|pod| by.selector.selects(&pod.labels));
            if let Some(pod) = pods.find(|pod| !shown.contains(&Target::new(pod.ips[0], by.port))) {
                return broken(
                    "answers",
                    format!("{} is a target of {name}, and {} does not show it", pod.key.name, view.key),
                );
            }
        }
        Ok(())
    }
}
