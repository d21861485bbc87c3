//! One HTTP/1.1 connection to a node of a load balancer, with one request at a time.
//!
//! The connection is only polled during a request. Only the next request therefore notices that an idle connection was
//! closed. A request on a closed connection behaves like a request that is sent at the moment of the close, so the case
//! is deterministic. Bytes are counted below HTTP, so it is known whether any byte of an answer arrived.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::CONTENT_LENGTH;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::answer::Received;
use crate::failure::Failure;

/// The maximum length of a body in bytes.
const MAX_BODY: usize = 1 << 20;

type Driver = http1::Connection<TokioIo<Counted>, Empty<Bytes>>;

/// An open connection.
#[derive(Debug)]
pub struct Connection {
    sender: http1::SendRequest<Empty<Bytes>>,
    /// The connection's driver. `None`: the connection was closed.
    driver: Option<Driver>,
    received: Arc<AtomicU64>,
    /// The node at the other end of the connection.
    pub node: IpAddr,
    /// The port at the client's end of the connection.
    pub local_port: Option<u16>,
}

/// A connection attempt in progress. The local port is already known. If the attempt fails immediately, the records of
/// the other end can therefore be searched for the port.
#[derive(Debug)]
pub struct Connecting {
    socket: Socket,
    address: SocketAddr,
    /// The port at the client's end of the connection.
    pub local_port: Option<u16>,
}

impl Connecting {
    /// Sends the first packet of a connection.
    pub fn start(address: SocketAddr) -> Result<Self, Failure> {
        let socket =
            Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP));
        let socket = socket.map_err(|error| Failure::connect(&error))?;
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => {
                return Err(Failure::connect(&error));
            }
            _ => {}
        }
        let local = socket.local_addr().ok().and_then(|local| local.as_socket());
        Ok(Self { socket, address, local_port: local.map(|local| local.port()) })
    }

    /// Waits until the connection is open.
    pub async fn finish(self) -> Result<Connection, Failure> {
        let Self { socket, address, local_port } = self;
        let stream = connected(socket).await.map_err(|error| Failure::connect(&error))?;
        // This setting is only a hint to the system.
        let _ = stream.set_nodelay(true);
        let received = Arc::new(AtomicU64::new(0));
        let counted = Counted { stream, received: Arc::clone(&received) };
        // The handshake only prepares the connection, and sends or receives nothing.
        let (sender, driver) =
            http1::handshake(TokioIo::new(counted)).await.map_err(|_| Failure::EndedBeforeAnswer)?;
        Ok(Connection { sender, driver: Some(driver), received, node: address.ip(), local_port })
    }
}

async fn connected(socket: Socket) -> io::Result<TcpStream> {
    let stream = TcpStream::from_std(socket.into())?;
    stream.writable().await?;
    stream.take_error()?.map_or(Ok(stream), Err)
}

impl Connection {
    /// Sends a request and reads the complete answer.
    pub async fn exchange(&mut self, request: Request<Empty<Bytes>>) -> Result<Received, Failure> {
        let before = self.received.load(Ordering::Relaxed);
        let sending = self.sender.send_request(request);
        let received = match drive(&mut self.driver, sending).await {
            Ok(response) => self.read(response).await?,
            Err(_) if self.received.load(Ordering::Relaxed) == before => {
                return Err(Failure::EndedBeforeAnswer);
            }
            Err(error) if error.is_parse() => return Err(Failure::NotHttp),
            Err(_) => return Err(Failure::EndedWithinAnswer),
        };
        Ok(received)
    }

    async fn read(&mut self, response: Response<Incoming>) -> Result<Received, Failure> {
        let (head, body) = response.into_parts();
        let status = head.status.as_u16();
        let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
        let pod = header("x-pod").map(ToOwned::to_owned);
        let has_length = head.headers.contains_key(CONTENT_LENGTH);
        let collected = drive(&mut self.driver, Limited::new(body, MAX_BODY).collect()).await;
        match collected {
            Ok(body) => Ok(Received { status, has_length, pod, body: body.to_bytes().into() }),
            // The status is more useful than an error in the body.
            Err(_) if status != 200 => Err(Failure::Status(status)),
            Err(error) if error.is::<LengthLimitError>() => Err(Failure::TooLong(MAX_BODY)),
            Err(_) => Err(Failure::EndedWithinAnswer),
        }
    }

    /// Returns whether the answer allows another request on the connection.
    pub async fn is_reusable(&mut self) -> bool {
        let ready = drive(&mut self.driver, self.sender.ready()).await;
        ready.is_ok() && self.driver.is_some()
    }
}

/// Awaits `wanted` while it polls the connection. After the connection is closed, `wanted` can still use data that was
/// read.
async fn drive<T>(driver: &mut Option<Driver>, wanted: impl Future<Output = T>) -> T {
    let mut wanted = pin!(wanted);
    poll_fn(|context| {
        // Data that the driver reads wakes up `wanted` in the same task. The driver is therefore polled first, and
        // again after each wake-up.
        if let Some(working) = driver
            && Pin::new(working).poll(context).is_ready()
        {
            *driver = None;
        }
        wanted.as_mut().poll(context)
    })
    .await
}

/// A TCP stream that counts the bytes read from it.
#[derive(Debug)]
struct Counted {
    stream: TcpStream,
    received: Arc<AtomicU64>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let poll = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read = buffer.filled().len().saturating_sub(before);
        self.received.fetch_add(u64::try_from(read).unwrap_or(u64::MAX), Ordering::Relaxed);
        poll
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
