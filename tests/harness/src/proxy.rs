//! A TCP proxy that can be cut, between a program and the API server or AWS, or between a browser and a program.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use localstack_world::Facts;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::aws::authority;

/// A proxy on loopback. While it is cut, it closes all connections, including new ones.
pub struct Proxy {
    address: SocketAddr,
    open: watch::Sender<bool>,
    /// How often all connections were frozen.
    frozen: watch::Sender<u64>,
    /// Whether new connections are accepted and then ignored.
    hanging: watch::Sender<bool>,
}

impl Proxy {
    /// A proxy to the API server of the local world.
    pub async fn to_api_server(facts: &Facts) -> Self {
        Self::to(authority(facts.api_server.trim_start_matches("https://"))).await
    }

    /// A proxy to the AWS API of the local world.
    pub async fn to_aws(facts: &Facts) -> Self {
        Self::to(authority(&facts.aws_endpoint)).await
    }

    /// A proxy to this address.
    pub async fn to(upstream: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (open, is_open) = watch::channel(true);
        let (frozen, is_frozen) = watch::channel(0);
        let (hanging, is_hanging) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (upstream, mut is_open, mut is_frozen) =
                    (upstream.clone(), is_open.clone(), is_frozen.clone());
                is_frozen.mark_unchanged();
                let mut is_hanging = is_hanging.clone();
                tokio::spawn(async move {
                    if !*is_open.borrow_and_update() {
                        return;
                    }
                    if *is_hanging.borrow_and_update() {
                        drop(is_hanging.wait_for(|hangs| !hangs).await);
                        return;
                    }
                    let Ok(mut server) = TcpStream::connect(upstream).await else { return };
                    let cut = async |is_open: &mut watch::Receiver<bool>| {
                        drop(is_open.wait_for(|open| !open).await);
                    };
                    let freezes = tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => false,
                        () = cut(&mut is_open) => false,
                        changed = is_frozen.changed() => changed.is_ok(),
                    };
                    if freezes {
                        cut(&mut is_open).await;
                    }
                });
            }
        });
        Self { address, open, frozen, hanging }
    }

    /// Closes all connections and refuses new ones.
    pub fn cut(&self) {
        self.open.send_replace(false);
    }

    /// Freezes current connections: they remain open but carry no more data, as behind a firewall that forgot them. New
    /// connections work.
    pub fn freeze(&self) {
        self.frozen.send_modify(|times| *times += 1);
    }

    /// Like [`freeze`](Self::freeze), but new connections are accepted and carry no data either.
    pub fn hang(&self) {
        self.hanging.send_replace(true);
        self.freeze();
    }

    /// Restores new connections.
    pub fn heal(&self) {
        self.open.send_replace(true);
        self.hanging.send_replace(false);
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Writes a kubeconfig that uses this proxy.
    pub fn kubeconfig(&self, facts: &Facts, folder: &Path) -> PathBuf {
        let direct = std::fs::read_to_string(&facts.kubeconfig).unwrap();
        let through = direct.replace(&facts.api_server, &format!("https://{}", self.address));
        assert_ne!(direct, through, "the kubeconfig names {}", facts.api_server);
        let path = folder.join(format!("proxy-{}.kubeconfig", self.address.port()));
        std::fs::write(&path, through).unwrap();
        path
    }
}
