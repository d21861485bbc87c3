//! The findings.

use headgate_core::Reason;
use serde::Serialize;

use super::facts::Unseen;

/// The severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something does not work, or drops requests.
    Error,
    /// Something may fail or drop requests, or could not be checked.
    Warning,
    /// Information. Nothing is wrong.
    Info,
}

/// A misconfiguration or risk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// The severity.
    pub level: Level,
    /// The reason. The name is stable.
    pub reason: String,
    /// The object.
    pub about: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Finding {
    /// An error.
    pub fn error(reason: impl Into<String>, about: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Error, reason: reason.into(), about: about.into(), message: message.into() }
    }

    /// A warning.
    pub fn warning(reason: impl Into<String>, about: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::error(reason, about, message) }
    }

    /// Information.
    pub fn info(reason: impl Into<String>, about: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Info, ..Self::error(reason, about, message) }
    }

    /// Something could not be checked.
    pub fn unchecked(about: impl Into<String>, why: &str) -> Self {
        Self::warning(Reason::CheckFailed, about, format!("not checked: {why}"))
    }

    /// A fact for administrators was not checked. It is information if the caller has no permission.
    pub fn unseen(about: impl Into<String>, why: &Unseen) -> Self {
        match why {
            Unseen::Forbidden(why) => {
                let said = format!("not checked ({why}): ask an administrator to run `headgate doctor`");
                Self::info(Reason::CheckFailed, about, said)
            }
            Unseen::Failed(why) => Self::unchecked(about, why),
        }
    }

    /// The finding as one line. If there is an object to apply, it follows.
    pub fn line(&self) -> String {
        let level = match self.level {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Info => "info",
        };
        format!("{level:<8} {}  {}: {}", self.reason, self.about, self.message)
    }
}
