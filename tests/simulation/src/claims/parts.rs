//! Pods, and the names of things.

use std::{net::IpAddr, time::Duration};

use headgate_core::{
    Target,
    ledger::PodMark,
    model::{Moment, Uid},
};

use super::shapes::Shape;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    #[default]
    NotYet,
    Running,
    /// Deleted; it still answers and has its address.
    Terminating,
    /// Its address is free.
    Ended,
    Gone,
}

/// Whether somebody asks to evict a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Asks {
    #[default]
    Nobody,
    Somebody,
    NotAnyMore,
}

#[allow(clippy::struct_excessive_bools, reason = "each is one thing that is seen of it")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pod {
    pub phase: Phase,
    pub address: usize,
    pub is_bound: bool,
    pub answers: bool,
    pub gate_is_open: bool,
    /// Whether the annotation says that it should leave.
    pub leaves: bool,
    pub asks: Asks,
    /// A write that opens the gate was given up.
    pub late_gate: bool,
}

impl Pod {
    /// What a leader sees of it.
    pub const fn seen(&self) -> (Phase, usize, bool, bool) {
        (self.phase, self.address, self.is_bound, self.leaves)
    }
}

/// The moment of a tick.
pub fn moment(tick: u32) -> Moment {
    Moment::after_start(Duration::from_secs(1_000 + u64::from(tick)))
}

pub fn target(shape: &Shape, target: usize) -> Target {
    let host = if shape.two_groups { 0 } else { target };
    Target::new(IpAddr::from([10, 0, 0, u8::try_from(host).unwrap_or_default()]), 80)
}

pub fn mark(pod: usize) -> PodMark {
    PodMark::of(&Uid::new(format!("pod-{pod}")))
}
