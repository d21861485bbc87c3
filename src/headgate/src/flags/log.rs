//! The flags that configure the log's level and format.

use std::io::{IsTerminal, stderr};

use clap::{Args, ValueEnum};
use tracing_subscriber::{EnvFilter, fmt};

/// Libraries that log each failure with a dump of its data. Headgate itself logs the relevant part of each failure.
const LOUD: [&str; 4] = ["kube_runtime", "kube_client", "aws_config", "aws_smithy_runtime"];
/// The names of the log levels.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The flags for logging.
#[derive(Clone, Debug, Args)]
pub struct Log {
    /// Format of log lines. Default: `text` on a terminal, `json` elsewhere.
    #[arg(long, env = "HEADGATE_LOG_FORMAT", value_enum)]
    log_format: Option<Format>,
    /// Log level (error, warn, info, debug, trace), or levels by module such as `info,headgate=debug`. Libraries log
    /// only if the filter names them.
    #[arg(long, env = "HEADGATE_LOG", default_value = "info", value_name = "FILTER", value_parser = filter)]
    log: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Log {
    /// Starts logging.
    pub fn start(&self) {
        let text = match self.log_format {
            Some(format) => matches!(format, Format::Text),
            None => stderr().is_terminal(),
        };
        let filter = EnvFilter::new(with_quiet_libraries(&self.log));
        // The lines omit the name of the module, which would be a second field called `target`.
        let lines = fmt().with_writer(stderr).with_env_filter(filter).with_target(false);
        if text {
            lines.with_ansi(stderr().is_terminal()).init();
        } else {
            lines.json().flatten_event(true).init();
        }
    }
}

/// Checks a log filter. A single word must be a level. The library would treat any other word as the name of a module,
/// and drop all other lines.
fn filter(text: &str) -> Result<String, String> {
    let expected = "set error, warn, info, debug or trace, or e.g. info,headgate=debug";
    for part in text.split(',').map(str::trim) {
        let level = part.rsplit_once('=').map_or(part, |(_, level)| level);
        let is_level = LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level));
        if !is_level && !part.contains('[') {
            return Err(format!("\"{level}\" is not a level; {expected}"));
        }
    }
    EnvFilter::try_new(text).map_err(|error| format!("{error}; {expected}"))?;
    Ok(text.to_owned())
}

fn with_quiet_libraries(text: &str) -> String {
    let quiet =
        LOUD.iter().filter(|library| !text.contains(**library)).map(|library| format!("{library}=off,"));
    quiet.chain([text.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_in_a_level_is_an_error_that_names_the_levels() {
        for good in
            ["info", "INFO", "off", "info,headgate=debug", "headgate_core=trace, warn", "[{pod=a}]=debug"]
        {
            assert_eq!(filter(good).as_deref(), Ok(good));
        }
        for bad in ["debugg", "", "info,headgate=debugg", "headgate", "info,,debug", "7"] {
            let said = filter(bad).unwrap_err();
            assert!(said.contains("is not a level; set error, warn, info"), "{bad}: {said}");
        }
    }

    #[test]
    fn libraries_are_silent_unless_they_are_named() {
        assert!(with_quiet_libraries("debug").contains("kube_runtime=off,"));
        let named = with_quiet_libraries("info,kube_runtime=debug");
        assert!(!named.contains("kube_runtime=off") && named.ends_with("info,kube_runtime=debug"), "{named}");
    }
}
