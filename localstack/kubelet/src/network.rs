//! Loopback networks for tests. No other test or run uses the same network.
//!
//! A listener in one of 127.2.0.0/16 to 127.99.0.0/16 reserves the /16 range while the test process runs. Each call
//! returns a /24 of the reserved range.

use ipnet::Ipv4Net;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// The port of the listener that reserves a range.
const TAKEN: u16 = 65_000;

/// Returns a /24 that no other test uses.
pub fn network() -> Ipv4Net {
    static HELD: OnceLock<(u8, TcpListener)> = OnceLock::new();
    static NEXT: AtomicU8 = AtomicU8::new(0);
    let (second, _) = HELD.get_or_init(|| {
        let mut candidates = 2..100;
        candidates
            .find_map(|second| {
                let listener = TcpListener::bind((Ipv4Addr::new(127, second, 255, 254), TAKEN)).ok()?;
                Some((second, listener))
            })
            .expect("a free loopback network")
    });
    let third = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(third < 255, "more tests than networks");
    Ipv4Net::new_assert(Ipv4Addr::new(127, *second, third, 0), 24)
}
