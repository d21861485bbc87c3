//! Only who knows the secret path is answered by the webhooks: the API server.

use std::{cell::RefCell, collections::BTreeSet, time::Duration};

use headgate::webhook::certificate;
use headgate_harness::{
    cluster::Cluster,
    evictions::Stage as Evicting,
    headgate::{Headgate, command},
    helm::{self, chart},
    intruder::{Intruder, forged_eviction},
    kubectl::Kubectl,
    root,
    scenario::{Scenario, http_port, targets},
    shared_world::{alone, beside_others},
    wait,
    webhook::{Configuration, Named, bare_pod, is_secret, named},
};
use k8s_openapi::api::{
    core::v1::{Pod, Secret},
    events::v1::Event,
};
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

/// A namespace whose new pods go through the webhooks of these replicas.
struct Stage {
    s: Scenario,
    pods: Cluster,
    headgates: Vec<Headgate>,
    configuration: Configuration,
}

impl Stage {
    /// With certificates and paths that live so long.
    async fn new(world: &'static localstack_world::World, test: &str, lifetime: &str, more: &[&str]) -> Self {
        let s = Scenario::new(world, test).await;
        let pods = s.cluster.within(&s.name("pods"));
        let mine = s.name("mine");
        let labels = [(mine.as_str(), ""), ("headgate.dev/inject", "true")];
        s.cluster.create_namespace(&pods.namespace, &labels).await;
        let namespaces = format!("--namespaces={},{}", s.cluster.namespace, pods.namespace);
        let configuration = format!("--webhook-configuration={}", s.name("webhook"));
        let lifetime = format!("--webhook-cert-lifetime={lifetime}");
        let arguments = ["--webhook-address=127.0.0.1:0", &namespaces, &configuration, &lifetime];
        let arguments = [&arguments[..], more].concat();
        let mut headgates = Vec::new();
        for _ in 0..2 {
            headgates.push(Headgate::start(s.facts(), &s.facts().kubeconfig, &arguments).await);
        }
        let configuration = Configuration::install(&s, &headgates.iter().collect::<Vec<_>>()).await;
        Self { s, pods, headgates, configuration }
    }

    async fn named(&self) -> Vec<Named> {
        named(&self.s.cluster.client, &self.configuration.name).await
    }

    /// Waits until the API server calls secret paths, all with one secret; gives that.
    async fn wait_secret(&self) -> String {
        headgate_harness::webhook::wait_secret(&self.s.cluster.client, &self.configuration.name).await
    }

    /// Whether a new pod is given the gate and the hold.
    async fn injects(&self) -> bool {
        let pod = serde_json::from_value(bare_pod("probe", &json!({}))).unwrap();
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        let pod = self.pods.api::<Pod>().create(&parameters, &pod).await.unwrap();
        pod.metadata.annotations.is_some_and(|all| all.contains_key("headgate.dev/injected"))
    }

    async fn wait_injects(&self) {
        wait::until("the API server asks", || async {
            if self.injects().await { Ok(()) } else { Err("not yet") }
        })
        .await;
    }

    /// How many calls the replicas have refused for their path, or could not take.
    async fn missed(&self) -> f64 {
        let mut missed = 0.0;
        for headgate in &self.headgates {
            let refused = headgate.metric("headgate_webhook_requests_total{status=\"404\"}").await;
            missed += refused.unwrap_or_default();
        }
        missed
    }

    async fn secret(&self) -> Secret {
        self.s.cluster.api::<Secret>().get("headgate-webhook-tls").await.unwrap()
    }

    async fn intruder(&self) -> Intruder {
        let data = self.secret().await.data.unwrap();
        Intruder::new(std::str::from_utf8(&data["ca.crt"].0).unwrap())
    }
}

/// The secrets that are in the Secret now.
fn secrets(secret: &Secret) -> Vec<String> {
    let data = secret.data.as_ref().unwrap();
    let all = ["path", "path-before"].into_iter().filter_map(|name| data.get(name));
    all.map(|digits| String::from_utf8(digits.0.clone()).unwrap()).collect()
}

#[test]
fn a_forged_review_is_refused_unread_changes_nothing_and_a_flood_is_one_line_and_a_counter() {
    beside_others(|world| async move {
        let stage = Evicting::with_nodes(world, "forged", 1, &["--webhook-cert-lifetime=90s"]).await;
        stage.cluster.deploy("web", 4, &[("http", 8080)]).await;
        let running = stage.wait_asked("web", 4).await;
        let client = &stage.s.cluster.client;
        let before = headgate_harness::webhook::wait_secret(client, &stage.s.name("webhook")).await;
        let secret = stage.s.cluster.api::<Secret>().get("headgate-webhook-tls").await.unwrap();
        let trusted = String::from_utf8(secret.data.unwrap()["ca.crt"].0.clone()).unwrap();
        let (intruder, headgate) = (Intruder::new(&trusted), &stage.headgates[0]);
        let address = headgate.webhook().await;
        let guess = format!("/{}/evict", "0123456789abcdef".repeat(4));
        let near = format!("/{}/evict", &before[..before.len() - 1]);
        let paths = ["/evict", "/inject", "/", &guess, &near, "/debug/bindings"];
        // The path that was called before the secret one is served for a moment longer.
        wait::until("the bare paths are served no more", || async {
            let (inject, _, _) = intruder.send("GET", &address, "/inject", &json!({})).await;
            let (evict, _, _) = intruder.send("GET", &address, "/evict", &json!({})).await;
            if (inject, evict) == (404, 404) { Ok(()) } else { Err((inject, evict)) }
        })
        .await;
        let refused = || async { headgate.metric("headgate_webhook_requests_total{status=\"404\"}").await };
        let before_all = refused().await.unwrap();
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
        let lines = headgate
            .logged(|line| line["message"].as_str().is_some_and(|said| said.contains("was refused unread")));
        assert!((1..=2).contains(&lines.len()), "one a minute: {lines:?}");
        assert!(lines[0]["from"].as_str().unwrap().starts_with("127.0.0.1"), "{lines:?}");
        assert_eq!(refused().await, Some(before_all + f64::from(sent)));

        // The API server is answered all the time; only the pod that it asks about leaves.
        let (pod, ip) = running.iter().next().unwrap();
        stage.evict(pod).await;
        stage.wait_only_deregistered(ip).await;
        stage.end().await;
    });
}

#[test]
fn path_and_certificate_are_changed_and_no_pod_is_missed_and_the_old_path_is_refused_in_the_end() {
    beside_others(|world| async move {
        let stage = Stage::new(world, "path-turns", "18s", &["--webhook-names=127.0.0.1"]).await;
        stage.configuration.wait_trusted().await;
        stage.wait_injects().await;
        let seen = RefCell::new(vec![stage.wait_secret().await]);
        let missed = stage.missed().await;
        wait::until("the API server has called three paths", || async {
            for _ in 0..5 {
                assert!(stage.injects().await, "no pod is missed");
            }
            assert_eq!(stage.missed().await.total_cmp(&missed), std::cmp::Ordering::Equal);
            let now = stage.named().await.iter().find_map(|named| is_secret(&named.path));
            let mut seen = seen.borrow_mut();
            let new = now.filter(|now| !seen.contains(now));
            seen.extend(new);
            if seen.len() >= 3 { Ok(()) } else { Err(seen.len()) }
        })
        .await;
        for headgate in &stage.headgates {
            let certificates = headgate.logged(|line| line["until"].is_number());
            assert!(certificates.len() >= 2, "the certificate was changed, too");
            let broken = headgate.logged(|line| {
                line["message"].as_str().is_some_and(|said| said.contains("connection to the webhook failed"))
            });
            assert_eq!(broken, [Value::Null; 0]);
        }
        let first = seen.into_inner().swap_remove(0);
        wait::until("the first path is forgotten", || async {
            let now = secrets(&stage.secret().await);
            if now.contains(&first) { Err("it is still there") } else { Ok(()) }
        })
        .await;
        let intruder = stage.intruder().await;
        for headgate in &stage.headgates {
            let address = headgate.webhook().await;
            let path = format!("/{first}/inject");
            assert_eq!(intruder.send("GET", &address, &path, &json!({})).await.0, 404);
        }
        stage.configuration.remove().await;
    });
}

#[test]
fn configurations_that_are_replaced_by_ones_without_the_secret_path_are_called_by_it_again_and_no_pod_is_missed()
 {
    beside_others(|world| async move {
        let stage = Stage::new(world, "path-back", "40s", &["--webhook-names=127.0.0.1"]).await;
        stage.configuration.wait_trusted().await;
        stage.wait_secret().await;
        stage.wait_injects().await;
        for path in ["/inject", ""] {
            stage.configuration.set_path(path).await;
            wait::until("the secret path is back", || async {
                assert!(stage.injects().await, "no pod is missed");
                let named = stage.named().await;
                if named.iter().all(|named| is_secret(&named.path).is_some()) { Ok(()) } else { Err(()) }
            })
            .await;
        }
        stage.configuration.remove().await;
    });
}

#[test]
fn with_a_certificate_from_files_the_path_is_kept_alone_and_the_ca_bundle_is_left_alone() {
    beside_others(|world| async move {
        let issued = certificate::issue(
            &["127.0.0.1".into()],
            std::time::SystemTime::now(),
            Duration::from_secs(3600),
        )
        .unwrap();
        let folder = world.facts().folder.join("path-files");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("tls.crt"), &issued.chain).unwrap();
        std::fs::write(folder.join("tls.key"), &issued.key).unwrap();
        let files = format!("--webhook-cert-dir={}", folder.display());
        let stage = Stage::new(world, "path-files", "18s", &[&files]).await;
        let trusted = certificate::authority(&issued.chain).unwrap();
        stage.configuration.set_bundle(trusted).await;
        let first = stage.wait_secret().await;
        stage.wait_injects().await;
        let data = stage.secret().await.data.unwrap();
        assert_eq!(data.keys().collect::<Vec<_>>(), ["path"], "the path alone");
        wait::until("another path follows by its age", || async {
            assert!(stage.injects().await, "no pod is missed");
            let named = stage.named().await;
            let now = named.iter().find_map(|named| is_secret(&named.path));
            if now.as_ref().is_some_and(|now| *now != first) { Ok(()) } else { Err(()) }
        })
        .await;
        assert_eq!(
            stage.configuration.trusted().await.unwrap().into_iter().collect::<BTreeSet<_>>(),
            BTreeSet::from([trusted.to_owned()])
        );
        let Stage { s, pods, headgates, configuration } = stage;
        configuration.remove().await;
        for headgate in headgates {
            headgate.terminate().await;
        }
        let own = format!("--own-namespace={}", s.cluster.namespace);
        let namespaces = format!("--namespaces={},{}", s.cluster.namespace, pods.namespace);
        let (code, said) = command(s.facts(), &["uninstall", &own, &namespaces]).await;
        assert_eq!(code, Some(0), "{said}");
        assert!(s.cluster.api::<Secret>().get_opt("headgate-webhook-tls").await.unwrap().is_none(), "{said}");
    });
}

#[test]
fn the_path_is_in_no_log_line_event_metric_or_answer_of_headgate() {
    beside_others(|world| async move {
        let more = ["--webhook-names=127.0.0.1", "--log=trace"];
        let stage = Stage::new(world, "path-hush", "15s", &more).await;
        let s = &stage.s;
        stage.configuration.wait_trusted().await;
        let known = RefCell::new(BTreeSet::from([stage.wait_secret().await]));
        stage.wait_injects().await;
        let group = s.group("web").await;
        stage.pods.service("web", "web", http_port(), Some(&group.name)).await;
        stage.pods.deploy("web", 2, &[("http", 8080)]).await;
        let running = stage.pods.wait_running("web", 2).await;
        s.wait_targets(&group, &targets(&running, 8080)).await;
        wait::until("the path has changed", || async {
            let now = secrets(&stage.secret().await);
            stage.injects().await;
            let mut known = known.borrow_mut();
            known.extend(now);
            if known.len() >= 2 { Ok(()) } else { Err(known.len()) }
        })
        .await;
        let mut known = known.into_inner();
        // Also what somebody tries who knows one that is no more served, or part of it.
        let mut said = Vec::new();
        for headgate in &stage.headgates {
            for digits in &known {
                for path in [format!("/{digits}/evict?x=1"), format!("/{digits}"), format!("/x/{digits}/y")] {
                    // The certificate turns meanwhile, too.
                    let intruder = stage.intruder().await;
                    let review = forged_eviction(&stage.pods.namespace, "web");
                    said.push(intruder.send("POST", &headgate.webhook().await, &path, &review).await.1);
                }
            }
            for page in ["/metrics", "/debug/bindings", "/debug/leader", "/readyz", "/livez"] {
                said.push(headgate.probe(page).await.unwrap_or_else(|error| error));
            }
        }
        let own = format!("--own-namespace={}", s.cluster.namespace);
        let address = format!("--address={}", stage.headgates[0].debug());
        let configuration = format!("--webhook-configuration={}", stage.configuration.name);
        let pod = running.keys().next().unwrap();
        let namespace = format!("--namespace={}", stage.pods.namespace);
        let ask = async |arguments: &[&str]| command(s.facts(), arguments).await.1;
        for output in ["text", "json"] {
            let output = format!("--output={output}");
            said.push(ask(&["doctor", &own, &address, &configuration, &output]).await);
            said.push(ask(&["explain", pod, &own, &address, &namespace, &output]).await);
        }
        // The API server shows the URL to whoever is refused because nobody answers; the doctor does not pass it on.
        stage.configuration.set_failure_policy("Fail").await;
        let Stage { s, pods, headgates, configuration } = stage;
        for headgate in headgates {
            said.push(headgate.terminate().await.1);
        }
        let called = named(&s.cluster.client, &configuration.name).await;
        known.extend(called.iter().filter_map(|named| is_secret(&named.path)));
        let shown = wait::until("the API server shows whom it could not ask", || async {
            let pod = serde_json::from_value(bare_pod("probe", &json!({}))).unwrap();
            let parameters = PostParams { dry_run: true, ..PostParams::default() };
            match pods.api::<Pod>().create(&parameters, &pod).await {
                Err(error) if error.to_string().contains("failed calling webhook") => Ok(error.to_string()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        assert!(
            known.iter().any(|digits| shown.contains(digits)),
            "otherwise this test sees nothing: {shown}"
        );
        let own = format!("--own-namespace={}", s.cluster.namespace);
        let name = format!("--webhook-configuration={}", configuration.name);
        let (code, doctor) =
            command(s.facts(), &["doctor", &own, &name, &format!("--namespace={}", pods.namespace)]).await;
        assert!(code == Some(1) && doctor.contains("WebhookRefuses"), "{doctor}");
        said.push(doctor);
        for namespace in [&s.cluster, &pods] {
            for event in namespace.api::<Event>().list(&ListParams::default()).await.unwrap() {
                // Controllers of Kubernetes say what the API server tells them.
                if event.reporting_controller.as_deref().is_some_and(|by| by.contains("headgate")) {
                    said.push(serde_json::to_string(&event).unwrap());
                }
            }
        }
        configuration.remove().await;
        for (at, text) in said.iter().enumerate() {
            for digits in &known {
                let place = text.lines().find(|line| line.contains(digits.as_str()));
                assert_eq!(place, None, "text {at}");
            }
        }
        let traces = said.iter().filter(|text| text.contains("\"level\":\"TRACE\"")).count();
        assert_eq!(traces, 2, "both have logged at trace level");
    });
}

#[test]
fn applying_the_manifests_or_the_chart_again_leaves_the_path_alone() {
    // The chart's configuration is for all namespaces with the label.
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
        let written = |paths: Vec<Named>| paths.iter().all(|named| named.path == "/written/inject");
        configuration.set_path("/written/inject").await;
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
            "--set=crds.install=false",
        ];
        let values = [&*release, chart.to_str().unwrap()];
        helm::run(kubeconfig, &[&["install"][..], &values[..], &more[..]].concat()).await.unwrap();
        let configuration = Configuration::of(s.cluster.client.clone(), release.clone());
        configuration.set_path("/written/inject").await;
        helm::run(kubeconfig, &[&["upgrade"][..], &values[..], &more[..], &["--set=log=debug"][..]].concat())
            .await
            .unwrap();
        let after = named(&s.cluster.client, &release).await;
        assert!(after.len() == 3 && written(after), "helm upgrade");
        helm::run(kubeconfig, &["uninstall", &release, "--namespace", &release, "--no-hooks"]).await.unwrap();
    });
}
