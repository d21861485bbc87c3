//! The question of what would bind a pod, to the one that knows.

use std::time::Duration;

use headgate_core::{Scope, inject::Known, object::Labels, pod::NamedPort};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

/// Questions that may wait for the engine's owner; more are not asked.
pub const QUEUE: usize = 64;
/// The owner answers between two steps, each of which takes milliseconds. The API server waits 2 s for everything.
const DEADLINE: Duration = Duration::from_millis(500);

/// A question to the engine's owner.
#[derive(Debug)]
pub struct Question {
    /// The namespace of the pod.
    pub namespace: Box<str>,
    /// Its labels.
    pub labels: Labels,
    /// Its named ports.
    pub ports: Vec<NamedPort>,
    /// Where the answer goes.
    pub answer: oneshot::Sender<Known>,
}

/// The asking side.
#[derive(Clone, Debug)]
pub struct Asking {
    /// The namespaces that are looked after.
    pub scopes: Vec<Scope>,
    /// Whether only selected ones of them count, which only the engine knows.
    pub namespaces_are_selected: bool,
    /// To the owner.
    pub questions: mpsc::Sender<Question>,
}

impl Asking {
    /// What would bind the pod, as far as that is known in time.
    pub async fn would_bind(&self, namespace: &str, labels: &Labels, ports: &[NamedPort]) -> Known {
        if !self.scopes.iter().any(|scope| scope.covers(namespace)) {
            return Known::NotServed;
        }
        let (answer, answered) = oneshot::channel();
        let question =
            Question { namespace: namespace.into(), labels: labels.clone(), ports: ports.to_vec(), answer };
        let unknown = Known::Unknown { served: !self.namespaces_are_selected };
        if self.questions.try_send(question).is_err() {
            return unknown;
        }
        timeout(DEADLINE, answered).await.ok().and_then(Result::ok).unwrap_or(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(namespaces_are_selected: bool) -> (Asking, mpsc::Receiver<Question>) {
        let (questions, receiver) = mpsc::channel(1);
        (
            Asking { scopes: vec![Scope::Namespace("shop".into())], namespaces_are_selected, questions },
            receiver,
        )
    }

    async fn ask(asking: &Asking, namespace: &str) -> Known {
        asking.would_bind(namespace, &Labels::default(), &[]).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_answer_of_the_engine_counts() {
        let (asking, mut questions) = asking(false);
        tokio::spawn(async move {
            let question = questions.recv().await.unwrap();
            assert_eq!(&*question.namespace, "shop");
            question.answer.send(Known::Bound(Vec::new())).unwrap();
        });
        assert_eq!(ask(&asking, "shop").await, Known::Bound(Vec::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_is_silent_busy_or_gone_is_not_waited_for() {
        for selected in [false, true] {
            let unknown = Known::Unknown { served: !selected };
            let (asking, questions) = asking(selected);
            assert_eq!(ask(&asking, "shop").await, unknown, "silent");
            assert_eq!(ask(&asking, "shop").await, unknown, "the first question still fills the queue");
            drop(questions);
            assert_eq!(ask(&asking, "shop").await, unknown, "gone");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_is_not_looked_after_needs_no_question() {
        let (asking, questions) = asking(false);
        assert_eq!(ask(&asking, "other").await, Known::NotServed);
        assert!(questions.is_empty());
    }
}
