//! AWS credentials, which Headgate fetches before calls need them.
//!
//! ```text
//!  environment, profile, web identity (STS), Pod Identity, instance metadata
//!       │   outside of the timeouts of calls, with retries
//!       ▼
//!  Keeper::run ──► Kept ──► a call uses the present credentials
//! ```
//!
//! **Guarantees.** A call never waits for STS: the call's timeout covers only the call's own answer. Headgate fetches
//! new credentials when a quarter of the old credentials' lifetime is left. Each fetch has its own timeouts and
//! retries. Calls use the old credentials until the new ones arrive. A call without credentials, or with expired
//! credentials, fails immediately. The error names the provider that failed, the cause, and the setting to correct.
//!
//! **Caveats.** Headgate still uses credentials that appear expired on this machine's clock if the last fetch returned
//! them. This machine's clock may be wrong, and AWS decides whether the credentials are valid.

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
/// A call that starts before the first fetch is complete waits at most this long for credentials.
const FIRST: Duration = Duration::from_secs(4);
/// The pause after a failed fetch. The pause doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The interval between fetches of credentials without an expiry, because their file may have been replaced.
const LASTING: Duration = Duration::from_secs(5 * 60);
/// The pause after a fetch that returns expired credentials, which means that this machine's clock is wrong.
const EXPIRED: Duration = Duration::from_secs(60);
/// The shortest and the longest time between two fetches.
const REFRESH: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(6 * 3600));

/// The reason why there are no credentials.
#[derive(Clone, Debug)]
struct Fault {
    /// Whether no provider has credentials. `false`: a provider that should have credentials cannot fetch them.
    is_none: bool,
    said: Box<str>,
}

/// The state of the credentials.
#[derive(Clone, Debug, Default)]
struct State {
    /// The credentials from the last successful fetch.
    credentials: Option<Credentials>,
    /// The error of the last fetch, if the last fetch failed.
    fault: Option<Fault>,
}

/// Returns the present credentials to the SDK.
#[derive(Clone, Debug)]
pub struct Kept(watch::Receiver<State>);

impl Kept {
    #[allow(clippy::single_match_else)] // the channel's guard is dropped after the match
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
    /// Creates a keeper that uses the SDK's standard chain of providers, in this region.
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

    /// Fetches credentials repeatedly. Does not return.
    pub async fn run(mut self) -> Result<(), String> {
        loop {
            let next = self.fetch().await;
            sleep(next).await;
        }
    }

    /// Fetches credentials once. Returns the time until the next fetch is due.
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
            // If there are no credentials, the next call reports the reason.
            warn!(failures = told.failures, "AWS credentials cannot be fetched again: {said}");
        }
        self.kept.send_modify(|state| state.fault = Some(Fault { is_none, said: said.into() }));
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause
    }
}

/// The time until a quarter of the credentials' lifetime is left.
fn refresh_after(expiry: Option<SystemTime>, now: SystemTime) -> Duration {
    let Some(expiry) = expiry else { return LASTING };
    match expiry.duration_since(now) {
        Ok(left) if !left.is_zero() => (left * 3 / 4).clamp(REFRESH.0, REFRESH.1),
        _ => EXPIRED,
    }
}
