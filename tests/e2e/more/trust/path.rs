//! The webhooks only answer a client that knows the path: the API server.

use std::path::PathBuf;

use headgate::webhook::path::FIXED;
use headgate_harness::{
    certificates::Files,
    evictions::Stage,
    helm::{self, chart},
    intruder::{Intruder, forged_eviction},
    kubectl::Kubectl,
    root,
    scenario::Scenario,
    shared_world::{alone, beside_others},
    wait,
    webhook::{Configuration, Named, bare_pod, named},
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

#[test]
fn a_forged_review_is_refused_unread_changes_nothing_and_a_flood_is_one_line_and_a_counter() {
    beside_others(|world| async move {
        let stage = Stage::with_nodes(world, "forged", 1, &[]).await;
        stage.cluster.deploy("web", 4, &[("http", 8080)]).await;
        let running = stage.wait_asked("web", 4).await;
        let files = Files::shared();
        let (intruder, headgate) = (Intruder::new(&files.trusted), &stage.headgates[0]);
        let address = headgate.webhook().await;
        let guess = format!("/{}", "0123456789abcdef".repeat(4));
        let paths = ["/headgate", "/", &guess, &files.path[..64], "/debug/bindings"];
        let refused = || async { headgate.metric("headgate_webhook_requests_total{status=\"404\"}").await };
        let before = refused().await.unwrap_or_default();
        let mut sent = 0;
        for path in paths {
            for pod in running.keys() {
                let review = forged_eviction(&stage.cluster.namespace, pod);
                let (status, said, closes) = intruder.send("POST", &address, path, &review).await;
                assert_eq!((status, &*said, closes), (404, "there is nothing here\n", true), "{path}");
                sent += 1;
            }
        }
        for pod in running.keys() {
            assert_eq!(stage.annotations(pod).await.len(), 0, "nothing is noted on {pod}");
        }
        let lines = headgate.logged(|line| {
            line["message"].as_str().is_some_and(|said| said.contains("a request to the webhook unread"))
        });
        assert!((1..=2).contains(&lines.len()), "one a minute: {lines:?}");
        assert!(lines[0]["from"].as_str().unwrap().starts_with("127.0.0.1"), "{lines:?}");
        assert_eq!(refused().await, Some(before + f64::from(sent)));

        // The API server gets an answer all the time. Only the pod of its requests is deregistered.
        let (pod, ip) = running.iter().next().unwrap();
        stage.evict(pod).await;
        stage.wait_only_deregistered(ip).await;
        stage.end().await;
    });
}

#[test]
fn with_a_certificate_of_others_the_path_is_fixed() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "their-own").await;
        let folder: PathBuf = root().join("target/webhook").join(&s.cluster.namespace);
        std::fs::create_dir_all(&folder).unwrap();
        for file in ["tls.crt", "tls.key"] {
            std::fs::copy(Files::shared().folder.join(file), folder.join(file)).unwrap();
        }
        let pods = s.cluster.within(&s.name("pods"));
        let mine = s.name("mine");
        let labels = [(mine.as_str(), ""), ("headgate.dev/inject", "true")];
        s.cluster.create_namespace(&pods.namespace, &labels).await;
        let namespaces = format!("--namespaces={},{}", s.cluster.namespace, pods.namespace);
        let files = format!("--webhook-cert-dir={}", folder.display());
        let headgate = s.headgate_of(&["--webhook-address=127.0.0.1:0", &namespaces, &files]).await;
        let configuration = Configuration::install(&s, &[&headgate]).await;
        configuration.set_path(FIXED).await;
        wait::until("a new pod is given the gate and the hold", || async {
            let pod = serde_json::from_value(bare_pod("probe", &json!({}))).unwrap();
            let dry_run = PostParams { dry_run: true, ..PostParams::default() };
            let pod = pods.api::<Pod>().create(&dry_run, &pod).await.unwrap();
            if pod.annotations().contains_key("headgate.dev/injected") {
                Ok(())
            } else {
                Err(headgate.text())
            }
        })
        .await;
        configuration.remove().await;
        std::fs::remove_dir_all(folder).unwrap();
    });
}

#[test]
fn applying_the_manifests_or_the_chart_again_leaves_path_and_secret_alone() {
    // The chart's configuration applies to all namespaces with the label.
    alone(|world| async move {
        let s = Scenario::new(world, "path-apply").await;
        let kubectl = Kubectl::new(s.facts(), &s.cluster.namespace);
        let name = s.name("webhook");
        let mutating = std::fs::read_to_string(root().join("config/webhook/mutating.yaml")).unwrap();
        let validating = std::fs::read_to_string(root().join("config/webhook/validating.yaml")).unwrap();
        assert!(!mutating.contains("path:") && !validating.contains("path:"));
        let own = |text: &str| {
            let namespace = &s.cluster.namespace;
            let named = [
                ("namespace: headgate\n", format!("namespace: {namespace}\n")),
                ("[headgate, ", format!("[{namespace}, ")),
                ("serviceaccount:headgate:", format!("serviceaccount:{namespace}:")),
                ("  name: headgate\n", format!("  name: {name}\n")),
            ];
            named.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
        };
        let file = s.facts().folder.join(format!("{name}.yaml"));
        std::fs::write(&file, format!("{}\n---\n{}", own(&mutating), own(&validating))).unwrap();
        let file = file.display().to_string();
        kubectl.run(&["apply", "-f", &file]).await;
        let configuration = Configuration::of(s.cluster.client.clone(), name);
        let written = |paths: Vec<Named>| paths.iter().all(|named| named.path == "/written");
        configuration.set_path("/written").await;
        kubectl.run(&["apply", "-f", &file]).await;
        assert!(written(named(&s.cluster.client, &configuration.name).await), "kubectl apply");
        kubectl.run(&["apply", "-f", &file, "--server-side", "--force-conflicts"]).await;
        assert!(written(named(&s.cluster.client, &configuration.name).await), "kubectl apply --server-side");
        configuration.remove().await;

        let kubeconfig = Some(s.facts().kubeconfig.as_path());
        let release = s.name("own");
        s.cluster.create_namespace(&release, &[]).await;
        let chart = chart();
        let called = format!("--set=fullnameOverride={release}");
        let more = [
            "--namespace",
            &release,
            &called,
            "--set=image.repository=headgate.local/headgate",
            "--set=crds.enabled=false",
        ];
        let values = [&*release, chart.to_str().unwrap()];
        helm::run(kubeconfig, &[&["install"][..], &values[..], &more[..]].concat()).await.unwrap();
        let configuration = Configuration::of(s.cluster.client.clone(), release.clone());
        configuration.set_path("/written").await;
        let secrets = s.cluster.within(&release).api::<Secret>();
        let (secret, kept) = (format!("{release}-webhook-tls"), json!({"stringData": {"path": "kept"}}));
        secrets.patch(&secret, &PatchParams::default(), &Patch::Merge(&kept)).await.unwrap();
        helm::run(kubeconfig, &[&["upgrade"][..], &values[..], &more[..], &["--set=log=debug"][..]].concat())
            .await
            .unwrap();
        let after = named(&s.cluster.client, &release).await;
        assert!(after.len() == 3 && written(after), "helm upgrade");
        let data = secrets.get(&secret).await.unwrap().data.unwrap();
        assert_eq!(data["path"].0, b"kept", "helm upgrade");
        helm::run(kubeconfig, &["uninstall", &release, "--namespace", &release, "--no-hooks"]).await.unwrap();
    });
}
