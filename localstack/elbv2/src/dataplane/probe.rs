//! Runs the probes that the model requests: a TCP connect, or an HTTP GET with a matcher, from the address of a node.
//!
//! At most [`AT_ONCE`] probes run concurrently. All other due probes wait. On a busy machine, health checks are
//! therefore slower than configured. Probes close their connections with a reset.

use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::dial;
use crate::model::{Check, HealthCheck, ProbeOrder, ProbeOutcome, Unhealthy};
use crate::shared::Shared;
use crate::tasks::Tasks;
use crate::trace::Outcome;

/// The maximum number of concurrent probes.
const AT_ONCE: usize = 256;

/// Runs probes until the task is cancelled.
pub async fn run(shared: Arc<Shared>, tasks: Tasks) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        shared.probes.notified().await;
        for order in shared.with(|model, _| model.take_probes()) {
            let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
            let shared = Arc::clone(&shared);
            let stop = tasks.stop().clone();
            tasks.spawn(async move {
                let outcome = tokio::select! {
                    outcome = probe(&order) => outcome,
                    () = stop.cancelled() => return,
                };
                drop(place);
                shared.with(|model, now| model.probed(&order, outcome, now));
            });
        }
    }
}

async fn probe(order: &ProbeOrder) -> ProbeOutcome {
    match timeout(order.timeout, check(order)).await {
        Ok(outcome) => outcome,
        Err(_) => ProbeOutcome::Failed(Unhealthy::Timeout),
    }
}

async fn check(order: &ProbeOrder) -> ProbeOutcome {
    let stream = match dial(order.source, order.address, order.timeout).await {
        Ok(stream) => stream,
        Err(Outcome::Timeout) => return ProbeOutcome::Failed(Unhealthy::Timeout),
        Err(_) => return ProbeOutcome::Failed(Unhealthy::Failed),
    };
    // Without the reset, each probe would leave a port in TIME_WAIT.
    let _ = stream.set_zero_linger();
    match &order.check {
        Check::Tcp => ProbeOutcome::Passed,
        Check::Http(check) => match get(TokioIo::new(stream), order.address, check).await {
            Ok(status) if check.matches(status) => ProbeOutcome::Passed,
            Ok(status) => ProbeOutcome::Failed(Unhealthy::Status(status)),
            Err(error) => {
                tracing::debug!(target = %order.address, %error, "a probe failed");
                ProbeOutcome::Failed(Unhealthy::Failed)
            }
        },
    }
}

/// Sends a GET request and returns the status of the answer. The body is not read.
async fn get(
    stream: TokioIo<tokio::net::TcpStream>,
    address: SocketAddr,
    check: &HealthCheck,
) -> Result<u16, GetError> {
    let (mut sender, connection) = handshake(stream).await?;
    let request = Request::get(&check.path)
        .header(header::HOST, address.to_string())
        .header(header::USER_AGENT, "ELB-HealthChecker/2.0")
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request);
    tokio::pin!(answer, connection);
    tokio::select! {
        response = &mut answer => Ok(response?.status().as_u16()),
        // The connection can close at the moment when it delivers the answer.
        ended = &mut connection => match (ended, answer.await) {
            (_, Ok(response)) => Ok(response.status().as_u16()),
            (Err(error), Err(_)) | (Ok(()), Err(error)) => Err(error.into()),
        },
    }
}

#[derive(Debug, thiserror::Error)]
enum GetError {
    #[error("the target broke off: {0}")]
    Connection(#[from] hyper::Error),
    #[error("the health check path cannot be asked for: {0}")]
    Request(#[from] hyper::http::Error),
}
