//! The certificate and the secret path of the webhooks.
//!
//! All replicas that a test program starts serve with the same files. Where nothing else is said, nobody renews them.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::{Duration, SystemTime},
};

use headgate::{certificates::certificate::issue, webhook::path::CallPath};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};

use crate::root;

/// What the world's API server calls the replicas by.
pub const NAME: &str = "127.0.0.1";

/// The certificate, the key and the path that the webhooks of this program serve with.
#[derive(Debug)]
pub struct Files {
    /// Where they are.
    pub folder: PathBuf,
    /// What whoever calls has to trust, PEM.
    pub trusted: String,
    /// The secret path.
    pub path: String,
}

impl Files {
    /// Makes them once for this program.
    pub fn shared() -> &'static Self {
        static FILES: LazyLock<Files> = LazyLock::new(|| {
            let folder = root().join("target/webhook").join(std::process::id().to_string());
            Files::make(folder)
        });
        &FILES
    }

    fn make(folder: PathBuf) -> Self {
        let (names, day) = ([NAME.to_owned()], Duration::from_secs(24 * 3600));
        let issued = issue(&names, SystemTime::now(), day).unwrap();
        let path = CallPath::random().unwrap();
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in [("tls.crt", &*issued.chain), ("tls.key", &*issued.key), ("path", path.digits())]
        {
            fs::write(folder.join(name), text).unwrap();
        }
        Self { folder, trusted: issued.authority().to_owned(), path: path.as_str().to_owned() }
    }

    /// The Secret that has them, of this name.
    #[must_use]
    pub fn secret(&self, name: &str) -> Value {
        let data = json!({"ca.crt": self.trusted, "path": self.path[1..]});
        json!({"metadata": {"name": name}, "stringData": data})
    }
}

/// The Secret of `headgate certificates` as a folder: simulated nodes have no kubelet that mounts it.
pub struct Mount {
    /// Where its files are.
    pub folder: PathBuf,
    following: JoinHandle<()>,
}

impl Mount {
    /// Brings each change of a Secret into a new folder, this long after it was made.
    pub fn of(client: Client, namespace: &str, secret: &str, number: usize, lag: Duration) -> Self {
        let folder = root().join("target/webhook").join(format!("{namespace}-{number}"));
        fs::create_dir_all(&folder).unwrap();
        let secrets: Api<Secret> = Api::namespaced(client, namespace);
        let (secret, into) = (secret.to_owned(), folder.clone());
        let following = tokio::spawn(async move {
            let (mut before, mut version) = (None, 0);
            loop {
                let now = secrets.get(&secret).await.ok().map(|secret| secret.data.unwrap_or_default());
                if let Some(now) = now.filter(|now| before.as_ref() != Some(now)) {
                    sleep(lag).await;
                    version += 1;
                    mount(&into, version, &now);
                    before = Some(now);
                }
                sleep(Duration::from_millis(200)).await;
            }
        });
        Self { folder, following }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.following.abort();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Writes the files that the chart mounts, as a kubelet does: into a new folder, to which a link leads from then on.
fn mount(folder: &Path, version: u32, data: &BTreeMap<String, ByteString>) {
    let name = format!("..{version}");
    let new = folder.join(&name);
    fs::create_dir_all(&new).unwrap();
    for file in ["tls.crt", "tls.key", "path"] {
        if let Some(content) = data.get(file) {
            fs::write(new.join(file), &content.0).unwrap();
        }
    }
    let link = folder.join("..tmp");
    symlink(name, &link).unwrap();
    fs::rename(link, folder.join("..data")).unwrap();
}
