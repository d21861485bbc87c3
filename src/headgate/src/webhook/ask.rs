//! Questions about pods, to the one that knows: what would bind a new one, and whether one may be evicted.

use std::time::Duration;

use headgate_core::{
    Reason, Scope,
    model::{
        eviction::{self, Ruling},
        injection::Known,
        object::{Labels, ObjectKey},
        pod::NamedPort,
    },
};
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
pub enum Question {
    /// What would bind a new pod?
    WouldBind {
        /// The namespace of the pod.
        namespace: Box<str>,
        /// Its labels.
        labels: Labels,
        /// Its named ports.
        ports: Vec<NamedPort>,
        /// Where the answer goes.
        answer: oneshot::Sender<Known>,
    },
    /// May a pod be evicted?
    MayEvict {
        /// The pod.
        pod: ObjectKey,
        /// What was asked for.
        request: eviction::Request,
        /// Where the answer goes.
        answer: oneshot::Sender<Ruling>,
    },
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
        let (namespace, labels, ports) = (namespace.into(), labels.clone(), ports.to_vec());
        let known = self.ask(|answer| Question::WouldBind { namespace, labels, ports, answer }).await;
        known.unwrap_or(Known::Unknown { served: !self.namespaces_are_selected })
    }

    /// Whether a pod may be evicted; what is not known in time lets it through.
    pub async fn may_evict(&self, pod: ObjectKey, request: eviction::Request) -> Ruling {
        if !self.scopes.iter().any(|scope| scope.covers(&pod.namespace)) {
            return Ruling::Pass(Reason::NamespaceNotServed);
        }
        let ruling = self.ask(|answer| Question::MayEvict { pod, request, answer }).await;
        ruling.unwrap_or(Ruling::Pass(Reason::BindingsUnknown))
    }

    /// `None`: too many wait, or it takes too long.
    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.questions.try_send(question(answer)).ok()?;
        timeout(DEADLINE, answered).await.ok()?.ok()
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
            let Question::WouldBind { namespace, answer, .. } = question else { panic!("{question:?}") };
            assert_eq!(&*namespace, "shop");
            answer.send(Known::Bound(Vec::new())).unwrap();
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
            let ruling = asking.may_evict(ObjectKey::new("shop", "a"), eviction::Request::default()).await;
            assert_eq!(ruling, Ruling::Pass(Reason::BindingsUnknown), "evictions are let through");
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
