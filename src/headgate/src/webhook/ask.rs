//! Queries to the owner of the engine: the bindings that select a new pod, and whether a pod may be evicted.

use std::{sync::Arc, time::Duration};

use headgate_core::{
    Cause, Scope,
    model::{
        eviction::{self, Ruling},
        injection::{Known, NewPod},
        object::{Labels, ObjectKey, Uid},
        pod::NamedPort,
    },
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::runtime::pulse::Pulse;

/// The maximum number of queries in the queue. Further queries wait until the queue has room.
pub const QUEUE: usize = 64;
/// An engine that has not progressed for this time counts as stuck, so queries do not wait for it. The kubelet soon
/// restarts a stuck engine.
const STUCK: Duration = Duration::from_secs(15);

/// A query to the owner of the engine.
#[derive(Debug)]
pub enum Question {
    /// Requests the bindings that would select a new pod.
    WouldBind {
        /// The namespace of the pod.
        namespace: Box<str>,
        /// The pod's labels.
        labels: Labels,
        /// The pod's named ports.
        ports: Vec<NamedPort>,
        /// The UID of the pod's controller, unless the request is a dry run.
        owner: Option<Uid>,
        /// The channel for the answer. The flag states whether earlier pods of the owner that had a hold were not
        /// created.
        answer: oneshot::Sender<(Known, bool)>,
    },
    /// Requests whether a pod may be evicted.
    MayEvict {
        /// The name of the pod.
        pod: ObjectKey,
        /// The eviction request.
        request: eviction::Request,
        /// The channel for the answer.
        answer: oneshot::Sender<Ruling>,
    },
}

/// Sends queries to the owner of the engine.
#[derive(Clone, Debug)]
pub struct Asking {
    /// The scopes that Headgate manages.
    pub scopes: Vec<Scope>,
    /// Whether a selector limits the managed namespaces. Only the engine has the list of selected namespaces.
    pub namespaces_are_selected: bool,
    /// The channel to the owner of the engine.
    pub questions: mpsc::Sender<Question>,
    /// Whether the engine is progressing.
    pub pulse: Arc<Pulse>,
}

/// The reason why a query has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    /// The owner of the engine has ended.
    Gone,
    /// The owner of the engine did not answer in time.
    Late,
}

impl Asking {
    /// Returns the known bindings that would select the pod, if the engine answers within `patience`. The flag states
    /// whether earlier pods of the owner that had a hold were not created.
    pub async fn would_bind(
        &self,
        namespace: &str,
        pod: &NewPod,
        dry_run: bool,
        patience: Duration,
    ) -> (Known, bool) {
        if !self.scopes.iter().any(|scope| scope.covers(namespace)) {
            return (Known::NotServed, false);
        }
        let (namespace, labels, ports) = (namespace.into(), pod.labels.clone(), pod.ports.clone());
        let owner = pod.owner.clone().filter(|_| !dry_run);
        let question = |answer| Question::WouldBind { namespace, labels, ports, owner, answer };
        let known = self.ask(question, patience).await;
        known.unwrap_or((Known::Unknown { served: !self.namespaces_are_selected }, false))
    }

    /// Returns whether a pod may be evicted. `None`: the engine did not answer within `patience`, because it is too
    /// busy. If the engine has ended or is stuck, the eviction is allowed.
    pub async fn may_evict(
        &self,
        pod: ObjectKey,
        request: eviction::Request,
        patience: Duration,
    ) -> Option<Ruling> {
        if !self.scopes.iter().any(|scope| scope.covers(&pod.namespace)) {
            return Some(Ruling::Pass(Cause::NamespaceNotServed));
        }
        match self.ask(|answer| Question::MayEvict { pod, request, answer }, patience).await {
            Ok(ruling) => Some(ruling),
            Err(Silence::Late) if self.pulse.still_for() < STUCK => None,
            Err(Silence::Late | Silence::Gone) => Some(Ruling::Pass(Cause::BindingsUnknown)),
        }
    }

    async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> Question,
        patience: Duration,
    ) -> Result<T, Silence> {
        let (answer, answered) = oneshot::channel();
        let asks = async {
            let room = self.questions.reserve().await.map_err(|_| Silence::Gone)?;
            room.send(question(answer));
            answered.await.map_err(|_| Silence::Gone)
        };
        timeout(patience, asks).await.unwrap_or(Err(Silence::Late))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::runtime::clock::Clock;

    const SOON: Duration = Duration::from_millis(500);

    fn asking(namespaces_are_selected: bool) -> (Asking, mpsc::Receiver<Question>) {
        let (questions, receiver) = mpsc::channel(1);
        let scopes = vec![Scope::Namespace("shop".into())];
        let pulse = Arc::new(Pulse::new(Clock::start()));
        (Asking { scopes, namespaces_are_selected, questions, pulse }, receiver)
    }

    async fn ask(asking: &Asking, namespace: &str) -> Known {
        asking.would_bind(namespace, &NewPod::default(), false, SOON).await.0
    }

    #[tokio::test(start_paused = true)]
    async fn the_answer_of_the_engine_counts() {
        let (asking, mut questions) = asking(false);
        tokio::spawn(async move {
            let question = questions.recv().await.unwrap();
            let Question::WouldBind { namespace, answer, .. } = question else { panic!("{question:?}") };
            assert_eq!(&*namespace, "shop");
            answer.send((Known::Bound(Vec::new()), false)).unwrap();
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
    async fn an_eviction_waits_for_an_engine_that_is_busy_and_for_none_that_is_stuck_or_gone() {
        let (asking, questions) = asking(false);
        let ask = || {
            let pod = ObjectKey::new("shop", "a");
            asking.may_evict(pod, eviction::Request::default(), SOON)
        };
        let unknown = Some(Ruling::Pass(Cause::BindingsUnknown));
        assert_eq!(ask().await, None, "it has not answered");
        assert_eq!(ask().await, None, "the first question still fills the queue");
        sleep(STUCK).await;
        assert_eq!(ask().await, unknown, "it has not moved for long");
        asking.pulse.beat(true);
        assert_eq!(ask().await, None, "it moves");
        drop(questions);
        assert_eq!(ask().await, unknown, "it is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_is_not_looked_after_needs_no_question() {
        let (asking, questions) = asking(false);
        assert_eq!(ask(&asking, "other").await, Known::NotServed);
        assert!(questions.is_empty());
    }
}
