//! Objects as the program of an earlier version has stored them, for the tests of the present one.
//!
//! They are made by that program in the local world, and by nothing else: `make fixtures`. Beside them stands what the
//! world said of them then (`world.json`), which the tests compare with what is read of them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use headgate_harness::{
    aws::{Aws, Group},
    cluster::{Cluster, client_without_retries, pod_spec},
    headgate::Headgate,
    http,
    kubectl::Kubectl,
    scenario::{http_port, targets},
    wait,
};
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::api::{DeleteParams, ListParams, PostParams};
use localstack_world::Facts;
use serde_json::{Value, json};

use crate::{manifests::Manifests, versions::Version};

/// The namespace of the pods, and Headgate's own.
const SHOP: &str = "shop";
const OWN: &str = "headgate";

/// Makes all of them.
pub struct Maker {
    facts: Facts,
    version: Version,
    folder: PathBuf,
    cluster: Cluster,
    aws: Aws,
    headgate: Headgate,
    manifests: Manifests,
}

impl Maker {
    /// Starts the program of this version; what it stores is kept in a folder.
    pub async fn new(facts: &Facts, version: &Version, folder: &Path) -> Self {
        headgate_harness::kinds::install_as(facts, &version.file("config/crd/headgate.dev.yaml")).await;
        let cluster =
            Cluster { client: headgate_harness::cluster::client(facts).await, namespace: SHOP.to_owned() };
        let label = "fixtures.headgate.dev/mine";
        cluster.create_namespace(SHOP, &[(label, ""), ("headgate.dev/inject", "true")]).await;
        let (own, only) = (format!("--own-namespace={OWN}"), format!("--namespaces={SHOP}"));
        let arguments = [
            "--webhook-address=127.0.0.1:0",
            "--webhook-names=127.0.0.1",
            "--nlb-propagation-bound=3s",
            &own,
            &only,
        ];
        let arguments = [&arguments[..], version.free_ports()].concat();
        let program = &version.program;
        let headgate = Headgate::start_program(program, facts, &facts.kubeconfig, &arguments, &[]).await;
        wait::until("headgate is ready", || headgate.probe("/readyz")).await;
        let manifests = Manifests {
            client: cluster.client.clone(),
            name: "headgate".into(),
            label: label.into(),
            addresses: vec![headgate.webhook().await],
        };
        manifests.apply(version).await;
        let aws = Aws::new(facts).await;
        fs::create_dir_all(folder).unwrap();
        let (facts, version, folder) = (facts.clone(), version.clone(), folder.to_owned());
        Self { facts, version, folder, cluster, aws, headgate, manifests }
    }

    /// Makes and writes all.
    pub async fn make(self) {
        let group = self.aws.nlb_group("web", 20_080).await;
        self.cluster.service("web", "web", http_port(), Some(&format!("http={}", group.name))).await;
        self.trusted().await;
        let mut world = json!({"commit": self.version.name, "group": group.arn});
        self.pods_and_ledger(&group, &mut world).await;
        self.leaving(&mut world).await;
        self.bindings(&mut world).await;
        self.webhook().await;
        let (_, leader) = http::request("GET", self.headgate.admin(), "/debug/leader", None).await.unwrap();
        world["leader"] = serde_json::from_str::<Value>(&leader).unwrap()["holder"].clone();
        self.keep("lease-held", OWN, &["lease", "headgate"]).await;
        self.write("world", &world);
        let Self { headgate, facts, folder, .. } = self;
        headgate.terminate().await;
        let released = Kubectl::new(&facts, OWN).run(&["get", "lease", "headgate", "-o", "json"]).await;
        fs::write(folder.join("lease-released.json"), released).unwrap();
    }

    fn write(&self, name: &str, object: &Value) {
        let text = serde_json::to_string_pretty(object).unwrap() + "\n";
        fs::write(self.folder.join(format!("{name}.json")), text).unwrap();
        eprintln!("{name}");
    }

    async fn get(&self, namespace: &str, what: &[&str]) -> Value {
        let arguments = [&["get"], what, &["-o", "json"]].concat();
        serde_json::from_str(&Kubectl::new(&self.facts, namespace).run(&arguments).await).unwrap()
    }

    async fn keep(&self, name: &str, namespace: &str, what: &[&str]) {
        let object = self.get(namespace, what).await;
        self.write(name, &object);
    }

    /// Keeps an object as soon as it `is` so.
    async fn keep_when(
        &self,
        name: &str,
        namespace: &str,
        what: &[&str],
        is: impl Fn(&Value) -> bool,
    ) -> Value {
        let object = wait::until(name, || async {
            let object = self.get(namespace, what).await;
            if is(&object) { Ok(object) } else { Err(object) }
        })
        .await;
        self.write(name, &object);
        object
    }

    /// New pods are given gate and hold.
    async fn trusted(&self) {
        wait::until("the API server asks", || async {
            let pod =
                serde_json::from_value(headgate_harness::webhook::bare_pod("probe", &json!({}))).unwrap();
            let parameters = PostParams { dry_run: true, ..PostParams::default() };
            let made: Pod = self.cluster.api().create(&parameters, &pod).await.unwrap();
            if crate::watching::has_gate_and_hold(&made) { Ok(()) } else { Err("not yet") }
        })
        .await;
    }

    /// The UIDs of the pods of `web` by what they are targets as.
    async fn uids(&self) -> BTreeMap<String, String> {
        let pods = self.cluster.api::<Pod>().list(&ListParams::default().labels("app=web")).await.unwrap();
        let of = |pod: Pod| Some((format!("{}:8080", pod.status?.pod_ip?), pod.metadata.uid?));
        pods.into_iter().filter_map(of).collect()
    }

    async fn pods_and_ledger(&self, group: &Group, world: &mut Value) {
        let id = group.arn.rsplit('/').next().unwrap();
        let ledger = ["targetledger", &format!("{}-{id}", group.name)];
        self.cluster.deploy("web", 2, &[("http", 8080)]).await;
        let running = self.cluster.wait_running("web", 2).await;
        wait::until_equal("targets", &targets(&running, 8080), || self.aws.registered(&group.arn)).await;
        let pod = running.keys().next().unwrap().clone();
        let is_open = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            let mut ours =
                conditions.filter(|condition| condition["type"] == headgate_harness::cluster::OWN_GATE);
            ours.any(|condition| condition["status"] == "True")
        };
        self.keep_when("pod-gate-open", SHOP, &["pod", &pod], is_open).await;

        // One is removed, and there is a tombstone.
        let gone =
            self.uids().await.into_iter().find(|(target, _)| *target == format!("{}:8080", running[&pod]));
        self.cluster.delete_pod(&pod, 0).await;
        let running = wait::until("another one has taken its place", || async {
            let running = self.cluster.running("web").await;
            if running.len() == 2 && !running.contains_key(&pod) { Ok(running) } else { Err(running) }
        })
        .await;
        wait::until_equal("targets", &targets(&running, 8080), || self.aws.registered(&group.arn)).await;
        let is_settled = |ledger: &Value| {
            let bytes = |list: &str| {
                ledger["spec"][list].as_str().map_or(0, |text| text.trim_end_matches('=').len() * 3 / 4)
            };
            bytes("registered") == 28 && bytes("removed") == 14 && bytes("intended") == 0
        };
        self.keep_when("ledger-tombstone", OWN, &ledger, is_settled).await;
        world["registered"] = json!(self.uids().await);
        world["removed"] = json!(BTreeMap::from_iter(gone));

        // AWS does not answer: what is to be registered is written down before.
        self.aws.set_available(false).await;
        self.cluster.scale("web", 3).await;
        let running = self.cluster.wait_running("web", 3).await;
        let is_intended = |ledger: &Value| ledger["spec"]["intended"].is_string();
        self.keep_when("ledger-intended", OWN, &ledger, is_intended).await;
        let known = world["registered"].as_object().unwrap().clone();
        let new: BTreeMap<_, _> =
            self.uids().await.into_iter().filter(|(target, _)| !known.contains_key(target)).collect();
        let (pod, _) = running.iter().find(|(_, ip)| new.contains_key(&format!("{ip}:8080"))).unwrap();
        self.keep("pod-gate-closed", SHOP, &["pod", pod]).await;
        world["intended"] = json!(new);
        self.aws.set_available(true).await;
        wait::until_equal("targets", &targets(&running, 8080), || self.aws.registered(&group.arn)).await;
    }

    /// A pod without a hold, on its way out.
    async fn leaving(&self, world: &mut Value) {
        let labels = json!({"app": "web", "leaves": "yes", "headgate.dev/inject": "false"});
        let pod =
            json!({"metadata": {"name": "leaves", "labels": labels}, "spec": pod_spec(&[("http", 8080)])});
        let pod: Pod = self.cluster.create(pod).await;
        world["leaving"] = json!(pod.metadata.uid);
        self.cluster.wait_running("web", 4).await;
        let selector = json!({"matchLabels": {"leaves": "yes"}});
        let budget =
            json!({"metadata": {"name": "none"}, "spec": {"maxUnavailable": 0, "selector": selector}});
        self.cluster.create::<PodDisruptionBudget>(budget).await;
        // Its own client: others try again by themselves what was answered with 429.
        let client = client_without_retries(&self.facts).await;
        let evict = || async {
            let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": SHOP, "name": "leaves"}});
            let path = format!("/api/v1/namespaces/{SHOP}/pods/leaves/eviction");
            let request = hyper::Request::post(path).header("Content-Type", "application/json");
            let request = request.body(body.to_string().into_bytes()).unwrap();
            let _ = client.request::<Value>(request).await;
        };
        let has = |name: &'static str| {
            move |pod: &Value| pod["metadata"]["annotations"][format!("headgate.dev/{name}")].is_string()
        };
        let pod = ["pod", "leaves"];
        wait::until("the eviction is noted", || async {
            evict().await;
            let pod = self.get(SHOP, &pod).await;
            if has("leaving")(&pod) { Ok(()) } else { Err(pod["metadata"]["annotations"].clone()) }
        })
        .await;
        self.keep_when("pod-leaving-waits", SHOP, &pod, has("leaving-waits")).await;
        let budgets = self.cluster.api::<PodDisruptionBudget>();
        budgets.delete("none", &DeleteParams::default()).await.unwrap();
        self.keep_when("pod-deregistered", SHOP, &pod, has("deregistered-at")).await;
        self.keep_when("pod-may-go", SHOP, &pod, has("may-go")).await;
    }

    async fn bindings(&self, world: &mut Value) {
        let group = self.aws.nlb_group("second", 20_081).await;
        let written = json!({
            "apiVersion": "headgate.dev/v1alpha1", "kind": "TargetBinding", "metadata": {"name": "mine"},
            "spec": {"targetGroup": {"name": group.name}, "podSelector": {"matchLabels": {"app": "web"}}, "port": 8080,
                "registerWhen": "containers-ready", "hold": "45s", "minHealthyPerZone": 2},
        });
        self.cluster.create::<headgate::api::TargetBinding>(written).await;
        world["secondGroup"] = group.arn.clone().into();
        let is_ready = |binding: &Value| {
            let conditions = binding["status"]["conditions"].as_array().into_iter().flatten();
            let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
            binding["status"]["lastRead"].is_string() && ready.any(|condition| condition["status"] == "True")
        };
        self.keep_when("binding-written", SHOP, &["targetbinding", "mine"], is_ready).await;
        let made = ["targetbinding", "--selector=headgate.dev/made-from=service"];
        let all = wait::until("the made TargetBinding has a status", || async {
            let all = self.get(SHOP, &made).await;
            if is_ready(&all["items"][0]) { Ok(all) } else { Err(all) }
        })
        .await;
        self.write("binding-made", &all["items"][0]);
    }

    /// The Secret, and the configurations as they are called by a url, and through a Service with and without a path.
    async fn webhook(&self) {
        self.keep("secret", OWN, &["secret", "headgate-webhook-tls"]).await;
        let kinds =
            [("mutating", "mutatingwebhookconfiguration"), ("validating", "validatingwebhookconfiguration")];
        let keep = async |how: &str| {
            for (name, kind) in kinds {
                self.keep(&format!("{name}-{how}"), OWN, &[kind, "headgate"]).await;
            }
        };
        keep("url").await;
        for (how, has_path) in [("path", true), ("bare", false)] {
            self.manifests.remove().await;
            self.manifests.create_for_service(&self.version, has_path).await;
            wait::until("the program has them trust it", || async {
                let mut trusted = Vec::new();
                for (_, kind) in kinds {
                    let object = self.get(OWN, &[kind, "headgate"]).await;
                    let entries = object["webhooks"].as_array().into_iter().flatten();
                    trusted.extend(entries.map(|entry| entry["clientConfig"]["caBundle"].is_string()));
                }
                if trusted.iter().all(|is| *is) { Ok(()) } else { Err(trusted) }
            })
            .await;
            keep(how).await;
        }
    }
}
