//! Runs a container's own `preStop` after the hold, if the pod's annotation `headgate.dev/own-prestop` requests this
//! order.

use crate::model::{
    excerpt::excerpt,
    injection::{Container, Hook, Injection, NewPod, OWN_PRESTOP, Obstacle, OwnPreStop, Terms, Wrapper},
    lifespan::HOLD_PROGRAM,
};

/// Makes the containers' own hooks run after the hold, if the pod requests this order. Returns the containers whose
/// hooks cannot run after the hold, each with the reason.
pub(super) fn wrap(pod: &NewPod, terms: Terms, injection: &mut Injection) -> Vec<(Box<str>, &'static str)> {
    let Some(text) = pod.own_pre_stop.as_deref() else { return Vec::new() };
    let asked = OwnPreStop::of_word(text).unwrap_or_else(|| {
        injection.warnings.push(format!(
            "{OWN_PRESTOP}: invalid value \"{}\" is ignored. Set {}.",
            excerpt(text),
            OwnPreStop::EXPECTED
        ));
        OwnPreStop::Leave
    });
    let mut not = Vec::new();
    for container in &pod.containers {
        let is_too_short = match container.pre_stop {
            Hook::Command { sleeps, .. } => sleeps < injection.seconds,
            Hook::Request | Hook::Other => injection.seconds > 0,
            Hook::None | Hook::Sleep(_) | Hook::Wrapped(_) => false,
        };
        if is_too_short && asked != OwnPreStop::Leave {
            match wrapper(container, asked, terms) {
                Ok(wrapper) => injection.wrapped.push((container.place, wrapper)),
                Err(why) => not.push((container.name.clone(), why)),
            }
        }
    }
    not
}

/// The program that can run the container's `preStop` after the hold.
fn wrapper(container: &Container, asked: OwnPreStop, terms: Terms) -> Result<Wrapper, &'static str> {
    match (container.pre_stop, asked) {
        (Hook::Command { by_shell: true, .. }, _) | (Hook::Command { .. }, OwnPreStop::WrapByShell) => {
            Ok(Wrapper::Shell)
        }
        (Hook::Command { .. } | Hook::Request, OwnPreStop::Wrap) => match terms.program.lacks() {
            Some(why) => Err(why),
            None => container.obstacle.map_or(Ok(Wrapper::Program), |obstacle| Err(obstacle.said())),
        },
        (Hook::Request, _) => Err("no shell can send its request"),
        (Hook::Other, _) if container.obstacle == Some(Obstacle::Windows) => Err(Obstacle::Windows.said()),
        (Hook::None | Hook::Sleep(_) | Hook::Wrapped(_) | Hook::Other | Hook::Command { .. }, _) => {
            Err("it is neither a command nor a plain HTTP request to a port of the container")
        }
    }
}

/// The containers whose own hook runs after the hold, each with the program that runs the hook.
pub(super) fn said(pod: &NewPod, injection: &Injection) -> Vec<String> {
    let named = injection.wrapped.iter().filter_map(|(place, wrapper)| {
        let container = pod.containers.iter().find(|container| container.place == *place)?;
        Some((&container.name, wrapper))
    });
    let said = named.filter_map(|(name, wrapper)| match wrapper {
        Wrapper::Shell => Some(format!("{name} by its shell")),
        Wrapper::Program => Some(format!("{name} by {HOLD_PROGRAM}")),
        // An earlier decision has already reported the hook.
        Wrapper::Present => None,
    });
    said.collect()
}
