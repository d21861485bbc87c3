//! `headgate diff`.

use clap::Args;

use super::explain::{Output, Way};
use crate::diff::command::Options;

/// The arguments.
#[derive(Debug, Args)]
pub struct Diff {
    /// Name or ARN of a target group. Default: all target groups.
    #[arg(value_name = "TARGET-GROUP")]
    target_group: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,
    #[command(flatten)]
    way: Way,
}

impl Diff {
    pub fn options(self) -> Options {
        Options { target_group: self.target_group, way: self.way.way(), json: self.output == Output::Json }
    }
}
