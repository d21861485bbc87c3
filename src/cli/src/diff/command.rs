//! `headgate diff`: queries the leader and prints the differences.

use std::io::Write;

use anyhow::Context;
use headgate::diff::{PATH, report::Differences};
use k8s_openapi::jiff::Timestamp;

use super::text;
use crate::{exit::Outcome, explain::reach::Way};

#[derive(Clone, Debug)]
pub struct Options {
    /// The name or ARN of a target group. `None`: all target groups.
    pub target_group: Option<String>,
    /// How to connect to Headgate.
    pub way: Way,
    /// Whether to print JSON.
    pub json: bool,
}

/// Prints the differences on `out`. Returns `Findings` if there is a difference, or if the leader has not read a target
/// group yet.
///
/// # Errors
/// No replica answers, or the target group does not exist.
pub async fn diff(options: Options, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let client = options.way.cluster().await?;
    let answer = options.way.ask(client.as_ref(), PATH).await?;
    let mut all: Differences = serde_json::from_str(&answer)
        .context("the answer cannot be read. Use the version of the Headgate in the cluster")?;
    if let Some(name) = &options.target_group {
        all.target_groups.retain(|group| group.name == *name || group.arn == *name);
        anyhow::ensure!(
            !all.target_groups.is_empty(),
            "no binding uses target group {name}. Check the name or the ARN"
        );
    }
    if options.json {
        serde_json::to_writer_pretty(&mut *out, &all)?;
        writeln!(out)?;
    } else {
        out.write_all(text::render(&all, Timestamp::now()).as_bytes())?;
    }
    let mut groups = all.target_groups.iter();
    Ok(Outcome::findings(groups.any(|group| group.last_read.is_none() || !group.differences.is_empty())))
}
