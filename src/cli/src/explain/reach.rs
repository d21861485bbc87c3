//! Connects to the leader without access to the pod network. The Lease names the leader's pod. The API server forwards
//! a connection to the loopback address of the leader's pod (`pods/portforward`). If the user set an address, the
//! command connects directly to the address.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, bail};
use headgate::kube::{
    client::{self, ClientError, Which},
    installation::{SERVED_BEFORE, SERVES},
    words::plain,
};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, body::Bytes, client::conn::http1, header::HOST};
use hyper_util::rt::TokioIo;
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Pod},
    jiff::Timestamp,
};
use kube::{Api, Client, ResourceExt};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};

/// The HTTP status that a standby returns.
pub const MISDIRECTED: u16 = 421;
/// The timeout of one request.
const PATIENCE: Duration = Duration::from_secs(10);

/// How to connect to Headgate.
#[derive(Clone, Debug)]
pub struct Way {
    pub own_namespace: String,
    /// The name of Headgate's Lease.
    pub lease: String,
    /// The port of Headgate's `--debug-address`.
    pub port: u16,
    /// The debug address to query directly. `None`: the API server forwards the connection.
    pub address: Option<SocketAddr>,
    /// The cluster that Headgate runs in.
    pub which: Which,
}

/// Why a request through the API server failed.
#[derive(Debug, Error)]
enum Lost {
    /// The API server rejected the request, or is not reachable.
    #[error("{}", plain(.0))]
    Refused(#[from] kube::Error),
    /// The kubelet could not connect to the pod's port. Contains the kubelet's reason.
    #[error("its node says: {0}")]
    NotConnected(String),
    /// The leader did not answer.
    #[error("{0:#}")]
    Unanswered(#[from] anyhow::Error),
}

/// The holder of the Lease, which is the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The leader's identity in the Lease.
    pub identity: String,
    /// The age of the last renewal. `None`: the Lease has not expired.
    pub silent_for: Option<Duration>,
    /// The namespaces that the leader manages, as text.
    pub serves: Option<String>,
    /// The namespaces that earlier leaders managed, as text. Pods in an earlier namespace may still have a closed
    /// readiness gate.
    pub served_before: Option<String>,
}

impl Holder {
    /// Returns the name of the leader's pod.
    pub fn pod(&self) -> &str {
        self.identity.rsplit_once('_').map_or(&*self.identity, |(pod, _)| pod)
    }

    /// Reads the holder from the Lease. `None`: the Lease has no holder.
    pub fn of(lease: &Lease, now: Timestamp) -> Option<Self> {
        let spec = lease.spec.as_ref()?;
        let identity = spec.holder_identity.clone().filter(|holder| !holder.is_empty())?;
        let duration = u64::try_from(spec.lease_duration_seconds?).unwrap_or_default();
        let renewed = spec.renew_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let age = Duration::try_from(now.duration_since(renewed)).unwrap_or_default();
        Some(Self {
            identity,
            silent_for: (age > Duration::from_secs(duration)).then_some(age),
            serves: lease.annotations().get(SERVES).cloned(),
            served_before: lease.annotations().get(SERVED_BEFORE).cloned(),
        })
    }
}

impl Way {
    /// Returns the leader's answer to `GET path`.
    ///
    /// # Errors
    /// No replica is the leader, or the leader is not reachable. The error suggests another way to connect.
    pub async fn ask(&self, client: Option<&Client>, path: &str) -> anyhow::Result<String> {
        if let Some(address) = self.address {
            return match straight(address, path).await? {
                (200, text) => Ok(text),
                (_, text) => bail!("{address} says: {}", text.trim()),
            };
        }
        let client = client.context("no Kubernetes configuration. Set --kubeconfig or --address")?;
        let mut last = None;
        // The first attempt fails if the leader changes after the Lease was read.
        for _ in 0..2 {
            let holder = self.holder(client).await?;
            match self.through_api_server(client, &holder, path).await {
                Ok((200, text)) => return Ok(text),
                Ok((MISDIRECTED, text)) => last = Some(text),
                Ok((_, text)) => bail!("the leader, pod {}, returns: {}", holder.pod(), text.trim()),
                Err(error) => return Err(self.explained(&holder, &error)),
            }
        }
        bail!("the replica that holds the Lease returns: {}", last.unwrap_or_default().trim())
    }

    /// Connects to the cluster. `None`: there is no cluster, but a direct connection does not need one.
    ///
    /// # Errors
    /// There is no cluster, and the user did not set an address.
    pub async fn cluster(&self) -> Result<Option<Client>, ClientError> {
        match client::connect_to(&self.which).await {
            Ok(client) => Ok(Some(client)),
            Err(_) if self.address.is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the current leader.
    ///
    /// # Errors
    /// No replica is the leader, or the Lease cannot be read.
    pub async fn holder(&self, client: &Client) -> anyhow::Result<Holder> {
        let (namespace, name) = (&self.own_namespace, &self.lease);
        let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
        let lease = leases.get_opt(name).await.with_context(|| {
            format!("cannot read the Lease {namespace}/{name}. Grant yourself get on leases there")
        })?;
        let lease = lease.with_context(|| {
            format!(
                "there is no Lease {namespace}/{name}. Set --own-namespace to Headgate's namespace, and \
                 --lease-name to the name of its Lease"
            )
        })?;
        Holder::of(&lease, Timestamp::now()).with_context(|| {
            format!(
                "no replica holds the Lease {namespace}/{name}. Check that `headgate run` is ready, and \
                     check its log"
            )
        })
    }

    /// Opens a connection to the leader's debug server through the API server.
    ///
    /// # Errors
    /// No replica is the leader, or the leader is not reachable.
    pub async fn connect(
        &self,
        client: &Client,
    ) -> anyhow::Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<>> {
        let holder = self.holder(client).await?;
        let pods: Api<Pod> = Api::namespaced(client.clone(), &self.own_namespace);
        let forwarded = async {
            let mut forwarder = pods.portforward(holder.pod(), &[self.port]).await?;
            let stream =
                forwarder.take_stream(self.port).context("the port was not forwarded; this is a bug")?;
            // The task finishes when the stream closes.
            tokio::spawn(forwarder.join());
            Ok(stream)
        };
        let forwarded = timeout(PATIENCE, forwarded).await;
        let late = || Err(Lost::Unanswered(anyhow::anyhow!("no answer within {PATIENCE:?}")));
        forwarded.unwrap_or_else(|_| late()).map_err(|error| self.explained(&holder, &error))
    }

    async fn through_api_server(
        &self,
        client: &Client,
        holder: &Holder,
        path: &str,
    ) -> Result<(u16, String), Lost> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &self.own_namespace);
        let forwarded = async {
            let mut forwarder = pods.portforward(holder.pod(), &[self.port]).await?;
            let (stream, trouble) = (forwarder.take_stream(self.port), forwarder.take_error(self.port));
            let stream = stream.context("the port was not forwarded; this is a bug")?;
            let trouble = async {
                match trouble {
                    Some(trouble) => trouble.await,
                    None => None,
                }
            };
            let host = format!("localhost:{}", self.port);
            let exchange = exchange(stream, &host, path);
            let (mut exchange, mut trouble) = (std::pin::pin!(exchange), std::pin::pin!(trouble));
            let answer = tokio::select! {
                biased;
                answer = exchange.as_mut() => answer.map_err(Lost::from),
                Some(said) = trouble.as_mut() => Err(Lost::NotConnected(said)),
            };
            forwarder.abort();
            answer
        };
        let answer = timeout(PATIENCE, forwarded).await;
        answer.unwrap_or_else(|_| Err(Lost::Unanswered(anyhow::anyhow!("no answer within {PATIENCE:?}"))))
    }

    fn explained(&self, holder: &Holder, error: &Lost) -> anyhow::Error {
        let (namespace, pod, port) = (&self.own_namespace, holder.pod(), self.port);
        let by_hand = format!(
            "`kubectl --namespace {namespace} port-forward {pod} {port}`, and here --address 127.0.0.1:{port}"
        );
        let silent =
            holder.silent_for.map(|age| format!("; it has not renewed the Lease for {} s", age.as_secs()));
        let silent = silent.unwrap_or_default();
        let why = match error {
            Lost::Refused(kube::Error::Api(status)) if status.code == 403 => format!(
                "{}. Grant yourself get and create on pods/portforward in namespace {namespace}, or ask \
                 somebody with these permissions to run {by_hand}",
                status.message
            ),
            Lost::Refused(kube::Error::Api(status)) if status.code == 404 => format!(
                "{}; {} holds the Lease, and is not a pod of namespace {namespace}{silent}. Set --address to \
                 its --debug-address",
                status.message, holder.identity
            ),
            error => format!(
                "no connection was forwarded to the leader, pod {pod}, port {port} ({error}){silent}. Set \
                 --debug-port to the port of its --debug-address, and check that the API server reaches the \
                 kubelet; by hand: {by_hand}"
            ),
        };
        anyhow::anyhow!(why)
    }
}

/// Queries the debug server at this address. Returns the status and the body.
async fn straight(address: SocketAddr, path: &str) -> anyhow::Result<(u16, String)> {
    let exchange = async {
        let stream = TcpStream::connect(address).await?;
        exchange(stream, &address.to_string(), path).await
    };
    let said = || format!("cannot query {address}. Set --address to the --debug-address of `headgate run`");
    timeout(PATIENCE, exchange).await.with_context(said)?.with_context(said)
}

/// Sends one request on a new connection. Returns the status and the body.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    host: &str,
    path: &str,
) -> anyhow::Result<(u16, String)> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let request = Request::get(path).header(HOST, host).body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await?.to_bytes();
    driver.abort();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holder(spec: &serde_json::Value) -> Option<Holder> {
        let lease = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        Holder::of(&lease, "2026-01-01T00:01:00Z".parse().unwrap())
    }

    #[test]
    fn the_pod_of_the_leader_is_in_its_lease_and_so_is_whether_it_lives() {
        let renewed = |at: &str| {
            holder(
                &json!({"holderIdentity": "headgate-7d9f_00ff", "leaseDurationSeconds": 15, "renewTime": at}),
            )
        };
        let fresh = renewed("2026-01-01T00:00:50.000000Z").unwrap();
        assert_eq!((fresh.pod(), fresh.silent_for), ("headgate-7d9f", None));
        let stale = renewed("2026-01-01T00:00:40.000000Z").unwrap();
        assert_eq!(stale.silent_for, Some(Duration::from_secs(20)));
        assert_eq!(holder(&json!({"holderIdentity": "", "leaseDurationSeconds": 15})), None);
    }
}
