//! Waiting for a condition, with a deadline.

use std::{fmt::Debug, future::Future, time::Duration};

use tokio::time::{Instant, sleep};

/// Far more than anything takes on a slow machine; a test that fails waits this long.
pub const DEADLINE: Duration = Duration::from_secs(180);
/// For what the garbage collector of Kubernetes does: it looks for new kinds every 30 s, and again later while it cannot list one
/// of them, as when a test takes a kind away.
pub const COLLECTED: Duration = Duration::from_secs(300);
const PERIOD: Duration = Duration::from_millis(25);

/// Asks until the answer is `Ok`; panics with `what` and the last `Err` after [`DEADLINE`].
pub async fn until<T, E: Debug, F: Future<Output = Result<T, E>>>(what: &str, ask: impl FnMut() -> F) -> T {
    within(DEADLINE, what, ask).await
}

/// The same with another deadline, for what a load balancer at a time scale near 1 takes.
pub async fn within<T, E: Debug, F: Future<Output = Result<T, E>>>(
    deadline: Duration,
    what: &str,
    mut ask: impl FnMut() -> F,
) -> T {
    let end = Instant::now() + deadline;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) if Instant::now() > end => {
                panic!("not within {deadline:?}: {what}; last seen: {error:?}")
            }
            Err(_) => sleep(PERIOD).await,
        }
    }
}

/// Asks an API server again while it cannot be reached, or cannot answer, as when its disk is slow; panics with the last
/// error after [`DEADLINE`]. What it refuses is given back.
pub async fn answered<T: Debug, F: Future<Output = kube::Result<T>>>(
    what: &str,
    mut ask: impl FnMut() -> F,
) -> kube::Result<T> {
    let ask = || {
        let answer = ask();
        async move {
            match answer.await {
                Err(kube::Error::Api(status)) if status.code < 500 => Ok(Err(kube::Error::Api(status))),
                Err(error) => Err(error),
                Ok(answer) => Ok(Ok(answer)),
            }
        }
    };
    until(what, ask).await
}

/// Asks until the answer equals `wanted`; panics with `what` and the last answer after [`DEADLINE`].
pub async fn until_equal<T: Debug + PartialEq, F: Future<Output = T>>(
    what: &str,
    wanted: &T,
    mut ask: impl FnMut() -> F,
) {
    until(what, || {
        let answer = ask();
        async move {
            let answer = answer.await;
            if answer == *wanted { Ok(()) } else { Err(format!("{answer:?}, wanted {wanted:?}")) }
        }
    })
    .await;
}
