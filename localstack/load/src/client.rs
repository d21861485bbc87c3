//! One client: sends a request and determines its result.
//!
//! Manages the client's idle connections. It retries once, and only in the case in which every HTTP client does: a
//! request on a reused connection that ended before any byte of the answer.

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

/// How long a connection may take to be ready again after a complete answer. It is never reached in practice, because
/// nothing is sent or received.
const SETTLING: Duration = Duration::from_secs(1);

/// A client with its state.
#[derive(Debug)]
pub struct Client {
    mode: Mode,
    resolver: Resolver,
    host: HeaderValue,
    /// The connection at the end was used last.
    idle: Mutex<Vec<Connection>>,
}

/// The result of a request.
#[derive(Debug)]
pub struct Verdict {
    /// Its outcome.
    pub outcome: Outcome,
    /// The failure, if there was one.
    pub failure: Option<Failure>,
    /// The node of the last attempt.
    pub node: Option<IpAddr>,
    /// The local port of the last attempt.
    pub local_port: Option<u16>,
    /// The pod that answered.
    pub pod: Option<String>,
    /// When it ended.
    pub ended: Instant,
}

/// The progress of a request, which is still available after its timeout.
#[derive(Debug)]
struct Progress {
    stage: Stage,
    node: Option<IpAddr>,
    local_port: Option<u16>,
    pod: Option<String>,
    retry_of: Option<Failure>,
    /// The connection, after a complete answer.
    done: Option<Connection>,
}

impl Client {
    /// Client number `index` of a plan.
    pub fn new(plan: &Plan, client: plan::Client, index: usize) -> Self {
        let host = match &plan.target {
            Target::Name { name, .. } => format!("{}:{}", name.trim_end_matches('.'), plan.port),
            Target::Address(address) => SocketAddr::new(*address, plan.port).to_string(),
        };
        Self {
            mode: client.mode,
            resolver: Resolver::new(&plan.target, client.kind, index),
            // A valid DNS name that is not valid in HTTP reaches the server as an empty host.
            host: HeaderValue::try_from(host).unwrap_or(HeaderValue::from_static("")),
            idle: Mutex::default(),
        }
    }

    /// Its resolver.
    pub fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// Sends request `index` of the run. Takes at most the timeout and a moment.
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
