//! Decides the next step of `headgate certificates` from the stored data, the configurations and the time.
//!
//! ```text
//!  Prepare ─► Configure ─► NoteTrusted ─► 10 minutes ─► Swap ─► 10 minutes ─► Forget ─► Configure
//!  next.crt   both CAs                                  tls.crt               ca.crt    the new CA
//! ```
//!
//! A kubelet may need two minutes to update a mounted Secret. The API server trusts both certificates during the
//! overlap, so replicas may serve either certificate. Each step writes one object, and the next step depends only on
//! stored data. Therefore, a process that stops between two steps leaves nothing incomplete.

use std::time::Duration;

use super::{
    certificate::{Certificate, authorities},
    configurations::Entry,
    stored::Stored,
};
use crate::{serving::validity::Life, webhook::path::CallPath};

/// How long the API server trusts both CAs before replicas serve the next certificate, and afterwards.
const OVERLAP: i64 = 600;
/// The shorter time before replicas serve the next certificate, if no API server accepts the present certificate.
/// Within this time, every API server reads the new configurations.
const SHORT_OVERLAP: i64 = 10;
/// The maximum difference in seconds between this machine's clock and the clock that wrote a stored time.
const AHEAD: i64 = 3600;

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Do nothing.
    Nothing,
    /// Store the path that the API server calls at present, or a new path.
    MakePath,
    /// Store the next certificate.
    Prepare,
    /// Write the trusted CA certificates and the path to the configurations.
    Configure,
    /// Record that the API server did not trust the next certificate for some time, so that the wait starts again.
    NoteDistrusted,
    /// Record the time since which the API server trusts the next certificate.
    NoteTrusted,
    /// Replace the present certificate with the next one.
    Swap,
    /// Record the time since which replicas serve the present certificate.
    NoteSwapped,
    /// Stop trusting the CAs of certificates that are no longer in use.
    Forget,
}

/// How long the API server trusts both CAs, in seconds, for certificates with this lifetime.
pub fn overlap(lifetime: Duration) -> i64 {
    i64::try_from(lifetime.as_secs() / 6).unwrap_or(i64::MAX).min(OVERLAP)
}

/// Decides the next step.
pub fn step(stored: &Stored, entries: &[Entry], overlap: i64, now: i64) -> Step {
    if stored.path.is_none() {
        return Step::MakePath;
    }
    let newest = stored.next.as_ref().or(stored.serving.as_ref());
    if newest.is_none_or(|newest| should_be_followed(newest, now)) {
        return Step::Prepare;
    }
    // If the stored time is far in the future, a wrong clock wrote it.
    let since = stored.since.filter(|since| since.saturating_sub(now) <= AHEAD);
    let has_next = stored.next.is_some();
    if !entries.iter().all(|entry| is_right(entry, stored)) {
        return if has_next && stored.since.is_some() { Step::NoteDistrusted } else { Step::Configure };
    }
    let is_over = |since: i64, time: i64| now.saturating_sub(since) >= time;
    let is_useless = stored.serving.as_ref().is_none_or(|serving| is_worthless(serving.life, now));
    let before = if is_useless { overlap.min(SHORT_OVERLAP) } else { overlap };
    match (has_next, since) {
        // No replica serves a certificate yet.
        (true, None) if stored.serving.is_none() && stored.replaced.is_empty() => Step::Swap,
        (true, None) => Step::NoteTrusted,
        (true, Some(since)) if is_over(since, before) => Step::Swap,
        (false, None) if !stored.replaced.is_empty() => Step::NoteSwapped,
        (false, Some(since)) if is_over(since, overlap) && !stored.replaced.is_empty() => Step::Forget,
        _ => Step::Nothing,
    }
}

/// Whether an entry trusts the desired CAs and calls the desired path.
fn is_right(entry: &Entry, stored: &Stored) -> bool {
    entry.bundle == stored.trusted().as_bytes()
        && stored.path.as_ref().is_some_and(|path| path.is(&entry.path()))
}

/// Whether to issue a successor: two thirds of the lifetime are over, the names differ, or clients reject the
/// certificate.
fn should_be_followed(certificate: &Certificate, now: i64) -> bool {
    let life = certificate.life;
    !certificate.fits || is_worthless(life, now) || now.saturating_sub(life.from) >= life.length() / 3 * 2
}

/// Whether clients reject the certificate, because it has expired or because it is not valid yet.
const fn is_worthless(life: Life, now: i64) -> bool {
    now >= life.until || life.from.saturating_sub(now) > AHEAD
}

/// The secret path that all entries call, if all entries call the same path.
pub fn called(entries: &[Entry]) -> Option<CallPath> {
    let mut all = entries.iter().map(|entry| CallPath::from_path(&entry.path()));
    let first = all.next()??;
    all.all(|one| one.as_ref() == Some(&first)).then_some(first)
}

/// The CA certificates that the entries trust.
pub fn trusted(entries: &[Entry]) -> Vec<String> {
    let bundles = entries.iter().filter_map(|entry| std::str::from_utf8(&entry.bundle).ok());
    bundles.flat_map(authorities).collect()
}

#[cfg(test)]
mod tests;
