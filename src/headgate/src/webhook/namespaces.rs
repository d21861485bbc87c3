//! The limit that a namespace sets on the grace periods of its pods. Headgate reads the namespace's metadata and reuses
//! the result for 30 s.
//!
//! If a namespace cannot be read, its last known limit applies. Without a known limit, there is no limit. A new pod
//! waits at most half a second for the answer.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use headgate_core::{
    Failure, Moment, inject,
    model::{excerpt::excerpt, injection::MAX_GRACE},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use tracing::warn;

use crate::{
    kube::failure,
    runtime::{clock::Clock, within::within},
    serving::seldom::Seldom,
};

/// The time for which a result is reused.
const COUNTS: Duration = Duration::from_secs(30);
/// The timeout of a request for a namespace.
const PATIENCE: Duration = Duration::from_millis(500);
/// The maximum number of stored results.
const REMEMBERED: usize = 1_000;
/// The source of the limit, for error messages.
const WHOSE: &str = "the annotation headgate.dev/max-grace of its namespace";

/// A limit in seconds, and its source.
type Limit = (u32, &'static str);

/// The limit of each namespace, and the time when it was read.
type Known = BTreeMap<Box<str>, (Moment, Option<u32>)>;

/// Reads the annotation of one namespace.
pub trait ReadNamespace: Send + Sync {
    /// Reads the annotation with the limit. `None`: the namespace has no limit.
    fn max_grace<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, Failure>>;
}

impl ReadNamespace for Client {
    fn max_grace<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, Failure>> {
        Box::pin(async move {
            let namespace = Api::<Namespace>::all(self.clone()).get_metadata_opt(name).await;
            let namespace = namespace.map_err(|error| failure::of(&error))?;
            Ok(namespace.and_then(|it| it.annotations().get(MAX_GRACE).cloned()))
        })
    }
}

/// The limits that namespaces set.
#[derive(Clone)]
pub struct Namespaces {
    shared: Arc<Shared>,
}

struct Shared {
    reader: Box<dyn ReadNamespace>,
    clock: Clock,
    known: Mutex<Known>,
    failed: Seldom,
    misread: Seldom,
}

impl Namespaces {
    /// Creates an empty store that reads namespaces with `reader`.
    pub fn new(reader: impl ReadNamespace + 'static, clock: Clock) -> Self {
        let (known, failed, misread) = (Mutex::default(), Seldom::default(), Seldom::default());
        Self { shared: Arc::new(Shared { reader: Box::new(reader), clock, known, failed, misread }) }
    }

    /// The longest grace period that Headgate sets on pods of a namespace, and its source.
    pub async fn max_grace(&self, name: &str) -> Option<Limit> {
        let shared = &self.shared;
        let now = shared.clock.now();
        let before = shared.known().get(name).copied();
        if let Some((at, limit)) = before
            && now.since(at) < COUNTS
        {
            return limit.map(|seconds| (seconds, WHOSE));
        }
        let said = within(PATIENCE, shared.reader.max_grace(name)).await;
        let limit = match said {
            Ok(text) => text.and_then(|text| shared.read(name, &text)),
            Err(failure) => {
                let error = &failure.message;
                if let Some(others) = shared.failed.say(now) {
                    warn!(
                        namespace = &*excerpt(name),
                        %error,
                        others,
                        "cannot read a Namespace, so its annotation {MAX_GRACE} has no effect. Grant get on \
                         namespaces (config/rbac/clusterrole.yaml or role.yaml)"
                    );
                }
                before.and_then(|(_, limit)| limit)
            }
        };
        let mut known = shared.known();
        if known.len() >= REMEMBERED && !known.contains_key(name) {
            known.retain(|_, (at, _)| now.since(*at) < COUNTS);
            if known.len() >= REMEMBERED {
                known.clear();
            }
        }
        known.insert(name.into(), (now, limit));
        limit.map(|seconds| (seconds, WHOSE))
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, name: &str, text: &str) -> Option<u32> {
        let limit = inject::max_grace(text);
        if limit.is_none()
            && let Some(others) = self.misread.say(self.clock.now())
        {
            warn!(
                namespace = &*excerpt(name),
                others,
                "{MAX_GRACE}: invalid value \"{}\" is ignored. Set {}.",
                excerpt(text),
                inject::MAX_GRACE_EXPECTED
            );
        }
        limit
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use headgate_core::FailureClass;
    use tokio::time::sleep;

    use super::*;

    /// Returns the given answers in order, and counts the calls.
    struct Says(Vec<Result<Option<&'static str>, &'static str>>, Arc<AtomicUsize>);

    impl ReadNamespace for Says {
        fn max_grace<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<String>, Failure>> {
            let said = self.0[self.1.fetch_add(1, Relaxed).min(self.0.len() - 1)];
            let failed = |said: &str| Failure::new(FailureClass::Unavailable, "Forbidden", said);
            Box::pin(async move { said.map(|text| text.map(str::to_owned)).map_err(failed) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_is_read_once_in_half_a_minute_and_what_cannot_be_read_counts_as_before() {
        let count = Arc::new(AtomicUsize::new(0));
        let said = vec![Ok(Some("120s")), Err("forbidden"), Ok(Some("soon")), Ok(None), Err("away")];
        let namespaces = Namespaces::new(Says(said, count.clone()), Clock::start());
        for (limit, reads) in [(Some(120), 1), (Some(120), 2), (None, 3), (None, 4), (None, 5)] {
            for _ in 0..3 {
                assert_eq!(namespaces.max_grace("shop").await, limit.map(|limit| (limit, WHOSE)));
                assert_eq!(count.load(Relaxed), reads);
            }
            sleep(COUNTS).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_a_thousand_namespaces_are_remembered() {
        let namespaces = Namespaces::new(Says(vec![Ok(None)], Arc::default()), Clock::start());
        for number in 0..=REMEMBERED {
            namespaces.max_grace(&number.to_string()).await;
        }
        assert!(namespaces.shared.known().len() <= REMEMBERED);
    }
}
