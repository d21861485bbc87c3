//! The network of a local cluster with real nodes, which is a separate network namespace.
//!
//! The module sets up the network before the first program starts. The network contains loopback, a bridge `vpc` with
//! the addresses of the servers and nodes, and the address range of the load balancers. Programs can bind every address
//! of this range. The network has no route to the machine or the internet. When the last process of the network exits,
//! the kernel removes the network, including bridges and the rules of kube-proxy.

use std::{
    fs, io,
    net::Ipv4Addr,
    os::fd::AsFd,
    path::Path,
    process::{Command, Stdio},
};

use ipnet::Ipv4Net;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

/// The addresses of this network that do not belong to pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The address range of the local cluster's servers.
    pub servers: Ipv4Net,
    /// The addresses of the kubelets. Each node has one address.
    pub nodes: Vec<Ipv4Addr>,
    /// The address range of the load balancers.
    pub balancers: Ipv4Net,
}

/// Moves the calling thread into a new network with these addresses. All processes that the thread starts later also
/// use this network. The calling process must not have other threads.
///
/// # Errors
/// The process is not root, or the command `ip` is missing.
pub fn create(addresses: &Addresses) -> Result<(), NetworkError> {
    // The function is deprecated because of other flags. The flag `NEWNET` affects neither memory nor file descriptors.
    #[expect(deprecated)]
    let moved = rustix::thread::unshare(UnshareFlags::NEWNET);
    moved.map_err(|errno| NetworkError::Create(errno.into()))?;
    run_ip(&commands(addresses))?;
    let forward = "/proc/sys/net/ipv4/ip_forward";
    fs::write(forward, "1").map_err(NetworkError::Forward)
}

/// Moves the calling thread, and all processes that it starts later, into the network of this file
/// (`/proc/PID/ns/net`).
///
/// # Errors
/// The file is not a network namespace, or the caller is not root.
pub fn enter(file: &Path) -> io::Result<()> {
    let file = fs::File::open(file)?;
    Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Returns the input of `ip -batch`.
fn commands(addresses: &Addresses) -> String {
    let Addresses { servers, nodes, balancers } = addresses;
    let mut lines = vec![
        "link set lo up".to_owned(),
        "link add vpc type bridge".to_owned(),
        format!("address add {servers} dev vpc"),
    ];
    lines.extend(nodes.iter().map(|ip| format!("address add {ip}/{} dev vpc", servers.prefix_len())));
    lines.extend([
        "link set vpc up".to_owned(),
        // The kubelet and the API server require a default route. Packets on this route are lost.
        "route add default dev vpc".to_owned(),
        format!("route add local {balancers} dev lo"),
    ]);
    lines.join("\n") + "\n"
}

fn run_ip(commands: &str) -> Result<(), NetworkError> {
    let started = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = started.map_err(NetworkError::Ip)?;
    if let Some(input) = child.stdin.take() {
        let mut input = input;
        io::Write::write_all(&mut input, commands.as_bytes()).map_err(NetworkError::Ip)?;
    }
    let output = child.wait_with_output().map_err(NetworkError::Ip)?;
    if output.status.success() {
        return Ok(());
    }
    Err(NetworkError::Refused(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// The reason why the network could not be created.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The namespace could not be created.
    #[error("cannot make a network namespace ({0}): real nodes need root")]
    Create(io::Error),
    /// `ip` could not be started.
    #[error("cannot run ip ({0}): apt-get install iproute2")]
    Ip(io::Error),
    /// `ip` failed.
    #[error("ip refuses to set up the network: {0}")]
    Refused(String),
    /// Forwarding between pods could not be enabled.
    #[error("cannot switch forwarding on in the world's network: {0}")]
    Forward(io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_nodes_are_on_the_bridge_and_every_address_of_a_balancer_can_be_had() {
        let text = commands(&Addresses {
            servers: "10.0.192.1/19".parse().unwrap(),
            nodes: vec![Ipv4Addr::new(10, 0, 192, 11)],
            balancers: "10.0.224.0/19".parse().unwrap(),
        });
        for line in [
            "address add 10.0.192.1/19 dev vpc",
            "address add 10.0.192.11/19 dev vpc",
            "route add local 10.0.224.0/19 dev lo",
        ] {
            assert!(text.lines().any(|is| is == line), "{line}: {text}");
        }
    }
}
