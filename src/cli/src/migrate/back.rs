//! Plans the steps from Headgate back to LBC. The functions are pure.
//!
//! LBC starts first and runs next to Headgate. Both controllers want the same targets, and neither deregisters the
//! other's targets. The next steps pause Headgate, stop Headgate, and remove Headgate's state. A running Headgate would
//! deregister its own targets when their binding is removed.

use headgate_core::model::health::HealthState;

use super::{
    diff::{at_aws, wanted},
    facts::{Binding, Deployment, Facts, Place, Told},
    over::{named, restore},
    steps::{Action, State, Step, Wish, Wishes, in_order},
};

/// Returns the steps in order.
pub fn plan(facts: &Facts, wishes: &Wishes) -> Vec<Step> {
    let mut steps = Vec::new();
    let each = |action: Action, says: fn(&Binding) -> String, judge: &dyn Fn(&Binding) -> State| {
        let step = |(at, binding): (usize, &Binding)| Step {
            action,
            binding: Some(at),
            state: judge(binding),
            says: says(binding),
        };
        facts.bindings.iter().enumerate().map(step).collect::<Vec<_>>()
    };
    let once = |action, state, says: String| Step { action, binding: None, state, says };
    let is_given_back = |binding: &Binding| binding.tgb.as_ref().is_some_and(|tgb| tgb.is_taken);
    let all_given = facts.bindings.iter().all(is_given_back);
    steps.extend(each(
        Action::Check,
        |binding| format!("Check whether {} can be created again", named(binding)),
        &check,
    ));
    steps.push(once(
        Action::LbcRuns,
        if all_given { State::Done } else { runs(facts) },
        format!("LBC runs: Deployment {}", facts.lbc.name),
    ));
    steps.extend(each(
        Action::Quiet,
        |binding| {
            format!("Wait until LBC would deregister nothing from target group {}", binding.group_name())
        },
        &|binding| if is_given_back(binding) { State::Done } else { quiet(binding, facts, wishes) },
    ));
    steps.extend(each(
        Action::Create,
        |binding| format!("Create {} again, as it was", named(binding)),
        &|binding| due_while(binding.tgb.is_none()),
    ));
    steps.extend(each(
        Action::Taken,
        |binding| format!("Wait until LBC has reconciled {}", named(binding)),
        &taken,
    ));
    steps.extend(each(
        Action::Pause,
        |binding| format!("Pause Headgate's binding of target group {}", binding.group_name()),
        &|binding| due_while(matches!(binding.told, Told::InForce(_))),
    ));
    let is_forgotten = |binding: &Binding| binding.told == Told::Nothing;
    let all_forgotten = facts.bindings.iter().all(is_forgotten);
    steps.push(once(
        Action::StopHeadgate,
        if all_forgotten { State::Done } else { stop_headgate(facts) },
        "Stop Headgate for a moment: while it runs, it deregisters its own targets that are no longer bound"
            .to_owned(),
    ));
    steps.extend(each(
        Action::Forget,
        |binding| {
            format!("Delete the TargetLedger of target group {}: its targets are LBC's", binding.group_name())
        },
        &|binding| due_while(binding.has_ledger && !is_forgotten(binding)),
    ));
    steps.extend(each(Action::Unwrite, says_unwrite, &|binding| due_while(!is_forgotten(binding))));
    steps.push(once(
        Action::StartHeadgate,
        start_headgate(facts),
        "Start Headgate again, as it was".to_owned(),
    ));
    steps.push(once(
        Action::RestoreWebhooks,
        restore(facts),
        "Set LBC's webhooks to failurePolicy Fail again, where they were".to_owned(),
    ));
    in_order(steps)
}

fn due_while(is: bool) -> State {
    if is { State::Due } else { State::Done }
}

fn says_unwrite(binding: &Binding) -> String {
    match binding.told.place() {
        Some(Place::TargetBinding) => format!("Delete TargetBinding {}", binding.key),
        _ => format!(
            "Remove target group {} from the annotation of Service {}/{}",
            binding.group_name(),
            binding.key.namespace,
            binding.spec.service_ref.name
        ),
    }
}

fn check(binding: &Binding) -> State {
    if binding.record.is_none() && binding.tgb.is_none() {
        return State::Refused(format!(
            "there is no record of {}. Name one that was migrated",
            named(binding)
        ));
    }
    if binding.told != Told::Nothing && !binding.others.is_empty() {
        return State::Refused(format!(
            "{} also bind target group {} for Headgate, and LBC would deregister their targets. Remove these \
             bindings first",
            binding.others.join(", "),
            binding.group_name()
        ));
    }
    State::Done
}

fn runs(facts: &Facts) -> State {
    match &facts.lbc.deployment {
        Some(deployment) if deployment.ready > 0 => State::Done,
        Some(deployment) if deployment.wanted > 0 => State::Waits("LBC is not ready yet".to_owned()),
        _ => State::Refused(format!(
            "LBC does not run. Start Deployment {}, and wait for a ready pod; see --lbc-namespace and \
             --lbc-deployment",
            facts.lbc.name
        )),
    }
}

/// Checks that LBC would not deregister any target now. LBC deregisters all targets that are not among its endpoints.
fn quiet(binding: &Binding, facts: &Facts, wishes: &Wishes) -> State {
    let service = format!("Service {}/{}", binding.key.namespace, binding.spec.service_ref.name);
    if binding.service.is_none() {
        return State::Refused(format!("{service} does not exist, and LBC would deregister all targets"));
    }
    if let Some(pod) = binding.selected().find(|pod| pod.facts.terminating) {
        return State::Waits(format!("pod {} of {service} is terminating", pod.facts.key.name));
    }
    let living = |pod: &&super::facts::Pod| !pod.facts.finished && !pod.facts.ips.is_empty();
    if let Some(pod) = binding.selected().filter(living).find(|pod| !pod.facts.readiness.containers) {
        return State::Waits(format!(
            "the containers of pod {} of {service} are not ready, and LBC would deregister its target",
            pod.facts.key.name
        ));
    }
    if binding.spec.multi_cluster || wishes.contains(&Wish::LbcMayRemove) {
        return State::Done;
    }
    let shown = facts.headgate.shown.as_ref().ok();
    let Some(Ok(_)) = &binding.group else {
        let foreign = binding.arn().and_then(|arn| facts.headgate.read.get(arn));
        return match foreign {
            Some(0) => State::Done,
            Some(count) => State::Refused(format!(
                "target group {} has {count} targets that Headgate did not register, and LBC would \
                 deregister them. Remove them, or set --lbc-may-remove",
                binding.group_name()
            )),
            None => State::Refused(format!(
                "cannot read the targets of target group {}, neither from AWS nor from Headgate. Make one of \
                 them reachable",
                binding.group_name()
            )),
        };
    };
    let own: Vec<_> = wanted(binding).into_iter().filter_map(|(_, wants)| wants.ok()).collect();
    let there = at_aws(binding, shown).unwrap_or_default();
    let not_own = |(target, state): &(&headgate_core::Target, &HealthState)| {
        **state != HealthState::Draining && !own.contains(target)
    };
    match there.iter().find(not_own) {
        None => State::Done,
        Some((target, _)) => State::Refused(format!(
            "target {target} of target group {} is not a pod of {service}, and LBC would deregister it. \
             Remove it, or set --lbc-may-remove",
            binding.group_name()
        )),
    }
}

fn taken(binding: &Binding) -> State {
    match &binding.tgb {
        Some(tgb) if tgb.is_taken => State::Done,
        Some(tgb) if tgb.leaves => State::Refused(format!(
            "{} is being deleted, and LBC deregisters its targets. Stop its deletion",
            named(binding)
        )),
        _ => State::Waits(format!(
            "LBC has not reconciled {} yet: its finalizer or its checkpoint is missing",
            named(binding)
        )),
    }
}

fn stop_headgate(facts: &Facts) -> State {
    if let Some((name, deployment)) = &facts.headgate.deployment {
        return match deployment {
            Some(Deployment { wanted: 0, pods: 0, .. }) | None => not_held(facts),
            Some(Deployment { wanted: 0, pods, .. }) => {
                State::Waits(format!("{pods} pods of Deployment {name} still exist"))
            }
            Some(_) => State::Due,
        };
    }
    match not_held(facts) {
        State::Waits(why) => State::Refused(format!(
            "{why}. Stop it: scale `headgate run` to 0, or name its Deployment with --stop-headgate. Until \
             then, the migrated bindings remain paused, and LBC manages them"
        )),
        other => other,
    }
}

fn not_held(facts: &Facts) -> State {
    match &facts.headgate.holder {
        Ok(None) => State::Done,
        Ok(Some(holder)) => State::Waits(format!("{holder} holds Headgate's Lease")),
        Err(why) => State::Refused(format!("cannot find out whether Headgate runs: {why}")),
    }
}

fn start_headgate(facts: &Facts) -> State {
    let deployment = facts.headgate.deployment.as_ref().and_then(|(_, deployment)| deployment.as_ref());
    due_while(deployment.is_some_and(|deployment| deployment.before.is_some()))
}
