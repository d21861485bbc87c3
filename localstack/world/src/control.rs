//! The control socket of a local cluster, with which other processes control the supervisor.
//!
//! The module defines the protocol: one request and one response, each as a line of JSON, over the Unix socket
//! `control.sock` in the cluster's folder. The supervisor executes the requests.

use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
};

use crate::{component::Component, facts::Facts};

/// The maximum length of a request in bytes.
const LONGEST_REQUEST: u64 = 4096;

/// A request to a supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Request {
    /// Get all current facts.
    Status,
    /// Stop the cluster. The connection closes after the stop.
    Down,
    /// Send SIGTERM to a component, and SIGKILL after 3 s. The response follows after the component has exited.
    Stop {
        /// The component.
        component: Component,
    },
    /// Send SIGKILL to a component. The response follows after the component has exited.
    Kill {
        /// The component.
        component: Component,
    },
    /// Start a component that does not run. The response follows after the component serves.
    Start {
        /// The component.
        component: Component,
    },
    /// Stop and start a component. The response follows after the component serves again.
    Restart {
        /// The component.
        component: Component,
    },
}

/// A response of a supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Response {
    /// The request succeeded, or is in progress.
    Done,
    /// The requested facts.
    Status(Box<Facts>),
    /// The request failed. Contains the reason.
    Refused(String),
}

/// Listens on the control socket of the cluster in this folder.
pub(crate) fn listen(folder: &Path) -> io::Result<UnixListener> {
    short_path(folder, |path| UnixListener::bind(path))
}

/// Reads the request of a connection.
pub(crate) async fn receive(stream: &mut UnixStream) -> io::Result<Request> {
    let mut line = String::new();
    BufReader::new(stream).take(LONGEST_REQUEST).read_line(&mut line).await?;
    Ok(serde_json::from_str(&line)?)
}

/// Sends the response of a connection.
pub(crate) async fn respond(stream: &mut UnixStream, response: &Response) -> io::Result<()> {
    let mut line = serde_json::to_vec(response)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

/// Sends a request to the supervisor of the cluster in this folder, and waits at most `patience` for the response.
pub(crate) async fn ask(folder: &Path, request: &Request, patience: Duration) -> io::Result<Response> {
    let asked = async {
        let (response, _) = send(folder, request).await?;
        Ok(response)
    };
    in_time(patience, asked).await
}

/// Sends a request, and waits until the supervisor has closed the connection. The connection closes when the supervisor
/// exits.
pub(crate) async fn ask_and_see_the_end(
    folder: &Path,
    request: &Request,
    patience: Duration,
) -> io::Result<Response> {
    let asked = async {
        let (response, mut stream) = send(folder, request).await?;
        if response == Response::Done {
            // A closed connection means that the supervisor has exited.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
        Ok(response)
    };
    in_time(patience, asked).await
}

async fn send(folder: &Path, request: &Request) -> io::Result<(Response, BufReader<UnixStream>)> {
    let address = short_path(folder, std::os::unix::net::UnixStream::connect)?;
    address.set_nonblocking(true)?;
    let mut stream = UnixStream::from_std(address)?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    let mut reader = BufReader::new(stream);
    let mut answer = String::new();
    reader.read_line(&mut answer).await?;
    if answer.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended before it answered"));
    }
    Ok((serde_json::from_str(&answer)?, reader))
}

async fn in_time<T>(patience: Duration, asked: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(patience, asked).await.unwrap_or_else(|_| {
        let text = format!("no answer within {} s", patience.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

/// Calls `with` with a short path of the control socket. The path of a Unix socket has at most 107 bytes, but the path
/// of a cache folder can be longer. The short path therefore uses an open folder.
fn short_path<T>(folder: &Path, with: impl FnOnce(PathBuf) -> io::Result<T>) -> io::Result<T> {
    let open = File::open(folder)?;
    with(PathBuf::from(format!("/proc/self/fd/{}/control.sock", open.as_raw_fd())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scratch_folder;

    #[test]
    fn a_request_is_one_line_of_json_that_can_be_typed_by_hand() {
        let request = Request::Restart { component: Component::ApiServer };
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(text, r#"{"command":"restart","component":"kube-apiserver"}"#);
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
        assert_eq!(serde_json::to_string(&Request::Status).unwrap(), r#"{"command":"status"}"#);
    }

    #[tokio::test]
    async fn a_request_and_its_answer_cross_the_socket_of_a_deep_folder() {
        let scratch = scratch_folder();
        let folder = scratch.path().join("deep/".repeat(40));
        std::fs::create_dir_all(&folder).unwrap();
        let listener = listen(&folder).unwrap();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = receive(&mut stream).await.unwrap();
            respond(&mut stream, &Response::Refused("not today".to_owned())).await.unwrap();
            request
        });
        let answer = ask(&folder, &Request::Down, Duration::from_secs(10)).await.unwrap();
        assert_eq!(answer, Response::Refused("not today".to_owned()));
        assert_eq!(served.await.unwrap(), Request::Down);
    }

    #[tokio::test]
    async fn a_world_that_is_not_there_is_an_error_and_not_a_wait() {
        let scratch = scratch_folder();
        assert!(ask(scratch.path(), &Request::Status, Duration::from_secs(10)).await.is_err());
    }
}
