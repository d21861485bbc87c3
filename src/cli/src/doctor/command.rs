//! `headgate doctor`: gathers facts, derives findings and prints them.

use std::io::Write;

use headgate::kube::client;
use serde_json::json;

use super::{
    examine::examine,
    finding::{Finding, Level},
    gather::{Options, gather},
};
use crate::exit::Outcome;

/// Checks the installation, the cluster and AWS, and prints misconfigurations and risks on `out`. Returns `Findings` if
/// the output contains an error.
///
/// # Errors
/// There is no cluster, or the output cannot be written.
pub async fn doctor(options: Options, as_json: bool, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let client = client::connect_to(&options.way.which).await?;
    let found = examine(&gather(&client, &options).await);
    if as_json {
        serde_json::to_writer_pretty(&mut *out, &json!({ "findings": found }))?;
        writeln!(out)?;
    } else {
        write!(out, "{}", render(&found))?;
    }
    Ok(Outcome::findings(count(&found, Level::Error) > 0))
}

fn count(found: &[Finding], level: Level) -> usize {
    found.iter().filter(|finding| finding.level == level).count()
}

fn render(found: &[Finding]) -> String {
    let lines: String = found.iter().map(|finding| finding.line() + "\n").collect();
    match (count(found, Level::Error), count(found, Level::Warning)) {
        (0, 0) => format!("{lines}No errors or warnings.\n"),
        (errors, warnings) => {
            format!("{lines}{}, {}\n", counted(errors, "error"), counted(warnings, "warning"))
        }
    }
}

/// Formats a count, such as "1 error" or "2 errors".
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use headgate_core::Reason;

    use super::*;

    #[test]
    fn what_is_no_trouble_is_not_counted_as_one() {
        let info = Finding::info(Reason::NoGrant, "target group web", "so it is");
        let warning = Finding::warning(Reason::Paused, "Service shop/web", "because");
        assert_eq!(render(&[]), "No errors or warnings.\n");
        let said = render(std::slice::from_ref(&info));
        assert!(said.starts_with("info     NoGrant  target group web: so it is\n"), "{said}");
        assert!(said.ends_with("No errors or warnings.\n"), "{said}");
        assert!(render(&[warning, info]).ends_with("\n0 errors, 1 warning\n"));
    }
}
