//! Who is told of what is wrong, and when.

use std::collections::BTreeSet;

use crate::{
    engine::{Effect, Engine, leading::Role, sayings::pod_trouble, services::Shown},
    index::Trouble,
    notice::{About, Notice},
    origin::Origin,
    reason::Reason,
    target_group::TargetGroupArn,
};

impl Engine {
    /// Tells all that is wrong with an object and has not been told yet.
    pub(super) fn say(&mut self, origin: &Origin, effects: &mut Vec<Effect>) {
        let groups: BTreeSet<&TargetGroupArn> = self
            .index
            .bindings()
            .filter(|binding| binding.key.origin == *origin)
            .map(|binding| &binding.key.group)
            .collect();
        let refusals = groups
            .into_iter()
            .flat_map(|arn| self.groups.get(arn).map(|group| group.troubles(arn)).unwrap_or_default());
        let loud = self.role != Role::Standby;
        let said = self.services.say(origin, refusals, loud);
        effects.extend(said.notices.into_iter().map(Effect::Notice));
        match said.view {
            Shown::Unchanged => {}
            Shown::Changed(view) => effects.push(Effect::Origin(view)),
            Shown::Gone => effects.push(Effect::OriginGone(origin.clone())),
        }
    }

    pub(super) fn tell(&self, trouble: &Trouble, example: &str, effects: &mut Vec<Effect>) {
        if self.role == Role::Standby {
            return;
        }
        let mut about_origin = |origin: &Origin, reason, note| {
            if let Some(about) = self.services.about(origin) {
                effects.push(Effect::Notice(Notice { about, reason, note }));
            }
        };
        match trouble {
            Trouble::Pod { binding, reason } => {
                let Some(rule) = self.index.binding(binding) else { return };
                about_origin(&binding.origin, *reason, pod_trouble(rule, *reason, example));
            }
            Trouble::ClaimedTwice { group, first, second } => {
                let note = format!(
                    "target {example} of target group {} is claimed by {first} already; expected one Service or \
                     TargetBinding for each target: take the target group out of one of the two; the target \
                     stays registered while either claims it",
                    group.name()
                );
                about_origin(second, Reason::TargetClaimedTwice, note);
            }
            Trouble::HostNetwork { waiting, owner, target } => {
                for (pod, note) in [
                    (
                        waiting,
                        format!(
                            "pod {owner} of the host network is target {target} already; this pod becomes one when \
                             that one has gone"
                        ),
                    ),
                    (owner, format!("pod {waiting} of the host network waits to become target {target}")),
                ] {
                    let Some(facts) = self.index.pod(pod) else { continue };
                    let about = About::Pod(pod.clone(), facts.uid.clone());
                    let reason = Reason::WaitsForHostNetworkPod;
                    effects.push(Effect::Notice(Notice { about, reason, note }));
                }
            }
        }
    }
}
