use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use super::*;

/// The provider's behavior at its next request.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// Returns credentials that expire after this many seconds.
    Gives(i64),
    Denies,
    HasNone,
    /// Does not respond.
    Hangs,
}

/// A provider with a configurable behavior and a delay in milliseconds before each answer.
#[derive(Clone, Debug)]
struct Stub {
    does: Arc<Mutex<Does>>,
    takes: Duration,
    asked: Arc<Mutex<Vec<Instant>>>,
}

impl Stub {
    fn new(does: Does, takes: Duration) -> Self {
        Self { does: Arc::new(Mutex::new(does)), takes, asked: Arc::default() }
    }

    fn does(&self, does: Does) {
        *self.does.lock().unwrap() = does;
    }

    async fn answer(&self) -> provider::Result {
        self.asked.lock().unwrap().push(Instant::now());
        sleep(self.takes).await;
        let does = *self.does.lock().unwrap();
        match does {
            Does::Gives(seconds) => {
                let now = SystemTime::now();
                let by = Duration::from_secs(seconds.unsigned_abs());
                let expiry = if seconds < 0 { now - by } else { now + by };
                Ok(Credentials::new(format!("key-{seconds}"), "secret", None, Some(expiry), "stub"))
            }
            Does::Denies => Err(CredentialsError::provider_error("AccessDenied: not trusted")),
            Does::HasNone => Err(CredentialsError::not_loaded("nothing set")),
            Does::Hangs => std::future::pending().await,
        }
    }
}

impl ProvideCredentials for Stub {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.answer())
    }
}

fn kept(stub: &Stub) -> Kept {
    let source = Source::of(|name| {
        matches!(name, "AWS_ROLE_ARN" | "AWS_WEB_IDENTITY_TOKEN_FILE").then(|| "here".to_owned())
    });
    let (keeper, kept) = Keeper::of(SharedCredentialsProvider::new(stub.clone()), source, Clock::start());
    tokio::spawn(keeper.run());
    kept
}

async fn key(kept: &Kept) -> String {
    kept.at_hand().await.unwrap().access_key_id().to_owned()
}

async fn fault(kept: &Kept) -> String {
    sentences(&kept.at_hand().await.unwrap_err())
}

#[tokio::test(start_paused = true)]
async fn credentials_are_fetched_again_ahead_of_their_end_and_no_call_waits_for_that() {
    let stub = Stub::new(Does::Gives(3600), Duration::from_secs(3));
    let kept = kept(&stub);
    assert_eq!(key(&kept).await, "key-3600", "the first call waits a little");
    let began = Instant::now();
    stub.does(Does::Gives(7200));
    sleep(Duration::from_secs(2700) + Duration::from_secs(1)).await;
    assert_eq!(stub.asked.lock().unwrap().len(), 2, "when a quarter of the hour is left");
    let asks = Instant::now();
    assert_eq!(key(&kept).await, "key-3600", "those at hand, while others are fetched");
    assert_eq!(asks.elapsed(), Duration::ZERO);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(key(&kept).await, "key-7200");
    assert!(began.elapsed() < Duration::from_secs(3600));
}

#[tokio::test(start_paused = true)]
async fn those_at_hand_are_used_while_a_provider_fails_and_it_is_asked_ever_more_rarely() {
    let stub = Stub::new(Does::Gives(3600), Duration::ZERO);
    let kept = kept(&stub);
    assert_eq!(key(&kept).await, "key-3600");
    stub.does(Does::Denies);
    sleep(Duration::from_secs(2700 + 120)).await;
    assert_eq!(key(&kept).await, "key-3600", "they are good for some minutes");
    let asked = stub.asked.lock().unwrap().len();
    assert!((6..=9).contains(&asked), "{asked}");
    stub.does(Does::Gives(7200));
    sleep(LONGEST_PAUSE).await;
    assert_eq!(key(&kept).await, "key-7200");
}

#[tokio::test(start_paused = true)]
async fn what_has_expired_is_not_used_if_the_provider_fails_and_is_if_it_has_just_come() {
    let stub = Stub::new(Does::Gives(-5), Duration::ZERO);
    let kept = kept(&stub);
    assert_eq!(key(&kept).await, "key--5", "the clock of this machine is ahead");
    stub.does(Does::Denies);
    sleep(EXPIRED + Duration::from_secs(1)).await;
    let fault = fault(&kept).await;
    assert!(fault.contains("AccessDenied: not trusted"), "{fault}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_finds_none_is_told_which_provider_failed_and_what_to_do() {
    for (does, said) in [(Does::Denies, "AccessDenied: not trusted"), (Does::HasNone, "nothing set")] {
        let kept = kept(&Stub::new(does, Duration::from_millis(5)));
        let fault = fault(&kept).await;
        for part in [
            "web identity (IRSA) of the role here with the token in here",
            said,
            ". Check that the role exists",
        ] {
            assert!(fault.contains(part), "{fault}");
        }
        assert_eq!(
            matches!(kept.at_hand().await, Err(CredentialsError::CredentialsNotLoaded(_))),
            matches!(does, Does::HasNone)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn no_call_waits_for_a_provider_that_does_not_answer_for_longer_than_a_moment() {
    let stub = Stub::new(Does::Hangs, Duration::ZERO);
    let kept = kept(&stub);
    let began = Instant::now();
    let said = fault(&kept).await;
    assert!(said.contains("have not come within 4s"), "{said}");
    assert_eq!(began.elapsed(), FIRST);
    sleep(PATIENCE).await;
    let began = Instant::now();
    let said = fault(&kept).await;
    assert!(said.contains("no answer within 40s. "), "{said}");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[test]
fn lasting_credentials_are_looked_at_again_too() {
    let now = SystemTime::now();
    let hours = |hours: u64| Some(now + Duration::from_secs(hours * 3600));
    assert_eq!(refresh_after(None, now), LASTING);
    assert_eq!(refresh_after(hours(1), now), Duration::from_secs(2700));
    assert_eq!(refresh_after(hours(36), now), REFRESH.1);
    assert_eq!(refresh_after(Some(now), now), EXPIRED);
}
