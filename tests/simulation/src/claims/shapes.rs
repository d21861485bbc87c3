//! The worlds, and how much may go wrong on one path.

use std::time::Duration;

use headgate_core::targets::claims::Delays;

/// How long a call that was given up may take effect, in ticks.
pub const LATE: u32 = 2;
/// How long one may that a leader sends which stood still, beyond what anybody assumes.
pub const BEYOND: u32 = 8;
/// How old what a read shows may be.
pub const STALE: u32 = 1;
/// How long a load balancer goes on sending to what was removed.
pub const BOUND: u32 = 3;

/// How often each thing may go wrong on one path, and all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    pub all: u8,
    /// A call is given up: it may take effect late, or never.
    pub given_up: u8,
    /// The answer to a write of the ledger is lost; the write may arrive at any time.
    pub lost_write: u8,
    /// A read shows the past.
    pub stale_read: u8,
    /// The answer to a read takes a while.
    pub slow_read: u8,
    /// A read fails.
    pub failed_read: u8,
    pub crash: u8,
    pub deposed: u8,
    pub handed_over: u8,
    /// Somebody else registers an address of ours.
    pub stranger: u8,
    /// Somebody else removes a target of ours.
    pub removed_by_hand: u8,
    /// AWS refuses a call.
    pub refused: u8,
    /// A leader stands still after it has checked that it leads, and goes on later than any time-out. From then on only what must
    /// hold at rest is asked.
    pub paused: u8,
    /// A write that opens a gate is given up and may arrive later.
    pub late_gate: u8,
    /// Somebody deletes the ledger.
    pub ledger_deleted: u8,
    /// Whoever asks for an eviction stops, or begins again. No fault.
    pub stops: u8,
}

/// How a world is.
#[allow(clippy::struct_excessive_bools, reason = "each is one thing that may happen")]
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub name: &'static str,
    pub targets: usize,
    /// Whether the two targets are one address in two groups. Otherwise they are two addresses in one.
    pub two_groups: bool,
    pub second_pod: bool,
    /// The address of the second pod.
    pub second_address: usize,
    /// Which pods may be deleted, and evicted.
    pub deleted: [bool; 2],
    pub evicted: [bool; 2],
    /// Whether the binding of the first pod may be removed.
    pub unbound: bool,
    /// Whether the first pod may get another address while it lives.
    pub moves: bool,
    /// For so many ticks a deposed leader goes on.
    pub zombie: u32,
    pub has_ledger: bool,
    /// Whether somebody else has registered the first address already, and it is healthy.
    pub stranger_first: bool,
    /// A health check comes within so many ticks of a change; 0: at any time.
    pub notice: u32,
    /// Whether a leader sees changes of pods late.
    pub late_watch: bool,
    /// Whether time goes on while a call or a write is in flight.
    pub slow: bool,
    pub faults: Faults,
}

impl Shape {
    /// The group of a target.
    pub const fn group(&self, target: usize) -> usize {
        if self.two_groups { target } else { 0 }
    }

    pub const fn groups(&self) -> usize {
        if self.two_groups { self.targets } else { 1 }
    }

    /// The targets at this address.
    pub fn at(&self, address: usize) -> impl Iterator<Item = usize> + use<> {
        let Self { targets, two_groups, .. } = *self;
        (0..targets).filter(move |target| two_groups || *target == address)
    }

    /// What a leader assumes, with a margin for what it cannot measure.
    pub fn delays(&self) -> Delays {
        let ticks = |ticks: u32| Duration::from_secs(ticks.into());
        Delays { late: ticks(LATE + 1), stale: ticks(STALE), bound: ticks(BOUND), notice: ticks(self.notice) }
    }
}

const NONE: Faults = Faults {
    all: 0,
    given_up: 0,
    lost_write: 0,
    stale_read: 0,
    slow_read: 0,
    failed_read: 0,
    crash: 0,
    deposed: 0,
    handed_over: 0,
    stranger: 0,
    removed_by_hand: 0,
    refused: 0,
    paused: 0,
    late_gate: 0,
    ledger_deleted: 0,
    stops: 0,
};

const ONE: Shape = Shape {
    name: "",
    targets: 1,
    two_groups: false,
    second_pod: false,
    second_address: 0,
    deleted: [false; 2],
    evicted: [false; 2],
    unbound: false,
    moves: false,
    zombie: 0,
    has_ledger: true,
    stranger_first: false,
    notice: 0,
    late_watch: false,
    slow: true,
    faults: NONE,
};

const REUSED: Shape = Shape { second_pod: true, deleted: [true, false], ..ONE };
const EVICTED: Shape = Shape { evicted: [true, false], ..ONE };

/// All of them.
pub const SHAPES: [Shape; 17] = [
    Shape {
        name: "a pod is deleted and another one gets its address",
        faults: Faults {
            all: 2,
            given_up: 2,
            lost_write: 1,
            stale_read: 1,
            slow_read: 1,
            failed_read: 1,
            crash: 2,
            deposed: 1,
            handed_over: 1,
            ..NONE
        },
        ..REUSED
    },
    Shape {
        name: "a pod is evicted",
        faults: Faults {
            all: 2,
            given_up: 2,
            lost_write: 2,
            stale_read: 1,
            slow_read: 1,
            failed_read: 1,
            crash: 2,
            deposed: 1,
            handed_over: 1,
            late_gate: 1,
            stops: 2,
            ..NONE
        },
        ..EVICTED
    },
    Shape {
        name: "a pod is deleted, and the one that gets its address is evicted",
        evicted: [false, true],
        faults: Faults {
            all: 2,
            given_up: 1,
            lost_write: 1,
            stale_read: 1,
            crash: 1,
            deposed: 1,
            stops: 1,
            ..NONE
        },
        ..REUSED
    },
    Shape {
        name: "a pod is evicted, and another one gets its address",
        second_pod: true,
        faults: Faults {
            all: 2,
            given_up: 1,
            lost_write: 1,
            stale_read: 1,
            crash: 1,
            deposed: 1,
            stops: 1,
            ..NONE
        },
        ..EVICTED
    },
    Shape {
        name: "a pod is evicted while a deposed leader goes on",
        zombie: 1,
        faults: Faults {
            all: 2,
            given_up: 1,
            lost_write: 1,
            stale_read: 1,
            crash: 1,
            deposed: 1,
            stops: 1,
            ..NONE
        },
        ..EVICTED
    },
    Shape {
        name: "an address is used again while a deposed leader goes on",
        zombie: 1,
        faults: Faults { all: 2, given_up: 1, lost_write: 1, crash: 1, deposed: 1, ..NONE },
        ..REUSED
    },
    Shape {
        name: "somebody else registers an address of ours",
        faults: Faults { all: 2, given_up: 1, stale_read: 1, crash: 1, handed_over: 1, stranger: 1, ..NONE },
        ..REUSED
    },
    Shape {
        name: "a pod gets an address that somebody else has registered",
        stranger_first: true,
        notice: 1,
        deleted: [true, false],
        faults: Faults { all: 2, given_up: 1, stale_read: 1, crash: 1, ..NONE },
        ..ONE
    },
    Shape {
        name: "one pod in two groups is evicted",
        targets: 2,
        two_groups: true,
        slow: false,
        faults: Faults { all: 2, given_up: 1, lost_write: 1, stale_read: 1, crash: 1, deposed: 1, ..NONE },
        ..EVICTED
    },
    Shape {
        name: "there is no ledger yet, and a pod is deleted and its successor evicted",
        has_ledger: false,
        evicted: [false, true],
        faults: Faults { all: 2, given_up: 1, lost_write: 1, crash: 1, deposed: 1, stops: 1, ..NONE },
        ..REUSED
    },
    Shape {
        name: "the binding of a pod is removed, and the pod is evicted",
        unbound: true,
        faults: Faults {
            all: 2,
            given_up: 1,
            lost_write: 1,
            stale_read: 1,
            crash: 1,
            deposed: 1,
            stops: 1,
            ..NONE
        },
        ..EVICTED
    },
    Shape {
        name: "somebody deletes the ledger while a pod is evicted",
        has_ledger: false,
        faults: Faults { all: 2, given_up: 1, lost_write: 1, crash: 1, ledger_deleted: 1, stops: 1, ..NONE },
        ..EVICTED
    },
    Shape {
        name: "a pod is deleted, another one gets its address, and the leader sees that late",
        late_watch: true,
        faults: Faults { all: 1, given_up: 1, stale_read: 1, crash: 1, ..NONE },
        ..REUSED
    },
    Shape {
        name: "somebody removes targets of ours, and AWS refuses calls",
        faults: Faults {
            all: 2,
            removed_by_hand: 1,
            refused: 1,
            stale_read: 1,
            given_up: 1,
            crash: 1,
            ..NONE
        },
        ..REUSED
    },
    Shape {
        name: "somebody removes a target of ours while its pod is evicted",
        faults: Faults { all: 2, removed_by_hand: 1, refused: 1, crash: 1, stops: 1, ..NONE },
        ..EVICTED
    },
    Shape {
        name: "a leader stands still for longer than any time-out",
        evicted: [false, true],
        faults: Faults { all: 2, paused: 1, crash: 1, given_up: 1, ..NONE },
        ..REUSED
    },
    Shape {
        name: "a pod gets another address while it lives, and another pod gets the one before",
        targets: 2,
        moves: true,
        second_pod: true,
        slow: false,
        faults: NONE,
        ..EVICTED
    },
];
