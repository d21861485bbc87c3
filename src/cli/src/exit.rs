//! The exit codes of all commands: 0, 1 and 2.

use std::process::ExitCode;

use headgate::kube::words::plain_chain;
use headgate_core::model::excerpt::shown;

/// The explanation of the exit codes in the help text.
pub const MEANING: &str = "Exit codes: 0: done. 1: findings, such as differences, errors that doctor found, or a step that \
                           cannot start. 2: failure or wrong usage.";

/// The result of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The command found no problem.
    Fine,
    /// The command printed problems or differences on standard output.
    Findings,
}

impl Outcome {
    /// Returns `Findings` if the command found a problem or a difference.
    pub const fn findings(are_there: bool) -> Self {
        if are_there { Self::Findings } else { Self::Fine }
    }
}

/// A finding that stops a command, such as a missing pod. The exit code is 1, because the command itself did not fail.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Finding(pub String);

/// Returns the exit code for a command's result, and prints an error on standard error.
pub fn code(done: anyhow::Result<Outcome>) -> ExitCode {
    ExitCode::from(match done {
        Ok(Outcome::Fine) => 0,
        Ok(Outcome::Findings) => 1,
        Err(error) => {
            eprintln!("headgate: {}", shown(&plain_chain(&error)));
            of_error(&error)
        }
    })
}

fn of_error(error: &anyhow::Error) -> u8 {
    if error.is::<Finding>() { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_done_exits_with_0_or_1_and_a_failure_with_2() {
        assert_eq!(code(Ok(Outcome::findings(false))), ExitCode::SUCCESS);
        assert_eq!(code(Ok(Outcome::findings(true))), ExitCode::FAILURE);
        assert_eq!(of_error(&Finding("there is no pod web".into()).into()), 1);
        assert_eq!(of_error(&anyhow::anyhow!("no connection")), 2);
    }
}
