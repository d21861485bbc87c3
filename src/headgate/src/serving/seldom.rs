//! Limits the number of log lines that clients without permissions can cause. Each line contains the number of omitted
//! lines.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use headgate_core::Moment;

/// The default pause between two lines.
const PAUSE: Duration = Duration::from_secs(30);

/// Decides whether to log another line.
#[derive(Debug)]
pub struct Seldom {
    pause: Duration,
    said: Mutex<Said>,
}

impl Default for Seldom {
    fn default() -> Self {
        Self::with_pause(PAUSE)
    }
}

#[derive(Debug, Default)]
struct Said {
    last: Option<Moment>,
    left_out: u64,
}

impl Seldom {
    /// Creates a limit with the given pause between two lines.
    pub fn with_pause(pause: Duration) -> Self {
        Self { pause, said: Mutex::default() }
    }

    /// Records an occurrence. `Some`: the caller must log a line with the number of omitted occurrences.
    pub fn say(&self, now: Moment) -> Option<u64> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.last.is_some_and(|last| now.since(last) < self.pause) {
            said.left_out += 1;
            return None;
        }
        said.last = Some(now);
        Some(std::mem::take(&mut said.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_said_at_once_and_the_next_ones_are_counted() {
        let (seldom, at) = (Seldom::default(), |seconds| Moment::after_start(Duration::from_secs(seconds)));
        assert_eq!(seldom.say(at(1)), Some(0));
        assert_eq!([seldom.say(at(2)), seldom.say(at(30))], [None, None]);
        assert_eq!(seldom.say(at(31)), Some(2));
        assert_eq!(seldom.say(at(90)), Some(0));
        let minute = Seldom::with_pause(Duration::from_secs(60));
        assert_eq!([minute.say(at(5)), minute.say(at(64)), minute.say(at(65))], [Some(0), None, Some(1)]);
    }
}
