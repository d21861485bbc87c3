//! The ports of a cluster's servers.
//!
//! The ports are chosen once per local cluster, so that a restarted component listens on the same port. A local cluster
//! has its own IP address (see [`crate::network`]). The usual ports are therefore free, unless another program listens
//! on all addresses. If another program has a usual port, a different port is chosen. No other program can take the
//! chosen port, because no other program uses the IP address.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
};

/// The addresses of a cluster's servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The address of etcd for the API server (HTTP).
    pub etcd: SocketAddr,
    /// The address of etcd for other members, of which there are none (HTTP).
    pub etcd_peer: SocketAddr,
    /// The address of kube-apiserver (HTTPS).
    pub api_server: SocketAddr,
    /// The address of kube-controller-manager for health and metrics (HTTPS).
    pub controller_manager: SocketAddr,
    /// The address of kube-scheduler for health and metrics (HTTPS).
    pub scheduler: SocketAddr,
    /// The address of the ELBv2 Query API (HTTP).
    pub elbv2: SocketAddr,
    /// The address of the load balancers' control API (HTTP).
    pub elbv2_control: SocketAddr,
    /// The address of the DNS server for the load balancers' names (UDP).
    pub dns: SocketAddr,
    /// The address of the simulated kubelets' control API (HTTP).
    pub kubelet_control: SocketAddr,
}

/// Chooses the ports of a local cluster. No other local cluster uses this IP address.
pub fn choose(ip: Ipv4Addr) -> io::Result<Ports> {
    let tcp = |usual| {
        free(ip, usual, |address| TcpListener::bind(address).and_then(|listener| listener.local_addr()))
    };
    let udp =
        |usual| free(ip, usual, |address| UdpSocket::bind(address).and_then(|socket| socket.local_addr()));
    Ok(Ports {
        etcd: tcp(2379)?,
        etcd_peer: tcp(2380)?,
        api_server: tcp(6443)?,
        controller_manager: tcp(10257)?,
        scheduler: tcp(10259)?,
        elbv2: tcp(4566)?,
        elbv2_control: tcp(4567)?,
        dns: udp(5300)?,
        kubelet_control: tcp(4568)?,
    })
}

fn free(
    ip: Ipv4Addr,
    usual: u16,
    bind: impl Fn(SocketAddr) -> io::Result<SocketAddr>,
) -> io::Result<SocketAddr> {
    let address = |port| SocketAddr::new(IpAddr::V4(ip), port);
    match bind(address(usual)) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => bind(address(0)),
        bound => bound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The address is outside the range of all slots, so no local cluster uses it.
    const IP: Ipv4Addr = Ipv4Addr::new(127, 99, 0, 1);

    // The test defines the free ports, and does not probe this machine. After a test has released a port, the port may
    // remain in use for a moment. The reason is that a new child process of another test holds all sockets until its
    // own code begins.
    #[test]
    fn a_usual_port_that_is_taken_is_replaced_by_a_free_one() {
        let taken = |address: SocketAddr| match address.port() {
            4566 => Err(io::ErrorKind::AddrInUse.into()),
            0 => Ok(SocketAddr::new(address.ip(), 40_000)),
            _ => Ok(address),
        };
        assert_eq!(free(IP, 4566, taken).unwrap(), SocketAddr::from((IP, 40_000)));
        assert_eq!(free(IP, 4567, taken).unwrap(), SocketAddr::from((IP, 4567)));
    }

    #[test]
    fn a_port_that_cannot_be_had_for_another_reason_is_an_error() {
        let denied = |_| Err(io::ErrorKind::PermissionDenied.into());
        assert_eq!(free(IP, 4566, denied).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn every_server_has_a_port_of_its_own() {
        let ports = choose(Ipv4Addr::new(127, 99, 0, 2)).unwrap();
        let mut all = vec![
            ports.etcd,
            ports.etcd_peer,
            ports.api_server,
            ports.controller_manager,
            ports.scheduler,
            ports.elbv2,
            ports.elbv2_control,
            ports.dns,
            ports.kubelet_control,
        ];
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 9);
    }
}
