//! `headgate doctor`: looks, judges and prints.

use std::io::Write;

use serde_json::json;

use super::{
    examine::examine,
    finding::{Finding, Level},
    gather::{Options, gather},
};
use crate::kube::client;

/// Looks at everything and says on `out` what is missing or dangerous. Gives whether there is an error among it.
///
/// # Errors
/// If there is no cluster to look at, or nothing can be printed.
pub async fn doctor(options: Options, as_json: bool, out: &mut impl Write) -> anyhow::Result<bool> {
    let client = client::connect().await?;
    let found = examine(&gather(&client, &options).await);
    let errors = found.iter().filter(|finding| finding.level == Level::Error).count();
    if as_json {
        serde_json::to_writer_pretty(&mut *out, &json!({ "findings": found }))?;
        writeln!(out)?;
    } else {
        write!(out, "{}", render(&found, errors))?;
    }
    Ok(errors > 0)
}

fn render(found: &[Finding], errors: usize) -> String {
    let lines: String = found.iter().map(|finding| finding.line() + "\n").collect();
    match (found.len(), errors) {
        (0, _) => "nothing is missing or dangerous\n".to_owned(),
        (all, errors) => format!("{lines}{errors} errors, {} warnings\n", all - errors),
    }
}
