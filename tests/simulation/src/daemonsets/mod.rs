//! The controller of IngressDaemonSets in worlds of its own.
//!
//! A world has one set, some nodes in some zones, an API server and kubelets. Watches are late, break off and list anew;
//! requests fail, or are carried out and their answers lost; the controller is killed between any two of its requests, and
//! what it has sent is done before the next one leads, or never. Revisions come and go, good ones and such as never get
//! ready; sets are paused and change how they roll; nodes come, go, are cordoned, are not ready for a while. In some worlds
//! pods fail by themselves, and others drain nodes.
//!
//! * No pod is made beyond what its node is to have and the surge, and none where it would have to leave at once.
//! * Where nobody else takes pods away, no old pod is deleted that would leave fewer available ones than the set allows.
//! * No more nodes than the set says have their turn at once. A revision that never gets ready is on no more nodes than that,
//!   and on all others old pods serve on.
//! * What is due is due later: whoever waits for it does wait.
//! * Where others are to detach nodes first, no old pod leaves before its node says that it is detached.
//! * When all is quiet every node has what it should, the budget is right, and nothing more is asked.
//!
//! ```text
//!  api       the API server and the kubelets of a world: the truth
//!  kinds     the sets and nodes that there are
//!  leader    whoever leads: what it will be shown, and what it has sent
//!  play      what happens next, and how the controller learns of it
//!  troubles  what goes wrong
//!  oracle    what must hold, by the truth
//! ```

mod api;
mod kinds;
mod leader;
mod oracle;
mod play;
mod troubles;

use kinds::Way;
use play::World;

/// Worlds of a plain test run.
pub const WORLDS: u64 = 3_000;

/// The first of these worlds that is not as it should be, and how.
pub fn first_broken() -> Option<String> {
    (0..WORLDS).find_map(|seed| broken(seed, false))
}

/// A roll in which nothing goes wrong but that the controller is killed after one of its requests: after each of them, once
/// with that carried out and once without. Gives how many rolls there were, or which one is not as it should be.
pub fn killed_at_each_step() -> Result<usize, String> {
    let mut rolls = 0;
    for (number, way) in Way::ALL.iter().enumerate() {
        for is_done in [true, false] {
            for at in 0.. {
                let world = World::of(*way);
                let said =
                    |broken| format!("{way:?}, killed after request {at}, carried out: {is_done}: {broken}");
                if !world.roll_killed_at(at, is_done).map_err(said)? {
                    break;
                }
                rolls += 1;
            }
        }
        if rolls <= number {
            return Err(format!("{way:?}: nothing was asked for"));
        }
    }
    Ok(rolls)
}

/// What is broken in the world of this seed, if anything is; with its trace or without.
pub fn broken(seed: u64, trace: bool) -> Option<String> {
    World::new(seed, trace).run().err().map(|broken| format!("world {seed}: {broken}"))
}
