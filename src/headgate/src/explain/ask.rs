//! The question about a pod, to the one that knows.

use std::time::Duration;

use headgate_core::{explanation::Explanation, model::object::ObjectKey};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

/// Questions that may wait for the engine's owner; more are not asked. A queue of their own: people who ask take nothing
/// from the webhook.
pub const QUEUE: usize = 16;
/// The owner answers between two steps, each of which takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(2);

/// A question to the engine's owner.
#[derive(Debug)]
pub struct Question {
    /// The pod.
    pub pod: ObjectKey,
    /// Where the answer goes.
    pub answer: oneshot::Sender<Explanation>,
}

/// The asking side.
#[derive(Clone, Debug)]
pub struct Asking {
    /// To the owner.
    pub questions: mpsc::Sender<Question>,
}

impl Asking {
    /// What is known of the pod; `None` if that is not said in time.
    pub async fn explain(&self, pod: ObjectKey) -> Option<Explanation> {
        let (answer, answered) = oneshot::channel();
        self.questions.try_send(Question { pod, answer }).ok()?;
        timeout(DEADLINE, answered).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_is_silent_busy_or_gone_is_not_waited_for() {
        let (questions, receiver) = mpsc::channel(1);
        let asking = Asking { questions };
        let pod = || ObjectKey::new("shop", "web-0");
        assert_eq!(asking.explain(pod()).await, None, "silent");
        assert_eq!(asking.explain(pod()).await, None, "the first question still fills the queue");
        drop(receiver);
        assert_eq!(asking.explain(pod()).await, None, "gone");
    }
}
