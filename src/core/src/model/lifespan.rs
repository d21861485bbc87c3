//! What keeps a terminating pod alive.

/// What a container does before SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreStop {
    /// Nothing.
    None,
    /// It sleeps for at least this many seconds.
    Sleeps(u32),
    /// Something of unknown duration.
    Unknown,
}

impl PreStop {
    /// Of a command. One that begins with `sleep` takes as long, also within `sh -c`, and so does one that Headgate's program
    /// runs.
    pub fn of_command(command: &[&str]) -> Self {
        let slept = match command {
            [program, time, ..] if name(program) == HOLD_PROGRAM => seconds(time),
            _ => slept(command).map(|slept| slept.seconds),
        };
        slept.map_or(Self::Unknown, Self::Sleeps)
    }
}

/// For how many seconds a command sleeps that does nothing else; `u32::MAX`: without end.
pub fn only_sleeps(command: &[&str]) -> Option<u32> {
    slept(command).filter(|slept| slept.is_all).map(|slept| slept.seconds)
}

/// What is known of a command that sleeps first.
struct Slept {
    seconds: u32,
    /// Whether it does nothing else.
    is_all: bool,
}

fn slept(command: &[&str]) -> Option<Slept> {
    match without_runners(command) {
        [program, times @ ..] if name(program) == "sleep" => {
            Some(Slept { seconds: sum_of_times(times)?, is_all: true })
        }
        [shell, arguments @ ..] if is_shell(shell) => slept_by_script(script(arguments)?),
        _ => None,
    }
}

/// Without the programs before it that only run it.
fn without_runners<'a, 'b>(mut command: &'a [&'b str]) -> &'a [&'b str] {
    while let [program, rest @ ..] = command
        && ["env", "busybox", "exec", "command"].contains(&name(program))
    {
        command = rest;
    }
    command
}

/// The script after the option `-c` of a shell, which other options may precede or stand with (`-lc`).
fn script<'a>(arguments: &[&'a str]) -> Option<&'a str> {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let letters = argument.strip_prefix('-')?;
        if letters.is_empty() || !letters.bytes().all(|letter| letter.is_ascii_alphabetic()) {
            return None;
        }
        if letters.contains('c') {
            return arguments.next().copied();
        }
        if letters.ends_with('o') {
            arguments.next()?;
        }
    }
    None
}

/// Of a script: the sleeps that it begins with, until a command that may take any time.
fn slept_by_script(script: &str) -> Option<Slept> {
    let mut rest = script;
    let mut total = None::<u32>;
    loop {
        let at = rest.find([';', '&', '|', '\n']).unwrap_or(rest.len());
        let (statement, after) = rest.split_at(at);
        let words: Vec<&str> = statement.split_whitespace().collect();
        let next = ["&&", "||"].into_iter().find_map(|two| after.strip_prefix(two));
        // In the background it takes no time. What a pipe leads to may take longer.
        let is_background = next.is_none() && after.starts_with('&');
        let is_piped = next.is_none() && after.starts_with('|');
        match without_runners(&words) {
            [program, times @ ..] if name(program) == "sleep" && !is_background => {
                let Some(seconds) = sum_of_times(times) else { break };
                total = Some(total.unwrap_or_default().saturating_add(seconds));
            }
            ["exit", ..] if total.is_some() => {}
            [] | [":" | "true" | "set", ..] | ["trap", "''" | "\"\"", ..] => {}
            _ => break,
        }
        if is_piped || is_background {
            break;
        }
        if after.is_empty() {
            return Some(Slept { seconds: total?, is_all: true });
        }
        rest = next.unwrap_or(&after[1..]);
    }
    Some(Slept { seconds: total?, is_all: false })
}

/// The arguments of `sleep`, which adds them up.
fn sum_of_times(times: &[&str]) -> Option<u32> {
    let sum = |sum: u32, time: &&str| Some(sum.saturating_add(seconds(time)?));
    times.iter().try_fold(0, sum).filter(|_| !times.is_empty())
}

/// How many seconds a command sleeps that Headgate has put before the container's own. For any other it is unknown
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

/// The name of the program that Headgate brings into a container. It sleeps for the seconds in its first argument,
/// then runs its other arguments.
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

/// As `sleep` reads it, in whole seconds; `u32::MAX`: without end, or longer than anybody waits.
fn seconds(text: &str) -> Option<u32> {
    if matches!(text, "infinity" | "inf") {
        return Some(u32::MAX);
    }
    let (number, worth) = match text.as_bytes().last()? {
        b's' => (&text[..text.len() - 1], 1),
        b'm' => (&text[..text.len() - 1], 60),
        b'h' => (&text[..text.len() - 1], 3600),
        b'd' => (&text[..text.len() - 1], 86_400),
        _ => (text, 1),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match number.split_once('.') {
        // Less than a second more.
        Some((whole, part)) if worth == 1 && is_digits(part) => whole_seconds(whole, 1),
        Some(_) => None,
        None => whole_seconds(number, worth),
    }
}

fn whole_seconds(number: &str, worth: u32) -> Option<u32> {
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| number.parse().unwrap_or(u32::MAX).saturating_mul(worth))
}

/// A container that runs while the pod does.
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
