//! Waiting for a condition, with a deadline.

use std::{fmt::Debug, future::Future, time::Duration};

use tokio::time::{Instant, sleep};

/// Much longer than anything takes on a slow machine. A failing test waits this long.
pub const DEADLINE: Duration = Duration::from_secs(180);
/// For the garbage collector of Kubernetes. It looks for new kinds every 30 s, and later if it cannot list a kind, for
/// example after a test deletes one.
pub const COLLECTED: Duration = Duration::from_secs(300);
const PERIOD: Duration = Duration::from_millis(25);

/// Repeats a check until it returns `Ok`. Panics with `what` and the last `Err` after [`DEADLINE`].
pub async fn until<T, E: Debug, F: Future<Output = Result<T, E>>>(what: &str, ask: impl FnMut() -> F) -> T {
    within(DEADLINE, what, ask).await
}

/// The same with another deadline, for load balancers with a time scale near 1.
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

/// Repeats a request while the API server is unreachable or cannot answer, for example because of a slow disk. Panics
/// with the last error after [`DEADLINE`]. Returns rejections.
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

/// Repeats a query until the result equals `wanted`. Panics with `what` and the last result after [`DEADLINE`].
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
