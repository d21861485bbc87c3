//! Durations in annotations, and random values from a range of durations.
//!
//! The module defines the form of a duration (`250ms`, `1.5s`, `2m`, `1h`, `0`) and of a range (`5ms-20ms`), and the
//! n-th value of a range. The module is pure: the same seed and number give the same value on every machine.

use std::time::Duration;

/// The maximum duration in an annotation: one day in seconds.
const LONGEST: f64 = 86_400.0;

/// A duration, or a range of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    least: Duration,
    most: Duration,
}

/// The reason why a text is not a duration or a range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpanError {
    /// The text does not have the form of a duration.
    #[error("`{0}` is not a duration such as 250ms, 1.5s, 2m or 0 (at most 24h)")]
    Duration(String),
    /// The end of the range is less than its beginning.
    #[error("`{0}` is a range that ends before it begins")]
    Backwards(String),
}

impl Span {
    /// Parses a duration or a range.
    pub fn parse(text: &str) -> Result<Self, SpanError> {
        let (least, most) = match text.split_once('-') {
            Some((least, most)) => (duration(least)?, duration(most)?),
            None => (duration(text)?, duration(text)?),
        };
        if most < least {
            return Err(SpanError::Backwards(text.into()));
        }
        Ok(Self { least, most })
    }

    /// Returns whether every value is zero.
    pub fn is_zero(self) -> bool {
        self.most.is_zero()
    }

    /// Returns value number `count`. The values are uniformly distributed over the range.
    pub fn draw(self, seed: u64, count: u64) -> Duration {
        // The upper 32 bits of a well-mixed number are a fraction of 2^32.
        let share = u32::try_from(mix(seed ^ mix(count)) >> 32).unwrap_or(0);
        self.least + self.most.saturating_sub(self.least).mul_f64(f64::from(share) / f64::from(u32::MAX))
    }
}

/// Parses `250ms`, `1.5s`, `2m`, `1h` or `0`.
pub fn duration(text: &str) -> Result<Duration, SpanError> {
    let text = text.trim();
    let unreadable = || SpanError::Duration(text.into());
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (number, unit) = units
        .iter()
        .find_map(|(unit, seconds)| text.strip_suffix(unit).map(|number| (number, *seconds)))
        .or_else(|| (text == "0").then_some((text, 1.0)))
        .ok_or_else(unreadable)?;
    let seconds = number.parse::<f64>().map_err(|_| unreadable())? * unit;
    if (0.0..=LONGEST).contains(&seconds) { Ok(Duration::from_secs_f64(seconds)) } else { Err(unreadable()) }
}

/// Returns a seed that depends only on the text (FNV-1a).
pub fn seed(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Performs one step of splitmix64: every bit of the input changes about half of the output.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_unit_and_nothing_else() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "5", "s", "-1s", "NaNs", "25h", "5 ms later", "infs"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn draws_stay_in_their_range_differ_and_repeat_with_their_seed() {
        let span = Span::parse("5ms-20ms").unwrap();
        let draws = |seed| (0..200).map(|count| span.draw(seed, count)).collect::<Vec<_>>();
        let first = draws(seed("shop/web"));
        assert!(first.iter().all(|draw| (5..=20).contains(&draw.as_millis())), "{first:?}");
        assert!(first.iter().min() < Some(&Duration::from_millis(7)), "the whole range is used");
        assert!(first.iter().max() > Some(&Duration::from_millis(18)), "the whole range is used");
        assert_eq!(first, draws(seed("shop/web")));
        assert_ne!(first, draws(seed("shop/other")));
    }

    #[test]
    fn a_single_duration_is_always_drawn_and_a_backward_range_is_refused() {
        assert_eq!(Span::parse("30ms").unwrap().draw(1, 2), Duration::from_millis(30));
        assert_eq!(Span::parse("20ms-5ms"), Err(SpanError::Backwards("20ms-5ms".into())));
    }
}
