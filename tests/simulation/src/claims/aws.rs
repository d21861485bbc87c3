//! A target as AWS has it, and the load balancer.

use super::shapes::{BOUND, STALE};

/// What a read shows of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Shown {
    #[default]
    Absent,
    Unhealthy,
    Healthy,
}

impl Shown {
    pub const ALL: [Self; 3] = [Self::Absent, Self::Unhealthy, Self::Healthy];
}

/// One target in AWS.
#[allow(clippy::struct_excessive_bools, reason = "each is one thing that AWS has")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Aws {
    pub is_registered: bool,
    /// Whether a call of ours, or of somebody else, has registered it.
    pub by_us: bool,
    pub by_stranger: bool,
    pub is_healthy: bool,
    /// The pods that a health check has reached since the registration began.
    pub proven: [bool; 2],
    /// The pods for which it was registered by us since it began, for as long as it may be sent to.
    pub sent_for: [bool; 2],
    /// For how many ticks it has been out. From [`BOUND`] on nothing is sent there.
    pub out: u32,
    /// Ticks since what is shown differs from what a health check would find.
    pub behind: u32,
    /// How many ticks ago each of [`Shown::ALL`] was what there was.
    past: [u32; 3],
}

impl Aws {
    pub const fn new(stranger: bool) -> Self {
        Self {
            is_registered: stranger,
            by_us: false,
            by_stranger: stranger,
            is_healthy: stranger,
            proven: [false; 2],
            sent_for: [false; 2],
            out: BOUND,
            behind: 0,
            past: [STALE + 1; 3],
        }
    }

    pub const fn shown(&self) -> Shown {
        match (self.is_registered, self.is_healthy) {
            (false, _) => Shown::Absent,
            (true, false) => Shown::Unhealthy,
            (true, true) => Shown::Healthy,
        }
    }

    /// All that a read may show: what there is, and what there was lately.
    pub fn may_show(&self) -> impl Iterator<Item = Shown> {
        let now = self.shown();
        let lately = move |(shown, ago): &(Shown, u32)| *shown == now || *ago <= STALE;
        Shown::ALL.into_iter().zip(self.past).filter(lately).map(|(shown, _)| shown)
    }

    /// Whether a load balancer may send there because of a call of ours.
    pub const fn sends(&self) -> bool {
        (self.is_registered && self.by_us) || self.out < BOUND
    }

    pub fn change(&mut self, how: impl FnOnce(&mut Self)) {
        let before = self.shown();
        how(self);
        if self.shown() != before {
            self.past[before as usize] = 0;
            self.past[self.shown() as usize] = STALE + 1;
        }
    }

    /// RegisterTargets for a pod takes effect. A target that is there stays as it is, with its health.
    pub fn register(&mut self, pod: usize) {
        self.change(|aws| {
            if !aws.is_registered {
                if aws.out >= BOUND {
                    aws.sent_for = [false; 2];
                }
                (aws.is_registered, aws.is_healthy, aws.by_stranger) = (true, false, false);
                (aws.proven, aws.out) = ([false; 2], BOUND);
            }
            aws.by_us = true;
            aws.sent_for[pod] = true;
        });
    }

    /// DeregisterTargets takes effect.
    pub fn deregister(&mut self) {
        self.change(|aws| {
            aws.out = if aws.by_us { 0 } else { BOUND };
            if aws.out >= BOUND {
                aws.sent_for = [false; 2];
            }
            (aws.is_registered, aws.is_healthy) = (false, false);
            (aws.by_us, aws.by_stranger, aws.proven) = (false, false, [false; 2]);
        });
    }

    /// Somebody else removes it. That a health check had reached a pod stays true.
    pub fn remove_by_hand(&mut self) {
        let proven = self.proven;
        self.deregister();
        self.proven = proven;
    }

    /// Somebody else registers it.
    pub fn register_stranger(&mut self) {
        self.change(|aws| {
            (aws.is_registered, aws.is_healthy, aws.proven) = (true, false, [false; 2]);
            (aws.by_us, aws.by_stranger) = (false, true);
        });
    }

    /// What a health check would make of it; `answers`: the pod there, if it answers.
    pub fn checked(&self, answers: Option<usize>) -> (bool, [bool; 2]) {
        let mut proven = self.proven;
        if let Some(pod) = answers {
            proven[pod] = true;
        }
        (answers.is_some(), proven)
    }

    pub fn tick(&mut self, differs: bool) {
        self.behind = if differs { self.behind + 1 } else { 0 };
        if !(self.is_registered && self.by_us) {
            self.out = (self.out + 1).min(BOUND);
            if self.out == BOUND {
                self.sent_for = [false; 2];
            }
        }
        let now = self.shown() as usize;
        for (shown, ago) in self.past.iter_mut().enumerate() {
            if shown != now {
                *ago = (*ago + 1).min(STALE + 1);
            }
        }
    }
}
