//! The status of a pod as a kubelet of v1.36 reports it.
//!
//! The module builds the kubelet's fields of `status`: phase, addresses, start time, the kubelet's own conditions and
//! the container statuses. The module is pure. Each status is built from the object and the state machine, so a report
//! is never older than the state. The status never contains fields of other writers (`qosClass`, readiness gates,
//! `nominatedNodeName`).

use crate::object::{ContainerSpec, Pod, Role};
use crate::pod::backoff::Wait;
use crate::pod::condition::{Phase, conditions};
use crate::pod::lifecycle::{Container, Exit, Lifecycle, PullFailure, State};
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    HostIP, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Returns the current status of `pod`. `seen`: the time at which this kubelet first saw the pod, which is the default
/// start time.
pub fn desired(pod: &Pod, lifecycle: &Lifecycle, node: Ipv4Addr, seen: &Time) -> PodStatus {
    let start_time = pod.status.start_time.clone().or_else(|| Some(seen.clone()));
    if let Some(rejection) = lifecycle.rejection() {
        return PodStatus {
            phase: Some(Phase::Failed.as_str().into()),
            reason: Some(rejection.reason.into()),
            message: Some(rejection.message.into()),
            start_time,
            ..PodStatus::default()
        };
    }
    let phase = phase(lifecycle);
    let ip = visible_ip(pod, lifecycle, node);
    // A terminated pod has the reason only if the phase matches.
    let ending = lifecycle.ending().filter(|_| phase == Phase::Failed);
    let init = statuses(pod, lifecycle, |role| role != Role::Main);
    PodStatus {
        phase: Some(phase.as_str().into()),
        conditions: Some(conditions(pod, lifecycle, phase)),
        reason: ending.map(|ending| ending.reason.into()),
        message: ending.map(|ending| ending.message.clone()),
        init_container_statuses: (!init.is_empty()).then_some(init),
        container_statuses: Some(container_statuses(pod, lifecycle)),
        host_ip: Some(node.to_string()),
        host_ips: Some(vec![HostIP { ip: node.to_string() }]),
        pod_ip: ip.map(|ip| ip.to_string()),
        pod_ips: ip.map(|ip| vec![PodIP { ip: ip.to_string() }]),
        start_time,
        observed_generation: pod.metadata.generation,
        ..PodStatus::default()
    }
}

/// Returns the phase, by the rules of the kubelet's `getPhase`.
pub fn phase(lifecycle: &Lifecycle) -> Phase {
    if lifecycle.has_ended() {
        let clean = lifecycle
            .main_containers()
            .all(|container| container.last_exit().is_some_and(|exit| exit.code == 0));
        return if clean { Phase::Succeeded } else { Phase::Failed };
    }
    let none_pending = lifecycle.main_containers().all(Container::has_run);
    if none_pending { Phase::Running } else { Phase::Pending }
}

/// Returns `status.podIP`. The address appears when a container runs or with `ErrImagePull`, and never earlier
/// (measured on v1.36.3). A pod on the network of its node has the node's address from its first status on.
fn visible_ip(pod: &Pod, lifecycle: &Lifecycle, node: Ipv4Addr) -> Option<Ipv4Addr> {
    if pod.spec.uses_host_network() {
        return Some(node);
    }
    lifecycle.shown_ip()
}

fn container_statuses(pod: &Pod, lifecycle: &Lifecycle) -> Vec<ContainerStatus> {
    let mut statuses = statuses(pod, lifecycle, |role| role == Role::Main);
    // The kubelet sorts container statuses by name, and init container statuses by the spec.
    statuses.sort_by(|left, right| left.name.cmp(&right.name));
    statuses
}

fn statuses(pod: &Pod, lifecycle: &Lifecycle, wanted: impl Fn(Role) -> bool) -> Vec<ContainerStatus> {
    let initialises = !pod.spec.init_containers.is_empty();
    pod.spec
        .all_containers()
        .zip(lifecycle.containers())
        .enumerate()
        .filter(|(_, ((role, _), _))| wanted(*role))
        .map(|(index, ((_, spec), container))| {
            let ready = lifecycle.is_ready(container);
            // Init containers start first, one after the other.
            let is_pulled = index == 0 || !initialises;
            let failure = lifecycle.pull_failure().filter(|_| is_pulled);
            ContainerStatus { ready, ..container_status(pod, spec, container, failure) }
        })
        .collect()
}

fn container_status(
    pod: &Pod,
    spec: &ContainerSpec,
    container: &Container,
    pull: Option<PullFailure>,
) -> ContainerStatus {
    let uid = pod.uid();
    let ended = |exit: Option<&Exit>| exit.map(|exit| terminated(uid, spec, exit));
    let running = container.reported_run();
    let (state, last_state, run) = if let Some((began, before)) = running {
        let since = ContainerStateRunning { started_at: Some(began.timestamp()) };
        let state = ContainerState { running: Some(since), ..ContainerState::default() };
        (state, ended(before), Some(container.run()))
    } else {
        match (container.state(), ended(container.last_exit())) {
            (State::Waiting(_, Wait::CrashLoop(delay)), ended) => {
                let (delay, container_name) = (spoken(*delay), &spec.name);
                let (name, namespace) = (pod.name(), pod.namespace());
                let message = format!(
                    "back-off {delay} restarting failed container={container_name} pod={name}_{namespace}({uid})"
                );
                (waiting("CrashLoopBackOff", Some(message)), ended, last_run(container))
            }
            (_, None) => {
                let initialises = !pod.spec.init_containers.is_empty();
                let reason = if initialises { "PodInitializing" } else { "ContainerCreating" };
                let state = pull.map_or_else(|| waiting(reason, None), |failure| not_pulled(spec, failure));
                (state, None, None)
            }
            (_, Some(ended)) => (ended, None, last_run(container)),
        }
    };
    let image = spec.image.clone().unwrap_or_default();
    ContainerStatus {
        name: spec.name.clone(),
        image_id: run.map(|_| format!("sha256:{}", digest(&image))).unwrap_or_default(),
        image,
        container_id: run.map(|run| container_id(uid, &spec.name, run)),
        started: Some(container.is_up()),
        // Between two runs, the restart count is still the count of the terminated run.
        restart_count: i32::try_from(run.unwrap_or_else(|| container.run())).unwrap_or(i32::MAX),
        state: Some(state),
        last_state: Some(last_state.unwrap_or_default()),
        ..ContainerStatus::default()
    }
}

/// Formats a delay in Go's format: `10s`, `1m20s`, `5m0s`.
fn spoken(delay: Duration) -> String {
    let (minutes, seconds) = (delay.as_secs() / 60, delay.as_secs() % 60);
    if minutes == 0 { format!("{seconds}s") } else { format!("{minutes}m{seconds}s") }
}

fn last_run(container: &Container) -> Option<u32> {
    container.last_exit().and_then(|exit| exit.run)
}

/// Returns the state of a container whose image cannot be pulled, without the message of the registry.
fn not_pulled(spec: &ContainerSpec, failure: PullFailure) -> ContainerState {
    let image = spec.image.as_deref().unwrap_or_default();
    let error = format!("failed to pull and unpack image \"{image}\": not found");
    match failure {
        PullFailure::Error => waiting("ErrImagePull", Some(error)),
        PullFailure::BackOff => {
            let message = format!("Back-off pulling image \"{image}\": ErrImagePull: {error}");
            waiting("ImagePullBackOff", Some(message))
        }
    }
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    ContainerState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.into()), message }),
        ..ContainerState::default()
    }
}

fn terminated(uid: &str, spec: &ContainerSpec, exit: &Exit) -> ContainerState {
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            container_id: exit.run.map(|run| container_id(uid, &spec.name, run)),
            exit_code: exit.code,
            reason: Some(exit.reason.into()),
            message: exit.message.clone(),
            started_at: exit.started_at.clone(),
            finished_at: exit.finished_at.clone(),
            signal: None,
        }),
        ..ContainerState::default()
    }
}

/// Returns a container ID in containerd's form. The same run always has the same ID.
fn container_id(uid: &str, name: &str, run: u32) -> String {
    format!("containerd://{}", digest(&(uid, name, run)))
}

/// Returns 64 hexadecimal digits that depend only on `value`.
fn digest(value: &impl Hash) -> String {
    let [first, second, third, fourth] = [0_u8, 1, 2, 3].map(|part| {
        let mut hasher = DefaultHasher::new();
        (part, value).hash(&mut hasher);
        hasher.finish()
    });
    format!("{first:016x}{second:016x}{third:016x}{fourth:016x}")
}

#[cfg(test)]
mod tests;
