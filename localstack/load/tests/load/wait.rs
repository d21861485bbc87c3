//! Waits for conditions.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// A condition that is not true after this time counts as failed.
const DEADLINE: Duration = Duration::from_secs(30);

/// Waits until `is_true`; `what` names it.
pub async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_true() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        sleep(Duration::from_millis(2)).await;
    }
}
