//! What tells one state from another: 128 bits of what matters in it.
//!
//! A state is printed with `{:?}`, and what is printed is hashed as it comes, piece by piece:
//!
//! * a time becomes the time from now to it, in seconds, for time goes in whole seconds here; if it is longer ago than anything that the rules look back for, it is "long
//!   ago" ([`LONG_AGO`]), if it was before this world began, "before all", and if it comes later than any world lasts, "after all";
//! * the name of a request becomes its place in the order in which the names appear;
//! * the version of a ledger becomes whether it is the present one;
//! * what has no consequence for any decision here is left out ([`LEFT_OUT`]).
//!
//! Two states with the same pieces behave alike from now on, so that one of them is enough. What is left out wrongly hides
//! states; what is left in needlessly costs time.

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use headgate_core::model::Moment;

use super::words::wall;

/// Structs of the engine that are left out: constants; what users are told; and how fast calls may go, for here there
/// are always enough tokens.
const LEFT_OUT: [&str; 8] = [
    "Settings",
    "Signals",
    "Reports",
    "Holds",
    "Lanes",
    "Ticket",
    "ExponentialBuilder",
    "ExponentialBackoff",
];

/// What is longer ago is long ago. No call and no gate hangs on whether something is longer ago than this: the rules that
/// ask for more ask for more than a world lasts ([`LASTS`]). One is not of these: after five minutes a user is told that a
/// gate waits.
pub const LONG_AGO: Duration = Duration::from_secs(120);

/// No world lasts longer: ten minutes is the next time that a rule asks for (`registration/vanishing.rs`).
pub const LASTS: Duration = Duration::from_secs(599);

/// A number for a state.
pub type Fingerprint = u128;

/// What is read at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reads {
    #[default]
    All,
    /// What is in the parentheses after this word, if they follow.
    Value(Word),
    /// What is left out, so many braces deep, if one follows.
    Nothing(u32),
    /// How many requests there have been: the first field of a struct.
    Count,
}

/// A word after which something is normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Moment,
    WallTime,
    Request,
    Version,
}

/// Reads what is printed of a state, and gives its number.
#[derive(Debug, Default)]
pub struct Scribe {
    now: Duration,
    wall: Duration,
    version: u64,
    reads: Reads,
    value: String,
    ids: Vec<u64>,
    hash: [u64; 2],
}

impl Scribe {
    /// The number of what is printed by these. `version`: that of the ledger that is stored.
    pub fn number(
        &mut self,
        now: Moment,
        version: u64,
        print: impl FnOnce(&mut Self) -> fmt::Result,
    ) -> Fingerprint {
        (self.now, self.wall, self.version) = (now.elapsed(), wall(now).elapsed(), version);
        (self.reads, self.hash) = (Reads::All, KEYS);
        self.ids.clear();
        print(self).expect("what is hashed is never full");
        u128::from(self.hash[0]) << 64 | u128::from(self.hash[1])
    }

    fn take(&mut self, word: u64) {
        let [first, second] = &mut self.hash;
        *first = fold(*first ^ word, KEYS[0]);
        *second = fold(second.rotate_left(23) ^ word, KEYS[1]);
    }

    fn take_text(&mut self, text: &str) {
        let mut words = text.as_bytes().chunks_exact(8);
        for word in &mut words {
            self.take(u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
        // With the length, so that it matters where a piece ends.
        let mut last = [0; 8];
        let rest = words.remainder();
        last[..rest.len()].copy_from_slice(rest);
        last[7] = u8::try_from(text.len() % 251).unwrap_or_default();
        self.take(u64::from_le_bytes(last));
    }

    fn take_value(&mut self, word: Word) {
        let value = std::mem::take(&mut self.value);
        match word {
            Word::Moment => self.take_time(duration(value.as_bytes()), self.now),
            Word::WallTime => self.take_time(duration(value.as_bytes()), self.wall),
            Word::Request => {
                let id = number(value.as_bytes());
                let place = self.ids.iter().position(|known| *known == id).unwrap_or_else(|| {
                    self.ids.push(id);
                    self.ids.len() - 1
                });
                self.take_sign("#", u64::try_from(place).unwrap_or(u64::MAX));
            }
            Word::Version => {
                let is_present = number(value.as_bytes()) == self.version;
                self.take_sign("v", u64::from(is_present));
            }
        }
        self.value = value;
        self.value.clear();
    }

    fn take_time(&mut self, time: Duration, now: Duration) {
        let time = whole(time);
        match (time.checked_sub(now), now.saturating_sub(time)) {
            (Some(ahead), _) if ahead <= LASTS => self.take_sign("+", ahead.as_secs()),
            (Some(_), _) => self.take_sign("after all", 0),
            (None, ago) if ago <= LONG_AGO => self.take_sign("-", ago.as_secs()),
            (None, ago) if ago <= LASTS => self.take_sign("long ago", 0),
            // Of what was written into the ledger, too, nothing is older than the world.
            _ => self.take_sign("before all", 0),
        }
    }

    fn take_sign(&mut self, sign: &str, number: u64) {
        self.take_text(sign);
        self.take(number);
    }
}

impl fmt::Write for Scribe {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        match self.reads {
            Reads::All => match piece {
                "Moment" => self.reads = Reads::Value(Word::Moment),
                "WallTime" => self.reads = Reads::Value(Word::WallTime),
                "RequestId" => self.reads = Reads::Value(Word::Request),
                "LedgerVersion" => self.reads = Reads::Value(Word::Version),
                "Outbox" => self.reads = Reads::Count,
                word if LEFT_OUT.contains(&word) => self.reads = Reads::Nothing(0),
                text => self.take_text(text),
            },
            Reads::Value(word) if piece == ")" => {
                self.reads = Reads::All;
                self.take_value(word);
            }
            Reads::Value(_) if !self.value.is_empty() || piece == "(" => self.value.push_str(piece),
            // No such value: an enum may have a variant of this name.
            Reads::Value(_) => {
                self.reads = Reads::All;
                self.take_text("a word");
                return self.write_str(piece);
            }
            // It is the first field.
            Reads::Count if piece == ", " => self.reads = Reads::All,
            Reads::Count => {}
            Reads::Nothing(depth) => match piece {
                "{" | " { " => self.reads = Reads::Nothing(depth + 1),
                _ if depth == 0 => {
                    self.reads = Reads::All;
                    self.take_text("a word");
                    return self.write_str(piece);
                }
                "}" | " }" if depth == 1 => self.reads = Reads::All,
                "}" | " }" => self.reads = Reads::Nothing(depth - 1),
                _ => {}
            },
        }
        Ok(())
    }
}

/// Prints something.
pub fn print(to: &mut Scribe, what: &impl fmt::Debug) -> fmt::Result {
    write!(to, "{what:?}")
}

/// Two odd numbers without a pattern.
const KEYS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

/// Time goes in whole seconds here, and what is due in between is due at the next one.
pub fn whole(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0))
}

/// Both halves of a product: each bit of the number changes about half of the bits.
fn fold(number: u64, key: u64) -> u64 {
    let product = (u128::from(number) * u128::from(key)).to_le_bytes();
    let half = |at: usize| u64::from_le_bytes(product[at..at + 8].try_into().unwrap_or_default());
    half(0) ^ half(8)
}

fn number(digits: &[u8]) -> u64 {
    digits.iter().filter(|byte| byte.is_ascii_digit()).fold(0, |all, byte| all * 10 + u64::from(byte - b'0'))
}

/// Reads a duration as `{:?}` prints it, in parentheses or not.
fn duration(text: &[u8]) -> Duration {
    let text = text.strip_prefix(b"(").unwrap_or(text);
    let digits = text.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(text.len());
    let (value, unit) = text.split_at(digits);
    let nanos: u64 = match unit {
        b"s" => 1_000_000_000,
        b"ms" => 1_000_000,
        b"ns" => 1,
        _ => 1_000,
    };
    let mut parts = value.split(|byte| *byte == b'.');
    let whole = number(parts.next().unwrap_or_default());
    let (mut fraction, mut worth) = (0, nanos);
    for digit in parts.next().unwrap_or_default() {
        worth /= 10;
        fraction += u64::from(digit - b'0') * worth;
    }
    Duration::from_nanos(whole * nanos + fraction)
}
