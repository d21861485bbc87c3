//! `deploy/install.yaml`: the chart with its defaults as one file, which `make manifests` writes.

use std::fs;

use headgate_harness::helm::{block, chart, manifest, run};

const HEAD: &str = "\
# Headgate for all namespaces: the chart with its defaults. `make manifests` writes this file. Do not edit it.
apiVersion: v1
kind: Namespace
metadata:
  name: headgate
  labels:
    pod-security.kubernetes.io/enforce: restricted
";

/// An object without the labels and annotations of helm.
fn without_helm(object: &str) -> String {
    let object = object.replace("  annotations:\n    helm.sh/resource-policy: keep\n", "");
    let is_ours = |line: &&str| {
        let line = line.trim_start();
        !["# Source: ", "app.kubernetes.io/managed-by: Helm", "helm.sh/chart: "]
            .iter()
            .any(|start| line.starts_with(start))
    };
    object.trim_end().lines().filter(is_ours).flat_map(|line| [line, "\n"]).collect()
}

/// The chart's output for a release `headgate` in namespace `headgate`, without the hooks that only helm runs.
async fn rendered() -> String {
    let chart = chart();
    let arguments =
        ["template", "headgate", chart.to_str().unwrap(), "--namespace=headgate", "--kube-version=1.36"];
    let text = run(None, &arguments).await.unwrap();
    let objects = text.trim_start_matches("---\n").split("\n---\n");
    let objects = objects.filter(|object| !object.contains("helm.sh/hook:")).map(without_helm);
    [HEAD.to_owned()].into_iter().chain(objects).collect::<Vec<_>>().join("---\n")
}

/// Its objects in an order of their own: Helm 3 and Helm 4 differ only in where they put webhook configurations.
fn sorted(manifest: &str) -> Vec<&str> {
    let mut objects: Vec<&str> = manifest.trim_end().split("\n---\n").collect();
    objects.sort_unstable();
    objects
}

#[test]
fn the_manifest_is_what_the_chart_renders() {
    block(async {
        let rendered = rendered().await;
        if std::env::var_os("HEADGATE_WRITE_DOCS").is_some() {
            fs::write(manifest(), rendered).unwrap();
            return;
        }
        let written = fs::read_to_string(manifest()).unwrap_or_default();
        let differs =
            || written.lines().zip(rendered.lines()).find(|(written, rendered)| written != rendered);
        assert!(
            sorted(&written) == sorted(&rendered),
            "deploy/install.yaml is not what the chart renders: run `make manifests` and commit what it writes. The first \
             line that differs: {:?}",
            differs()
        );
    });
}
