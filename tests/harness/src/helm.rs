//! The real helm, and the chart in `deploy/helm/headgate`.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::{process::Command, sync::OnceCell};

use crate::root;

/// The folder of the chart.
pub fn chart() -> PathBuf {
    root().join("deploy/helm/headgate")
}

/// The program, which the local world builds once.
async fn program() -> &'static PathBuf {
    static PROGRAM: OnceCell<PathBuf> = OnceCell::const_new();
    PROGRAM
        .get_or_init(|| async {
            let world = crate::headgate::beside("world");
            let output = Command::new(world).arg("helm").stderr(Stdio::inherit()).output().await.unwrap();
            assert!(output.status.success(), "`world helm` ended with {}", output.status);
            String::from_utf8(output.stdout).unwrap().trim().into()
        })
        .await
}

/// Runs helm with these arguments, and leaves its settings on this machine alone.
///
/// # Errors
/// What it said on standard error.
pub async fn run(kubeconfig: Option<&Path>, arguments: &[&str]) -> Result<String, String> {
    let nowhere = root().join("target/helm");
    let mut command = Command::new(program().await);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    for home in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(home, &nowhere);
    }
    command.env("KUBECONFIG", kubeconfig.unwrap_or(Path::new("/dev/null")));
    let output = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
