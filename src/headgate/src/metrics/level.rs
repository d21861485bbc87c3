//! The level of detail: only the metrics for alerts, dashboard and runbook, or all metrics.

use clap::ValueEnum;

/// The level of metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Level {
    /// The metrics that an operator needs.
    #[default]
    Default,
    /// Also details for developers.
    Debug,
}

/// The names of the metrics that only [`Level::Debug`] serves, without prefix and unit.
const DEBUG: [&str; 18] = [
    "aws_unreachable",
    "clock_steps",
    "connections",
    "connections_closed",
    "contested_pods",
    "contested_targets",
    "departure",
    "events",
    "gate_writes",
    "healthy_to_gate",
    "held_removals",
    "leaving_notes",
    "leaving_notes_waiting",
    "ledger_request_duration",
    "ledger_requests",
    "paused_changes",
    "pods",
    "unplaced_targets",
];

impl Level {
    /// The lowest level that serves the metric with this name.
    pub(super) fn of(name: &str) -> Self {
        if DEBUG.contains(&name) { Self::Debug } else { Self::Default }
    }

    /// Whether this level serves the metric with this name.
    pub(super) fn serves(self, name: &str) -> bool {
        self >= Self::of(name)
    }
}
