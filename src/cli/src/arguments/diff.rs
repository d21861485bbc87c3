//! `headgate diff`.

use clap::Args;

use super::explain::{Output, Way};
use crate::diff::command::Options;

/// The arguments.
#[derive(Debug, Args)]
pub struct Diff {
    /// Only this target group: its name or ARN.
    #[arg(value_name = "TARGET-GROUP")]
    target_group: Option<String>,
    /// How the answer looks.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,
    #[command(flatten)]
    way: Way,
}

impl Diff {
    /// What was asked for.
    pub fn options(self) -> Options {
        Options { target_group: self.target_group, way: self.way.way(), json: self.output == Output::Json }
    }
}
