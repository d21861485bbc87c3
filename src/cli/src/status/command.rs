//! `headgate status`: queries the leader and prints the status once or repeatedly.

use std::{io::Write, time::Duration};

use anyhow::Context;
use headgate::status::{PATH, report::Status};
use k8s_openapi::jiff::Timestamp;

use super::text;
use crate::{explain::reach::Way, screen::CLEAR};

/// The refresh interval of `--watch`.
const AGAIN: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub struct Options {
    /// How to connect to Headgate.
    pub way: Way,
    /// Whether to print JSON.
    pub json: bool,
    /// Whether to refresh until the user stops the command.
    pub watch: bool,
    /// Whether standard output is a terminal.
    pub is_terminal: bool,
}

/// Prints the status on `out`.
///
/// # Errors
/// No replica answers. With `watch`, only the first query can return an error. The command prints later errors and
/// retries.
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
            // During a change of the leader, no replica answers.
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
    // With `--watch`, each JSON object is one line.
    let json =
        if options.watch { serde_json::to_string(&status) } else { serde_json::to_string_pretty(&status) };
    Ok(json? + "\n")
}
