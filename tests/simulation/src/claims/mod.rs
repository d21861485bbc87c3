//! Every order of events and faults in small worlds around the real targets of a leader: claims, ledger, take-over.
//!
//! The exhaustive worlds of `exhaustive/` hold two whole engines and can play one fault on a path. Here a leader is only
//! [`Targets`](headgate_core::targets::claims::Targets), so that two or three faults on a path, deposed leaders that act on, and
//! calls that take effect late can all be tried in every order. The rest of a leader is played by the few rules in `leader.rs`:
//! who owns a target, when a gate opens, when a pod may be evicted.
//!
//! **The world.** Up to two targets in one or two target groups, each group with a ledger; two pods, of which the second one may
//! get the address of the first; a leader, and at times a deposed one that has not noticed. One tick is one second.
//!
//! **What is asked**, after each event (`properties.rs`): I1 and I2; a gate opens only for health of this pod and this
//! registration; a pod is let go only when nothing sends to it; nothing foreign or living is removed. And when nothing more goes
//! wrong, all comes to rest: the wanted targets are registered, gates are open, the ledger names what is registered.
//!
//! ```text
//!  world       what there is, what may happen, what follows    aws, parts  target groups, pods
//!  leader      a leader: its targets, calls and writes         properties  what must hold
//!  shapes      the worlds, and how much may go wrong           explore     breadth first through all states
//! ```

mod aws;
mod explore;
mod fingerprint;
mod leader;
mod parts;
mod properties;
mod shapes;
mod world;

pub use self::{
    explore::{Explored, Wrong, explore},
    shapes::{SHAPES, Shape},
};

/// A mistake shows within so many states of a world.
const ENOUGH: usize = 250_000;

/// What is wrong in the first world in which something is.
pub fn first_wrong() -> Option<String> {
    let mut all = (0..=2).flat_map(|faults| SHAPES.iter().map(move |shape| (shape, faults)));
    all.find_map(|(shape, faults)| explore(shape, faults, ENOUGH).err()).map(|wrong| wrong.to_string())
}
