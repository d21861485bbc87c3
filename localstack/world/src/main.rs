//! The `world` program (see [`localstack_world`]).

use std::process::ExitCode;

fn main() -> ExitCode {
    localstack_world::commands::main()
}
