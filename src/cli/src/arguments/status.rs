//! `headgate status`.

use std::io::{IsTerminal, stdout};

use clap::Args;

use super::explain::{Output, Way};
use crate::status::command::Options;

/// The arguments.
#[derive(Debug, Args)]
pub struct Status {
    /// Refresh every two seconds until Ctrl-C.
    #[arg(short, long)]
    watch: bool,
    /// Output format. With --watch, `json` prints one line for each refresh.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,
    #[command(flatten)]
    way: Way,
}

impl Status {
    pub fn options(self) -> Options {
        Options {
            way: self.way.way(),
            json: self.output == Output::Json,
            watch: self.watch,
            is_terminal: stdout().is_terminal(),
        }
    }
}
