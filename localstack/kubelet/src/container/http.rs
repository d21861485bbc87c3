//! One HTTP/1.1 GET request over a new connection, as probes and hooks send it.
//!
//! A kubelet keeps no connection alive between probes. An answer without a status line is an error.

use crate::object::ContainerSpec;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::HTTPGetAction;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;

/// The reason why a GET request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    /// The values in the pod's spec do not form a valid request.
    #[error("the request of the probe or hook is not valid HTTP: {0}")]
    Invalid(#[from] hyper::http::Error),
    /// The connection was refused, or the address is not reachable.
    #[error("no connection to {0}: {1}")]
    Connect(SocketAddr, std::io::Error),
    /// The connection was closed before the answer.
    #[error("the connection ended before an answer came: {0}")]
    Broken(#[from] hyper::Error),
    /// No answer arrived in time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
}

/// The GET request of a probe or hook, with a resolved address.
#[derive(Clone, Debug, PartialEq)]
pub struct Get {
    /// The address of the server.
    pub to: SocketAddr,
    /// The path, which begins with a slash.
    pub path: String,
    /// The headers in the spec of the probe or hook.
    pub headers: Vec<(String, String)>,
}

impl Get {
    /// Returns the GET request of a container's probe or hook. `None`: the port does not exist. The scheme is ignored,
    /// because the servers use plain HTTP.
    pub fn resolve(spec: &ContainerSpec, get: &HTTPGetAction, ip: Ipv4Addr) -> Option<Self> {
        let port = spec.resolve_port(&get.port)?;
        let host = get.host.as_deref().and_then(|host| host.parse().ok()).unwrap_or(IpAddr::V4(ip));
        let path = get.path.as_deref().unwrap_or("/");
        let slash = if path.starts_with('/') { "" } else { "/" };
        let headers = get.http_headers.iter().flatten();
        Some(Self {
            to: SocketAddr::new(host, port),
            path: format!("{slash}{path}"),
            headers: headers.map(|header| (header.name.clone(), header.value.clone())).collect(),
        })
    }

    /// Sends the GET request and returns the status code. `limit` covers the connection and the head of the answer.
    pub async fn send(&self, limit: Duration) -> Result<StatusCode, GetError> {
        tokio::time::timeout(limit, self.exchange()).await.unwrap_or(Err(GetError::TimedOut(limit)))
    }

    async fn exchange(&self) -> Result<StatusCode, GetError> {
        let has = |header: &str| self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(header));
        let mut request = Request::get(&self.path).header("connection", "close");
        if !has("host") {
            request = request.header("host", self.to.to_string());
        }
        if !has("user-agent") {
            request = request.header("user-agent", "kube-probe/1.36");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Empty::<Bytes>::new())?;
        let stream = TcpStream::connect(self.to).await.map_err(|error| GetError::Connect(self.to, error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let answer = sender.send_request(request);
        tokio::pin!(connection, answer);
        let response = tokio::select! {
            answer = &mut answer => answer?,
            ended = &mut connection => {
                ended?;
                answer.await?
            }
        };
        Ok(response.status())
    }
}
