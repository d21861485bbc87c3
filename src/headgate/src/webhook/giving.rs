//! What new pods get from this Headgate: the grace period of probes, and the program that holds containers without a
//! shell.
//!
//! The program, `headgate-hold`, is in Headgate's own image. A pod mounts it as an image volume, which API servers
//! enable by default since 1.35 (KEP-4639). An older API server would reject the pod. This task therefore asks the API
//! server for its version, and repeats that every hour because of upgrades.

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
/// How long an answer is used.
const AGAIN: Duration = Duration::from_secs(3600);
/// The pause after an API server did not answer.
const RETRY: Duration = Duration::from_secs(5);
/// The minor version before the first answer.
const UNKNOWN: u32 = u32::MAX;

/// The options.
#[derive(Clone, Debug)]
pub struct Options {
    /// The grace period in seconds for probes of a held container.
    pub probe_grace: u32,
    /// The longest grace period in seconds that Headgate sets.
    pub max_grace: Option<u32>,
    /// The image that contains the program.
    pub image: Option<Box<str>>,
}

/// What pods get now.
#[derive(Clone)]
pub struct Giving {
    options: Arc<Options>,
    /// The minor version of the API server.
    server: Arc<AtomicU32>,
}

impl Giving {
    /// The state before the API server has returned its version.
    pub fn new(options: Options) -> Self {
        Self { options: Arc::new(options), server: Arc::new(AtomicU32::new(UNKNOWN)) }
    }

    /// The settings for what pods get.
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

    /// The image that contains the program.
    pub fn image(&self) -> &str {
        self.options.image.as_deref().unwrap_or_default()
    }

    /// Whether the version of the API server matters.
    pub fn wants_the_version(&self) -> bool {
        self.options.image.is_some()
    }

    /// Asks the API server for its version repeatedly.
    ///
    /// # Errors
    /// Never; it does not end.
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

/// The minor version, which some API servers write with a `+`.
fn minor(major: &str, minor: &str) -> u32 {
    let digits = minor.trim_end_matches(|c: char| !c.is_ascii_digit());
    match (major, digits.parse()) {
        ("1", Ok(minor)) => minor,
        // A Kubernetes 2 has everything that 1.35 has.
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
