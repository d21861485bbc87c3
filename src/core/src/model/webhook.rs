//! What is stored of the certificate and the secret path of the webhooks. Times are in seconds since 1970.

use std::time::Duration;

/// The life of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// When it was made.
    pub from: i64,
    /// When it ends.
    pub until: i64,
}

impl Life {
    /// A life of this length that begins now.
    pub fn new(now: i64, length: Duration) -> Self {
        Self { from: now, until: now.saturating_add(i64::try_from(length.as_secs()).unwrap_or(i64::MAX)) }
    }

    /// How long it is.
    pub const fn length(self) -> i64 {
        self.until.saturating_sub(self.from)
    }
}

/// A certificate, as far as its rotation depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Its life.
    pub life: Life,
    /// Whether it is for the names that are served.
    pub fits: bool,
}

/// A secret path, as far as its next step depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredPath {
    /// When the present path was made.
    pub made: i64,
    /// Since when the configurations are known to name it; none: not yet.
    pub named_since: Option<i64>,
    /// Whether the path before is stored, too.
    pub has_previous: bool,
}
