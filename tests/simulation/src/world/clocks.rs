//! The wall clocks of the replicas: they differ a little. In some worlds they are wrong by minutes besides, and somebody
//! sets them now and then: then nothing may end early for that, and nothing wait for ever.

use std::time::Duration;

use super::World;
use crate::{cluster::REPLICAS, replica::SKEW};
use headgate_core::{
    engine::Input,
    model::{Moment, WallTime},
};

/// So wrong at most.
const WRONG: Duration = Duration::from_secs(900);

/// See the module.
pub struct Clocks {
    /// How far each is ahead of the time in the world.
    ahead: [Duration; REPLICAS],
    wrong: Option<Wrong>,
}

/// What is wrong besides. It draws from a generator of its own: what else happens in a world does not hang on it.
struct Wrong {
    rng: fastrand::Rng,
    by: [(bool, Duration); REPLICAS],
    next: Moment,
}

impl Wrong {
    fn draw(rng: &mut fastrand::Rng) -> (bool, Duration) {
        (rng.bool(), Duration::from_millis(rng.u64(0..u64::try_from(WRONG.as_millis()).unwrap())))
    }

    fn pause(&mut self) -> Duration {
        Duration::from_millis(self.rng.u64(1_000..120_000))
    }
}

impl Clocks {
    pub fn new(seed: u64, rng: &mut fastrand::Rng) -> Self {
        let ahead = std::array::from_fn(|_| Duration::from_millis(rng.u64(0..1_000)).min(SKEW));
        let mut own = fastrand::Rng::with_seed(seed ^ 0x000C_10C5);
        let is_wrong = own.u8(0..4) == 0;
        let by = std::array::from_fn(|_| Wrong::draw(&mut own));
        let wrong = is_wrong.then_some(Wrong { rng: own, by, next: Moment::START });
        Self { ahead, wrong }
    }

    /// Whether they are wrong by more than a little.
    pub const fn are_wrong(&self) -> bool {
        self.wrong.is_some()
    }

    /// What that of a replica showed when the world began, as it is set now.
    pub fn started(&self, replica: usize, world: WallTime) -> WallTime {
        let shown = world + self.ahead[replica];
        match self.wrong.as_ref().map(|wrong| wrong.by[replica]) {
            None => shown,
            Some((true, by)) => shown + by,
            Some((false, by)) => shown - by,
        }
    }

    /// Time passes: somebody may set one.
    fn pass(&mut self, now: Moment) -> bool {
        let Some(wrong) = self.wrong.as_mut().filter(|wrong| wrong.next <= now) else { return false };
        let replica = wrong.rng.usize(0..REPLICAS);
        wrong.by[replica] = Wrong::draw(&mut wrong.rng);
        let pause = wrong.pause();
        wrong.next = now + pause;
        true
    }
}

impl World {
    /// Somebody may set a clock. A replica that runs sees that.
    pub(super) fn clocks_pass(&mut self) -> Result<(), String> {
        if self.clocks.pass(self.now) {
            self.saw("clock: set to another time");
        }
        for replica in 0..REPLICAS {
            let shown = self.clock_of(replica);
            let it = &self.replicas[replica];
            if it.runs() && it.started != shown {
                self.step(replica, Input::Clock(shown + self.now.elapsed()))?;
            }
        }
        Ok(())
    }
}
