//! How `preStop` hooks keep the containers of a terminating pod running.

/// The behavior of a container before it gets SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreStop {
    /// The container gets SIGTERM immediately.
    None,
    /// The container sleeps for at least this many seconds.
    Sleeps(u32),
    /// The duration of the container's `preStop` is unknown.
    Unknown,
}

impl PreStop {
    /// Parses the command of a `preStop` hook. For a command that begins with `sleep`, also within `sh -c`, the minimum
    /// duration is the length of the sleep. For a command under Headgate's program, the minimum duration is the length
    /// of the program's sleep.
    pub fn of_command(command: &[&str]) -> Self {
        let slept = match command {
            [program, time, ..] if name(program) == HOLD_PROGRAM => seconds(time),
            _ => slept(command).map(|slept| slept.seconds),
        };
        slept.map_or(Self::Unknown, Self::Sleeps)
    }
}

/// How many seconds a command sleeps, if it does nothing else. `u32::MAX` stands for forever.
pub fn only_sleeps(command: &[&str]) -> Option<u32> {
    slept(command).filter(|slept| slept.is_all).map(|slept| slept.seconds)
}

/// A command that begins with a sleep.
struct Slept {
    seconds: u32,
    /// Whether the command only sleeps.
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

/// Returns the command without wrappers such as `env` or `exec`.
fn without_runners<'a, 'b>(mut command: &'a [&'b str]) -> &'a [&'b str] {
    while let [program, rest @ ..] = command
        && ["env", "busybox", "exec", "command"].contains(&name(program))
    {
        command = rest;
    }
    command
}

/// Returns the script after the option `-c` of a shell. Other options may precede `-c` or be combined with it (`-lc`).
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

/// Adds up the sleeps at the beginning of a script, up to the first command of unknown duration.
fn slept_by_script(script: &str) -> Option<Slept> {
    let mut rest = script;
    let mut total = None::<u32>;
    loop {
        let at = rest.find([';', '&', '|', '\n']).unwrap_or(rest.len());
        let (statement, after) = rest.split_at(at);
        let words: Vec<&str> = statement.split_whitespace().collect();
        let next = ["&&", "||"].into_iter().find_map(|two| after.strip_prefix(two));
        // A background command takes no time. The second command of a pipe may take longer than the first command.
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

/// The sum of the arguments of `sleep`.
fn sum_of_times(times: &[&str]) -> Option<u32> {
    let sum = |sum: u32, time: &&str| Some(sum.saturating_add(seconds(time)?));
    times.iter().try_fold(0, sum).filter(|_| !times.is_empty())
}

/// The length in seconds of a sleep that Headgate has added before the container's own command. Returns `None` for
/// other commands, because the image might not contain `sleep`.
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

/// The name of the program that Headgate mounts in a container. The program sleeps for the seconds in its first
/// argument, then runs its other arguments.
pub const HOLD_PROGRAM: &str = "headgate-hold";

/// Whether the program name belongs to a shell that supports the option `-c`.
#[must_use]
pub fn is_shell(program: &str) -> bool {
    ["sh", "bash", "ash", "dash"].contains(&name(program))
}

/// The file name of a program.
fn name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Parses an argument of `sleep` into whole seconds. `u32::MAX` stands for forever, or for longer than any grace
/// period.
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
        // The fraction is ignored, because it adds less than one second.
        Some((whole, part)) if worth == 1 && is_digits(part) => whole_seconds(whole, 1),
        Some(_) => None,
        None => whole_seconds(number, worth),
    }
}

fn whole_seconds(number: &str, worth: u32) -> Option<u32> {
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| number.parse().unwrap_or(u32::MAX).saturating_mul(worth))
}

/// A container that runs during the whole life of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The name of the container.
    pub name: Box<str>,
    /// The container's behavior before it gets SIGTERM.
    pub pre_stop: PreStop,
}

/// How a pod terminates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifespan {
    /// The containers of the pod, including native sidecars.
    pub containers: Vec<Container>,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace: u32,
}
