//! `headgate status`.

use std::io::{IsTerminal, stdout};

use clap::Args;

use super::explain::{Output, Way};
use crate::status::command::Options;

/// The arguments.
#[derive(Debug, Args)]
pub struct Status {
    /// Ask again every two seconds, until Ctrl-C.
    #[arg(short, long)]
    watch: bool,
    /// How the answer looks; with --watch, JSON has a line for each answer.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,
    #[command(flatten)]
    way: Way,
}

impl Status {
    /// What was asked for.
    pub fn options(self) -> Options {
        Options {
            way: self.way.way(),
            json: self.output == Output::Json,
            watch: self.watch,
            is_terminal: stdout().is_terminal(),
        }
    }
}
