//! The secret path in Headgate's Secret, beside the certificate or alone.
//!
//! The digits are data; an annotation says when they were made and named, and so that Headgate has made them. Nothing
//! else in the Secret is touched.

use std::collections::BTreeMap;

use headgate_core::model::webhook::StoredPath;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use super::SecretPath;
use crate::webhook::secret::CONTENTS;

/// The annotation of the Secret that says when the path in it was made: Headgate has made it.
pub const PATHS: &str = "headgate.dev/webhook-path";
const PRESENT: &str = "path";
const PREVIOUS: &str = "path-before";

/// The annotation, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Times {
    made: i64,
    /// Since when the configurations name it.
    named: Option<i64>,
    /// Until when the one before is served; none: until the configurations name the present one, and then some time.
    previous_until: Option<i64>,
}

/// What is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    times: Times,
    /// The one that the configurations should name.
    pub present: SecretPath,
    /// The one before.
    previous: Option<SecretPath>,
}

impl Stored {
    /// A new one.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn make(now: i64) -> Result<Self, String> {
        let times = Times { made: now, named: None, previous_until: None };
        Ok(Self { times, present: SecretPath::make()?, previous: None })
    }

    /// As far as the next step depends on it.
    pub fn times(&self) -> StoredPath {
        let Times { made, named, .. } = self.times;
        StoredPath { made, named_since: named, has_previous: self.previous.is_some() }
    }

    /// The configurations name it.
    #[must_use]
    pub fn confirmed(mut self, now: i64, overlap: i64) -> Self {
        self.times.named = Some(now);
        self.times.previous_until = self.previous.is_some().then(|| now.saturating_add(overlap));
        self
    }

    /// Without the one before.
    #[must_use]
    pub fn without_previous(mut self) -> Self {
        (self.previous, self.times.previous_until) = (None, None);
        self
    }

    /// Another one, with this as the one before.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn replaced(self, now: i64) -> Result<Self, String> {
        Ok(Self { previous: Some(self.present), ..Self::make(now)? })
    }

    /// Those that are served, and until when.
    pub fn served(&self) -> Vec<(SecretPath, Option<i64>)> {
        let previous = self.previous.clone().map(|path| (path, self.times.previous_until));
        [(self.present.clone(), None)].into_iter().chain(previous).collect()
    }

    /// Puts it into a Secret.
    ///
    /// # Errors
    /// Never, with times like these.
    pub fn put(&self, secret: &mut Secret) -> Result<(), String> {
        let times = serde_json::to_string(&self.times).map_err(|error| error.to_string())?;
        secret.annotations_mut().insert(PATHS.to_owned(), times);
        let data = secret.data.get_or_insert_with(BTreeMap::new);
        let digits = |path: &SecretPath| ByteString(path.0.clone().into_bytes());
        data.insert(PRESENT.to_owned(), digits(&self.present));
        match &self.previous {
            Some(previous) => data.insert(PREVIOUS.to_owned(), digits(previous)),
            None => data.remove(PREVIOUS),
        };
        Ok(())
    }
}

/// What a Secret has; none: no path that makes sense.
pub fn read(secret: &Secret) -> Option<Stored> {
    let times = serde_json::from_str(secret.annotations().get(PATHS)?).ok()?;
    let path = |name: &str| {
        let digits = &secret.data.as_ref()?.get(name)?.0;
        SecretPath::parse(std::str::from_utf8(digits).ok()?)
    };
    Some(Stored { times, present: path(PRESENT)?, previous: path(PREVIOUS) })
}

/// Whether Headgate has made this Secret.
pub fn is_own(secret: &Secret) -> bool {
    [CONTENTS, PATHS].iter().any(|name| secret.annotations().contains_key(*name))
}

/// When the newest certificate was made that is in this Secret.
pub fn certificate_made(secret: &Secret) -> Option<i64> {
    let contents: serde_json::Value = serde_json::from_str(secret.annotations().get(CONTENTS)?).ok()?;
    ["next", "serving"].iter().filter_map(|which| contents[which]["from"].as_i64()).max()
}
