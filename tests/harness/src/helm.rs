//! The real helm, and the chart in `deploy/helm/headgate`.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::Value;
use tokio::{process::Command, sync::OnceCell};

use crate::root;

/// The folder of the chart.
pub fn chart() -> PathBuf {
    root().join("deploy/helm/headgate")
}

/// The file with the default output of the chart, which `make manifests` writes.
pub fn manifest() -> PathBuf {
    root().join("deploy/install.yaml")
}

/// The image repository in the chart and in [`manifest`].
pub const PUBLISHED: &str = "ghcr.io/headgate/headgate";

/// The path of `helm`: `HEADGATE_HELM`, or the one that the local world builds.
pub async fn program() -> &'static PathBuf {
    static PROGRAM: OnceCell<PathBuf> = OnceCell::const_new();
    PROGRAM
        .get_or_init(|| async {
            if let Some(given) = std::env::var_os("HEADGATE_HELM") {
                return given.into();
            }
            let world = crate::headgate::beside("world");
            let output = Command::new(world).arg("helm").stderr(Stdio::inherit()).output().await.unwrap();
            assert!(output.status.success(), "`world helm` ended with {}", output.status);
            String::from_utf8(output.stdout).unwrap().trim().into()
        })
        .await
}

/// Environment variables that keep helm away from the user's settings.
pub fn environment() -> [(&'static str, String); 3] {
    let nowhere = root().join("target/helm").display().to_string();
    ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"].map(|home| (home, nowhere.clone()))
}

/// Runs helm with these arguments, without the user's settings.
///
/// # Errors Its standard error.
pub async fn run(kubeconfig: Option<&Path>, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program().await);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true).envs(environment());
    command.env("KUBECONFIG", kubeconfig.unwrap_or(Path::new("/dev/null")));
    let output = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// The objects that the chart renders with these values, for a release `headgate` in namespace `own`.
///
/// # Errors Helm's error.
pub async fn rendered(values: &[&str]) -> Result<Vec<Value>, String> {
    let chart = chart();
    let chart = chart.to_str().unwrap();
    let mut arguments = vec![
        "template",
        "headgate",
        chart,
        "--namespace=own",
        "--kube-version=1.36",
        "--set=image.repository=x.io/headgate",
    ];
    arguments.extend(values);
    let text = run(None, &arguments).await?;
    let documents = text.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
    Ok(documents.filter(|object| !object.is_null()).collect())
}

/// The chart as an archive in a folder with this name, like in a release.
pub async fn packaged(folder: &str) -> PathBuf {
    let folder = root().join("target/helm").join(folder);
    let (chart, to) = (chart(), format!("--destination={}", folder.display()));
    run(None, &["package", chart.to_str().unwrap(), &to]).await.unwrap();
    folder.join("headgate-0.1.0.tgz")
}

/// The objects of a kind.
pub fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

/// The Deployment that runs this command of the program.
pub fn deployment<'a>(objects: &'a [Value], command: &str) -> &'a Value {
    let runs = |object: &&&Value| object["spec"]["template"]["spec"]["containers"][0]["args"][0] == command;
    of_kind(objects, "Deployment").iter().find(runs).expect("a Deployment runs it")
}

/// The container of the Deployment of `headgate run`, and the rest of its pod.
pub fn pod_of(objects: &[Value]) -> (Value, Value) {
    let pod = deployment(objects, "run")["spec"]["template"]["spec"].clone();
    (pod["containers"][0].clone(), pod)
}

/// Runs a test that does not need a local world.
pub fn block<F: Future<Output = ()>>(test: F) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}
