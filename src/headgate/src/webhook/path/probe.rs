//! Asks every replica whether it serves a path, before the API server is told to call it.
//!
//! A GET is answered with 405 on a path that is served, and with 404 on any other. The path is told to nobody else: each endpoint must have a certificate that the API server trusts, too.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use http_body_util::Empty;
use hyper::{Request, StatusCode, Uri, body::Bytes, client::conn::http1, header::HOST};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client, api::ListParams};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs::default_provider,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use super::{Call, Entry};
use crate::webhook::secret::within;

/// For one answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Questions at once.
const AT_ONCE: usize = 8;

/// Whether whoever may be called for this entry serves the path: all endpoints of its Service, or who answers at its url.
///
/// # Errors
/// Says what is waited for.
pub async fn all_serve(client: &Client, entry: &Entry, bundle: &[u8], path: &str) -> Result<(), String> {
    let tls = connector(bundle)?;
    match &entry.call {
        Call::Service { namespace, name, .. } => {
            let host = format!("{name}.{namespace}.svc");
            let endpoints = endpoints(client, namespace, name).await?;
            if !endpoints.iter().any(|endpoint| endpoint.is_ready) {
                return Err(format!("Service {namespace}/{name} has no ready endpoint"));
            }
            let asked = stream::iter(endpoints.into_iter().map(|endpoint| {
                let (tls, host) = (tls.clone(), host.clone());
                async move { (endpoint.serves(&tls, &host, path).await, endpoint) }
            }));
            // In order, so that of several the same one is always named.
            let mut asked = asked.buffered(AT_ONCE);
            while let Some((serves, endpoint)) = asked.next().await {
                serves.map_err(|why| {
                    format!("endpoint {} of Service {namespace}/{name}: {why}", endpoint.name)
                })?;
            }
            Ok(())
        }
        Call::Url(url) => {
            let unfit = || "its url cannot be read; expected https://HOST/".to_owned();
            let url: Uri = url.parse().map_err(|_| unfit())?;
            let host = url.host().ok_or_else(unfit)?.trim_matches(['[', ']']);
            let port = url.port_u16().unwrap_or(443);
            let place = format!("{}:{port}", url.host().ok_or_else(unfit)?);
            match ask(&tls, &place, host, path).await? {
                StatusCode::METHOD_NOT_ALLOWED => Ok(()),
                status => Err(format!("{place} does not serve it ({})", status.as_u16())),
            }
        }
    }
}

/// One replica.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoint {
    name: String,
    is_ready: bool,
    /// All of its addresses, each with all ports of the Service.
    addresses: Vec<SocketAddr>,
}

impl Endpoint {
    /// `Ok` if it serves the path on one of its ports, or cannot be called.
    async fn serves(&self, tls: &TlsConnector, host: &str, path: &str) -> Result<(), String> {
        let mut said = "it has no port".to_owned();
        let mut answers = false;
        for address in &self.addresses {
            match ask(tls, &address.to_string(), host, path).await {
                Ok(StatusCode::METHOD_NOT_ALLOWED) => return Ok(()),
                Ok(status) => {
                    answers = true;
                    said = format!("it does not serve the path yet ({})", status.as_u16());
                }
                Err(error) => said = error,
            }
        }
        // One that is starting or ending, and takes no connection, takes none of the API server's either.
        if answers || self.is_ready { Err(said) } else { Ok(()) }
    }
}

async fn endpoints(client: &Client, namespace: &str, service: &str) -> Result<Vec<Endpoint>, String> {
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    let list = within(slices.list(&of_service)).await.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 403 => format!(
            "{}; expected the Role of config/rbac/webhook.yaml: list for the EndpointSlices in namespace {namespace}",
            status.message
        ),
        error => format!("the EndpointSlices of Service {namespace}/{service} cannot be listed: {error}"),
    })?;
    // A replica with two addresses is in two slices.
    let mut all: BTreeMap<String, Endpoint> = BTreeMap::new();
    for endpoint in list.into_iter().flat_map(of_slice) {
        match all.get_mut(&endpoint.name) {
            Some(same) => {
                same.is_ready |= endpoint.is_ready;
                same.addresses.extend(endpoint.addresses);
            }
            None => drop(all.insert(endpoint.name.clone(), endpoint)),
        }
    }
    Ok(all.into_values().collect())
}

fn of_slice(slice: EndpointSlice) -> Vec<Endpoint> {
    let ports = slice.ports.into_iter().flatten().filter_map(|port| u16::try_from(port.port?).ok());
    let ports: Vec<u16> = ports.collect();
    let endpoints = slice.endpoints.into_iter().map(|endpoint| {
        let addresses: Vec<_> = endpoint.addresses.iter().filter_map(|text| text.parse().ok()).collect();
        let all = addresses.iter().flat_map(|ip| ports.iter().map(|port| SocketAddr::new(*ip, *port)));
        let name = endpoint.target_ref.and_then(|pod| pod.name);
        Endpoint {
            name: name.unwrap_or_else(|| endpoint.addresses.join(",")),
            // Not known counts as ready.
            is_ready: endpoint.conditions.and_then(|is| is.ready).unwrap_or(true),
            addresses: all.collect(),
        }
    });
    endpoints.collect()
}

fn connector(bundle: &[u8]) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle).flatten() {
        roots.add(authority).map_err(|error| format!("its caBundle cannot be used: {error}"))?;
    }
    if roots.is_empty() {
        return Err("its caBundle is empty, so its answers could be anybody's".to_owned());
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The answer to a GET; errors have nothing of the path.
async fn ask(tls: &TlsConnector, place: &str, host: &str, path: &str) -> Result<StatusCode, String> {
    let asked = timeout(PATIENCE, async {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        let stream = TcpStream::connect(place).await.map_err(|error| error.to_string())?;
        let stream = tls.connect(name, stream).await.map_err(|error| error.to_string())?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        let request = Request::get(path).header(HOST, host).body(Empty::<Bytes>::new());
        let request = request.map_err(|_| "no request can be made".to_owned())?;
        // The connection ends with the answer.
        tokio::select! {
            answer = sender.send_request(request) => {
                answer.map(|answer| answer.status()).map_err(|error| error.to_string())
            }
            ended = connection => Err(ended.err().map_or_else(|| "it hung up".to_owned(), |error| error.to_string())),
        }
    });
    match asked.await {
        Ok(Ok(status)) => Ok(status),
        Ok(Err(error)) => Err(format!("{place} cannot be asked: {error}")),
        Err(_) => Err(format!("{place} has not answered within {PATIENCE:?}")),
    }
}

#[cfg(test)]
mod tests;
