//! The control socket of a world: how other processes talk to its supervisor.
//!
//! Owns the wire: one request as a line of JSON, one response as a line of JSON, over the Unix
//! socket `control.sock` in the world's folder. What a request does is the supervisor's.

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

/// A request is short; whoever sends more is not one of us.
const LONGEST_REQUEST: u64 = 4096;

/// What can be asked of a supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Request {
    /// All facts, as they are now.
    Status,
    /// Take the world down. The connection closes when that is done.
    Down,
    /// SIGTERM to a component, SIGKILL after 3 s; answered when it is gone.
    Stop {
        /// Which one.
        component: Component,
    },
    /// SIGKILL to a component; answered when it is gone.
    Kill {
        /// Which one.
        component: Component,
    },
    /// Starts a component that does not run; answered when it serves.
    Start {
        /// Which one.
        component: Component,
    },
    /// Stop and start; answered when it serves again.
    Restart {
        /// Which one.
        component: Component,
    },
}

/// What a supervisor answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Response {
    /// It was done, or is being done.
    Done,
    /// The facts that were asked for.
    Status(Box<Facts>),
    /// It was not done, and why.
    Refused(String),
}

/// Listens on the control socket of the world in this folder.
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

/// Asks the supervisor of the world in this folder, and waits for its answer for so long.
pub(crate) async fn ask(folder: &Path, request: &Request, patience: Duration) -> io::Result<Response> {
    let asked = async {
        let (response, _) = send(folder, request).await?;
        Ok(response)
    };
    in_time(patience, asked).await
}

/// Asks, and then waits until the supervisor has closed the connection, that is, has ended.
pub(crate) async fn ask_and_see_the_end(
    folder: &Path,
    request: &Request,
    patience: Duration,
) -> io::Result<Response> {
    let asked = async {
        let (response, mut stream) = send(folder, request).await?;
        if response == Response::Done {
            // Any end of the connection is the end of the supervisor.
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

/// The path of a Unix socket has at most 107 bytes, and a cache folder may be deep: go through
/// an open folder instead, whose path is short.
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
