//! How much may go wrong in a world, and how far it is followed.

use std::{thread, time::Duration};

/// Nothing is due for so long: all is at rest, and must be as it should be. Anything that is waited for comes sooner, but
/// for the next look at what others may have done, which is a minute after the last one.
pub const REST: Duration = Duration::from_secs(40);

/// The bounds of one exploration.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Whether the first pod is evicted, or deleted.
    pub is_evicted: bool,
    /// Whether the second pod gets the address when the first one is gone, or perhaps before.
    pub one_by_one: bool,
    /// Calls to AWS and writes of a ledger that go wrong on one path: lost, late, refused, throttled, or a read that shows
    /// the past.
    pub faults: u8,
    /// Leaders that die and start anew on one path.
    pub crashes: u8,
    /// Leaders that lose the Lease on one path while they live.
    pub deposals: u8,
    /// Of all these together on one path.
    pub troubles: u8,
    /// For so many jumps of time a user may put off what can be done next; later they do it when all has come to rest.
    pub dawdles: u8,
    /// After so many states it is given up.
    pub states: usize,
    /// So many threads look at states; 1: the one that asks.
    pub threads: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            is_evicted: false,
            one_by_one: false,
            faults: 0,
            crashes: 0,
            deposals: 0,
            troubles: 1,
            dawdles: 1,
            states: 100_000_000,
            threads: thread::available_parallelism().map_or(2, usize::from),
        }
    }
}
