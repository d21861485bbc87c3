//! What was found.

use headgate_core::Reason;
use serde::Serialize;

use super::facts::Unseen;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something does not work, or loses requests.
    Error,
    /// Something may, or could not be looked at.
    Warning,
    /// Nothing is wrong: this is how it is.
    Info,
}

/// One thing that is missing or dangerous.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// The word, which is stable.
    pub reason: String,
    /// What it is about.
    pub about: String,
    /// What was expected, and what to do.
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

    /// How something is.
    pub fn info(reason: impl Into<String>, about: impl Into<String>, message: impl Into<String>) -> Self {
        Self { level: Level::Info, ..Self::error(reason, about, message) }
    }

    /// Something could not be looked at.
    pub fn unchecked(about: impl Into<String>, why: &str) -> Self {
        Self::warning(Reason::CheckFailed, about, format!("not checked: {why}"))
    }

    /// Something that only administrators may see was not looked at: how it is if this is no administrator.
    pub fn unseen(about: impl Into<String>, why: &Unseen) -> Self {
        match why {
            Unseen::Forbidden(why) => {
                let said = format!("not checked ({why}): ask an administrator to run `headgate doctor`");
                Self::info(Reason::CheckFailed, about, said)
            }
            Unseen::Failed(why) => Self::unchecked(about, why),
        }
    }

    /// As one line, with an object to be applied after it, if there is one.
    pub fn line(&self) -> String {
        let level = match self.level {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Info => "info",
        };
        format!("{level:<8} {}  {}: {}", self.reason, self.about, self.message)
    }
}
