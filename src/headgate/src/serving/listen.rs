//! Opens the address on which a server listens.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use tokio::net::TcpListener;
use tracing::info;

/// Listens on an address. On a machine without IPv6, `[::]` means all IPv4 addresses.
///
/// # Errors
/// The address is not available.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) if is_all_ipv6(address) && has_no_ipv6(&error) => {
            let instead = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
            info!(%address, %instead, %error, "this machine has no IPv6, listening on IPv4 only");
            TcpListener::bind(instead).await
        }
        listened => listened,
    }
}

fn is_all_ipv6(address: SocketAddr) -> bool {
    matches!(address.ip(), IpAddr::V6(ip) if ip.is_unspecified())
}

/// Whether the machine has no IPv6.
fn has_no_ipv6(error: &io::Error) -> bool {
    const EAFNOSUPPORT: i32 = 97;
    error.raw_os_error() == Some(EAFNOSUPPORT) || error.kind() == io::ErrorKind::AddrNotAvailable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_listens_on_all_addresses_answers_ipv4_too() {
        let listener = listen("[::]:0".parse().unwrap()).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (accepted, connected) =
            tokio::join!(listener.accept(), tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)));
        connected.unwrap();
        assert_eq!(accepted.unwrap().1.ip().to_canonical(), IpAddr::from(Ipv4Addr::LOCALHOST));
    }

    #[test]
    fn only_a_missing_family_of_addresses_is_made_up_for() {
        assert!(has_no_ipv6(&io::Error::from_raw_os_error(97)));
        assert!(!has_no_ipv6(&io::Error::from(io::ErrorKind::AddrInUse)));
        assert!(is_all_ipv6("[::]:8080".parse().unwrap()));
        assert!(!is_all_ipv6("[::1]:8080".parse().unwrap()) && !is_all_ipv6("0.0.0.0:8080".parse().unwrap()));
    }
}
