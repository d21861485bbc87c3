//! Small HTTP requests to loopback.

use std::{pin::pin, time::Duration};

use http_body_util::{BodyExt, Empty, Full};
use hyper::{
    Request,
    body::Bytes,
    header::{ACCEPT, CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::TcpStream, time::timeout};

/// Longer than any answer on loopback takes. Loading an image onto all nodes takes longest, more than a minute on a
/// busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long to wait for an answer that arrived before its connection ended.
const AFTERWARDS: Duration = Duration::from_millis(100);

/// Sends one request on a new connection. Returns the status and the body.
///
/// # Errors A message, if there is no complete answer.
pub async fn request(
    method: &str,
    address: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<(u16, String), String> {
    let exchange = async {
        let stream = TcpStream::connect(address).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let mut driver = tokio::spawn(connection);
        let body = body.map(ToString::to_string).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, address)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let mut answer = pin!(sender.send_request(request));
        // A request that is passed on while its connection is reset never gets an answer.
        let answer = tokio::select! {
            biased;
            answer = &mut answer => answer?,
            _ = &mut driver => timeout(AFTERWARDS, answer).await.map_err(|_| "the connection was reset")??,
        };
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        driver.abort();
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((
            status,
            String::from_utf8_lossy(&body).into_owned(),
        ))
    };
    match timeout(PATIENCE, exchange).await {
        Ok(answer) => answer.map_err(|error| format!("{method} {address}{path}: {error}")),
        Err(_) => Err(format!("{method} {address}{path}: no answer within {PATIENCE:?}")),
    }
}

/// Requests a media type. Returns the content type and the body.
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

/// Sends a GET like a browser that uses the server under the name `host`. Returns the status and the headers, one per
/// line.
pub async fn get_as(address: &str, path: &str, host: &str) -> (u16, String) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    let request = Request::get(path).header(HOST, host).body(Empty::<Bytes>::new()).unwrap();
    let answer = timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
    let header = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        format!("{name}: {}\n", value.to_str().unwrap())
    };
    let headers = answer.headers().iter().map(header).collect();
    driver.abort();
    (answer.status().as_u16(), headers)
}

/// Sends a request that must succeed. Returns the JSON of the answer.
pub async fn json(method: &str, address: &str, path: &str, body: Option<&Value>) -> Value {
    let (status, text) = request(method, address, path, body).await.unwrap();
    assert!((200..300).contains(&status), "{method} {address}{path}: {status} {text}");
    if text.trim().is_empty() {
        Value::Null
    } else {
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// If a target refuses, the load balancer resets the client's connection at any moment of its request.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_connection_that_is_reset_is_an_error_and_no_wait() {
        const REQUESTS: u32 = 10_000;
        const LONG: Duration = Duration::from_secs(30);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let runtime = tokio::runtime::Handle::current();
        let server = std::thread::spawn(move || {
            let _runtime = runtime.enter();
            for number in 0..REQUESTS {
                let (stream, _) = listener.accept().unwrap();
                let accepted = Instant::now();
                while accepted.elapsed() < Duration::from_micros(u64::from(number * 7 % 400)) {
                    std::hint::spin_loop();
                }
                stream.set_nonblocking(true).unwrap();
                TcpStream::from_std(stream).unwrap().set_zero_linger().unwrap();
            }
        });
        for sent in 0..REQUESTS {
            let ended = timeout(LONG, request("GET", &address, "/", None)).await;
            let error = ended.unwrap_or_else(|_| panic!("request {sent} hangs")).unwrap_err();
            assert!(error.starts_with("GET 127.0.0.1:"), "{error}");
        }
        server.join().unwrap();
    }
}
