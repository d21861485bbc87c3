//! Durations and times.

use std::time::Duration;

use proptest::prelude::*;

use super::{any_text, holds, text};
use crate::{
    model::{
        Hold,
        hold::seconds,
        webhook::{Certificate, Life, StoredPath},
    },
    rotation::step,
    secret_path::{self, Named, Times},
};

#[test]
fn any_text_is_a_duration_in_bounds_or_none() {
    let near = text("([0-9]{1,12}h)?([0-9]{1,12}m)?([0-9]{1,12}s)?[hms]?");
    holds(prop_oneof![any_text(), near], |written| {
        let _ = seconds(&written);
        if let Some(Hold::For(seconds)) = Hold::parse(&written) {
            prop_assert!((1..=3600).contains(&seconds));
        }
        Ok(())
    });
}

#[test]
fn hours_minutes_and_seconds_are_read_as_they_are_written() {
    holds((0..1000_u32, 0..100_u32, 0..100_u32), |(hours, minutes, rest)| {
        let total = hours * 3600 + minutes * 60 + rest;
        prop_assert_eq!(seconds(&format!("{hours}h{minutes}m{rest}s")), Some(total));
        prop_assert_eq!(seconds(&format!("{total}s")), Some(total));
        Ok(())
    });
}

#[test]
fn any_times_that_are_stored_of_paths_and_certificates_lead_to_a_step() {
    let life = || (any::<i64>(), any::<i64>()).prop_map(|(from, until)| Life { from, until });
    let stored = (any::<i64>(), any::<Option<i64>>(), any::<bool>(), any::<Option<i64>>());
    let named = prop_oneof![Just(Named::Present), Just(Named::Other)];
    let lives = (life(), prop::option::of(life()), any::<bool>());
    holds((stored, named, lives, any::<u64>(), any::<i64>()), |(stored, named, lives, lifetime, now)| {
        let (made, named_since, has_previous, certificate) = stored;
        let stored = StoredPath { made, named_since, has_previous };
        let times = Times::new(Duration::from_secs(lifetime));
        let _ = secret_path::step(stored, named, certificate, times, now);
        prop_assert!(times.overlap() <= 3600 && times.spread() <= 60);
        let (serving, next, fits) = lives;
        let certificate = |life| Certificate { life, fits };
        let _ = step(certificate(serving), next.map(certificate), true, now);
        Ok(())
    });
}
