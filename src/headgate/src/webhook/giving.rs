//! The settings for new pods: the grace period of probes, and the program that holds containers without a shell.
//!
//! The program is `headgate-hold`, which Headgate's own image contains. A pod mounts `headgate-hold` as an image
//! volume. API servers enable image volumes by default since 1.35 (KEP-4639). An older API server would reject a pod
//! with an image volume. Therefore, a task requests the version of the API server every hour, because the API server
//! may be upgraded.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use headgate_core::model::injection::{Program, Terms};
use kube::Client;
use tokio::time::sleep;
use tracing::{debug, info};

/// The first minor version of Kubernetes 1 that enables image volumes by default.
const HAS_IMAGE_VOLUMES: u32 = 35;
/// The interval between successful requests for the version.
const AGAIN: Duration = Duration::from_secs(3600);
/// The pause after a failed request for the version.
const RETRY: Duration = Duration::from_secs(5);
/// The value before the API server has returned its version.
const UNKNOWN: u32 = u32::MAX;

/// The options for new pods.
#[derive(Clone, Debug)]
pub struct Options {
    /// The grace period in seconds for probes of a held container.
    pub probe_grace: u32,
    /// The longest grace period in seconds that Headgate sets.
    pub max_grace: Option<u32>,
    /// The image that contains `headgate-hold`.
    pub image: Option<Box<str>>,
}

/// The present settings for new pods.
#[derive(Clone)]
pub struct Giving {
    options: Arc<Options>,
    /// The minor version of the API server, or [`UNKNOWN`].
    server: Arc<AtomicU32>,
}

impl Giving {
    /// Creates the settings before the API server has returned its version.
    pub fn new(options: Options) -> Self {
        Self { options: Arc::new(options), server: Arc::new(AtomicU32::new(UNKNOWN)) }
    }

    /// The present settings for the decision about a new pod.
    pub fn terms(&self) -> Terms {
        let program = match (&self.options.image, self.server.load(Ordering::Relaxed)) {
            (None, _) => Program::NoImage,
            (Some(_), UNKNOWN) => Program::ServerUnknown,
            (Some(_), minor) if minor < HAS_IMAGE_VOLUMES => Program::ServerTooOld,
            (Some(_), _) => Program::Available,
        };
        let max_grace = self.options.max_grace.map(|seconds| (seconds, "--max-grace"));
        Terms { probe_grace: self.options.probe_grace, program, max_grace, is_refused: false }
    }

    /// The image that contains `headgate-hold`, or an empty text.
    pub fn image(&self) -> &str {
        self.options.image.as_deref().unwrap_or_default()
    }

    /// Whether the settings depend on the version of the API server.
    pub fn wants_the_version(&self) -> bool {
        self.options.image.is_some()
    }

    /// Requests the version of the API server repeatedly.
    ///
    /// # Errors
    /// The function never returns.
    pub async fn learn(self, client: Client) -> Result<(), String> {
        loop {
            let wait = match client.apiserver_version().await {
                Ok(version) => {
                    let minor = minor(&version.major, &version.minor);
                    if self.server.swap(minor, Ordering::Relaxed) != minor {
                        info!(
                            version = version.git_version,
                            image_volumes = minor >= HAS_IMAGE_VOLUMES && minor != UNKNOWN,
                            "the version of the API server"
                        );
                    }
                    AGAIN
                }
                Err(error) => {
                    debug!(%error, "the API server did not return its version");
                    RETRY
                }
            };
            sleep(wait).await;
        }
    }
}

/// Parses a minor version, to which some API servers append a `+`.
fn minor(major: &str, minor: &str) -> u32 {
    let digits = minor.trim_end_matches(|c: char| !c.is_ascii_digit());
    match (major, digits.parse()) {
        ("1", Ok(minor)) => minor,
        // Kubernetes 2 counts as 1.35, which has all required features.
        ("0", _) | (_, Err(_)) => UNKNOWN,
        (_, Ok(_)) => HAS_IMAGE_VOLUMES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_given_where_its_image_is_known_and_the_server_has_image_volumes() {
        for (image, server, program) in [
            (None, ("1", "36"), Program::NoImage),
            (Some("x.io/headgate:1"), ("1", "34"), Program::ServerTooOld),
            (Some("x.io/headgate:1"), ("1", "34+"), Program::ServerTooOld),
            (Some("x.io/headgate:1"), ("1", "35"), Program::Available),
            (Some("x.io/headgate:1"), ("1", "35+"), Program::Available),
            (Some("x.io/headgate:1"), ("2", "0"), Program::Available),
            (Some("x.io/headgate:1"), ("1", "new"), Program::ServerUnknown),
            (Some("x.io/headgate:1"), ("", ""), Program::ServerUnknown),
        ] {
            let giving =
                Giving::new(Options { probe_grace: 5, max_grace: None, image: image.map(Into::into) });
            giving.server.store(minor(server.0, server.1), Ordering::Relaxed);
            let terms = Terms { probe_grace: 5, program, ..Terms::default() };
            assert_eq!(giving.terms(), terms, "{image:?} {server:?}");
        }
        let giving = Giving::new(Options {
            probe_grace: 7,
            max_grace: Some(120),
            image: Some("x.io/headgate:1".into()),
        });
        let (program, max_grace) = (Program::ServerUnknown, Some((120, "--max-grace")));
        assert_eq!(giving.terms(), Terms { probe_grace: 7, program, max_grace, is_refused: false });
        assert_eq!(giving.image(), "x.io/headgate:1");
    }
}
