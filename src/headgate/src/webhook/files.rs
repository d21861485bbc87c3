//! A certificate from files that somebody else looks after, such as cert-manager: read again when they change.
//!
//! Whoever writes the files also keeps the `caBundle` of the webhook configuration right.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

use crate::serving::tls::{self, Served};

/// The kubelet brings a changed Secret into a pod within a minute or so; this adds little.
const PERIOD: Duration = Duration::from_secs(5);

type Pair = (Vec<u8>, Vec<u8>);

async fn read(folder: &Path) -> Result<Pair, String> {
    let file = |name: &str| {
        let path = folder.join(name);
        async move {
            tokio::fs::read(&path).await.map_err(|error| {
                format!(
                    "{} cannot be read ({error}); expected tls.crt and tls.key in --webhook-cert-dir",
                    path.display()
                )
            })
        }
    };
    Ok((file("tls.crt").await?, file("tls.key").await?))
}

/// Serves what is in the folder, until nobody listens any more. What cannot be served is said, and what was served
/// before stays.
pub async fn keep(folder: PathBuf, serve: watch::Sender<Served>) {
    let mut before: Option<Result<Pair, String>> = None;
    while !serve.is_closed() {
        let now = read(&folder).await;
        if before.as_ref() != Some(&now) {
            let certified = match &now {
                Ok((chain, key)) => tls::certified(chain, key).map_err(|error| error.to_string()),
                Err(error) => Err(error.clone()),
            };
            match certified {
                Ok(certified) => {
                    info!(folder = %folder.display(), "serving the webhook with the certificate of");
                    serve.send_replace(Some(Arc::new(certified)));
                }
                Err(error) => warn!(%error, "the webhook's certificate is not served, tried again"),
            }
            before = Some(now);
        }
        tokio::select! {
            () = sleep(PERIOD) => {}
            () = serve.closed() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::webhook::certificate::{Issued, issue};

    fn write(folder: &Path, issued: &Issued) {
        std::fs::write(folder.join("tls.crt"), &issued.chain).unwrap();
        std::fs::write(folder.join("tls.key"), &issued.key).unwrap();
    }

    #[tokio::test]
    async fn files_are_served_when_they_come_replaced_when_they_change_and_kept_when_they_break() {
        let folder = std::env::temp_dir().join(format!("headgate-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let make = || issue(&["a.example".into()], SystemTime::now(), Duration::from_secs(60)).unwrap();
        let leaf = |issued: &Issued| {
            tls::certified(issued.chain.as_bytes(), issued.key.as_bytes()).unwrap().cert[0].clone()
        };
        let (first, second) = (make(), make());
        let (serve, mut served) = watch::channel(None);
        tokio::time::pause();
        let keeping = tokio::spawn(keep(folder.clone(), serve));

        write(&folder, &first);
        served.wait_for(Option::is_some).await.unwrap();
        assert_eq!(served.borrow_and_update().as_ref().unwrap().cert[0], leaf(&first));

        std::fs::write(folder.join("tls.key"), "nonsense").unwrap();
        tokio::time::sleep(3 * PERIOD).await;
        assert!(!served.has_changed().unwrap(), "what was served stays");

        write(&folder, &second);
        served.changed().await.unwrap();
        assert_eq!(served.borrow_and_update().as_ref().unwrap().cert[0], leaf(&second));
        drop(served);
        keeping.await.unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
