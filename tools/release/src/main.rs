//! `make release` and `make image`: what a release carries besides its programs.

use std::process::ExitCode;

fn main() -> ExitCode {
    headgate_release::command::main()
}
