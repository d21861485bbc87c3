//! Requests with a timeout.

use std::{future::Future, time::Duration};

use headgate_core::{Failure, FailureClass};
use tokio::time::timeout;

/// The error code of a request that received no answer in time.
pub const TIMEOUT: &str = "Timeout";

/// Returns the result of the request, or a timeout after `patience`.
pub async fn within<T>(
    patience: Duration,
    request: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout(patience, request).await.unwrap_or_else(|_| {
        let message = format!("no answer within {patience:?}");
        Err(Failure::new(FailureClass::Unavailable, TIMEOUT, message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_nobody_answers_is_given_up() {
        let patience = Duration::from_secs(5);
        assert_eq!(within(patience, async { Ok(7) }).await, Ok(7));
        let failure = within::<()>(patience, std::future::pending()).await.unwrap_err();
        assert_eq!((failure.class, &*failure.message), (FailureClass::Unavailable, "no answer within 5s"));
    }
}
