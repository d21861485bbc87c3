//! One connection after the other to a server. Any bytes are sent, and the answer is parsed strictly.

use std::{sync::Arc, time::Duration};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// Longer than any timeout of the servers. Incomplete data after that is neither an answer nor an end.
const PATIENCE: Duration = Duration::from_secs(30);
/// The maximum length of an answer. The longest are metrics, and a review whose long uid is repeated.
const LONGEST: usize = 8 * 1024 * 1024;

trait Wire: AsyncRead + AsyncWrite + Unpin + Send + Sync {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Wire for T {}

/// What is sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// All bytes of the request.
    pub bytes: Vec<u8>,
    /// Nothing follows: the sending half is closed.
    pub ends: bool,
    /// It is not HTTP, or not a complete request, so the connection is not reused.
    pub odd: bool,
    /// The method is HEAD, so the answer has no body for any content-length.
    pub head: bool,
}

/// The received answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// A complete answer.
    Answer(u16, Vec<u8>),
    /// The connection was closed without an answer.
    Closed,
}

/// A client.
pub struct Client {
    address: String,
    tls: Option<TlsConnector>,
    open: Option<Box<dyn Wire>>,
}

impl Client {
    /// A client of an HTTPS server whose certificate is signed by these authorities (PEM).
    pub fn of_https(address: &str, authorities: &str) -> Self {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
            roots.add(authority.unwrap()).unwrap();
        }
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let tls = Some(TlsConnector::from(Arc::new(config)));
        Self { address: address.into(), tls, open: None }
    }

    /// A client of an HTTP server.
    pub fn of_http(address: &str) -> Self {
        Self { address: address.into(), tls: None, open: None }
    }

    /// Sends a request and reads the result.
    ///
    /// # Errors If it is neither a complete answer nor the end of the connection, or does not come in time.
    pub async fn exchange(&mut self, sent: &Sent) -> Result<Came, String> {
        let exchange = async {
            let reused = self.open.is_some();
            let came = self.once(sent).await?;
            // A server may close an idle connection at any time.
            if reused && came == Came::Closed { self.once(sent).await } else { Ok(came) }
        };
        match timeout(PATIENCE, exchange).await {
            Ok(came) => came,
            Err(_) => Err(format!("neither an answer nor an end within {PATIENCE:?}")),
        }
    }

    async fn once(&mut self, sent: &Sent) -> Result<Came, String> {
        let mut wire = match self.open.take() {
            Some(wire) => wire,
            None => self.connect().await?,
        };
        // If a request is rejected early, the server may close the connection while it is being sent. The answer
        // counts.
        let _ = wire.write_all(&sent.bytes).await;
        let _ = wire.flush().await;
        if sent.ends {
            let _ = wire.shutdown().await;
        }
        let Some(answer) = answer(&mut wire, sent.head).await? else { return Ok(Came::Closed) };
        if !answer.closes && !sent.odd && !sent.ends {
            self.open = Some(wire);
        }
        Ok(Came::Answer(answer.status, answer.body))
    }

    async fn connect(&self) -> Result<Box<dyn Wire>, String> {
        let stream =
            TcpStream::connect(&self.address).await.map_err(|error| format!("not accepted: {error}"))?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = tls.connect(name, stream).await.map_err(|error| format!("no handshake: {error}"))?;
        Ok(Box::new(stream))
    }
}

struct Answer {
    status: u16,
    body: Vec<u8>,
    closes: bool,
}

/// Reads one answer. `None`: the connection ended before its first byte.
async fn answer(wire: &mut Box<dyn Wire>, head: bool) -> Result<Option<Answer>, String> {
    let mut read = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            if !more(wire, &mut read).await? {
                let all = String::from_utf8_lossy(&read);
                return if read.is_empty() {
                    Ok(None)
                } else {
                    Err(format!("the answer ends in its header: {all:?}"))
                };
            }
        };
        let header =
            String::from_utf8(read[..end].to_vec()).map_err(|_| "a header that is no text".to_owned())?;
        let status = status(&header)?;
        read.drain(..end);
        if (100..200).contains(&status) {
            continue;
        }
        let closes = field(&header, "connection").is_some_and(|is| is.eq_ignore_ascii_case("close"));
        if head || status == 204 {
            return Ok(Some(Answer { status, body: Vec::new(), closes }));
        }
        let Some(length) = field(&header, "content-length") else {
            return Err(format!("no length, so nobody knows where it ends: {header:?}"));
        };
        let length: usize = length.parse().map_err(|_| format!("the length is no number: {header:?}"))?;
        while read.len() < length {
            if !more(wire, &mut read).await? {
                return Err(format!("the answer ends after {} of {length} bytes", read.len()));
            }
        }
        read.truncate(length);
        return Ok(Some(Answer { status, body: read, closes }));
    }
}

/// Whether more data came. A reset counts as the end.
async fn more(wire: &mut Box<dyn Wire>, read: &mut Vec<u8>) -> Result<bool, String> {
    if read.len() > LONGEST {
        return Err("an answer without end".into());
    }
    Ok(wire.read_buf(read).await.is_ok_and(|count| count > 0))
}

fn status(header: &str) -> Result<u16, String> {
    let line = header.lines().next().unwrap_or_default();
    let mut words = line.splitn(3, ' ');
    let version = words.next().unwrap_or_default();
    let status = words.next().filter(|word| word.len() == 3).and_then(|word| word.parse().ok());
    match status {
        Some(status) if ["HTTP/1.1", "HTTP/1.0"].contains(&version) && (100..600).contains(&status) => {
            Ok(status)
        }
        _ => Err(format!("no answer begins like this: {line:?}")),
    }
}

fn field<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let fields = header.lines().filter_map(|line| line.split_once(':'));
    let mut values = fields.filter(|(is, _)| is.eq_ignore_ascii_case(name));
    values.next().map(|(_, value)| value.trim())
}
