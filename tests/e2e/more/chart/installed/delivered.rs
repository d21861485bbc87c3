//! What is installed: the image of the programs that `make image` builds, with the chart and `install.yaml` of this
//! repository; or, if `HEADGATE_RELEASE` names the folder that `make release` writes, image, chart and `install.yaml` of that
//! release, unchanged.

use std::{
    fs,
    path::{Path, PathBuf},
};

use headgate_harness::{
    helm::{self, PUBLISHED},
    http, root,
    scenario::Scenario,
};
use serde_json::{Value, json};
use tokio::{process::Command, sync::OnceCell};

/// The repository of the image of `make image`.
const LOCAL: &str = "headgate.local/headgate";

/// The files of a delivery, whose image is on every node.
pub struct Delivered {
    /// How pods name the image.
    pub image: String,
    /// The chart as an archive.
    pub chart: PathBuf,
    /// The values of the chart that lead to the image.
    pub values: Value,
    /// The text of `install.yaml`.
    pub manifest: String,
}

impl Delivered {
    /// Puts the image on every node, for the first who asks.
    pub async fn load(s: &Scenario) -> &'static Self {
        static LOADED: OnceCell<Delivered> = OnceCell::const_new();
        LOADED
            .get_or_init(async || match std::env::var_os("HEADGATE_RELEASE") {
                Some(folder) => Self::of_release(s, &root().join(folder)).await,
                None => Self::of_programs(s).await,
            })
            .await
    }

    async fn of_programs(s: &Scenario) -> Self {
        let image = format!("{LOCAL}:test");
        let certificates = "/etc/ssl/certs/ca-certificates.crt";
        let licence = "licenses/LICENSE";
        let files = json!({
            certificates: certificates,
            "/headgate-hold": program("headgate-hold"),
            format!("/{licence}"): program(licence),
        });
        import(s, &json!({"name": image, "binary": program("headgate"), "files": files})).await;
        let manifest = fs::read_to_string(helm::manifest()).unwrap();
        Self {
            manifest: manifest.replace(&format!("{PUBLISHED}:{}", env!("CARGO_PKG_VERSION")), &image),
            image,
            chart: helm::packaged("installed").await,
            values: json!({"repository": LOCAL, "tag": "test", "pullPolicy": "Never"}),
        }
    }

    async fn of_release(s: &Scenario, folder: &Path) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let manifest = fs::read_to_string(folder.join("install.yaml")).unwrap();
        let named = manifest.lines().find_map(|line| line.trim().strip_prefix("image: ")).unwrap();
        let (tagged, digest) = named.trim_matches('"').split_once('@').expect("the image has a digest");
        let (repository, _) = tagged.rsplit_once(':').unwrap();
        let image = format!("{repository}@{digest}");
        let archive = folder.join(format!("headgate-{version}-image.tar"));
        import(s, &json!({"archive": named_archive(s, &archive, &image).await})).await;
        let chart = folder.join(format!("headgate-{version}.tgz"));
        // Only the image that was put there can start.
        Self { image, chart, values: json!({"pullPolicy": "Never"}), manifest }
    }
}

/// One of the files that `make image` builds.
fn program(name: &str) -> PathBuf {
    let program = root().join("target/image").join(name);
    assert!(program.is_file(), "there is no {}; run `make image` first", program.display());
    program
}

/// A copy of the archive of a release that tells containerd the name of its image. Blobs and digests are the same.
async fn named_archive(s: &Scenario, archive: &Path, image: &str) -> PathBuf {
    let layout = s.facts().folder.join("release-image");
    fs::create_dir_all(&layout).unwrap();
    tar(&["-x", "-C", layout.to_str().unwrap(), "-f", archive.to_str().unwrap()]).await;
    let path = layout.join("index.json");
    let mut index: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let entries = index["manifests"].as_array_mut().unwrap();
    let [entry] = &mut entries[..] else { panic!("expected one image in {}", archive.display()) };
    assert!(image.ends_with(entry["digest"].as_str().unwrap()), "install.yaml names {image}, not {entry}");
    entry["annotations"] = json!({"io.containerd.image.name": image});
    fs::write(&path, index.to_string()).unwrap();
    let named = layout.with_extension("tar");
    tar(&["-c", "-C", layout.to_str().unwrap(), "-f", named.to_str().unwrap(), "."]).await;
    named
}

async fn tar(arguments: &[&str]) {
    let status = Command::new("tar").args(arguments).status().await.unwrap();
    assert!(status.success(), "tar {arguments:?}: {status}");
}

/// Asks the nodes for an image.
async fn import(s: &Scenario, body: &Value) {
    let control = s.facts().kubelet_control.strip_prefix("http://").unwrap();
    http::json("POST", control, "/images", Some(body)).await;
}
