//! Reads the certificate, the key and the path from the files of a mounted Secret. The module reads the files again
//! when they change.
//!
//! `headgate certificates`, cert-manager or the user writes the mounted Secret and the `caBundle` of the webhook
//! configurations. If there is no file `path`, Headgate serves the fixed path.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

use super::path::CallPath;
use crate::{
    metrics::Metrics,
    serving::{
        tls::{self, Served},
        validity,
    },
};

/// The interval between checks of the files. The interval is short compared to the one or two minutes that a kubelet
/// needs to update a mounted Secret.
const PERIOD: Duration = Duration::from_secs(5);

/// The channels that publish the content of the files.
#[derive(Clone, Debug)]
pub struct Published {
    /// The channel for the certificate.
    pub certificate: watch::Sender<Served>,
    /// The channel for the path.
    pub path: watch::Sender<Option<CallPath>>,
}

impl Published {
    /// Creates the channels without content.
    #[must_use]
    pub fn nothing() -> Self {
        Self { certificate: watch::Sender::new(None), path: watch::Sender::new(None) }
    }
}

/// The contents of the files.
#[derive(Clone, PartialEq, Eq)]
struct Files {
    chain: Vec<u8>,
    key: Vec<u8>,
    path: Option<String>,
}

async fn read(folder: &Path) -> Result<Files, String> {
    // A kubelet replaces all files at once through a symbolic link, so all files have the same version.
    let version = tokio::fs::canonicalize(folder.join("..data")).await;
    let folder_now = version.as_deref().unwrap_or(folder);
    let file = async |name: &str| tokio::fs::read(folder_now.join(name)).await;
    let unread = |name: &str, error: std::io::Error| {
        let place = folder.join(name);
        format!(
            "cannot read {} ({error}): `headgate certificates` or cert-manager has not written the Secret \
             yet, or the kubelet has not mounted it, which may take two minutes",
            place.display()
        )
    };
    let chain = file("tls.crt").await.map_err(|error| unread("tls.crt", error))?;
    let key = file("tls.key").await.map_err(|error| unread("tls.key", error))?;
    let path = match file("path").await {
        Ok(path) => Some(String::from_utf8_lossy(&path).into_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(unread("path", error)),
    };
    Ok(Files { chain, key, path })
}

/// Publishes the content of the folder until all receivers are dropped. Invalid content is logged, and the earlier
/// content remains in use.
pub async fn keep(folder: PathBuf, published: Published, metrics: Arc<Metrics>) {
    let mut before: Option<Result<Files, String>> = None;
    while !published.certificate.is_closed() {
        let now = read(&folder).await;
        if before.as_ref() != Some(&now) {
            match now.as_ref().map_err(Clone::clone).and_then(|files| publish(files, &published, &metrics)) {
                Ok(until) => {
                    info!(folder = %folder.display(), until, "serving the webhook with another certificate or path");
                }
                Err(error) => warn!(%error, "cannot serve the webhook's certificate; retrying"),
            }
            before = Some(now);
        }
        tokio::select! {
            () = sleep(PERIOD) => {}
            () = published.certificate.closed() => {}
        }
    }
}

/// Publishes the content of the files. Returns the expiry of the certificate, in seconds since 1970.
fn publish(files: &Files, published: &Published, metrics: &Metrics) -> Result<Option<i64>, String> {
    let certified = tls::certified(&files.chain, &files.key).map_err(|error| error.to_string())?;
    let path = match &files.path {
        None => CallPath::fixed(),
        Some(digits) => CallPath::from_digits(digits).ok_or(
            "the file `path` does not contain a secret path. Write 64 lower-case hexadecimal digits, or \
             remove it",
        )?,
    };
    let until = certified.cert.first().and_then(|leaf| validity::life(leaf)).map(|life| life.until);
    metrics.certificate_ends(until.unwrap_or_default());
    // The path is published first, so that a client that can connect also finds the path.
    published.path.send_replace(Some(path));
    published.certificate.send_replace(Some(Arc::new(certified)));
    Ok(until)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::{
        metrics::{Format, Level},
        runtime::{clock::Clock, views::Views},
    };

    /// Creates a certificate and its key, as PEM.
    fn make() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        parameters.not_after =
            SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(4_000_000_000)).unwrap().into();
        (parameters.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    fn leaf((chain, key): &(String, String)) -> rustls::pki_types::CertificateDer<'static> {
        tls::certified(chain.as_bytes(), key.as_bytes()).unwrap().cert[0].clone()
    }

    /// Writes the files in the way of a kubelet: into a new folder, to which a symbolic link then points.
    fn mount(folder: &Path, version: &str, (chain, key): &(String, String), path: Option<&str>) {
        let new = folder.join(version);
        std::fs::create_dir_all(&new).unwrap();
        std::fs::write(new.join("tls.crt"), chain).unwrap();
        std::fs::write(new.join("tls.key"), key).unwrap();
        if let Some(path) = path {
            std::fs::write(new.join("path"), path).unwrap();
        }
        let link = folder.join("..tmp");
        std::os::unix::fs::symlink(version, &link).unwrap();
        std::fs::rename(link, folder.join("..data")).unwrap();
    }

    #[tokio::test]
    async fn files_are_served_when_they_come_replaced_when_they_change_and_kept_when_they_break() {
        let folder = std::env::temp_dir().join(format!("headgate-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (first, second, digits) = (make(), make(), "5".repeat(64));
        let published = Published::nothing();
        let (mut served, path) = (published.certificate.subscribe(), published.path.subscribe());
        let metrics = Arc::new(Metrics::new(Arc::new(Views::default()), Clock::start(), Level::Debug));
        tokio::time::pause();
        let keeping = tokio::spawn(keep(folder.clone(), published, metrics.clone()));
        tokio::time::sleep(3 * PERIOD).await;
        assert!(served.borrow().is_none() && path.borrow().is_none());

        mount(&folder, "..1", &first, Some(&digits));
        served.wait_for(Option::is_some).await.unwrap();
        assert_eq!(served.borrow_and_update().as_ref().unwrap().cert[0], leaf(&first));
        assert!(path.borrow().as_ref().unwrap().is(&format!("/{digits}")));
        let page = metrics.page(Format::Prometheus).unwrap();
        assert!(page.contains("headgate_webhook_certificate_end_timestamp_seconds 4000000000"), "{page}");

        let broken = [
            ((first.0.clone(), "nonsense".to_owned()), None),
            ((first.0.clone(), second.1.clone()), None),
            (second.clone(), Some("guess")),
        ];
        for (version, (files, path)) in ["..2", "..3", "..4"].into_iter().zip(broken) {
            mount(&folder, version, &files, path);
            tokio::time::sleep(3 * PERIOD).await;
            assert!(!served.has_changed().unwrap(), "{version}: what was served is served on");
        }

        mount(&folder, "..5", &second, None);
        served.changed().await.unwrap();
        assert_eq!(served.borrow_and_update().as_ref().unwrap().cert[0], leaf(&second));
        assert!(path.borrow().as_ref().unwrap().is("/headgate"), "no file names another one");
        drop(served);
        keeping.await.unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
