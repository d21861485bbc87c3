//! The path on which the API server calls the webhooks. The path is a secret of 256 bits if a file contains a secret
//! path.

use std::fmt;

use rustls::crypto::aws_lc_rs::default_provider;
use subtle::ConstantTimeEq;

use crate::redact::DIGITS;

/// The path without a secret, if `headgate certificates` does not manage the certificate.
pub const FIXED: &str = "/headgate";

/// A path of the webhooks. A secret path has 64 lower-case hexadecimal digits, because API servers only accept paths
/// whose parts are DNS-1123 subdomains.
#[derive(Clone, PartialEq, Eq)]
pub struct CallPath(String);

impl CallPath {
    /// Creates a random secret path.
    ///
    /// # Errors
    /// The operating system returns no random numbers.
    pub fn random() -> Result<Self, String> {
        let mut bytes = [0_u8; DIGITS / 2];
        let random = default_provider().secure_random;
        random
            .fill(&mut bytes)
            .map_err(|_| "the system has no random numbers for a secret path".to_owned())?;
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
        let digits = digits.filter_map(|digit| char::from_digit(digit.into(), 16));
        Ok(Self(std::iter::once('/').chain(digits).collect()))
    }

    /// The fixed path without a secret.
    #[must_use]
    pub fn fixed() -> Self {
        Self(FIXED.to_owned())
    }

    /// Parses the digits of a secret path, as a file contains them.
    #[must_use]
    pub fn from_digits(digits: &str) -> Option<Self> {
        Self::from_path(&format!("/{}", digits.trim_ascii_end()))
    }

    /// Parses a secret path, as a webhook configuration contains it.
    #[must_use]
    pub fn from_path(path: &str) -> Option<Self> {
        let digits = path.strip_prefix('/')?;
        let is = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (digits.len() == DIGITS && digits.bytes().all(is)).then(|| Self(path.to_owned()))
    }

    /// The path without its leading slash.
    #[must_use]
    pub fn digits(&self) -> &str {
        &self.0[1..]
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the path is secret.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.0.len() == DIGITS + 1
    }

    /// Whether this path equals `path`. The comparison takes constant time, so that a client cannot guess the path
    /// digit by digit.
    #[must_use]
    pub fn is(&self, path: &str) -> bool {
        self.0.as_bytes().ct_eq(path.as_bytes()).into()
    }
}

impl fmt::Debug for CallPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallPath(…)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::properties::{any_text, holds, text};

    #[test]
    fn two_random_paths_differ_and_neither_is_shown() {
        let [one, other] = [(); 2].map(|()| CallPath::random().unwrap());
        assert!(one != other && one.is_secret() && other.is_secret());
        assert!(one.is(one.as_str()) && !one.is(other.as_str()) && !one.is("/") && !one.is(FIXED));
        assert_eq!(CallPath::from_digits(&format!("{}\n", one.digits())), Some(one.clone()));
        assert_eq!(CallPath::from_path(one.as_str()), Some(one.clone()));
        assert_eq!(format!("{one:?}"), "CallPath(…)");
        assert!(!CallPath::fixed().is_secret() && CallPath::fixed().is(FIXED));
    }

    #[test]
    fn any_text_is_a_secret_of_64_digits_or_none() {
        holds(prop_oneof![any_text(), text("[0-9a-fA-F]{60,66}"), text("[0-9a-f]{64}")], |digits| {
            match CallPath::from_digits(&digits) {
                Some(path) => prop_assert!(path.is_secret() && path.as_str().len() == 65),
                None => prop_assert!(
                    digits.len() != 64
                        || digits.bytes().any(|byte| !byte.is_ascii_hexdigit() || byte.is_ascii_uppercase())
                ),
            }
            Ok(())
        });
    }
}
