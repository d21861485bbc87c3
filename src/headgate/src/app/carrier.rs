//! Sends the engine's requests to AWS and Kubernetes, and returns the answers.
//!
//! Every request has a result: the receiver's answer or a timeout. The module drops a request that only the leader may
//! send if this replica is no longer the leader. Only this module checks for leadership, immediately before the request
//! is sent. Therefore, a process that resumes after a suspension sends nothing without leadership.

use std::{future::Future, sync::Arc};

use headgate_core::{Answer, Failure, FailureClass, Moment, Request, RequestId};

use crate::{
    aws::TargetGroups,
    kube::{evictions::Evictions, gates::Pods, ledger::Ledgers, nodes::Nodes},
    runtime::{authority::Authority, clock::Clock, within::within},
};

/// The error code of a request that was not sent.
pub const NOT_SENT: &str = "NotLeading";

/// Sends the engine's requests if this replica may send them.
pub struct Carrier {
    /// The time.
    pub clock: Clock,
    /// Whether this replica is the leader.
    pub authority: Authority,
    /// Sends calls to AWS.
    pub aws: TargetGroups,
    /// Reads and writes ledgers.
    pub ledgers: Ledgers,
    /// Writes readiness gates.
    pub pods: Pods,
    /// Writes the state of evictions to pods, and checks PodDisruptionBudgets.
    pub evictions: Evictions,
    /// Writes annotations to nodes.
    pub nodes: Nodes,
}

/// A request that was completed or dropped.
pub struct Ended {
    /// The request's id.
    pub id: RequestId,
    /// The request.
    pub request: Request,
    /// The time when the request was sent.
    pub sent: Moment,
    /// The result of the request.
    pub result: Result<Answer, Failure>,
}

impl Carrier {
    /// Sends a request of the leader's term `term`, and waits for the result.
    pub fn carry_out(
        self: Arc<Self>,
        id: RequestId,
        request: Request,
        term: Option<u64>,
    ) -> impl Future<Output = Ended> + Send {
        let sent = self.clock.now();
        async move {
            let may = !request.is_of_the_leader() || term.is_some_and(|term| self.authority.permits(term));
            let result = if may {
                within(request.patience(), self.ask(&request)).await
            } else {
                let message = "this replica no longer leads, so nothing was sent";
                Err(Failure::new(FailureClass::Unavailable, NOT_SENT, message))
            };
            Ended { id, request, sent, result }
        }
    }

    async fn ask(&self, request: &Request) -> Result<Answer, Failure> {
        match request {
            Request::Call(call) => self.aws.make(call).await,
            Request::Ledger(request) => self.ledgers.answer(request).await,
            Request::Gate(write) => self.pods.write(write).await.map(|()| Answer::Done),
            Request::Mark(write) => {
                let written = self.evictions.mark(&write.pod, &write.uid, write.mark).await;
                written.map(|()| Answer::Done)
            }
            Request::Detached(write) => self.nodes.write(write).await.map(|()| Answer::Done),
            Request::Check(check) => self.evictions.check(check).await.map(Answer::Checked),
        }
    }
}
