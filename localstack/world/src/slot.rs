//! Slots: the part of the loopback range that a local cluster uses.
//!
//! Each slot has at most one holder. Slot N is the range 127.(100+N).0.0/16 (see [`crate::network`]). All programs in a
//! network namespace share these ranges, including local clusters of other users and local clusters in other cache
//! folders. A socket with an abstract name therefore holds a slot. An abstract socket has the same scope as the slot,
//! and has no file. When the holder exits, the kernel closes the socket. Programs that use loopback addresses without a
//! slot are not detected.

use std::{
    io,
    ops::RangeInclusive,
    os::{linux::net::SocketAddrExt, unix::net::SocketAddr, unix::net::UnixListener},
};

/// The valid numbers of slots.
pub const SLOTS: RangeInclusive<u8> = 1..=100;

/// A slot that this process holds.
#[derive(Debug)]
pub struct Slot {
    number: u8,
    _name: UnixListener,
}

impl Slot {
    /// Takes the lowest free slot.
    pub fn take() -> Result<Self, SlotError> {
        Self::take_from("headgate-world-slot", SLOTS)
    }

    fn take_from(prefix: &str, numbers: RangeInclusive<u8>) -> Result<Self, SlotError> {
        let count = numbers.clone().count();
        for number in numbers {
            let name = format!("{prefix}-{number}");
            let bound = SocketAddr::from_abstract_name(name).and_then(|name| UnixListener::bind_addr(&name));
            match bound {
                Ok(name) => return Ok(Self { number, _name: name }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(SlotError::Io(error)),
            }
        }
        Err(SlotError::AllTaken(count))
    }

    /// Returns the number of the slot, which is in [`SLOTS`].
    pub fn number(&self) -> u8 {
        self.number
    }
}

/// The reason why no slot is available.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// All slots are in use.
    #[error("all {0} parts of the loopback range are in use: take a world down (`world down --name NAME`)")]
    AllTaken(usize),
    /// The system does not allow an abstract socket.
    #[error("cannot bind the abstract socket that holds a slot of the loopback range: {0}")]
    Io(io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_one_holder_and_is_free_again_when_dropped() {
        let prefix = format!("headgate-unit-holder-{}", std::process::id());
        let first = Slot::take_from(&prefix, 1..=2).unwrap();
        let second = Slot::take_from(&prefix, 1..=2).unwrap();
        assert_eq!((first.number(), second.number()), (1, 2));
        let error = Slot::take_from(&prefix, 1..=2).unwrap_err().to_string();
        assert!(error.contains("all 2 parts"), "{error}");
        assert!(error.contains("world down"), "{error}");
        drop(first);
        assert_eq!(Slot::take_from(&prefix, 1..=2).unwrap().number(), 1);
    }
}
