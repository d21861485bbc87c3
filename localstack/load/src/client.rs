//! One client, which sends a request and determines the result.
//!
//! The module manages the idle connections of the client. The client retries only once, and only if a reused connection
//! was closed before any byte of the answer. Every HTTP client retries in this case.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Empty;
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{CONNECTION, HOST, HeaderValue};
use tokio::time::{Instant, timeout};

use crate::answer::{Received, check};
use crate::connection::{Connecting, Connection};
use crate::failure::{Failure, Stage};
use crate::plan::{self, Mode, Path, Plan, Target};
use crate::record::Outcome;
use crate::resolver::Resolver;

/// The maximum time until a connection is ready again after a complete answer. In practice, the connection is ready
/// immediately, because nothing is sent or received.
const SETTLING: Duration = Duration::from_secs(1);

/// A client and its connections.
#[derive(Debug)]
pub struct Client {
    mode: Mode,
    resolver: Resolver,
    host: HeaderValue,
    /// The last element is the connection that was used last.
    idle: Mutex<Vec<Connection>>,
}

/// The result of a request.
#[derive(Debug)]
pub struct Verdict {
    /// The outcome of the request.
    pub outcome: Outcome,
    /// The failure. `None`: the first attempt succeeded.
    pub failure: Option<Failure>,
    /// The load balancer node of the last attempt.
    pub node: Option<IpAddr>,
    /// The local port of the last attempt.
    pub local_port: Option<u16>,
    /// The name of the pod that answered.
    pub pod: Option<String>,
    /// The time at which the request was completed.
    pub ended: Instant,
}

/// The progress of a request, which remains available after a timeout.
#[derive(Debug)]
struct Progress {
    stage: Stage,
    node: Option<IpAddr>,
    local_port: Option<u16>,
    pod: Option<String>,
    retry_of: Option<Failure>,
    /// The connection after a complete answer.
    done: Option<Connection>,
}

impl Client {
    /// Creates client number `index` of a plan.
    pub fn new(plan: &Plan, client: plan::Client, index: usize) -> Self {
        let host = match &plan.target {
            Target::Name { name, .. } => format!("{}:{}", name.trim_end_matches('.'), plan.port),
            Target::Address(address) => SocketAddr::new(*address, plan.port).to_string(),
        };
        Self {
            mode: client.mode,
            resolver: Resolver::new(&plan.target, client.kind, index),
            // A DNS name that is not valid in HTTP is sent as an empty host.
            host: HeaderValue::try_from(host).unwrap_or(HeaderValue::from_static("")),
            idle: Mutex::default(),
        }
    }

    pub fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// Sends request `index` of the run. Returns at the latest shortly after the timeout.
    pub async fn request(&self, plan: &Plan, index: u32) -> Verdict {
        let mut progress = Progress {
            stage: Stage::Resolving,
            node: None,
            local_port: None,
            pod: None,
            retry_of: None,
            done: None,
        };
        let path = Path::of(plan, index);
        let result = timeout(plan.timeout, self.attempts(plan, &path, &mut progress)).await;
        let ended = Instant::now();
        let result =
            result.unwrap_or(Err(Failure::TimedOut { stage: progress.stage, timeout: plan.timeout }));
        if self.mode == Mode::KeepAlive
            && let Some(connection) = progress.done.take()
        {
            self.keep(connection).await;
        }
        let (outcome, failure) = match (result, progress.retry_of) {
            (Ok(()), None) => (Outcome::Ok, None),
            (Ok(()), Some(first)) => (Outcome::Retried, Some(first)),
            (Err(failure), _) => (Outcome::Lost, Some(failure)),
        };
        let Progress { node, local_port, pod, .. } = progress;
        Verdict { outcome, failure, node, local_port, pod, ended }
    }

    async fn attempts(&self, plan: &Plan, path: &Path, progress: &mut Progress) -> Result<(), Failure> {
        if let Some(reused) = self.take() {
            match self.attempt(reused, plan, path, progress).await {
                Err(failure @ Failure::EndedBeforeAnswer) => progress.retry_of = Some(failure),
                result => return result,
            }
        }
        (progress.node, progress.local_port) = (None, None);
        progress.stage = Stage::Resolving;
        let node = self.resolver.next().await.ok_or(Failure::NoAddress)?;
        progress.node = Some(node);
        progress.stage = Stage::Connecting;
        let connecting = Connecting::start(SocketAddr::new(node, plan.port))?;
        progress.local_port = connecting.local_port;
        self.attempt(connecting.finish().await?, plan, path, progress).await
    }

    async fn attempt(
        &self,
        mut connection: Connection,
        plan: &Plan,
        path: &Path,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        progress.stage = Stage::Answering;
        progress.node = Some(connection.node);
        progress.local_port = connection.local_port;
        let received = connection.exchange(self.build(path)).await?;
        let verdict = check(&received, &path.plain, plan.answer);
        let Received { pod, .. } = received;
        progress.pod = pod;
        progress.done = Some(connection);
        verdict
    }

    fn build(&self, path: &Path) -> Request<Empty<Bytes>> {
        let mut request = Request::new(Empty::new());
        // The plan was checked, so the URI is valid.
        *request.uri_mut() = path.uri().unwrap_or_default();
        request.headers_mut().insert(HOST, self.host.clone());
        if self.mode == Mode::New {
            request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        request
    }

    fn take(&self) -> Option<Connection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    async fn keep(&self, mut connection: Connection) {
        if timeout(SETTLING, connection.is_reusable()).await.unwrap_or(false) {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}
