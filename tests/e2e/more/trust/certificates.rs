//! `headgate certificates` renews certificate, path and configurations, and no new pod is missed during that.

use std::{collections::BTreeSet, time::Duration};

use headgate_harness::{
    certificates::{Files, Mount, NAME},
    cluster::Cluster,
    headgate::{Headgate, command},
    intruder::{Intruder, forged_eviction},
    scenario::{Scenario, http_port, targets},
    shared_world::beside_others,
    wait,
    webhook::{Configuration, bare_pod, named, wait_secret},
};
use k8s_openapi::api::{
    core::v1::{Pod, Secret},
    events::v1::Event,
};
use kube::api::{ListParams, PostParams};
use localstack_world::World;
use serde_json::{Value, json};

/// The Secret of `headgate certificates`.
const SECRET: &str = "headgate-webhook-tls";

/// A namespace whose new pods go through the webhooks of two replicas, and a process that renews their certificate.
struct Stage {
    s: Scenario,
    pods: Cluster,
    headgates: Vec<Headgate>,
    keeper: Option<Headgate>,
    configuration: Configuration,
    lifetime: &'static str,
    _mounts: Vec<Mount>,
}

impl Stage {
    /// With this lifetime of certificates. A change of the Secret reaches the second replica later than the first.
    async fn new(world: &'static World, test: &str, lifetime: &'static str, more: &[&str]) -> Self {
        let s = Scenario::new(world, test).await;
        let pods = s.cluster.within(&s.name("pods"));
        let mine = s.name("mine");
        let labels = [(mine.as_str(), ""), ("headgate.dev/inject", "true")];
        s.cluster.create_namespace(&pods.namespace, &labels).await;
        s.cluster.create::<Secret>(json!({"metadata": {"name": SECRET}})).await;
        let namespaces = format!("--namespaces={},{}", s.cluster.namespace, pods.namespace);
        let (mut mounts, mut headgates) = (Vec::new(), Vec::new());
        for number in 0..2 {
            let lag = Duration::from_secs(2) * u32::try_from(number).unwrap();
            let client = s.cluster.client.clone();
            let mount = Mount::of(client, &s.cluster.namespace, SECRET, number, lag);
            let folder = format!("--webhook-cert-dir={}", mount.folder.display());
            let arguments = ["--webhook-address=127.0.0.1:0", &namespaces, &folder];
            let arguments = [&arguments[..], more].concat();
            headgates.push(Headgate::start_unready(s.facts(), &s.facts().kubeconfig, &arguments).await);
            mounts.push(mount);
        }
        for headgate in &headgates {
            wait::until("a replica says that it has no certificate", || async {
                match headgate.probe("/readyz").await {
                    Err(said) if said.contains("no certificate yet") => Ok(()),
                    other => Err(other),
                }
            })
            .await;
        }
        let configuration = Configuration::install_bare(&s, &headgates.iter().collect::<Vec<_>>()).await;
        let mut stage = Self { s, pods, headgates, keeper: None, configuration, lifetime, _mounts: mounts };
        stage.start_keeper(more).await;
        for headgate in &stage.headgates {
            wait::until("a replica is ready", || headgate.probe("/readyz")).await;
        }
        wait::until("the API server asks", || async {
            if stage.injects().await { Ok(()) } else { Err("not yet") }
        })
        .await;
        stage
    }

    async fn start_keeper(&mut self, more: &[&str]) {
        let s = &self.s;
        let own = format!("--own-namespace={}", s.cluster.namespace);
        let configuration = format!("--webhook-configuration={}", self.configuration.name);
        let (names, lifetime) =
            (format!("--webhook-names={NAME}"), format!("--webhook-cert-lifetime={}", self.lifetime));
        let arguments = [&[&*own, &*configuration, &*names, &*lifetime], more].concat();
        self.keeper = Some(Headgate::start_certificates(s.facts(), &s.facts().kubeconfig, &arguments).await);
    }

    /// Whether a new pod gets the gate and the hold.
    async fn injects(&self) -> bool {
        let pod = serde_json::from_value(bare_pod("probe", &json!({}))).unwrap();
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        let pod = self.pods.api::<Pod>().create(&parameters, &pod).await.unwrap();
        pod.metadata.annotations.is_some_and(|all| all.contains_key("headgate.dev/injected"))
    }

    /// Creates pods until the condition is true. None may be missed.
    async fn inject_until<T, E: std::fmt::Debug>(
        &self,
        what: &str,
        holds: impl AsyncFn() -> Result<T, E>,
    ) -> T {
        wait::within(Duration::from_secs(180), what, || async {
            for _ in 0..5 {
                assert!(self.injects().await, "no pod is missed; {}", self.said());
            }
            holds().await
        })
        .await
    }

    fn said(&self) -> String {
        self.keeper.as_ref().map(Headgate::text).unwrap_or_default()
    }

    async fn secret(&self) -> Secret {
        self.s.cluster.api::<Secret>().get(SECRET).await.unwrap()
    }

    /// The value in the Secret under this name.
    async fn stored(&self, name: &str) -> Option<String> {
        let data = self.secret().await.data?;
        Some(String::from_utf8(data.get(name)?.0.clone()).unwrap())
    }

    /// The number of certificates that each replica has used.
    fn served(&self) -> Vec<usize> {
        let ends = |headgate: &Headgate| -> BTreeSet<String> {
            headgate
                .logged(|line| line["until"].is_number())
                .iter()
                .map(|line| line["until"].to_string())
                .collect()
        };
        self.headgates.iter().map(|headgate| ends(headgate).len()).collect()
    }

    /// Checks that no call was rejected, and no certificate.
    async fn assert_no_call_was_lost(&self) {
        for headgate in &self.headgates {
            let refused = headgate.metric("headgate_webhook_requests_total{status=\"404\"}").await;
            assert_eq!(refused.unwrap_or_default().to_string(), "0");
            let broken = headgate.logged(|line| {
                line["message"].as_str().is_some_and(|said| said.contains("connection to the webhook failed"))
            });
            assert_eq!(broken, [Value::Null; 0]);
        }
    }

    /// Whether all entries have the certificate and path of the Secret.
    async fn is_configured(&self) -> Result<(), String> {
        let (Some(trusted), Some(path)) = (self.stored("ca.crt").await, self.stored("path").await) else {
            return Err("there is no certificate yet".into());
        };
        let bundles = self.configuration.trusted().await?;
        let called = named(&self.s.cluster.client, &self.configuration.name).await;
        let is = bundles.iter().all(|bundle| *bundle == trusted)
            && called.iter().all(|named| named.path.ends_with(&format!("/{path}")));
        if is { Ok(()) } else { Err(format!("{bundles:?}")) }
    }
}

#[test]
fn a_certificate_is_renewed_while_two_replicas_serve_and_no_pod_is_missed_even_if_the_renewal_is_interrupted()
{
    beside_others(|world| async move {
        let mut stage = Stage::new(world, "renewal", "60s", &[]).await;
        let path = stage.stored("path").await.unwrap();
        let first = stage.stored("tls.crt").await.unwrap();
        stage
            .inject_until("a renewal begins", async || stage.stored("next.crt").await.ok_or("not yet"))
            .await;
        stage.keeper.take().unwrap().kill().await;
        let half = stage.stored("next.crt").await;
        for _ in 0..20 {
            assert!(stage.injects().await, "nobody keeps it");
        }
        stage.start_keeper(&[]).await;
        stage
            .inject_until("both replicas serve a third certificate", async || {
                let served = stage.served();
                if served.iter().all(|count| *count >= 3) { Ok(()) } else { Err(served) }
            })
            .await;
        stage.assert_no_call_was_lost().await;
        let now = stage.stored("tls.crt").await.unwrap();
        assert!(now != first && half.is_some_and(|half| half != first));
        assert_eq!(stage.stored("path").await.unwrap(), path, "the path stays");
        let said = stage.said();
        assert!(!said.contains("PRIVATE KEY") && !said.contains(&path), "{said}");
        stage.configuration.remove().await;
    });
}

#[test]
fn what_a_tool_wipes_of_configurations_and_secret_is_written_again_at_once() {
    beside_others(|world| async move {
        let mut stage = Stage::new(world, "repair", "24h", &[]).await;
        stage.is_configured().await.unwrap();
        let other = Files::shared().trusted.clone();
        for (bundle, path) in [("", "/"), (&*other, "/other")] {
            stage.configuration.set_bundle(bundle).await;
            stage.configuration.set_path(path).await;
            wait::within(Duration::from_secs(10), "both are as they should be", || stage.is_configured())
                .await;
        }
        wait::until("the API server asks again", || async {
            if stage.injects().await { Ok(()) } else { Err("not yet") }
        })
        .await;

        // Only the Secret: the previous certificate is still trusted, and the path does not change.
        let path = stage.stored("path").await;
        let certificates = stage.served();
        let before: BTreeSet<_> = stage.stored("tls.crt").await.into_iter().collect();
        stage.s.cluster.patch::<Secret>(SECRET, &json!({"data": null})).await;
        stage
            .inject_until("both replicas serve another certificate", async || {
                let served = stage.served();
                let more = served.iter().zip(&certificates).all(|(now, before)| now > before);
                if more { Ok(()) } else { Err(served) }
            })
            .await;
        stage.is_configured().await.unwrap();
        assert_eq!(stage.stored("path").await, path);
        assert!(!before.contains(&stage.stored("tls.crt").await.unwrap()));

        // It does not create deleted configurations. When they exist again, it fills them in.
        let by_name = Configuration::of(stage.s.cluster.client.clone(), stage.configuration.name.clone());
        std::mem::replace(&mut stage.configuration, by_name).remove().await;
        let keeper = stage.keeper.as_ref().unwrap();
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            wait::until("it says what to do", || async {
                let said = keeper.text();
                let part = format!("{kind} {} does not exist, so no ", stage.configuration.name);
                if said.contains(&part) && said.contains("Apply that of config/webhook/") {
                    Ok(())
                } else {
                    Err(said)
                }
            })
            .await;
        }
        let again = Configuration::install_bare(&stage.s, &stage.headgates.iter().collect::<Vec<_>>()).await;
        wait::within(Duration::from_secs(10), "both are written", || stage.is_configured()).await;
        again.remove().await;
    });
}

#[test]
fn the_path_is_in_no_log_line_event_metric_or_answer_of_headgate() {
    beside_others(|world| async move {
        let stage = Stage::new(world, "path-hush", "60s", &["--log=trace"]).await;
        let s = &stage.s;
        let path = wait_secret(&s.cluster.client, &stage.configuration.name).await;
        assert_eq!(stage.stored("path").await.as_ref(), Some(&path));
        let group = s.group("web").await;
        stage.pods.service("web", "web", http_port(), Some(&group.name)).await;
        stage.pods.deploy("web", 2, &[("http", 8080)]).await;
        let running = stage.pods.wait_running("web", 2).await;
        s.wait_targets(&group, &targets(&running, 8080)).await;
        let renewed = async || stage.stored("next.crt").await.ok_or("not yet");
        stage.inject_until("a renewal begins", renewed).await;
        // Also attempts by a client that knows the path, or a part of it.
        let mut said = Vec::new();
        for headgate in &stage.headgates {
            for path in [format!("/{path}?x=1"), format!("/{path}/evict"), format!("/x/{path}/y")] {
                // The certificate is replaced in the meantime.
                let intruder = Intruder::new(&stage.stored("ca.crt").await.unwrap());
                let review = forged_eviction(&stage.pods.namespace, "web");
                said.push(intruder.send("POST", &headgate.webhook().await, &path, &review).await.1);
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
        // If no replica answers, the API server shows the URL to the rejected client. The doctor does not show it.
        stage.configuration.set_failure_policy("Fail").await;
        let Stage { s, pods, headgates, keeper, configuration, .. } = stage;
        for headgate in headgates.into_iter().chain(keeper) {
            said.push(headgate.terminate().await.1);
        }
        let shown = wait::until("the API server shows whom it could not ask", || async {
            let pod = serde_json::from_value(bare_pod("probe", &json!({}))).unwrap();
            let parameters = PostParams { dry_run: true, ..PostParams::default() };
            match pods.api::<Pod>().create(&parameters, &pod).await {
                Err(error) if error.to_string().contains("failed calling webhook") => Ok(error.to_string()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        assert!(shown.contains(&path), "otherwise this test sees nothing: {shown}");
        let own = format!("--own-namespace={}", s.cluster.namespace);
        let name = format!("--webhook-configuration={}", configuration.name);
        let (code, doctor) =
            command(s.facts(), &["doctor", &own, &name, &format!("--namespace={}", pods.namespace)]).await;
        assert!(code == Some(1) && doctor.contains("WebhookFails"), "{doctor}");
        said.push(doctor);
        for namespace in [&s.cluster, &pods] {
            for event in namespace.api::<Event>().list(&ListParams::default()).await.unwrap() {
                // Kubernetes controllers repeat messages of the API server.
                if event.reporting_controller.as_deref().is_some_and(|by| by.contains("headgate")) {
                    said.push(serde_json::to_string(&event).unwrap());
                }
            }
        }
        configuration.remove().await;
        for (at, text) in said.iter().enumerate() {
            let place = text.lines().find(|line| line.contains(&path));
            assert_eq!(place, None, "text {at}");
        }
        let traces = said.iter().filter(|text| text.contains("\"level\":\"TRACE\"")).count();
        assert_eq!(traces, 3, "all have logged at trace level");
    });
}
