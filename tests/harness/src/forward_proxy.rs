//! A forward proxy like in companies, with HTTP CONNECT and SOCKS 5 on the same port.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use localstack_world::Facts;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A proxy that serves until it is dropped.
pub struct ForwardProxy {
    /// Its address.
    pub address: SocketAddr,
    by_http: Arc<AtomicUsize>,
    by_socks: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl ForwardProxy {
    /// Starts it on loopback.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (by_http, by_socks) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let counts = (by_http.clone(), by_socks.clone());
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (by_http, by_socks) = counts.clone();
                tokio::spawn(async move {
                    let mut first = [0];
                    if client.peek(&mut first).await.is_err() {
                        return;
                    }
                    // The client sees all errors.
                    let _ = if first == [5] {
                        socks(client, &by_socks).await
                    } else {
                        connect(client, &by_http).await
                    };
                });
            }
        });
        Self { address, by_http, by_socks, serving }
    }

    /// The number of forwarded connections, by HTTP and by SOCKS.
    pub fn led(&self) -> (usize, usize) {
        (self.by_http.load(Relaxed), self.by_socks.load(Relaxed))
    }

    /// Writes a kubeconfig whose cluster has this proxy as its `proxy-url`.
    pub fn kubeconfig(&self, facts: &Facts, folder: &Path, scheme: &str) -> PathBuf {
        let direct = std::fs::read_to_string(&facts.kubeconfig).unwrap();
        let mut kubeconfig: Value = serde_saphyr::from_str(&direct).unwrap();
        kubeconfig["clusters"][0]["cluster"]["proxy-url"] = format!("{scheme}://{}", self.address).into();
        let path = folder.join(format!("{scheme}-{}.kubeconfig", self.address.port()));
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        path
    }
}

impl Drop for ForwardProxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn lead(mut client: TcpStream, to: &str, answer: &[u8], count: &AtomicUsize) -> io::Result<()> {
    let mut server = TcpStream::connect(to).await?;
    client.write_all(answer).await?;
    count.fetch_add(1, Relaxed);
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}

async fn connect(mut client: TcpStream, count: &AtomicUsize) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 8192 {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let Some(to) = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()) else {
        return Ok(());
    };
    lead(client, to, b"HTTP/1.1 200 OK\r\n\r\n", count).await
}

/// RFC 1928, without authentication, for addresses and names.
async fn socks(mut client: TcpStream, count: &AtomicUsize) -> io::Result<()> {
    let mut greeting = [0; 2];
    client.read_exact(&mut greeting).await?;
    let mut methods = vec![0; greeting[1].into()];
    client.read_exact(&mut methods).await?;
    client.write_all(&[5, 0]).await?;
    let mut request = [0; 4];
    client.read_exact(&mut request).await?;
    let host = match request[3] {
        1 => {
            let mut ip = [0; 4];
            client.read_exact(&mut ip).await?;
            std::net::Ipv4Addr::from(ip).to_string()
        }
        3 => {
            let mut name = vec![0; client.read_u8().await?.into()];
            client.read_exact(&mut name).await?;
            String::from_utf8_lossy(&name).into_owned()
        }
        _ => return Ok(()),
    };
    let to = format!("{host}:{}", client.read_u16().await?);
    lead(client, &to, &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0], count).await
}
