//! Whether the engine is progressing, and whether its initial sync is complete.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use crate::runtime::clock::Clock;

/// The owner of the engine writes the pulse, and the probes read it.
#[derive(Debug)]
pub struct Pulse {
    clock: Clock,
    moved_at_millis: AtomicU64,
    synced: AtomicBool,
}

impl Pulse {
    /// A pulse that begins now.
    pub fn new(clock: Clock) -> Self {
        Self { clock, moved_at_millis: AtomicU64::new(millis(clock)), synced: AtomicBool::new(false) }
    }

    /// Records that the engine has progressed.
    pub fn beat(&self, synced: bool) {
        self.moved_at_millis.store(millis(self.clock), Ordering::Relaxed);
        self.synced.store(synced, Ordering::Relaxed);
    }

    /// The time since the engine last progressed.
    pub fn still_for(&self) -> Duration {
        let moved = self.moved_at_millis.load(Ordering::Relaxed);
        Duration::from_millis(millis(self.clock).saturating_sub(moved))
    }

    /// Whether the engine's initial sync is complete.
    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Relaxed)
    }
}

fn millis(clock: Clock) -> u64 {
    u64::try_from(clock.now().elapsed().as_millis()).unwrap_or(u64::MAX)
}
