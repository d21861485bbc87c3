//! The output of errors, the exit codes of commands, and the name of this program.

use std::process::ExitCode;

use crate::error::WorldError;

/// The exit code of commands for a local cluster that is not up.
pub(crate) const NOT_UP: u8 = 3;

/// Prints an error and returns its exit code.
pub(crate) fn complain(error: &WorldError) -> ExitCode {
    eprintln!("error: {error}");
    if matches!(error, WorldError::NotUp(_)) { ExitCode::from(NOT_UP) } else { ExitCode::FAILURE }
}

/// Returns the name with which the user called this program, for commands in the output.
pub(crate) fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "world".to_owned())
}
