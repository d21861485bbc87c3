//! Small HTTP requests to loopback.

use std::time::Duration;

use http_body_util::{BodyExt, Empty, Full};
use hyper::{
    Request,
    body::Bytes,
    header::{ACCEPT, CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// Longer than anything on loopback takes to answer; an image for all nodes takes longest, on a busy machine more than a
/// minute.
const PATIENCE: Duration = Duration::from_secs(300);

/// Sends one request on a connection of its own; gives the status and the body.
///
/// # Errors
/// A sentence, if there is no complete answer.
pub async fn request(
    method: &str,
    address: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<(u16, String), String> {
    let exchange = async {
        let stream = TcpStream::connect(address).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(connection);
        let body = body.map(ToString::to_string).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, address)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let answer = sender.send_request(request).await?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        driver.abort();
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((
            status,
            String::from_utf8_lossy(&body).into_owned(),
        ))
    };
    // A connection that is reset while the request is handed to it may leave the request without an answer.
    match tokio::time::timeout(PATIENCE, exchange).await {
        Ok(answer) => answer.map_err(|error| format!("{method} {address}{path}: {error}")),
        Err(_) => Err(format!("{method} {address}{path}: no answer within {PATIENCE:?}")),
    }
}

/// Asks for a representation; gives its type and the body.
pub async fn accepting(address: &str, path: &str, accept: &str) -> (String, String) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    let request = Request::get(path).header(HOST, address).header(ACCEPT, accept);
    let answer = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    let kind = answer.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    driver.abort();
    (kind, String::from_utf8(body.to_vec()).unwrap())
}

/// Asks as a browser does that takes the server for `host`; gives the status and the headers, a line for each.
pub async fn get_as(address: &str, path: &str, host: &str) -> (u16, String) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    let request = Request::get(path).header(HOST, host).body(Empty::<Bytes>::new()).unwrap();
    let answer = tokio::time::timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
    let header = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        format!("{name}: {}\n", value.to_str().unwrap())
    };
    let headers = answer.headers().iter().map(header).collect();
    driver.abort();
    (answer.status().as_u16(), headers)
}

/// Sends a request that must succeed; gives the JSON of the answer.
pub async fn json(method: &str, address: &str, path: &str, body: Option<&Value>) -> Value {
    let (status, text) = request(method, address, path, body).await.unwrap();
    assert!((200..300).contains(&status), "{method} {address}{path}: {status} {text}");
    if text.trim().is_empty() {
        Value::Null
    } else {
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }
}
