//! The questions of people, to the one that knows.

use std::time::Duration;

use headgate_core::{
    explanation::{Comparison, Explanation, NodeExplanation},
    model::object::ObjectKey,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

/// Questions that may wait for the engine's owner; more are not asked. A queue of their own: people who ask take nothing
/// from the webhook.
pub const QUEUE: usize = 16;
/// The owner answers between two steps, each of which takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(2);

/// A question to the engine's owner, and the channel for the answer.
#[derive(Debug)]
pub enum Question {
    /// What is known of a pod?
    Pod(ObjectKey, oneshot::Sender<Explanation>),
    /// What is known of a node, and of its pods?
    Node(String, oneshot::Sender<NodeExplanation>),
    /// How do the target groups differ from what Headgate wants?
    Compare(oneshot::Sender<Vec<Comparison>>),
}

/// The asking side.
#[derive(Clone, Debug)]
pub struct Asking {
    /// To the owner.
    pub questions: mpsc::Sender<Question>,
}

impl Asking {
    /// What is known of the pod; `None` if there is no answer in time.
    pub async fn pod(&self, pod: ObjectKey) -> Option<Explanation> {
        self.ask(|answer| Question::Pod(pod, answer)).await
    }

    /// What is known of the node, in the same way.
    pub async fn node(&self, node: String) -> Option<NodeExplanation> {
        self.ask(|answer| Question::Node(node, answer)).await
    }

    /// How the target groups differ from what Headgate wants, in the same way.
    pub async fn compare(&self) -> Option<Vec<Comparison>> {
        self.ask(Question::Compare).await
    }

    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.questions.try_send(question(answer)).ok()?;
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
        assert_eq!(asking.pod(pod()).await, None, "silent");
        assert_eq!(asking.pod(pod()).await, None, "the first question still fills the queue");
        drop(receiver);
        assert_eq!(asking.pod(pod()).await, None, "gone");
    }
}
