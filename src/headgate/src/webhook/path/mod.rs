//! The paths by which the webhooks are called: a secret of 256 bits, which tells the API server from everybody else.
//!
//! ```text
//!  Secret ──────────► look ──► Known ──► Paths::admit, before anything of a request is read
//!  configurations ─┘   ▲                   │
//!                      └── unknown path ◄──┘
//!  leader: keeper ──► Secret ──► probe: does every replica serve it? ──► configurations
//! ```
//!
//! `look` runs on every replica and only reads; `keeper` acts on the leader and is the only one that writes. A path that
//! the configurations of this installation name is served, too: whoever may write those decides about admission anyway,
//! and so no call is missed while they are replaced. The path is never shown: not in a log line, an Event, a metric or an
//! error. While nothing can be read, what was known stays.

mod keeper;
mod look;
mod named;
mod probe;
pub(in crate::webhook) mod stored;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustls::crypto::aws_lc_rs::default_provider;
use subtle::{Choice, ConstantTimeEq};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

pub use keeper::Keeper;
pub use look::Looker;
pub use named::{Call, Entry, own_entries};
pub use stored::{PATHS, Stored, read};

use super::secret::{OWN_ENTRIES, now};
use crate::redact::DIGITS;

/// For another look at Secret and configurations, before a path that is not known is refused. The API server waits 2 s.
const LOOK: Duration = Duration::from_millis(1500);

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What a new pod is given.
    Inject,
    /// Whether a pod may be evicted.
    Evict,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Inject, Self::Evict];

    /// The end of its path, behind the secret.
    const fn end(self) -> &'static str {
        match self {
            Self::Inject => "/inject",
            Self::Evict => "/evict",
        }
    }

    /// What an entry of a configuration asks, if it is one of Headgate's own.
    pub fn of_entry(name: &str) -> Option<Self> {
        let [inject, evict] = OWN_ENTRIES;
        if name.ends_with(inject) { Some(Self::Inject) } else { name.ends_with(evict).then_some(Self::Evict) }
    }
}

/// A secret of 256 bits that is part of a path, in lower-case hexadecimal digits: the API server takes only paths whose
/// parts are DNS-1123 subdomains.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretPath(String);

impl SecretPath {
    /// A new one.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn make() -> Result<Self, String> {
        let mut bytes = [0_u8; DIGITS / 2];
        let random = default_provider().secure_random;
        random
            .fill(&mut bytes)
            .map_err(|_| "the system gives no random numbers for a secret path".to_owned())?;
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
        Ok(Self(digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()))
    }

    /// From its digits.
    pub fn parse(digits: &str) -> Option<Self> {
        let is = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (digits.len() == DIGITS && digits.bytes().all(is)).then(|| Self(digits.to_owned()))
    }

    /// The path for this question.
    pub fn path(&self, kind: Kind) -> String {
        format!("/{}{}", self.0, kind.end())
    }

    /// Whether a path has such a secret.
    pub fn is_in(path: &str) -> bool {
        path.split('/').any(|part| Self::parse(part).is_some())
    }
}

impl fmt::Debug for SecretPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretPath(…)")
    }
}

/// What this replica knows of the paths.
#[derive(Clone, Default)]
struct Known {
    /// The number of the look that it is from; 0: of none.
    look: u64,
    /// The secret ones, and until when they are served, in seconds since 1970; none: for now without end.
    secret: Vec<(SecretPath, Option<i64>)>,
    /// Those that the configurations name, or have named a moment ago, and until when those are served.
    named: Vec<(String, Option<i64>)>,
}

impl Known {
    /// Takes as long whatever of the path is right, so that it cannot be guessed piece by piece.
    fn serves(&self, path: &str, now: i64) -> bool {
        let is = |known: &str| known.as_bytes().ct_eq(path.as_bytes());
        let lives = |until: &Option<i64>| until.is_none_or(|until| now < until);
        let secret = self.secret.iter().filter(|(_, until)| lives(until));
        let secret = secret.flat_map(|(secret, _)| Kind::ALL.map(|kind| is(&secret.path(kind))));
        let named = self.named.iter().filter(|(_, until)| lives(until)).map(|(named, _)| is(named));
        secret.chain(named).fold(Choice::from(0), |any, one| any | one).into()
    }
}

/// What both sides share: how many looks have begun, and that one is wanted.
#[derive(Default)]
struct Looks {
    begun: AtomicU64,
    wanted: Notify,
}

/// Says which paths are served.
#[derive(Clone)]
pub struct Paths {
    known: watch::Receiver<Known>,
    looks: Arc<Looks>,
}

/// Where what is known is put.
pub struct Publisher {
    known: watch::Sender<Known>,
    looks: Arc<Looks>,
}

impl Paths {
    /// Nothing is known yet.
    pub fn new() -> (Publisher, Self) {
        let (sender, receiver) = watch::channel(Known::default());
        let looks = Arc::new(Looks::default());
        (Publisher { known: sender, looks: looks.clone() }, Self { known: receiver, looks })
    }

    /// Whether a request on this path is to be answered. Before it says no, it has Secret and configurations looked at
    /// once more, which happens at most once a second however many ask: so a replica that has missed a change misses
    /// no call.
    pub async fn admit(&self, path: &str) -> bool {
        if self.known.borrow().serves(path, now()) {
            return true;
        }
        // A look that is under way may have read the old state.
        let next = self.looks.begun.load(Ordering::SeqCst) + 1;
        self.looks.wanted.notify_one();
        let mut known = self.known.clone();
        let looked = timeout(LOOK, known.wait_for(|known| known.look >= next)).await;
        matches!(looked, Ok(Ok(known)) if known.serves(path, now()))
    }
}

#[cfg(test)]
impl Paths {
    /// These paths, and never any others.
    pub fn fixed(paths: &[&str]) -> Self {
        let named = paths.iter().map(|path| ((*path).to_owned(), None)).collect();
        let (_, known) = watch::channel(Known { named, ..Known::default() });
        Self { known, looks: Arc::default() }
    }
}

#[cfg(test)]
mod tests;
