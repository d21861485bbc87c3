//! `headgate status`: asks the leader, and prints; once, or again and again.

use std::{io::Write, time::Duration};

use anyhow::Context;
use headgate::status::{PATH, report::Status};
use k8s_openapi::jiff::Timestamp;

use super::text;
use crate::{explain::reach::Way, screen::CLEAR};

/// How often `--watch` asks.
const AGAIN: Duration = Duration::from_secs(2);

/// What `headgate status` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where Headgate is.
    pub way: Way,
    /// Print JSON.
    pub json: bool,
    /// Ask again and again, until it is stopped.
    pub watch: bool,
    /// What is printed is looked at in a terminal.
    pub is_terminal: bool,
}

/// Prints the status on `out`.
///
/// # Errors
/// If nobody answers. With `watch` only the first time: then it is said, and asked again.
pub async fn status(options: Options, out: &mut impl Write) -> anyhow::Result<()> {
    let client = options.way.cluster().await?;
    let mut is_first = true;
    loop {
        let answer = options.way.ask(client.as_ref(), PATH).await;
        match answer.and_then(|answer| printed(&answer, &options)) {
            Ok(text) => {
                if options.watch && options.is_terminal {
                    out.write_all(CLEAR.as_bytes())?;
                }
                out.write_all(text.as_bytes())?;
            }
            Err(error) if is_first => return Err(error),
            // A leader that changes answers again in a moment.
            Err(error) => writeln!(out, "{error:#}")?,
        }
        out.flush()?;
        if !options.watch {
            return Ok(());
        }
        is_first = false;
        tokio::time::sleep(AGAIN).await;
    }
}

fn printed(answer: &str, options: &Options) -> anyhow::Result<String> {
    let status: Status = serde_json::from_str(answer)
        .context("the answer cannot be read. Use the version of the Headgate in the cluster")?;
    if !options.json {
        return Ok(text::render(&status, Timestamp::now()));
    }
    // A line for each answer where there are several.
    let json =
        if options.watch { serde_json::to_string(&status) } else { serde_json::to_string_pretty(&status) };
    Ok(json? + "\n")
}
