//! The certificate and the secret path of the webhooks.
//!
//! All replicas that a test program starts use the same files. By default, nothing renews them.

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

/// The name with which the local world's API server calls the replicas.
pub const NAME: &str = "127.0.0.1";

/// The certificate, the key and the path of the webhooks in this program.
#[derive(Debug)]
pub struct Files {
    /// The folder of the files.
    pub folder: PathBuf,
    /// The certificates that callers must trust, PEM.
    pub trusted: String,
    /// The secret path.
    pub path: String,
}

impl Files {
    /// Creates the files once for this program.
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

    /// A Secret with this name that contains the files.
    #[must_use]
    pub fn secret(&self, name: &str) -> Value {
        let data = json!({"ca.crt": self.trusted, "path": self.path[1..]});
        json!({"metadata": {"name": name}, "stringData": data})
    }
}

/// The Secret of `headgate certificates` as a folder. Simulated nodes have no kubelet that mounts it.
pub struct Mount {
    /// The folder of its files.
    pub folder: PathBuf,
    following: JoinHandle<()>,
}

impl Mount {
    /// Writes each change of a Secret into a new folder, after this delay.
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

/// Writes the files that the chart mounts, like a kubelet: into a new folder, and then changes a link to it.
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
