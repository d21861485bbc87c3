//! Properties of durations and times.

use proptest::prelude::*;

use super::{any_text, holds, text};
use crate::model::{Hold, hold::seconds};

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
