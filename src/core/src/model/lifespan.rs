//! What keeps a pod alive when it is told to end.

/// What a container does before it is told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreStop {
    /// Nothing.
    None,
    /// It sleeps for so many seconds at least.
    Sleeps(u32),
    /// Something that takes nobody knows how long.
    Unknown,
}

impl PreStop {
    /// Of a command. One that begins with `sleep` and a number takes as long, also within `sh -c`, and so does one that
    /// Headgate's program runs.
    pub fn of_command(command: &[&str]) -> Self {
        let is = |program: &str, expected: &str| name(program) == expected;
        let slept = match command {
            [program, time] if is(program, "sleep") => seconds(time),
            [program, time, ..] if is(program, HOLD_PROGRAM) => seconds(time),
            [shell, "-c", script, ..] if is_shell(shell) => {
                let first = script.split([';', '&', '|', '\n']).next().unwrap_or_default();
                // In the background it takes no time.
                let waits =
                    !script[first.len()..].starts_with('&') || script[first.len()..].starts_with("&&");
                match &first.split_whitespace().collect::<Vec<_>>()[..] {
                    [program, time] if waits && is(program, "sleep") => seconds(time),
                    _ => None,
                }
            }
            _ => None,
        };
        slept.map_or(Self::Unknown, Self::Sleeps)
    }
}

/// For how many seconds a command sleeps that Headgate has put before the container's own. Of any other nobody here knows
/// whether its image has a `sleep`.
pub fn hold_of_command(command: &[&str]) -> Option<u32> {
    let is_wrapped = match command {
        [shell, "-c", _, zero, ..] if is_shell(shell) => *zero == HOLD_PROGRAM,
        [program, ..] => name(program) == HOLD_PROGRAM,
        [] => false,
    };
    match PreStop::of_command(command) {
        PreStop::Sleeps(seconds) if is_wrapped => Some(seconds),
        _ => None,
    }
}

/// The name of the program that Headgate brings into a container: it sleeps for as many seconds as its first argument says,
/// then runs the rest.
pub const HOLD_PROGRAM: &str = "headgate-hold";

/// Whether it is a shell that has `-c`, by its name.
#[must_use]
pub fn is_shell(program: &str) -> bool {
    ["sh", "bash", "ash", "dash"].contains(&name(program))
}

/// Without the folder.
fn name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// As `sleep` reads it, in whole seconds.
fn seconds(text: &str) -> Option<u32> {
    let (number, worth) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) if text.ends_with('m') => (number, 60),
        Some(number) if text.ends_with('h') => (number, 3600),
        Some(number) => (number, 1),
        None => (text, 1),
    };
    number.parse::<u32>().ok()?.checked_mul(worth)
}

/// A container that runs as long as the pod does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: Box<str>,
    /// What it does before it ends.
    pub pre_stop: PreStop,
}

/// How a pod ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifespan {
    /// Its containers, native sidecars among them.
    pub containers: Vec<Container>,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace: u32,
}
