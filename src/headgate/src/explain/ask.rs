//! Queries of people to the owner of the engine.

use std::time::Duration;

use headgate_core::{
    explanation::{Comparison, Explanation, NodeExplanation},
    model::object::ObjectKey,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

/// The maximum number of waiting queries. The queue is separate, so that people take no room from the webhook.
pub const QUEUE: usize = 16;
/// The timeout. The owner answers between two steps, each of which takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(2);

/// A query to the owner of the engine, and the channel for the answer.
#[derive(Debug)]
pub enum Question {
    /// What is known about a pod?
    Pod(ObjectKey, oneshot::Sender<Explanation>),
    /// What is known about a node and its pods?
    Node(String, oneshot::Sender<NodeExplanation>),
    /// How do the target groups differ from what Headgate wants?
    Compare(oneshot::Sender<Vec<Comparison>>),
}

/// The sender of queries.
#[derive(Clone, Debug)]
pub struct Asking {
    /// The channel to the owner.
    pub questions: mpsc::Sender<Question>,
}

impl Asking {
    /// What is known about the pod. `None`: there was no answer in time.
    pub async fn pod(&self, pod: ObjectKey) -> Option<Explanation> {
        self.ask(|answer| Question::Pod(pod, answer)).await
    }

    /// What is known about the node. `None`: there was no answer in time.
    pub async fn node(&self, node: String) -> Option<NodeExplanation> {
        self.ask(|answer| Question::Node(node, answer)).await
    }

    /// How the target groups differ from what Headgate wants. `None`: there was no answer in time.
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
