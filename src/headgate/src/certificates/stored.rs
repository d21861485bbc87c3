//! The content of the Secret that `headgate certificates` manages. Replicas mount `tls.crt`, `tls.key` and `path`.
//!
//! - `tls.crt`, `tls.key`: the certificate that replicas serve, with the CA, and the key
//! - `next.crt`, `next.key`: the next certificate, while the API server does not trust it yet
//! - `ca.crt`: the CAs of the present and the next certificate, and of certificates that replicas may still serve. The
//!   API server must trust all CAs in `ca.crt`.
//! - `path`: the secret path, without the leading slash
//!
//! The annotation `headgate.dev/certificates` contains the start of the wait before the next step. Headgate does not
//! change other keys and annotations.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::ResourceExt;

use super::certificate::{Certificate, Issued, authorities};
use crate::webhook::path::CallPath;

/// The annotation that contains the start of the wait before the next step, in seconds since 1970.
pub const SINCE: &str = "headgate.dev/certificates";
const TRUSTED: &str = "ca.crt";
const PATH: &str = "path";
const SERVING: [&str; 2] = ["tls.crt", "tls.key"];
const NEXT: [&str; 2] = ["next.crt", "next.key"];
/// The maximum number of CAs of replaced certificates.
const MOST: usize = 4;

/// The parsed content of the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The certificate that replicas serve.
    pub serving: Option<Certificate>,
    /// The next certificate.
    pub next: Option<Certificate>,
    /// The CAs of replaced certificates that a replica may still serve.
    pub replaced: Vec<String>,
    /// If there is a next certificate, the time since which the API server trusts it. Without a next certificate, the
    /// time since which replicas serve the present certificate.
    pub since: Option<i64>,
    /// The secret path.
    pub path: Option<CallPath>,
}

impl Stored {
    /// Parses a Secret. Invalid content counts as missing.
    pub fn read(secret: &Secret, names: &[String]) -> Self {
        let text = |name: &str| {
            let bytes = &secret.data.as_ref()?.get(name)?.0;
            std::str::from_utf8(bytes).ok().map(str::to_owned)
        };
        let certificate = |[chain, key]: [&str; 2]| {
            Certificate::read(Issued { chain: text(chain)?, key: text(key)? }, names)
        };
        let mut stored = Self {
            serving: certificate(SERVING),
            next: certificate(NEXT),
            replaced: Vec::new(),
            since: secret.annotations().get(SINCE).and_then(|since| since.parse().ok()),
            path: text(PATH).and_then(|digits| CallPath::from_digits(&digits)),
        };
        let trusted = authorities(&text(TRUSTED).unwrap_or_default());
        stored.replaced = trusted.into_iter().filter(|one| !stored.own().any(|own| own == one)).collect();
        stored.replaced.truncate(MOST);
        stored
    }

    /// Writes the content to a Secret.
    pub fn put(&self, secret: &mut Secret) {
        match self.since {
            Some(since) => drop(secret.annotations_mut().insert(SINCE.to_owned(), since.to_string())),
            None => drop(secret.annotations_mut().remove(SINCE)),
        }
        let data = secret.data.get_or_insert_with(BTreeMap::new);
        let mut put = |name: &str, text: Option<&str>| match text {
            Some(text) => drop(data.insert(name.to_owned(), ByteString(text.as_bytes().to_vec()))),
            None => drop(data.remove(name)),
        };
        for ([chain, key], certificate) in [(SERVING, &self.serving), (NEXT, &self.next)] {
            let issued = certificate.as_ref().map(|certificate| &certificate.issued);
            put(chain, issued.map(|issued| &*issued.chain));
            put(key, issued.map(|issued| &*issued.key));
        }
        put(TRUSTED, Some(&self.trusted()));
        put(PATH, self.path.as_ref().map(CallPath::digits));
    }

    /// The CAs of the stored certificates.
    fn own(&self) -> impl Iterator<Item = &str> {
        [&self.next, &self.serving].into_iter().flatten().map(Certificate::authority)
    }

    /// The CA certificates that the API server must trust, as PEM.
    pub fn trusted(&self) -> String {
        self.own().chain(self.replaced.iter().map(String::as_str)).collect()
    }

    /// Sets the secret path.
    #[must_use]
    pub fn with_path(self, path: CallPath) -> Self {
        Self { path: Some(path), ..self }
    }

    /// Sets the next certificate. `trusted` contains the CAs that the API server trusts now, in case replicas serve a
    /// certificate that is no longer stored.
    #[must_use]
    pub fn with_next(mut self, next: Certificate, trusted: &[String]) -> Self {
        if self.serving.is_none() {
            self.replaced.extend(trusted.iter().cloned());
        }
        self.next = Some(next);
        self.since = None;
        self.tidied()
    }

    /// Sets the start of the wait before the next step.
    #[must_use]
    pub fn counted_from(self, now: Option<i64>) -> Self {
        Self { since: now, ..self }
    }

    /// Replaces the present certificate with the next one.
    #[must_use]
    pub fn swapped(mut self, now: i64) -> Self {
        if let Some(next) = self.next.take() {
            let before = self.serving.replace(next);
            self.replaced.splice(0..0, before.map(|before| before.authority().to_owned()));
            self.since = Some(now);
        }
        self.tidied()
    }

    /// Removes the CAs of replaced certificates, because replicas no longer serve these certificates.
    #[must_use]
    pub fn without_replaced(self) -> Self {
        Self { replaced: Vec::new(), since: None, ..self }
    }

    /// Removes duplicate CAs.
    fn tidied(mut self) -> Self {
        let mut seen: Vec<String> = self.own().map(str::to_owned).collect();
        self.replaced.retain(|one| {
            let is_new = !seen.contains(one);
            seen.push(one.clone());
            is_new
        });
        self.replaced.truncate(MOST);
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use proptest::prelude::*;

    use super::*;
    use crate::{
        certificates::certificate::issue,
        properties::{any_text, holds, text},
    };

    fn names() -> Vec<String> {
        vec!["a.svc".to_owned()]
    }

    fn certificate() -> Certificate {
        let issued = issue(&names(), SystemTime::now(), Duration::from_secs(60)).unwrap();
        Certificate::read(issued, &names()).unwrap()
    }

    #[test]
    fn what_is_stored_is_read_back_and_what_others_have_put_there_stays() {
        let mut secret = Secret::default();
        secret.annotations_mut().insert("a".into(), "b".into());
        secret.data = Some(BTreeMap::from([("theirs".into(), ByteString(vec![1]))]));
        let first = Stored::default().with_path(CallPath::random().unwrap());
        let old = certificate();
        let trusted = [old.authority().to_owned()];
        let prepared = first.clone().with_next(certificate(), &trusted);
        let swapped = prepared.clone().swapped(7);
        let again = swapped.clone().with_next(certificate(), &[]).counted_from(Some(9));
        for stored in [first, prepared, swapped.clone(), again, swapped.without_replaced(), Stored::default()]
        {
            stored.put(&mut secret);
            assert_eq!(Stored::read(&secret, &names()), stored);
            assert_eq!(secret.annotations()["a"], "b");
            assert_eq!(secret.data.as_ref().unwrap()["theirs"].0, [1]);
        }
    }

    #[test]
    fn whatever_stands_in_the_secret_it_is_read_without_harm() {
        let data = prop::collection::btree_map(
            prop::sample::select(vec!["path", "tls.crt", "tls.key", "next.crt", "ca.crt"]),
            prop_oneof![
                text("[0-9a-f]{64}"),
                text("(-----BEGIN CERTIFICATE-----\n[a-z]{0,3}){0,7}"),
                any_text()
            ],
            0..5,
        );
        holds((data, any_text()), |(data, since)| {
            let data = data.into_iter().map(|(name, text)| (name.to_owned(), ByteString(text.into_bytes())));
            let mut secret = Secret { data: Some(data.collect()), ..Secret::default() };
            secret.annotations_mut().insert(SINCE.to_owned(), since);
            let stored = Stored::read(&secret, &names());
            prop_assert!(stored.serving.is_none() && stored.replaced.len() <= MOST);
            stored.put(&mut secret);
            prop_assert_eq!(Stored::read(&secret, &names()), stored);
            Ok(())
        });
    }
}
