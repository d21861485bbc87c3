//! Queries from people to the owner of the engine.

use std::time::Duration;

use headgate_core::{
    explanation::{Comparison, Explanation, NodeExplanation},
    model::object::ObjectKey,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

/// The maximum number of queries in the queue. The webhook has another queue, so that queries from people do not delay
/// the webhook.
pub const QUEUE: usize = 16;
/// The timeout of a query. The owner answers queries between two steps, each of which takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(2);

/// A query to the owner of the engine, and the channel for the answer.
#[derive(Debug)]
pub enum Question {
    /// Requests the explanation of a pod.
    Pod(ObjectKey, oneshot::Sender<Explanation>),
    /// Requests the explanation of a node and its pods.
    Node(String, oneshot::Sender<NodeExplanation>),
    /// Requests a comparison of the desired with the actual targets of all target groups.
    Compare(oneshot::Sender<Vec<Comparison>>),
}

/// Sends queries to the owner of the engine.
#[derive(Clone, Debug)]
pub struct Asking {
    /// The channel to the owner of the engine.
    pub questions: mpsc::Sender<Question>,
}

impl Asking {
    /// Explains a pod. `None`: the owner did not answer in time.
    pub async fn pod(&self, pod: ObjectKey) -> Option<Explanation> {
        self.ask(|answer| Question::Pod(pod, answer)).await
    }

    /// Explains a node and its pods. `None`: the owner did not answer in time.
    pub async fn node(&self, node: String) -> Option<NodeExplanation> {
        self.ask(|answer| Question::Node(node, answer)).await
    }

    /// Compares the desired with the actual targets of all target groups. `None`: the owner did not answer in time.
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
