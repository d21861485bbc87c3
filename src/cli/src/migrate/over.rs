//! Plans the steps from LBC to Headgate. The functions are pure.

use std::time::Duration;

use super::{
    diff::{bound_of, port_of},
    facts::{Binding, Facts, Place, Told},
    steps::{Action, State, Step, Wish, Wishes, in_order},
};
use headgate_core::model::target_group::{GroupRef, TargetType};

/// LBC's leader renews the Lease every 2 s. If the Lease has not changed for this long, LBC has no leader.
pub const LEASE_RESTS: Duration = Duration::from_secs(5);
/// The reasons that a paused binding always has.
const EXPECTED: [&str; 2] = ["Paused", "RemovalsPaused"];

/// Returns the steps in order.
pub fn plan(facts: &Facts, wishes: &Wishes, to: Place) -> Vec<Step> {
    let mut steps = Vec::new();
    let each = |action: Action, says: fn(&Binding, Place) -> String, judge: &dyn Fn(&Binding) -> State| {
        facts
            .bindings
            .iter()
            .enumerate()
            .map(move |(at, binding)| Step {
                action,
                binding: Some(at),
                state: judge(binding),
                says: says(binding, binding.told.place().unwrap_or(to)),
            })
            .collect::<Vec<_>>()
    };
    let all_gone = facts.bindings.iter().all(|binding| binding.tgb.is_none());
    let once = |action, state, says: String| Step { action, binding: None, state, says };
    steps.extend(each(Action::Check, says_check, &|binding| check(binding, wishes, to)));
    steps.extend(each(Action::Write, says_write, &write));
    steps.extend(each(Action::Compare, says_compare, &|binding| compare(binding, facts)));
    let halt = if all_gone { State::Done } else { stop(facts, wishes) };
    let is_stopped = halt == State::Done;
    steps.push(once(
        Action::RelaxWebhooks,
        if all_gone { State::Done } else { relax(facts, &halt) },
        "Set LBC's webhooks to failurePolicy Ignore: while LBC is stopped, they would reject the removal of \
         its finalizer, and new pods and Services"
            .to_owned(),
    ));
    steps.extend(each(Action::Quiet, says_quiet, &|binding| {
        if is_stopped || all_gone { State::Done } else { quiet(binding) }
    }));
    steps.push(once(
        Action::StopLbc,
        halt,
        format!("Stop LBC: scale Deployment {} to 0, and wait until its pods are deleted", facts.lbc.name),
    ));
    steps.extend(each(Action::TakeFinalizer, says_finalizer, &|binding| {
        due_while(binding.tgb.as_ref().is_some_and(|tgb| tgb.is_kept))
    }));
    steps.extend(each(Action::Delete, says_delete, &delete));
    steps.extend(each(Action::Unpause, says_unpause, &|binding| {
        due_while(matches!(binding.told, Told::Paused(_)))
    }));
    steps.extend(each(Action::Settle, says_settle, &|binding| settle(binding, facts)));
    steps.extend(each(Action::OpenGates, says_gates, &|binding| open_gates(binding, facts)));
    let leave = wishes.contains(&Wish::LeaveLbcStopped);
    steps.push(once(
        Action::StartLbc,
        if leave { State::Done } else { start(facts) },
        format!("Start LBC again, as it was: Deployment {}", facts.lbc.name),
    ));
    steps.push(once(
        Action::RestoreWebhooks,
        if leave { State::Done } else { restore(facts) },
        "Set LBC's webhooks to failurePolicy Fail again, where they were".to_owned(),
    ));
    in_order(steps)
}

fn due_while(is: bool) -> State {
    if is { State::Due } else { State::Done }
}

/// Returns the namespace and name of a binding for messages.
pub fn named(binding: &Binding) -> String {
    format!("TargetGroupBinding {}", binding.key)
}

fn service_of(binding: &Binding) -> String {
    format!("Service {}/{}", binding.key.namespace, binding.spec.service_ref.name)
}

fn says_check(binding: &Binding, _: Place) -> String {
    format!("Check whether {} can be migrated", named(binding))
}

fn says_write(binding: &Binding, place: Place) -> String {
    let (group, port) = (binding.group_name(), binding.spec.service_ref.port());
    match place {
        Place::Annotation => {
            format!(
                "Bind port {port} of {} to target group {group} with its annotation, paused",
                service_of(binding)
            )
        }
        Place::TargetBinding => format!(
            "Bind port {port} of {} to target group {group} with TargetBinding {}, paused",
            service_of(binding),
            binding.key
        ),
    }
}

fn says_compare(binding: &Binding, _: Place) -> String {
    format!("Wait until Headgate shows it and has read target group {}", binding.group_name())
}

fn says_quiet(binding: &Binding, _: Place) -> String {
    format!("Wait until no pod of {} starts or terminates", service_of(binding))
}

fn says_finalizer(binding: &Binding, _: Place) -> String {
    format!("Remove LBC's finalizer from {}, so that its deletion deregisters no targets", named(binding))
}

fn says_delete(binding: &Binding, _: Place) -> String {
    format!("Delete {}", named(binding))
}

fn says_unpause(binding: &Binding, place: Place) -> String {
    match place {
        Place::Annotation => format!("End the pause of {}", service_of(binding)),
        Place::TargetBinding => format!("End the pause of TargetBinding {}", binding.key),
    }
}

fn says_settle(binding: &Binding, _: Place) -> String {
    format!("Wait until Headgate has adopted the targets of target group {}", binding.group_name())
}

fn says_gates(binding: &Binding, _: Place) -> String {
    let gate = super::lbc::gate_of(&binding.key.name);
    format!("Open the closed readiness gates {gate} of living pods: no controller opens them any more")
}

/// Checks whether the binding can be migrated.
fn check(binding: &Binding, wishes: &Wishes, to: Place) -> State {
    let Some(tgb) = &binding.tgb else { return State::Done };
    refusal(binding, wishes, to, tgb.made_from.as_deref()).map_or(State::Done, State::Refused)
}

fn refusal(binding: &Binding, wishes: &Wishes, to: Place, made_from: Option<&str>) -> Option<String> {
    let (about, spec) = (named(binding), &binding.spec);
    if let Some(label) = made_from {
        return Some(format!(
            "{about} was created by LBC itself ({label}), like its target group and load balancer, which LBC \
             deletes with their Ingress, Service or Gateway. Migrate only TargetGroupBindings that you \
             wrote. Instead, create your own target group next to that one"
        ));
    }
    if spec.target_type.as_deref() == Some("instance") {
        return Some(format!(
            "{about} has target type instance: its targets are nodes, and Headgate registers pods. Create a \
             target group of type ip next to it (docs/guides/from-hostport.md)"
        ));
    }
    if spec.protocol.as_deref().is_some_and(|protocol| protocol.contains("QUIC")) {
        return Some(format!("{about} has protocol QUIC, which Headgate does not support"));
    }
    if let Some(role) = &spec.iam_role_arn_to_assume {
        return Some(format!(
            "{about} belongs to another account (iamRoleArnToAssume {role}). Use a target group of \
             Headgate's own account"
        ));
    }
    let named = spec.target_group().unwrap_or_default();
    if let Err(error) = GroupRef::parse(named) {
        return Some(format!("{about} names a target group that cannot be bound: {error}"));
    }
    let service = service_of(binding);
    let Some(seen) = &binding.service else {
        return Some(format!("{about} names {service}, which does not exist"));
    };
    if seen.facts.selector.is_empty() {
        return Some(format!(
            "{service} has no selector: somebody writes its endpoints by hand, and Headgate selects pods. \
             Set a selector"
        ));
    }
    if port_of(binding).is_none() {
        let port = spec.service_ref.port();
        return Some(format!(
            "{about} names port {port}, which {service} does not have; LBC then deregisters its targets"
        ));
    }
    if let Err(error) = &seen.records {
        return Some(format!("cannot read an annotation of this command on {service}: {error}"));
    }
    if let Some(Ok(group)) = &binding.group
        && group.facts.target_type != TargetType::Ip
    {
        return Some(format!(
            "AWS reports that the target group of {about} does not have type ip. Use one \
                             that has"
        ));
    }
    if !binding.templates.is_empty() {
        let gate = super::lbc::gate_of(&binding.key.name);
        return Some(format!(
            "the pod template of {} has the readiness gate {gate}, which no controller opens after LBC is \
             gone: no new pod would become ready. Remove the gate from the template",
            binding.templates.join(", ")
        ));
    }
    if spec.networking.as_ref().is_some_and(|rules| !rules.is_null())
        && !wishes.contains(&Wish::AcceptNetworking)
    {
        return Some(format!(
            "{about} has spec.networking: LBC manages security group rules for it, and removes them when it \
             runs again without the binding. Headgate never changes a security group. Add your own rules \
             that let the load balancer reach the pods, then set --accept-networking"
        ));
    }
    already_written(binding, to)
}

/// Describes the existing binding that prevents a new Headgate binding at this place. `None`: the place is free.
fn already_written(binding: &Binding, to: Place) -> Option<String> {
    if binding.told != Told::Nothing {
        return None;
    }
    let seen = binding.service.as_ref()?;
    match to {
        Place::Annotation if seen.facts.target_groups.is_some() && !seen.is_paused => Some(format!(
            "{} already binds other target groups, and a pause would affect those too. Set --to \
             targetbinding",
            service_of(binding)
        )),
        Place::TargetBinding if binding.written.is_some() => Some(format!(
            "TargetBinding {} already exists and binds something else. Rename it, or set --to annotation",
            binding.key
        )),
        _ => None,
    }
}

fn write(binding: &Binding) -> State {
    // Without a record, the command could not migrate back.
    due_while(binding.told == Told::Nothing || (binding.record.is_none() && binding.tgb.is_some()))
}

/// Checks whether the leader reports the binding, so that LBC may be stopped.
fn compare(binding: &Binding, facts: &Facts) -> State {
    if binding.tgb.is_none() {
        return State::Done;
    }
    let shown = match &facts.headgate.shown {
        Ok(shown) => shown,
        Err(why) => {
            return State::Refused(format!(
                "cannot query Headgate: {why}. Start `headgate run`, and wait until it leads"
            ));
        }
    };
    let problem = shown.origins.iter().find(|origin| {
        let name =
            if origin.kind == "Service" { &*binding.spec.service_ref.name } else { &*binding.key.name };
        *origin.namespace == *binding.key.namespace && origin.name == name && !origin.problems.is_empty()
    });
    if let Some(problem) = problem.and_then(|origin| origin.problems.first()) {
        return State::Refused(format!(
            "Headgate rejects what was written for {}: {}: {}",
            named(binding),
            problem.reason,
            problem.message
        ));
    }
    let Some(bound) = bound_of(binding, shown) else {
        return State::Waits(format!(
            "Headgate does not show port {} of {} bound to target group {} yet. Check that it manages \
             namespace {}",
            binding.spec.service_ref.port(),
            service_of(binding),
            binding.group_name(),
            binding.key.namespace
        ));
    };
    let read_only = bound.troubles.iter().any(|trouble| trouble.reason == "ReadOnly");
    if read_only {
        return State::Refused(
            "Headgate runs with --read-only, and would never write. Remove that flag".to_owned(),
        );
    }
    if !facts.headgate.read.contains_key(&bound.target_group) {
        let said: Vec<&str> = bound.troubles.iter().map(|trouble| &*trouble.reason).collect();
        let said: Vec<&str> = said.into_iter().filter(|word| !EXPECTED.contains(word)).collect();
        let said = if said.is_empty() { String::new() } else { format!(" ({})", said.join(", ")) };
        return State::Waits(format!(
            "Headgate has not read target group {} yet{said}",
            binding.group_name()
        ));
    }
    State::Done
}

fn delete(binding: &Binding) -> State {
    match &binding.tgb {
        None => State::Done,
        Some(tgb) if tgb.leaves => State::Waits(format!(
            "deletion is blocked by finalizer {}. Remove it, or fix its owner",
            tgb.finalizers.join(", ")
        )),
        Some(_) => State::Due,
    }
}

/// Checks whether LBC's webhooks can be relaxed. The webhooks remain unchanged if LBC cannot be stopped.
fn relax(facts: &Facts, halt: &State) -> State {
    match halt {
        _ if facts.lbc.webhooks.iter().all(|webhooks| webhooks.strict.is_empty()) => State::Done,
        State::Refused(why) => State::Refused(why.clone()),
        _ => State::Due,
    }
}

/// Checks that no rollout is in progress. Only LBC could complete a rollout that needs LBC's readiness gates.
fn quiet(binding: &Binding) -> State {
    if binding.tgb.is_none() {
        return State::Done;
    }
    let service = service_of(binding);
    if let Some(pod) = binding.closed_gates().next() {
        let gate = super::lbc::gate_of(&binding.key.name);
        return State::Waits(format!(
            "the readiness gate {gate} of pod {} is closed, and only LBC opens it. Make the pod healthy in \
             the load balancer, or delete it",
            pod.facts.key.name
        ));
    }
    if let Some(pod) = binding.selected().find(|pod| pod.facts.terminating) {
        return State::Waits(format!(
            "pod {} of {service} is terminating, and while LBC is stopped no controller would deregister it",
            pod.facts.key.name
        ));
    }
    if let Some(pod) = binding.selected().find(|pod| !pod.facts.finished && !pod.facts.readiness.containers) {
        return State::Waits(format!("pod {} of {service} is starting", pod.facts.key.name));
    }
    State::Done
}

/// Checks whether LBC is stopped.
pub fn stop(facts: &Facts, wishes: &Wishes) -> State {
    let rests = facts.lbc.lease_rests.is_none_or(|rests| rests >= LEASE_RESTS);
    let renewed = || {
        State::Waits(format!(
            "the Lease of LBC's leader was renewed within the last {} s. Stop every LBC replica first",
            LEASE_RESTS.as_secs()
        ))
    };
    if wishes.contains(&Wish::LbcIsStopped) {
        return if rests { State::Done } else { renewed() };
    }
    let name = &facts.lbc.name;
    let Some(deployment) = &facts.lbc.deployment else {
        return State::Refused(format!(
            "there is no Deployment {name}. Set --lbc-namespace and --lbc-deployment, or --lbc-is-stopped if \
             you know that no LBC runs"
        ));
    };
    match (deployment.wanted, deployment.pods) {
        (0, 0) if rests => State::Done,
        (0, 0) => renewed(),
        (0, pods) => State::Waits(format!("{pods} pods of Deployment {name} still exist")),
        _ if wishes.contains(&Wish::StopLbc) => State::Due,
        (_, pods) => State::Refused(format!(
            "LBC runs ({pods} pods of Deployment {name}), and would deregister all targets of a deleted \
             TargetGroupBinding. Stop it: set --stop-lbc, or scale it to 0. Until it runs again, it manages \
             nothing else either"
        )),
    }
}

/// Checks whether Headgate has registered all wanted targets.
fn settle(binding: &Binding, facts: &Facts) -> State {
    let shown = match &facts.headgate.shown {
        Ok(shown) => shown,
        Err(why) => return State::Waits(format!("cannot query Headgate: {why}")),
    };
    match bound_of(binding, shown) {
        None => State::Waits(format!("Headgate does not show {} any more", service_of(binding))),
        Some(bound) => {
            let wanted = bound.targets.iter().filter(|target| target.ending.is_none());
            let missing = wanted.filter(|target| !target.registered).count();
            let is_paused = bound.troubles.iter().any(|trouble| trouble.reason == "Paused");
            match (missing, is_paused) {
                (0, false) => State::Done,
                (_, true) => State::Waits("Headgate has not seen the end of the pause yet".to_owned()),
                (missing, false) => State::Waits(format!(
                    "{missing} of {} targets of target group {} are not registered by Headgate yet",
                    bound.targets.len(),
                    binding.group_name()
                )),
            }
        }
    }
}

/// Checks whether a running pod has a closed readiness gate of LBC. No controller would open such a readiness gate.
fn open_gates(binding: &Binding, facts: &Facts) -> State {
    let closed: Vec<&str> = binding.closed_gates().map(|pod| &*pod.facts.key.name).collect();
    if closed.is_empty() {
        return State::Done;
    }
    if may_open(binding, facts).next().is_some() {
        return State::Due;
    }
    State::Waits(format!("pod {} is not healthy in the load balancer yet", closed[0]))
}

/// Returns each pod whose readiness gate may be opened: the load balancer reports all targets of the pod as healthy.
pub fn may_open<'a>(binding: &'a Binding, facts: &'a Facts) -> impl Iterator<Item = &'a super::facts::Pod> {
    let bound = facts.headgate.shown.as_ref().ok().and_then(|shown| bound_of(binding, shown));
    binding.closed_gates().filter(move |pod| {
        let targets = bound.into_iter().flat_map(|bound| &bound.targets);
        let targets = targets.filter(|target| target.ending.is_none());
        let mut own = targets.filter(|target| *target.pod == *pod.facts.key.name).peekable();
        own.peek().is_some() && own.all(|target| target.state.as_deref() == Some("healthy"))
    })
}

fn start(facts: &Facts) -> State {
    due_while(facts.lbc.deployment.as_ref().is_some_and(|deployment| deployment.before.is_some()))
}

/// Checks whether LBC's webhooks are restored.
pub fn restore(facts: &Facts) -> State {
    if facts.lbc.webhooks.iter().all(|webhooks| webhooks.relaxed.is_empty()) {
        return State::Done;
    }
    match &facts.lbc.deployment {
        Some(deployment) if deployment.ready > 0 => State::Due,
        Some(deployment) if deployment.wanted > 0 => State::Waits("LBC is not ready yet".to_owned()),
        _ => State::Refused(format!(
            "LBC's webhooks reject nothing any more, and LBC ({}) does not run. Start it and run this again, \
             or uninstall it",
            facts.lbc.name
        )),
    }
}
