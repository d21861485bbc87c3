//! Reads the validity period of a certificate from its DER form.

use jiff::{civil::DateTime, tz::TimeZone};

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
/// The DER tag of the optional version.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The validity period of a certificate, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The start of the period.
    pub from: i64,
    /// The end of the period.
    pub until: i64,
}

impl Life {
    /// The length of the period in seconds.
    pub const fn length(self) -> i64 {
        self.until.saturating_sub(self.from)
    }
}

/// The validity period of a certificate in DER form. `None`: the input is not a certificate.
pub fn life(der: &[u8]) -> Option<Life> {
    let (certificate, _) = take(der, SEQUENCE)?;
    let (mut rest, _) = take(certificate, SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        rest = take(rest, VERSION)?.1;
    }
    // Skip the serial number, the signature algorithm and the issuer.
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        rest = take(rest, tag)?.1;
    }
    let (validity, _) = take(rest, SEQUENCE)?;
    let (from, rest) = time(validity)?;
    let (until, _) = time(rest)?;
    Some(Life { from, until })
}

/// The content of the element with the tag `tag`, and the remaining input.
fn take(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&is, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        short @ 0..=0x7f => (usize::from(short), rest),
        long @ 0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    (is == tag).then_some(())?;
    rest.split_at_checked(length)
}

/// A time, and the remaining input.
fn time(input: &[u8]) -> Option<(i64, &[u8])> {
    let tag = *input.first()?;
    let (text, rest) = take(input, tag)?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
    let number = |at: usize, digits: usize| text.get(at..at + digits)?.parse::<i16>().ok();
    let (year, rest_at) = match (tag, text.len()) {
        (UTC_TIME, 12) => {
            let year = number(0, 2)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, 2)
        }
        (GENERALIZED_TIME, 14) => (number(0, 4)?, 4),
        _ => return None,
    };
    let part = |at: usize| i8::try_from(number(rest_at + 2 * at, 2)?).ok();
    let date = DateTime::new(year, part(0)?, part(1)?, part(2)?, part(3)?, part(4)?, 0).ok()?;
    Some((date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second(), rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::properties::holds;

    #[test]
    fn the_life_of_a_certificate_is_read_out_of_it() {
        let made = |from: i32, until: i32| {
            let mut parameters = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
            (parameters.not_before, parameters.not_after) =
                (rcgen::date_time_ymd(from, 2, 28), rcgen::date_time_ymd(until, 12, 31));
            parameters.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
        };
        // The expected dates are 2026-02-28 and 2027-12-31. From 2050 on, certificates contain times in another form.
        assert_eq!(life(&made(2026, 2027)), Some(Life { from: 1_772_236_800, until: 1_830_211_200 }));
        assert_eq!(life(&made(2026, 2051)).unwrap().until, 2_587_593_600);
    }

    #[test]
    fn any_bytes_are_a_certificate_or_none() {
        holds(any::<Vec<u8>>(), |bytes| {
            let _ = life(&bytes);
            let _ = life(&[&[SEQUENCE, 0x20, SEQUENCE, 0x1e], &bytes[..]].concat());
            Ok(())
        });
    }
}
