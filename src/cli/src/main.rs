//! Entry point of `headgate`.

use std::process::ExitCode;

fn main() -> ExitCode {
    headgate_cli::main()
}
