//! AWS credentials, fetched ahead of the calls that need them.
//!
//! ```text
//!  environment, profile, web identity (STS), Pod Identity, instance metadata
//!       │   outside of the timeouts of calls, with retries
//!       ▼
//!  Keeper::run ──► Kept ──► a call uses the present credentials
//! ```
//!
//! **Guarantees.** A call never waits for STS: its timeout covers only its own answer. Credentials are fetched again when a
//! quarter of their life is left, with separate timeouts and retries. Until then the current ones are used. A call without
//! credentials, or with expired ones, fails at once. The error names the provider that failed, the cause, and what to set.
//!
//! **Caveats.** Credentials that have expired by this machine's clock are still used if the last fetch returned them. The
//! clock may be wrong, and AWS decides.

mod source;
#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use aws_config::{
    Region, default_provider::credentials::DefaultCredentialsChain, provider_config::ProviderConfig,
    retry::RetryConfig, timeout::TimeoutConfig,
};
use aws_credential_types::{
    Credentials,
    provider::{self, ProvideCredentials, SharedCredentialsProvider, error::CredentialsError, future},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use self::source::Source;
use super::failure::sentences;
use crate::runtime::{
    clock::Clock,
    outage::{Outage, What},
};

/// The timeout of a connection to a provider.
const CONNECT: Duration = Duration::from_secs(3);
/// The timeout of one answer of a provider.
const ATTEMPT: Duration = Duration::from_secs(10);
/// The number of attempts within one fetch.
const ATTEMPTS: u32 = 3;
/// The timeout of one fetch with all its attempts.
const PATIENCE: Duration = Duration::from_secs(40);
/// A call before the end of the first fetch waits for it at most this long.
const FIRST: Duration = Duration::from_secs(4);
/// The pause after a failed fetch. It doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Credentials without an expiry are fetched this often, because a file may have been replaced.
const LASTING: Duration = Duration::from_secs(5 * 60);
/// The pause after credentials that have already expired when they arrive, which shows that this machine's clock is
/// wrong.
const EXPIRED: Duration = Duration::from_secs(60);
/// The shortest and the longest time until the next fetch.
const REFRESH: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(6 * 3600));

/// Why there are no credentials.
#[derive(Clone, Debug)]
struct Fault {
    /// No provider has credentials, or a provider that should have them cannot fetch them.
    is_none: bool,
    said: Box<str>,
}

/// The known credentials.
#[derive(Clone, Debug, Default)]
struct State {
    /// The last fetched credentials.
    credentials: Option<Credentials>,
    /// Why the last fetch failed, if it did.
    fault: Option<Fault>,
}

/// The present credentials.
#[derive(Clone, Debug)]
pub struct Kept(watch::Receiver<State>);

impl Kept {
    #[allow(clippy::single_match_else)] // the guard of the channel ends with the match
    async fn at_hand(&self) -> provider::Result {
        let mut kept = self.0.clone();
        let is_tried = |state: &State| state.credentials.is_some() || state.fault.is_some();
        let State { credentials, fault } = match timeout(FIRST, kept.wait_for(is_tried)).await {
            Ok(Ok(state)) => state.clone(),
            _ => {
                let late = format!("AWS credentials have not come within {FIRST:?} of the start");
                return Err(CredentialsError::provider_error(late));
            }
        };
        let is_over = |it: &Credentials| {
            it.expiry().is_some_and(|expiry| fault.is_some() && expiry <= SystemTime::now())
        };
        match (credentials.filter(|it| !is_over(it)), fault) {
            (Some(credentials), _) => Ok(credentials),
            (None, Some(Fault { is_none: false, said })) => {
                Err(CredentialsError::provider_error(String::from(said)))
            }
            (None, Some(Fault { said, .. })) => Err(CredentialsError::not_loaded(String::from(said))),
            (None, None) => Err(CredentialsError::not_loaded_no_source()),
        }
    }
}

impl ProvideCredentials for Kept {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.at_hand())
    }
}

/// Fetches credentials.
#[derive(Debug)]
pub struct Keeper {
    provider: SharedCredentialsProvider,
    source: Source,
    kept: watch::Sender<State>,
    clock: Clock,
    outage: Outage,
    pause: Duration,
}

impl Keeper {
    /// Uses the standard chain of providers, in this region.
    pub async fn of_chain(region: Region, clock: Clock) -> (Self, Kept) {
        let timeouts =
            TimeoutConfig::builder().connect_timeout(CONNECT).operation_attempt_timeout(ATTEMPT).build();
        let config = ProviderConfig::default()
            .with_retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
            .with_timeout_config(timeouts);
        let chain = DefaultCredentialsChain::builder().region(region).configure(config).build().await;
        let source = Source::of(|name| std::env::var(name).ok());
        Self::of(SharedCredentialsProvider::new(chain), source, clock)
    }

    fn of(provider: SharedCredentialsProvider, source: Source, clock: Clock) -> (Self, Kept) {
        let (kept, seen) = watch::channel(State::default());
        let outage = Outage::default();
        (Self { provider, source, kept, clock, outage, pause: FIRST_PAUSE }, Kept(seen))
    }

    /// Fetches credentials repeatedly. Does not end.
    pub async fn run(mut self) -> Result<(), String> {
        loop {
            let next = self.fetch().await;
            sleep(next).await;
        }
    }

    /// Fetches credentials once. Returns the time until the next fetch.
    pub async fn fetch(&mut self) -> Duration {
        match timeout(PATIENCE, self.provider.provide_credentials()).await {
            Ok(Ok(credentials)) => self.came(credentials),
            Ok(Err(error)) => {
                self.failed(matches!(error, CredentialsError::CredentialsNotLoaded(_)), &sentences(&error))
            }
            Err(_) => self.failed(false, &format!("no answer within {PATIENCE:?}")),
        }
    }

    fn came(&mut self, credentials: Credentials) -> Duration {
        let next = refresh_after(credentials.expiry(), SystemTime::now());
        self.pause = FIRST_PAUSE;
        if let Some(told) = self.outage.worked(self.clock.now()) {
            info!(lasted = ?told.lasted, failures = told.failures, "AWS credentials can be had again");
        }
        self.kept.send_replace(State { credentials: Some(credentials), fault: None });
        next
    }

    fn failed(&mut self, is_none: bool, why: &str) -> Duration {
        let said = self.source.fault(why);
        if let Some(told) = self.outage.failed(why, self.clock.now())
            && (self.kept.borrow().credentials.is_some() || told.what != What::Begins)
        {
            // Without credentials, the next call reports why.
            warn!(failures = told.failures, "AWS credentials cannot be fetched again: {said}");
        }
        self.kept.send_modify(|state| state.fault = Some(Fault { is_none, said: said.into() }));
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause
    }
}

/// The time until a quarter of their life is left.
fn refresh_after(expiry: Option<SystemTime>, now: SystemTime) -> Duration {
    let Some(expiry) = expiry else { return LASTING };
    match expiry.duration_since(now) {
        Ok(left) if !left.is_zero() => (left * 3 / 4).clamp(REFRESH.0, REFRESH.1),
        _ => EXPIRED,
    }
}
