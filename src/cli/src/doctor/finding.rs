//! A finding of `headgate doctor`.

use headgate_core::Reason;
use serde::Serialize;

use super::facts::Unseen;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A function does not work, or requests are dropped.
    Error,
    /// A function may fail, requests may be dropped, or a check was not possible.
    Warning,
    /// The finding needs no action.
    Info,
}

/// A misconfiguration or risk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    pub level: Level,
    /// The reason, whose name is stable.
    pub reason: String,
    /// The object with the problem.
    pub about: String,
    /// The problem, and how to fix it.
    pub message: String,
}

impl Finding {
    pub fn error(reason: impl Into<String>, about: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Error, reason: reason.into(), about: about.into(), message: message.into() }
    }

    pub fn warning(reason: impl Into<String>, about: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::error(reason, about, message) }
    }

    pub fn info(reason: impl Into<String>, about: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Info, ..Self::error(reason, about, message) }
    }

    /// Creates a warning that a check was not possible.
    pub fn unchecked(about: impl Into<String>, why: &str) -> Self {
        Self::warning(Reason::CheckFailed, about, format!("not checked: {why}"))
    }

    /// Creates a finding that a fact for administrators could not be read. If the caller has no permission, the level
    /// is `Info`.
    pub fn unseen(about: impl Into<String>, why: &Unseen) -> Self {
        match why {
            Unseen::Forbidden(why) => {
                let said = format!("not checked ({why}): ask an administrator to run `headgate doctor`");
                Self::info(Reason::CheckFailed, about, said)
            }
            Unseen::Failed(why) => Self::unchecked(about, why),
        }
    }

    /// Formats the finding as one line. A manifest to apply may follow in more lines.
    pub fn line(&self) -> String {
        let level = match self.level {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Info => "info",
        };
        format!("{level:<8} {}  {}: {}", self.reason, self.about, self.message)
    }
}
