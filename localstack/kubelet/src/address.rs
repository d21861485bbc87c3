//! Pod addresses, with one pool per zone.
//!
//! A pool tracks which loopback addresses are in use, and when a returned address may be reused. The module opens no
//! sockets. If a pool is empty, the pod waits in `ContainerCreating`. A pod on a node with a full subnet waits in the
//! same state.

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::time::Instant;

/// The number of addresses at the start of a zone's range that pods never get.
pub const RESERVED: u32 = 10;

/// How long the VPC CNI keeps a returned address before another pod may get it (`IP_COOLDOWN_PERIOD`).
pub const COOL_DOWN: Duration = Duration::from_secs(30);

/// The reusable address that a pod gets first. With either value, pods get reused addresses before new addresses. A
/// controller must handle reuse, so reuse happens as early as the rules allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reuse {
    /// The lowest address.
    #[default]
    Lowest,
    /// The address that was returned last.
    Eager,
}

/// The addresses of one zone.
#[derive(Debug)]
pub struct IpPool {
    range: Ipv4Net,
    cool_down: Duration,
    reuse: Reuse,
    returned: u64,
    /// The lowest offset that has never been used.
    fresh: u32,
    used: BTreeSet<u32>,
    /// The reusable addresses. The value is the number of the return.
    free: BTreeMap<u32, u64>,
    /// The addresses in cool-down, each with the time and the number of its return.
    cooling: VecDeque<(Instant, u64, u32)>,
}

impl IpPool {
    /// Creates a pool of the addresses in `range`. A returned address is not reused for `cool_down`.
    pub fn new(range: Ipv4Net, cool_down: Duration) -> Self {
        Self {
            range,
            cool_down,
            reuse: Reuse::default(),
            returned: 0,
            fresh: RESERVED,
            used: BTreeSet::new(),
            free: BTreeMap::new(),
            cooling: VecDeque::new(),
        }
    }

    /// Returns the cool-down and the order of reuse.
    pub fn rules(&self) -> (Duration, Reuse) {
        (self.cool_down, self.reuse)
    }

    /// Changes the cool-down and the order of reuse, also for addresses that are in cool-down.
    pub fn set_rules(&mut self, cool_down: Duration, reuse: Reuse) {
        (self.cool_down, self.reuse) = (cool_down, reuse);
    }

    /// Takes an address from the pool. `None`: all addresses are in use or in cool-down.
    pub fn allocate(&mut self, now: Instant) -> Option<Ipv4Addr> {
        while let Some(&(since, count, offset)) = self.cooling.front() {
            if since + self.cool_down > now {
                break;
            }
            self.cooling.pop_front();
            self.free.insert(offset, count);
        }
        let next = match self.reuse {
            Reuse::Lowest => self.free.keys().next().copied(),
            Reuse::Eager => self.free.iter().max_by_key(|(_, count)| **count).map(|(offset, _)| *offset),
        };
        let offset = match next.inspect(|offset| _ = self.free.remove(offset)) {
            Some(offset) => offset,
            None if self.fresh < self.last() => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => return None,
        };
        self.used.insert(offset);
        Some(self.at(offset))
    }

    /// Takes the address that a pod of an earlier run has in its status. Returns `false` if the address is outside the
    /// range, is reserved, or belongs to another pod.
    pub fn claim(&mut self, ip: Ipv4Addr) -> bool {
        let Some(offset) = u32::from(ip).checked_sub(u32::from(self.range.network())) else {
            return false;
        };
        if offset < RESERVED || offset >= self.last() || self.used.contains(&offset) {
            return false;
        }
        if offset >= self.fresh {
            self.free.extend((self.fresh..offset).map(|skipped| (skipped, 0)));
            self.fresh = offset + 1;
        } else {
            self.free.remove(&offset);
            self.cooling.retain(|(_, _, other)| *other != offset);
        }
        self.used.insert(offset);
        true
    }

    /// Returns an address to the pool, where the cool-down begins. An address that is not in use is ignored.
    pub fn release(&mut self, ip: Ipv4Addr, now: Instant) {
        let offset = u32::from(ip).wrapping_sub(u32::from(self.range.network()));
        if self.used.remove(&offset) {
            self.returned += 1;
            self.cooling.push_back((now, self.returned, offset));
        }
    }

    /// Returns the offset of the broadcast address, which is never used.
    fn last(&self) -> u32 {
        u32::from(self.range.broadcast()) - u32::from(self.range.network())
    }

    fn at(&self, offset: u32) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.range.network()) + offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(range: &str) -> IpPool {
        IpPool::new(range.parse().unwrap(), COOL_DOWN)
    }

    #[test]
    fn the_first_ten_addresses_are_never_given_out() {
        let mut pool = pool("127.101.32.0/19");
        assert_eq!(pool.allocate(Instant::now()), Some(Ipv4Addr::new(127, 101, 32, 10)));
        assert_eq!(pool.allocate(Instant::now()), Some(Ipv4Addr::new(127, 101, 32, 11)));
    }

    #[test]
    fn a_returned_address_rests_for_the_cool_down_and_is_then_the_next_one_given() {
        let mut pool = pool("127.101.0.0/19");
        let start = Instant::now();
        let first = pool.allocate(start).unwrap();
        pool.release(first, start);
        let second = pool.allocate(start + COOL_DOWN - Duration::from_millis(1)).unwrap();
        assert_ne!(second, first);
        assert_eq!(pool.allocate(start + COOL_DOWN), Some(first));
    }

    #[test]
    fn a_full_range_gives_nothing_until_something_has_cooled_down() {
        let mut pool = pool("127.101.0.0/28");
        let start = Instant::now();
        let given: Vec<_> = std::iter::from_fn(|| pool.allocate(start)).collect();
        assert_eq!(given.len(), 5, "a /28 less ten reserved addresses and the broadcast address");
        pool.release(given[3], start);
        assert_eq!(pool.allocate(start), None);
        assert_eq!(pool.allocate(start + COOL_DOWN), Some(given[3]));
    }

    #[test]
    fn a_claimed_address_is_not_given_to_another_pod() {
        let mut pool = pool("127.101.0.0/19");
        let start = Instant::now();
        assert!(pool.claim(Ipv4Addr::new(127, 101, 0, 11)));
        assert!(!pool.claim(Ipv4Addr::new(127, 101, 0, 11)));
        assert!(!pool.claim(Ipv4Addr::new(127, 101, 0, 3)), "reserved");
        assert!(!pool.claim(Ipv4Addr::new(127, 102, 0, 11)), "another range");
        let given: Vec<_> = (0..3).map_while(|_| pool.allocate(start)).collect();
        assert_eq!(given, [10, 12, 13].map(|last| Ipv4Addr::new(127, 101, 0, last)));
    }

    #[test]
    fn eager_reuse_without_a_cool_down_gives_the_address_that_was_returned_last() {
        let mut pool = pool("127.101.0.0/19");
        let start = Instant::now();
        let given: Vec<_> = (0..4).map_while(|_| pool.allocate(start)).collect();
        for ip in [given[0], given[3], given[1]] {
            pool.release(ip, start);
        }
        pool.set_rules(Duration::ZERO, Reuse::Eager);
        let again: Vec<_> = (0..3).map_while(|_| pool.allocate(start)).collect();
        assert_eq!(again, [given[1], given[3], given[0]], "even what rested already");
        for ip in [given[0], given[3], given[1]] {
            pool.release(ip, start);
        }
        pool.set_rules(Duration::ZERO, Reuse::Lowest);
        assert_eq!(pool.allocate(start), Some(given[0]));
    }

    #[test]
    fn releasing_twice_gives_the_address_out_once() {
        let mut pool = pool("127.101.0.0/28");
        let start = Instant::now();
        let ip = pool.allocate(start).unwrap();
        pool.release(ip, start);
        pool.release(ip, start);
        let later = start + COOL_DOWN;
        let given: Vec<_> =
            std::iter::from_fn(|| pool.allocate(later)).filter(|other| *other == ip).collect();
        assert_eq!(given, [ip]);
    }
}
