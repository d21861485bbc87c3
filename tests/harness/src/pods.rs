//! Headgate as pods on real nodes: the program next to this one, in an image with its libraries.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease};
use localstack_world::{Facts, ingresses::Image};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{aws, cluster::Cluster, headgate::program, http, wait};

const IMAGE: &str = "headgate.local/headgate:debug";
/// The path of the program in an image.
const PROGRAM: &str = "/app";

/// The libraries that a program is linked with, by their paths in an image.
pub async fn libraries(program: &Path) -> BTreeMap<String, PathBuf> {
    let output = Command::new("ldd").arg(program).output().await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let paths = said.split_whitespace().filter(|word| word.starts_with('/'));
    paths.map(|path| (path.to_owned(), path.into())).collect()
}

/// Loads the program onto every node.
pub async fn load_image(facts: &Facts) {
    let mut files = libraries(&program()).await;
    let certificates = "/etc/ssl/certs/ca-certificates.crt";
    files.insert(certificates.to_owned(), certificates.into());
    let slim = facts.folder.join("headgate-in-pods");
    let strip = Command::new("strip").args(["--strip-debug", "-o"]).arg(&slim).arg(program()).status().await;
    assert!(strip.unwrap().success());
    load(facts, &Image { name: IMAGE.to_owned(), program: slim, files, stop_signal: None }).await;
}

/// Loads an image onto every node.
pub async fn load(facts: &Facts, image: &Image) {
    let Image { name, program, files, stop_signal } = image;
    let body = json!({"name": name, "binary": program, "files": files, "stop_signal": stop_signal});
    let control = facts.kubelet_control.strip_prefix("http://").unwrap();
    http::json("POST", control, "/images", Some(&body)).await;
}

/// A Deployment `headgate` with `replicas` replicas that manage their own namespace, with the ServiceAccount
/// `headgate`. Waits until all are ready.
pub async fn deploy(facts: &Facts, cluster: &Cluster, replicas: i32, arguments: &[&str]) {
    let only = format!("--namespaces={}", cluster.namespace);
    let arguments: Vec<&str> = ["run", &only].into_iter().chain(arguments.iter().copied()).collect();
    let mut environment: Vec<Value> =
        aws::environment(facts).iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    environment.push(json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}));
    let labels = json!({"app": "headgate"});
    cluster
        .create::<Deployment>(json!({
            "metadata": {"name": "headgate"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "serviceAccountName": "headgate",
                        "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532},
                        "containers": [{
                            "name": "headgate",
                            "image": IMAGE,
                            "imagePullPolicy": "Never",
                            "args": arguments,
                            "env": environment,
                            "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080}, "periodSeconds": 1},
                            "securityContext": {"readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false},
                        }],
                    },
                },
            },
        }))
        .await;
    wait_ready(cluster, replicas).await;
}

/// Waits until `replicas` replicas of the Deployment are ready.
pub async fn wait_ready(cluster: &Cluster, replicas: i32) {
    wait::until("all replicas of headgate are ready", || async {
        let status = cluster.api::<Deployment>().get("headgate").await.unwrap().status.unwrap();
        if status.ready_replicas == Some(replicas) { Ok(()) } else { Err(status) }
    })
    .await;
}

/// The holder of the Lease `headgate`, and its pod. Waits until the holder differs from `before`.
pub async fn holder(cluster: &Cluster, before: &str) -> (String, String) {
    wait::until("a replica that holds the lease", || async {
        let lease = cluster.api::<Lease>().get_opt("headgate").await.unwrap();
        let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
        match holder.split_once('_') {
            Some((pod, _)) if holder != before => Ok((pod.to_owned(), holder)),
            _ => Err(holder),
        }
    })
    .await
}

/// Kills the program of this pod with SIGKILL, like the kernel when memory runs out.
pub async fn kill(pod: &str) {
    signal(pod, "KILL").await;
}

/// Sends a signal to the program of a pod, which is identified by its environment variable `POD_NAME`.
pub async fn signal(pod: &str, signal: &str) {
    let name = format!("POD_NAME={pod}");
    let is_it = |process: &Path| {
        let has = |file: &str, wanted: &str| {
            let text = fs::read(process.join(file)).unwrap_or_default();
            text.split(|byte| *byte == 0).any(|part| part == wanted.as_bytes())
        };
        has("environ", &name) && has("cmdline", PROGRAM)
    };
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<PathBuf> = processes.filter(|process| is_it(process)).collect();
    let [process] = &found[..] else { panic!("expected one process of {pod}, found {found:?}") };
    let pid = process.file_name().unwrap();
    assert!(Command::new("kill").arg(format!("-{signal}")).arg(pid).status().await.unwrap().success());
}
