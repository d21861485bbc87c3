//! When a serving certificate is followed by another one, so that no client ever meets one that it does not trust.
//!
//! The next one is prepared while the present one still serves. Its authority is trusted before it serves: first
//! whoever calls is told to trust both, then, a while after that, the next one takes the place of the present one.

use crate::model::webhook::{Certificate, Life};

/// A clock may be behind the one that a certificate was made by, and that is no fault, for so many seconds.
const AHEAD: i64 = 3600;

/// Its life begins so far in the future that the clock that it was made by was wrong: clients do not accept it before.
const fn is_of_the_future(life: Life, now: i64) -> bool {
    life.from.saturating_sub(now) > AHEAD
}

/// Two thirds of its life are over, it is for other names, or it is from the future: it is time for another one.
fn should_be_followed(certificate: Certificate, now: i64) -> bool {
    let Life { from, until } = certificate.life;
    !certificate.fits
        || is_of_the_future(certificate.life, now)
        || now >= until
        || now.saturating_sub(from) >= certificate.life.length() / 3 * 2
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing for now.
    Nothing,
    /// Make the next certificate, and have its authority trusted besides the present one's.
    Prepare,
    /// Let the next certificate take the place of the present one.
    Promote,
}

/// The longest time between the next authority being trusted and the next certificate being served.
const LONGEST_OVERLAP: i64 = 3600;

/// Decides. `trusted`: whoever calls trusts both authorities.
pub fn step(serving: Certificate, next: Option<Certificate>, trusted: bool, now: i64) -> Step {
    let Some(next) = next else {
        return if should_be_followed(serving, now) { Step::Prepare } else { Step::Nothing };
    };
    if should_be_followed(next, now) {
        return Step::Prepare;
    }
    // API servers learn of what to trust within moments; the rest is for one that was cut off. A sixth is half of what is
    // left of the present one's life.
    let overlap = (next.life.length() / 6).min(LONGEST_OVERLAP);
    let seen_by_all = trusted && now.saturating_sub(next.life.from) >= overlap;
    // One that has ended, or has not begun, is worth nothing, so nothing is lost.
    let is_worthless = now >= serving.life.until || is_of_the_future(serving.life, now);
    if seen_by_all || is_worthless { Step::Promote } else { Step::Nothing }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY: i64 = 24 * 3600;

    fn made(at: i64) -> Certificate {
        Certificate { life: Life::new(at, Duration::from_secs(90 * 24 * 3600)), fits: true }
    }

    #[test]
    fn the_next_one_is_prepared_when_two_thirds_are_over_and_serves_when_it_has_been_trusted_for_an_hour() {
        let serving = made(0);
        assert_eq!(step(serving, None, true, 59 * DAY), Step::Nothing);
        let due = 60 * DAY;
        assert_eq!(step(serving, None, true, due), Step::Prepare);
        let next = Some(made(due));
        assert_eq!(step(serving, next, true, due + 3599), Step::Nothing);
        assert_eq!(step(serving, next, true, due + 3600), Step::Promote);
        assert_eq!(step(made(due), None, true, due + 3600), Step::Nothing);
    }

    #[test]
    fn a_short_life_leaves_time_to_learn_whom_to_trust_too() {
        let short = |at| Certificate { life: Life::new(at, Duration::from_secs(12)), fits: true };
        assert_eq!(step(short(0), Some(short(8)), true, 9), Step::Nothing);
        assert_eq!(step(short(0), Some(short(8)), true, 10), Step::Promote);
    }

    #[test]
    fn one_that_is_not_trusted_never_serves_while_the_present_one_is_good() {
        let next = Some(made(60 * DAY));
        assert_eq!(step(made(0), next, false, 89 * DAY), Step::Nothing);
        assert_eq!(step(made(0), next, false, 90 * DAY), Step::Promote);
    }

    #[test]
    fn one_for_other_names_is_followed_at_once() {
        let other = |at| Certificate { fits: false, ..made(at) };
        assert_eq!(step(other(0), None, true, 1), Step::Prepare);
        assert_eq!(step(other(0), Some(other(1)), true, 2), Step::Prepare);
        assert_eq!(step(other(0), Some(made(1)), true, 2), Step::Nothing);
    }

    #[test]
    fn one_that_was_made_by_a_clock_that_ran_ahead_is_followed_at_once() {
        let ahead = made(365 * DAY);
        assert_eq!(step(ahead, None, true, 0), Step::Prepare);
        assert_eq!(step(ahead, Some(made(0)), false, 0), Step::Promote);
        assert_eq!(step(made(0), Some(ahead), true, 60 * DAY), Step::Prepare);
        assert_eq!(step(made(3600), None, true, 0), Step::Nothing, "clocks differ a little");
        assert_eq!(step(made(3601), None, true, 0), Step::Prepare);
    }

    #[test]
    fn a_next_one_that_has_become_old_is_made_again() {
        assert_eq!(step(made(0), Some(made(0)), true, 60 * DAY), Step::Prepare);
    }

    #[test]
    fn a_life_without_sense_is_followed_and_breaks_nothing() {
        let odd = Certificate { life: Life { from: i64::MAX, until: i64::MIN }, fits: true };
        assert_eq!(step(odd, None, true, 0), Step::Prepare);
        assert_eq!(step(odd, Some(made(0)), false, 0), Step::Promote);
    }

    #[test]
    fn whatever_length_it_has_one_follows_the_other_and_what_serves_is_always_good_and_trusted() {
        for length in [10_u64, 60, 3600, 90 * 24 * 3600] {
            let life = |now| Certificate { life: Life::new(now, Duration::from_secs(length)), fits: true };
            let (mut serving, mut next, mut turns) = (life(0), None, 0);
            let tick = i64::try_from(length / 40).unwrap_or(1).max(1);
            for now in (0..i64::try_from(length).unwrap_or(0) * 5).step_by(usize::try_from(tick).unwrap_or(1))
            {
                match step(serving, next, true, now) {
                    Step::Nothing => {}
                    Step::Prepare => next = Some(life(now)),
                    Step::Promote => {
                        serving = next.take().unwrap();
                        turns += 1;
                    }
                }
                assert!(now < serving.life.until, "{length}: {serving:?} serves at {now}");
            }
            assert!((4..=8).contains(&turns), "{length}: {turns}");
        }
    }
}
