//! Containers with their own `preStop` hook, whose pods request to run it after the hold.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use headgate_harness::{
    cluster::Cluster,
    headgate::Headgate,
    injection::{Stage, create, injected},
    kubectl::Kubectl,
    pods, root,
    scenario::Scenario,
    shared_world::{beside_others, on},
    wait,
    webhook::{Configuration, bare_pod},
};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use localstack_world::{Facts, Nodes, ingresses::Image};
use serde_json::{Value, json};

/// The hold of this test's pods.
const HOLD: Duration = Duration::from_secs(5);
/// The image with `headgate-hold`.
const IMAGE: &str = "headgate.local/headgate:hold";

/// A pod that requests to wrap its hooks.
fn asks(name: &str, asks: &str, hook: &Value) -> Value {
    let mut pod = bare_pod(name, &json!({"app": "web"}));
    pod["metadata"]["annotations"] =
        json!({"headgate.dev/own-prestop": asks, "headgate.dev/hold": format!("{}s", HOLD.as_secs())});
    pod["spec"]["containers"][0]["lifecycle"] = json!({"preStop": hook});
    pod
}

/// Whether pods can have the volume with `headgate-hold`.
fn has_image_volumes(facts: &Facts) -> bool {
    let minor = facts.kubernetes_version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    minor.unwrap_or_else(|| panic!("{}: expected v1.MINOR.PATCH", facts.kubernetes_version)) >= 35
}

/// Waits until the API server calls Headgate, and Headgate knows the API server's version.
async fn wait_asked(headgate: &Headgate, labelled: &Cluster) {
    wait::until("the API server asks, and has said its version", || async {
        let hook = json!({"exec": {"command": ["/x"]}});
        let pod = create(labelled, &asks("probe", "wrap", &hook), true).await;
        let said = injected(&pod).unwrap_or_default();
        if said.contains("by headgate-hold") { Ok(()) } else { Err(headgate.text()) }
    })
    .await;
}

#[test]
fn a_hook_of_its_own_is_run_after_the_hold_or_what_stops_that_is_said() {
    beside_others(|world| async move {
        let stage = Stage::new(world, "own-hooks").await;
        let Stage { s, labelled, .. } = &stage;
        let headgate = stage.headgate(&[&format!("--hold-image={IMAGE}")]).await;
        let configuration = Configuration::install(s, &[&headgate]).await;
        let too_old = !has_image_volumes(s.facts());
        if !too_old {
            wait_asked(&headgate, labelled).await;
        }
        let command =
            |pod: &Value| pod["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"].clone();
        let put = format!("sleep {}; exec \"$@\"", HOLD.as_secs());

        let binary = json!({"exec": {"command": ["/wait-shutdown"]}});
        if too_old {
            // An API server whose reported version would reject the pod.
            stays(&stage, &binary, "the API server has no image volumes before 1.35").await;
        }
        let script = json!({"exec": {"command": ["/bin/sh", "-c", "nginx -s quit"]}});
        let pod = create(labelled, &asks("script", "wrap", &script), true).await;
        let own = ["/bin/sh", "-c", "nginx -s quit"];
        assert_eq!(command(&pod), json!([&["/bin/sh", "-c", &put, "headgate-hold"][..], &own[..]].concat()));
        assert!(
            pod["spec"]["volumes"].as_array().is_none_or(|all| all.iter().all(|one| one["image"].is_null()))
        );
        assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 30 + HOLD.as_secs());

        let pod = create(labelled, &asks("binary", "wrap-by-shell", &binary), true).await;
        assert_eq!(command(&pod), json!(["sh", "-c", &put, "headgate-hold", "/wait-shutdown"]));
        let pod = create(labelled, &asks("binary", "leave", &binary), true).await;
        assert_eq!(command(&pod), json!(["/wait-shutdown"]));

        let https = json!({"httpGet": {"port": 8443, "scheme": "HTTPS", "path": "/quit"}});
        let left = "it is neither a command nor a plain HTTP request to a port of the container";
        stays(&stage, &https, left).await;
        configuration.remove().await;

        let without = stage.headgate(&[]).await;
        let configuration = Configuration::install(s, &[&without]).await;
        stays(&stage, &binary, "--hold-image does not name the image with headgate-hold").await;
        configuration.remove().await;
    });
}

/// Waits until a pod with this hook is created unchanged, and its creator gets a warning with the reason.
async fn stays(stage: &Stage, hook: &Value, why: &str) {
    let Stage { s, labelled, .. } = stage;
    let left = asks("left", "wrap", hook);
    wait::until("the pod is created as it is", || async {
        let pod = create(labelled, &left, true).await;
        let said = injected(&pod).unwrap_or_default().to_owned();
        let is_left = pod["spec"]["containers"][0]["lifecycle"]["preStop"]
            .as_object()
            .is_some_and(|now| now.keys().eq(hook.as_object().unwrap().keys()));
        if is_left && said.contains(&format!("OwnPreStopNotWrapped: web: {why}")) {
            Ok(())
        } else {
            Err(said)
        }
    })
    .await;
    let kubectl = Kubectl::new(s.facts(), &labelled.namespace);
    let file = s.facts().folder.join(format!("{}.json", labelled.namespace));
    let mut object = left;
    (object["apiVersion"], object["kind"]) = ("v1".into(), "Pod".into());
    std::fs::write(&file, object.to_string()).unwrap();
    let told = kubectl.transcript(&["create", "--dry-run=server", "-f", file.to_str().unwrap()]).await;
    let warning = "Warning: headgate.dev/own-prestop: the preStop of container web is unchanged";
    assert!(told.contains(warning) && told.contains(why), "{told}");
}

/// Images for real nodes: `headgate-hold` as in Headgate's image, and one with a shell and the server of the other
/// tests.
async fn load_images(s: &Scenario) -> String {
    let hold = root().join("target/image/headgate-hold");
    assert!(hold.is_file(), "there is no {}; expected `make image` first", hold.display());
    let files = BTreeMap::from([("/headgate-hold".to_owned(), hold.clone())]);
    let stop_signal = None;
    pods::load(s.facts(), &Image { name: IMAGE.to_owned(), program: hold.clone(), files, stop_signal }).await;
    // The same program, without a hold, sends the requests.
    let mut files = BTreeMap::from([("/ask".to_owned(), hold.clone())]);
    for program in ["/bin/sh", "/bin/sleep"] {
        files.insert(program.to_owned(), PathBuf::from(program).canonicalize().unwrap());
        files.extend(pods::libraries(program.as_ref()).await);
    }
    let name = "headgate.local/with-shell:1".to_owned();
    pods::load(s.facts(), &Image { name: name.clone(), program: hold, files, stop_signal }).await;
    name
}

/// Adds what the restricted Pod Security Standard requires, and the resources that a quota counts.
fn restricted(mut pod: Value, image: &str) -> Value {
    pod["spec"]["securityContext"] =
        json!({"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}});
    let container = &mut pod["spec"]["containers"][0];
    container["image"] = image.into();
    container["imagePullPolicy"] = "Never".into();
    // It runs until it gets SIGTERM, and then ends at once.
    container["command"] = json!(["/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"]);
    container["securityContext"] =
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let enough = json!({"cpu": "10m", "memory": "32Mi"});
    container["resources"] = json!({"requests": enough, "limits": enough});
    pod
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn on_real_nodes_a_wrapped_hook_is_run_when_the_hold_is_over_and_fails_as_it_would_have() {
        on(Nodes::Real, "preStops of their own, wrapped", |world| async move {
            let stage = Stage::new(world, "wrapped").await;
            let Stage { s, labelled, plain } = &stage;
            let image = load_images(s).await;
            let headgate = stage.headgate(&[&format!("--hold-image={IMAGE}")]).await;
            let configuration = Configuration::install(s, &[&headgate]).await;
            wait_asked(&headgate, labelled).await;
            // A pod without a hold that receives the requests of the hooks.
            plain.pod("witness", "witness", &[("http", 8080)]).await;
            let running = plain.wait_running("witness", 1).await;
            let witness = running["witness"].clone();
            let level = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
            let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(labelled.client.clone());
            let merge = kube::api::Patch::Merge(&level);
            namespaces.patch(&labelled.namespace, &kube::api::PatchParams::default(), &merge).await.unwrap();
            // Just enough for the original pods.
            let hard = json!({"pods": "5", "requests.cpu": "50m", "limits.memory": "160Mi"});
            labelled
                .create::<ResourceQuota>(json!({"metadata": {"name": "few"}, "spec": {"hard": hard}}))
                .await;

            let note = |of: &str| {
                ["/ask", "0", "get", &format!("{witness}:8080"), &format!("/-/note/{of}")].map(str::to_owned)
            };
            let hooks = [
                ("script", "wrap", json!({"exec": {"command": ["/bin/sh", "-c", note("script").join(" ")]}})),
                ("shell", "wrap-by-shell", json!({"exec": {"command": note("shell")}})),
                ("binary", "wrap", json!({"exec": {"command": note("binary")}})),
                (
                    "request",
                    "wrap",
                    json!({"httpGet": {"host": witness, "port": 8080, "path": "/-/note/request"}}),
                ),
                ("fails", "wrap", json!({"exec": {"command": ["/ask", "0", "run", "/nowhere"]}})),
            ];
            for (name, how, hook) in &hooks {
                let pod = restricted(asks(name, how, hook), &image);
                let pod = serde_json::from_value::<Pod>(pod).unwrap();
                labelled.api::<Pod>().create(&PostParams::default(), &pod).await.unwrap();
            }
            wait::until("all of them run", || async {
                let pods = labelled.api::<Pod>().list(&ListParams::default()).await.unwrap().items;
                let statuses: Vec<_> = pods.iter().filter_map(|pod| pod.status.as_ref()).collect();
                let run = statuses.iter().filter(|status| status.phase.as_deref() == Some("Running")).count();
                if run == hooks.len() { Ok(()) } else { Err(format!("{statuses:?}")) }
            })
            .await;
            for pod in labelled.api::<Pod>().list(&ListParams::default()).await.unwrap() {
                let status = pod.status.unwrap();
                assert_eq!(status.qos_class.as_deref(), Some("Guaranteed"), "no other than without the wrap");
            }
            // kubectl drain would name pods that block it: those with an emptyDir, or without a controller.
            let kubectl = Kubectl::new(s.facts(), &labelled.namespace);
            let drained = kubectl
                .transcript(&[
                    "drain",
                    "--dry-run=client",
                    "--force",
                    "--selector=kubernetes.io/os=linux",
                    "--pod-selector=app=web",
                ])
                .await;
            assert!(drained.contains("request") && !drained.contains("local storage"), "{drained}");

            let began = Instant::now();
            for (name, ..) in &hooks {
                labelled.api::<Pod>().delete(name, &DeleteParams::default()).await.unwrap();
            }
            let notes = Kubectl::new(s.facts(), &plain.namespace);
            let told = wait::until("each hook has told the witness", || async {
                let told = notes.run(&["logs", "witness"]).await;
                let all = ["script", "shell", "binary", "request"];
                if all.iter().all(|of| told.contains(&format!("note: {of}"))) { Ok(told) } else { Err(told) }
            })
            .await;
            assert!(began.elapsed() >= HOLD, "no hook may have told before the hold was over: {told}");
            assert_eq!(told.matches("note: ").count(), 4, "each once: {told}");
            wait::until("the kubelet says whose hook has failed", || async {
                let failed = "--field-selector=reason=FailedPreStopHook";
                let told = kubectl
                    .run(&["get", "events", failed, "-o=jsonpath={.items[*].involvedObject.name}"])
                    .await;
                if told == "fails" { Ok(()) } else { Err(told) }
            })
            .await;
            wait::until("all of them are gone", || async {
                let pods = labelled.api::<Pod>().list(&ListParams::default()).await.unwrap().items;
                if pods.is_empty() { Ok(()) } else { Err(pods.len()) }
            })
            .await;
            configuration.remove().await;
        });
    }
}
