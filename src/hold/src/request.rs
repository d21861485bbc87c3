//! An HTTP request as the kubelet sends it for a `preStop` hook. Any HTTP answer counts as success.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket},
    time::Duration,
};

/// The timeout of the connection. The answer has no timeout, because some servers answer only after they are drained.
const CONNECT: Duration = Duration::from_secs(5);
/// The maximum number of bytes that are read from an answer.
const HEAD: usize = 64 << 10;

/// A GET request.
#[derive(Debug)]
pub struct Request {
    /// The host. Empty: the pod itself.
    host: String,
    port: u16,
    path: String,
    headers: Vec<String>,
}

impl Request {
    /// Creates a request to this host and port.
    ///
    /// # Errors
    /// The text is not a host and a port.
    pub fn read(to: &str, path: String, headers: Vec<String>) -> Result<Self, String> {
        let wrong = || format!("{to:?} is not a host and port");
        let (host, port) = to.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Ok(Self { host: host.to_owned(), port: port.parse().map_err(|_| wrong())?, path, headers })
    }

    /// Sends the request and waits for the answer.
    ///
    /// # Errors
    /// The connection fails, or the answer is not HTTP. The error is a sentence.
    pub fn send(&self) -> Result<(), String> {
        let said = |what: &str, error: io::Error| {
            let Self { host, port, path, .. } = self;
            let whom = if host.is_empty() { "this pod" } else { host };
            format!("cannot {what} GET {path} of port {port} of {whom}: {error}")
        };
        let (mut connection, address) = self.connect().map_err(|error| said("send", error))?;
        connection.write_all(self.text(address).as_bytes()).map_err(|error| said("send", error))?;
        let mut answer = Vec::new();
        let mut part = [0; 4096];
        while answer.len() < HEAD && !answer.windows(4).any(|end| end == b"\r\n\r\n") {
            match connection.read(&mut part).map_err(|error| said("read the answer to", error))? {
                0 => break,
                read => answer.extend_from_slice(&part[..read]),
            }
        }
        if answer.starts_with(b"HTTP/") {
            return Ok(());
        }
        let error = io::Error::new(io::ErrorKind::InvalidData, "it is not HTTP");
        Err(said("read the answer to", error))
    }

    fn text(&self, address: SocketAddr) -> String {
        let has = |name: &str| {
            let is =
                |header: &String| header.split(':').next().is_some_and(|is| is.eq_ignore_ascii_case(name));
            self.headers.iter().any(is)
        };
        let mut lines = vec![format!("GET {} HTTP/1.1", self.path)];
        let host = match self.host.as_str() {
            "" => address.to_string(),
            host if host.contains(':') => format!("[{host}]:{}", self.port),
            host => format!("{host}:{}", self.port),
        };
        for (name, value) in [("Host", &*host), ("User-Agent", "headgate-hold"), ("Accept", "*/*")] {
            if !has(name) {
                lines.push(format!("{name}: {value}"));
            }
        }
        lines.extend(self.headers.iter().cloned());
        lines.push("Connection: close\r\n\r\n".to_owned());
        lines.join("\r\n")
    }

    fn connect(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let addresses: Vec<SocketAddr> = if self.host.is_empty() {
            own_addresses().into_iter().map(|ip| (ip, self.port).into()).collect()
        } else {
            (self.host.as_str(), self.port).to_socket_addrs()?.collect()
        };
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(connection) => return Ok((connection, address)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Returns the addresses that this pod may listen on. The first address is the pod's own IP, which the kubelet uses
/// too. The loopback addresses follow.
fn own_addresses() -> Vec<IpAddr> {
    let towards = |from: SocketAddr, to: SocketAddr| -> io::Result<IpAddr> {
        // A UDP socket sends nothing on `connect`, and only selects the local address of the route.
        let socket = UdpSocket::bind(from)?;
        socket.connect(to)?;
        Ok(socket.local_addr()?.ip())
    };
    // The addresses are reserved for documentation (RFC 5737, RFC 3849), so no host has them.
    let v4 = towards((Ipv4Addr::UNSPECIFIED, 0).into(), (Ipv4Addr::new(192, 0, 2, 1), 9).into());
    let v6 = towards(
        (Ipv6Addr::UNSPECIFIED, 0).into(),
        (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9).into(),
    );
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    [v4, v6].into_iter().flatten().filter(|ip| !ip.is_unspecified()).chain(loopback).collect()
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    /// Starts a server that gives one answer. The handle returns the request that the server received.
    fn server(answer: &'static str) -> (u16, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut asked = Vec::new();
            let mut byte = [0];
            while !asked.ends_with(b"\r\n\r\n") {
                connection.read_exact(&mut byte).unwrap();
                asked.push(byte[0]);
            }
            connection.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(asked).unwrap()
        });
        (port, asked)
    }

    #[test]
    fn any_answer_is_a_success_and_the_request_is_as_the_hook_has_it() {
        for answer in
            ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", "HTTP/1.0 404 No"]
        {
            let (port, asked) = server(answer);
            let headers = vec!["X-By: a b".to_owned()];
            Request::read(&format!("127.0.0.1:{port}"), "/quit?now=1".into(), headers)
                .unwrap()
                .send()
                .unwrap();
            let asked = asked.join().unwrap();
            let expected = format!(
                "GET /quit?now=1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: headgate-hold\r\nAccept: */*\r\n\
                 X-By: a b\r\nConnection: close\r\n\r\n"
            );
            assert_eq!(asked, expected);
        }
    }

    #[test]
    fn without_a_host_the_pod_itself_is_asked_and_its_own_headers_count() {
        let (port, asked) = server("HTTP/1.1 200 OK\r\n\r\n");
        let headers = vec!["host: example.com".to_owned(), "User-Agent: kube".to_owned()];
        Request::read(&format!(":{port}"), "/".into(), headers).unwrap().send().unwrap();
        let asked = asked.join().unwrap();
        assert!(asked.contains("\r\nhost: example.com\r\nUser-Agent: kube\r\n"), "{asked}");
        assert!(!asked.contains("Host:") && !asked.contains("headgate-hold"), "{asked}");
    }

    #[test]
    fn who_does_not_answer_or_does_not_speak_http_is_an_error_that_names_him() {
        let to = |to: String| Request::read(&to, "/quit".into(), Vec::new()).unwrap();
        // No process listens on port 1, and the system never assigns port 1.
        let error = to("127.0.0.1:1".to_owned()).send().unwrap_err();
        assert!(error.starts_with("cannot send GET /quit of port 1 of 127.0.0.1: "), "{error}");
        let (port, _asked) = server("220 ready\r\n\r\n");
        let error = to(format!("127.0.0.1:{port}")).send().unwrap_err();
        assert!(error.ends_with("it is not HTTP"), "{error}");
    }

    #[test]
    fn a_host_may_be_an_ipv6_address_with_or_without_brackets() {
        for to in ["[fd00::1]:80", "fd00::1:80"] {
            let request = Request::read(to, "/".into(), Vec::new()).unwrap();
            assert_eq!((&*request.host, request.port), ("fd00::1", 80));
            let text = request.text(SocketAddr::from(([0, 0, 0, 0], 0)));
            assert!(text.contains("\r\nHost: [fd00::1]:80\r\n"), "{text}");
        }
    }
}
