//! Changes the headers of requests and answers at a node.

use std::net::{IpAddr, SocketAddr};

use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request, Uri};

use crate::model::RequestFacts;

/// The headers that concern only one connection (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Removes the headers that concern only one connection.
pub fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Returns the request in the form that the target receives. The headers of a protocol upgrade remain.
pub fn rewrite(mut request: Request<Incoming>, client: SocketAddr, local: SocketAddr) -> Request<Incoming> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    if request.headers().get(header::HOST).is_none() {
        let host = request.uri().authority().map_or_else(|| local.to_string(), ToString::to_string);
        set(request.headers_mut(), header::HOST, &host);
    }
    *request.uri_mut() = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
    *request.version_mut() = hyper::Version::HTTP_11;
    let headers = request.headers_mut();
    let upgrade = wants_upgrade(headers).then(|| headers.get(header::UPGRADE).cloned()).flatten();
    strip_hop_by_hop(headers);
    if let Some(protocol) = upgrade {
        keep_upgrade(headers, protocol);
    }
    // The node itself answers `Expect: 100-continue` when it reads the body.
    headers.remove(header::EXPECT);
    let forwarded_for = HeaderName::from_static("x-forwarded-for");
    let before = headers.get(&forwarded_for).and_then(|value| value.to_str().ok());
    let chain = before.map_or_else(|| client.ip().to_string(), |before| format!("{before}, {}", client.ip()));
    set(headers, forwarded_for, &chain);
    set(headers, HeaderName::from_static("x-forwarded-proto"), "http");
    set(headers, HeaderName::from_static("x-forwarded-port"), &local.port().to_string());
    request
}

/// Sets a header if the value is valid.
pub fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// Returns whether a client requests another protocol on this connection, such as `websocket`.
pub fn wants_upgrade(headers: &HeaderMap) -> bool {
    let connection = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let mut words = connection.flat_map(|value| value.split(','));
    headers.contains_key(header::UPGRADE) && words.any(|word| word.trim().eq_ignore_ascii_case("upgrade"))
}

/// Restores the headers for a protocol upgrade.
pub fn keep_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, protocol);
}

/// Returns the properties of the request that rules use.
pub fn facts(request: &Request<Incoming>, source: IpAddr) -> RequestFacts<'_> {
    let named = request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    let host = named.or_else(|| request.uri().authority().map(hyper::http::uri::Authority::as_str));
    RequestFacts {
        method: request.method().as_str(),
        host: host.unwrap_or_default().rsplit_once(':').map_or(host.unwrap_or_default(), |(host, _)| host),
        path: request.uri().path(),
        query: request.uri().query().unwrap_or_default(),
        headers: request.headers(),
        source,
    }
}
