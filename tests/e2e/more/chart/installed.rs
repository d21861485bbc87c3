//! The chart and `deploy/install.yaml`, installed on real nodes: Headgate runs there as pods, and is uninstalled.

mod delivered;

use std::{
    collections::BTreeSet, fs::Permissions, net::Ipv4Addr, os::unix::fs::PermissionsExt, path::PathBuf,
    process::Stdio, time::Duration,
};

use headgate_harness::{
    aws::{self, Group},
    browser::Browser,
    cluster::{Cluster, Running, pod_spec},
    dns,
    headgate::{beside, command_as},
    helm, http,
    kubectl::Kubectl,
    rights::peoples_rights,
    root,
    scenario::{Scenario, http_port, targets},
    shared_world::on,
    typed::{Step, Terminal, blocks, page},
    wait,
    webhook::{bare_pod, wait_secret},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::Lease,
    core::v1::{Pod, Secret},
};
use kube::{
    Api,
    api::{DynamicObject, ListParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use localstack_world::Nodes;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    time::timeout,
};

use delivered::Delivered;

/// With this attribute, a zone with one target is no finding.
const CROSS_ZONE: &str = "load_balancing.cross_zone.enabled";

#[test]
fn headgate_runs_as_pods_that_may_do_what_they_must_and_leaves_cleanly_on_real_nodes() {
    on(Nodes::Real, "the Helm chart, installed", |world| async move {
        let s = Scenario::new(world, "chart").await;
        let release = Release::prepare(&s).await;
        let group = s.web(2).await;
        s.aws.set_attribute(&group.arn, CROSS_ZONE, "true").await;
        let mut terminal = release.terminal().await;
        let [arrives, leaves] = &steps("With Helm", &release.chart_names())[..] else {
            panic!("expected the block that installs, and the one that uninstalls")
        };
        release.install(&mut terminal, arrives).await;
        let before = s.wait_registered(&group, "web", 2, 8080).await;
        let gated = gated_service(&s).await;
        assert!(release.certificate().await.is_some());

        let after = release.goes_on_without_its_leader(&group, &before).await;
        release.explains(after.keys().next().unwrap()).await;
        release.shows_its_page().await;
        release.answers_people_and_nobody_else().await;
        release.waits_until_its_webhook_is_called().await;
        release.gives_a_new_pod_gate_and_hold(&gated).await;
        release.gives_a_pod_of_a_system_namespace_that_asks_for_it_gate_and_hold().await;
        release.doctor_finds_only_what_the_pods_lack().await;
        release.serves_another_certificate_once_kubelets_have_mounted_it().await;

        follow(&mut terminal, leaves).await;
        assert_eq!(s.aws.registered(&group.arn).await, targets(&after, 8080), "the targets serve on");
        release.assert_nothing_is_left().await;
        release.remove_targets().await;
        s.wait_targets(&group, &BTreeSet::new()).await;
    });
}

#[test]
fn headgate_that_the_manifest_installs_serves_and_leaves_on_real_nodes() {
    on(Nodes::Real, "deploy/install.yaml, applied", |world| async move {
        let s = Scenario::new(world, "manifest").await;
        let (release, manifest) = Release::by_manifest(&s).await;
        let kubectl = Kubectl::of_objects(s.facts());
        let group = s.web(2).await;
        s.aws.set_attribute(&group.arn, CROSS_ZONE, "true").await;
        let mut terminal = release.terminal().await;
        let names = [
            (&*format!("delete -f {MANIFEST_URL}"), format!("delete -f {}", manifest.going)),
            (MANIFEST_URL, manifest.file.clone()),
        ];
        let [arrives, leaves] = &steps("With kubectl", &names)[..] else {
            panic!("expected the block that installs, and the one that leaves")
        };
        follow(&mut terminal, arrives).await;
        let before = s.wait_registered(&group, "web", 2, 8080).await;
        let gated = gated_service(&s).await;
        release.waits_until_its_webhook_is_called().await;
        release.gives_a_new_pod_gate_and_hold(&gated).await;
        follow(&mut terminal, &steps("`kubectl headgate`", &[])[0]).await;

        // Applied again, it does not change Headgate's own writes.
        let secret = wait_secret(&s.cluster.client, MANIFEST).await;
        let again = kubectl.run(&["apply", "-f", &manifest.file]).await;
        // kubectl always replaces the selector of a budget, and reports that as a change.
        let mut others = again.lines().filter(|line| !line.starts_with("poddisruptionbudget."));
        assert!(others.all(|line| line.ends_with(" unchanged")), "{again}");
        assert_eq!(wait_secret(&s.cluster.client, MANIFEST).await, secret);

        let after = release.goes_on_without_its_leader(&group, &before).await;
        let (stop, delete) = leaves.split_first().expect("it is stopped first");
        terminal.follow(stop).await;
        assert_eq!(s.aws.registered(&group.arn).await, targets(&after, 8080), "the targets serve on");
        follow(&mut terminal, delete).await;
        release.assert_nothing_is_left().await;
    });
}

/// The URL of the manifest and the chart of a release.
const MANIFEST_URL: &str = "https://github.com/headgate/headgate/releases/download/v0.1.0/install.yaml";
const CHART_URL: &str = "oci://ghcr.io/headgate/charts/headgate --version 0.1.0";

/// The manifest's name of Headgate, its namespace and its Lease.
const MANIFEST: &str = "headgate";

/// A Service for pods with gate and hold.
async fn gated_service(s: &Scenario) -> Group {
    let gated = s.group("gated").await;
    s.aws.set_attribute(&gated.arn, CROSS_ZONE, "true").await;
    s.cluster.service("gated", "gated", http_port(), Some(&gated.name)).await;
    s.cluster.set_annotation("gated", "headgate.dev/hold", Some("1s")).await;
    gated
}

/// A release of the chart that manages the namespace of a scenario.
struct Release<'a> {
    s: &'a Scenario,
    /// Its name, and the name of its namespace and Lease.
    own: String,
    /// Its namespace.
    within: Cluster,
    /// The kubeconfig of its users.
    people: PathBuf,
    /// The values of the chart.
    values: PathBuf,
    /// The flag for the managed namespaces.
    serves: String,
    delivered: &'static Delivered,
}

/// The blocks of a section of docs/install/helm.md, with these names.
fn steps(section: &str, names: &[(&str, String)]) -> Vec<Vec<Step>> {
    let rename = |text: &str| names.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    let blocks = blocks(&page("install/helm.md", Some(section)));
    blocks.iter().map(|steps| steps.iter().map(|step| step.renamed(rename)).collect()).collect()
}

/// Types the steps. Returns all output.
async fn follow(terminal: &mut Terminal, steps: &[Step]) -> String {
    let mut said = Vec::new();
    for step in steps {
        said.extend(terminal.follow(step).await);
    }
    said.join("\n")
}

impl<'a> Release<'a> {
    /// Creates what the installation of the chart needs.
    async fn prepare(s: &'a Scenario) -> Self {
        let (own, key) = (s.name("own"), s.name("key"));
        // Exactly these four actions, for the access key of the chart's pods.
        s.aws.control("PATCH", "/settings", Some(&json!({"permissions": {&*key: actions()}}))).await;
        let delivered = Delivered::load(s).await;
        let restricted = ("pod-security.kubernetes.io/enforce", "restricted");
        s.cluster.create_namespace(&own, &[restricted]).await;
        let within = s.cluster.within(&own);
        let people = peoples_rights(s, &within, &own).await;
        let values = s.facts().folder.join(format!("{own}.yaml"));
        let given = chart_values(s, &own, &key, delivered).await;
        std::fs::write(&values, given.to_string()).unwrap();
        let serves = format!("--namespaces={},kube-system", s.cluster.namespace);
        Self { s, own, within, people, values, serves, delivered }
    }

    /// Creates what the installation of the manifest needs, for this namespace only.
    async fn by_manifest(s: &'a Scenario) -> (Self, Manifest) {
        let (own, key) = (MANIFEST.to_owned(), s.name("key"));
        s.aws.control("PATCH", "/settings", Some(&json!({"permissions": {&*key: actions()}}))).await;
        let delivered = Delivered::load(s).await;
        let within = s.cluster.within(&own);
        let mut environment = environment(s, &key);
        let served = selector(&s.cluster.namespace);
        environment.push(serves(&served));
        let (people, values) = (s.facts().kubeconfig.clone(), PathBuf::new());
        let release = Self {
            s,
            own,
            within,
            people,
            values,
            serves: format!("--namespace-selector={served}"),
            delivered,
        };
        (release, Manifest::with(&s.cluster.namespace, &delivered.manifest, &environment))
    }

    /// A terminal with wrappers of `helm` and `headgate` that add what a reader does not need: this image and this
    /// local world's AWS to the chart, and the managed namespaces to `headgate uninstall`. It uses the folder for links
    /// to programs.
    async fn terminal(&self) -> Terminal {
        let home = self.s.facts().folder.join(format!("{}-home", self.s.cluster.namespace));
        let (links, programs) = (home.join(".local/bin"), home.join("programs"));
        std::fs::create_dir_all(&links).unwrap();
        std::fs::create_dir_all(&programs).unwrap();
        // The CRDs exist already, because other tests of this local world created them.
        let installs = format!("--take-ownership --timeout 2m --values '{}'", self.values.display());
        let wrapped = [
            ("helm", helm::program().await.clone(), "install", &*installs),
            ("headgate", beside("headgate"), "uninstall", &*self.serves),
        ];
        for (name, program, command, more) in wrapped {
            let text = format!(
                "#!/bin/sh\n[ \"$1\" = {command} ] && set -- \"$@\" {more}\nexec '{}' \"$@\"\n",
                program.display()
            );
            let script = programs.join(name);
            std::fs::write(&script, text).unwrap();
            std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        }
        let mut terminal = Terminal::in_world(self.s.facts(), &[("HOME", home.to_str().unwrap())]);
        let path = format!("export PATH='{}:{}':\"$PATH\"", programs.display(), links.display());
        assert_eq!(terminal.run(&path).await.1, 0);
        for (name, value) in helm::environment() {
            assert_eq!(terminal.run(&format!("export {name}='{value}'")).await.1, 0);
        }
        terminal
    }

    /// Names that differ from the page: the chart, and each test's release and namespace.
    fn chart_names(&self) -> [(&'static str, String); 7] {
        let own = &self.own;
        [
            (CHART_URL, self.delivered.chart.display().to_string()),
            ("install headgate ", format!("install {own} ")),
            ("test headgate ", format!("test {own} ")),
            ("uninstall headgate ", format!("uninstall {own} ")),
            ("--namespace headgate", format!("--namespace {own}")),
            ("NAME: headgate", format!("NAME: {own}")),
            ("release \"headgate\"", format!("release \"{own}\"")),
        ]
    }

    async fn install(&self, terminal: &mut Terminal, steps: &[Step]) {
        let notes = follow(terminal, steps).await;
        let asks = format!("headgate status --own-namespace={0} --lease-name={0}", self.own);
        assert!(notes.contains(&asks) && !notes.contains("<no value>"), "{notes}");
    }

    /// The Secret of the webhook.
    async fn certificate(&self) -> Option<Secret> {
        self.within.api::<Secret>().get_opt(&format!("{}-webhook-tls", self.own)).await.unwrap()
    }

    /// The holder of the Lease.
    async fn holder(&self) -> String {
        let lease = self.within.api::<Lease>().get(&self.own).await.unwrap();
        lease.spec.unwrap().holder_identity.unwrap_or_default()
    }

    /// Deletes the leader's pod. The other replica makes the next removal.
    async fn goes_on_without_its_leader(&self, group: &Group, before: &Running) -> Running {
        let s = self.s;
        let first = self.holder().await;
        let pod = first.split_once('_').unwrap().0.to_owned();
        self.within.delete_pod(&pod, 30).await;
        wait::until("another replica holds the Lease", || async {
            let now = self.holder().await;
            if now.is_empty() || now == first { Err(now) } else { Ok(()) }
        })
        .await;
        s.cluster.delete_pod(before.keys().next().unwrap(), 2).await;
        let after = wait::until("the targets are the pods that are there", || async {
            let now = s.cluster.running("web").await;
            let done =
                now.len() == 2 && now != *before && s.aws.registered(&group.arn).await == targets(&now, 8080);
            if done { Ok(now) } else { Err(now) }
        })
        .await;
        assert_eq!(after.len(), 2);
        after
    }

    /// Runs a command like a user, through the API server.
    async fn ask(&self, command: &[&str]) -> (Option<i32>, String) {
        let namespace = format!("--namespace={}", self.s.cluster.namespace);
        let (own, lease) = self.names();
        let arguments = [command, &[&*namespace, &*own, &*lease]].concat();
        command_as(self.s.facts(), &self.people, &arguments).await
    }

    /// The flags that select this Headgate.
    fn names(&self) -> (String, String) {
        (format!("--own-namespace={}", self.own), format!("--lease-name={}", self.own))
    }

    async fn explains(&self, pod: &str) {
        let (code, said) = self.ask(&["explain", pod]).await;
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("registered since") && said.contains("Hold  HoldMissing: "), "{said}");
    }

    /// `headgate ui` opens the page of the leader through port-forwarding by the API server and the kubelet.
    async fn shows_its_page(&self) {
        let (own, lease) = self.names();
        let mut ui = Command::new(beside("headgate"))
            .args(["ui", "--no-browser", &own, &lease])
            .env("KUBECONFIG", &self.people)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(ui.stdout.take().unwrap()).lines();
        let said = timeout(wait::DEADLINE, said.next_line()).await.expect("it says where").unwrap().unwrap();
        let url = said.strip_prefix("Headgate's page is at ").unwrap();
        let browser = Browser::start().await;
        browser.open(url).await;
        browser.wait_text("#link", |text| text == "Live").await;
        // A pod without a hold was deleted before.
        browser.wait_text("#top", |text| text.starts_with("HoldTooShort")).await;
        assert_eq!(browser.console(), [""; 0]);
        ui.kill().await.unwrap();
    }

    /// Users can read its state. A client that can only reach its pods cannot.
    async fn answers_people_and_nobody_else(&self) {
        let leader = self.holder().await;
        let leader = self.within.api::<Pod>().get(leader.split_once('_').unwrap().0).await.unwrap();
        let ip = leader.status.unwrap().pod_ip.unwrap();
        for (path, wanted) in [("/debug/bindings", 404), ("/livez", 200)] {
            let (status, said) = http::request("GET", &format!("{ip}:8080"), path, None).await.unwrap();
            assert_eq!(status, wanted, "{path}: {said}");
        }
        assert!(http::request("GET", &format!("{ip}:8081"), "/debug/bindings", None).await.is_err());
    }

    /// Waits until the API server knows the certificate, and each replica knows the Service. Both follow watches.
    async fn waits_until_its_webhook_is_called(&self) {
        wait_available(&self.within, &self.own, 2).await;
        wait::until("a new pod would be given gate and hold", || self.try_new_pod()).await;
        // With a secret path.
        wait_secret(&self.s.cluster.client, &self.own).await;
    }

    /// `Err` if a new pod would not get gate and hold.
    async fn try_new_pod(&self) -> Result<(), Value> {
        let pod = bare_pod("probe", &json!({"app": "gated", "headgate.dev/inject": "true"}));
        let pod = serde_json::from_value(pod).unwrap();
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let pod = self.s.cluster.api::<Pod>().create(&dry_run, &pod).await.unwrap();
        let pod = serde_json::to_value(pod.spec).unwrap();
        let gated = pod["readinessGates"].is_array();
        let held = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"] == 1;
        if gated && held { Ok(()) } else { Err(pod) }
    }

    /// Its webhook is called through its Service, and a new pod gets what it requests.
    async fn gives_a_new_pod_gate_and_hold(&self, gated: &Group) {
        let s = self.s;
        deploy_gated(&s.cluster).await;
        let (pod, _) = s.wait_registered(gated, "gated", 1, 8080).await.pop_first().unwrap();
        let spec = serde_json::to_value(s.cluster.api::<Pod>().get(&pod).await.unwrap().spec).unwrap();
        assert_eq!(spec["readinessGates"], json!([{"conditionType": "headgate.dev/target-health"}]));
        assert_eq!(spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"], 1);
        assert_eq!(spec["terminationGracePeriodSeconds"], 2);
        // A pod with a closed gate is not available.
        wait_available(&s.cluster, "gated", 1).await;
    }

    /// Only with its own label.
    async fn gives_a_pod_of_a_system_namespace_that_asks_for_it_gate_and_hold(&self) {
        let system = self.s.cluster.within("kube-system");
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let created = async |labels: Value| {
            let pod = serde_json::from_value(bare_pod("ingress", &labels)).unwrap();
            let pod = system.api::<Pod>().create(&dry_run, &pod).await.unwrap();
            serde_json::to_value(pod).unwrap()
        };
        let asks = created(json!({"headgate.dev/inject": "true"})).await;
        assert_eq!(asks["spec"]["readinessGates"], json!([{"conditionType": "headgate.dev/target-health"}]));
        assert_eq!(asks["spec"]["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"], 150);
        // By default, the program for containers without a shell is from Headgate's own image.
        let mut own = bare_pod("ingress", &json!({"headgate.dev/inject": "true"}));
        own["metadata"]["annotations"] = json!({"headgate.dev/own-prestop": "wrap"});
        own["spec"]["containers"][0]["lifecycle"] =
            json!({"preStop": {"httpGet": {"port": 8080, "path": "/quit"}}});
        let own = system.api::<Pod>().create(&dry_run, &serde_json::from_value(own).unwrap()).await.unwrap();
        let own = serde_json::to_value(own).unwrap();
        let command = &own["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"];
        assert_eq!(*command, json!(["/.headgate/headgate-hold", "150", "get", ":8080", "/quit"]));
        let volumes = own["spec"]["volumes"].as_array().unwrap();
        assert!(volumes.iter().any(|one| one["image"]["reference"] == *self.delivered.image), "{own}");
        let other = created(json!({"app": "other"})).await;
        assert_eq!(other["spec"]["readinessGates"], Value::Null);
        assert_eq!(other["metadata"]["annotations"], Value::Null);
    }

    /// When the replicas' certificates expire, from their metrics.
    async fn certificates_end(&self) -> Vec<f64> {
        let of_run = ListParams::default().labels("app.kubernetes.io/name=headgate");
        let replicas = self.within.api::<Pod>().list(&of_run).await.unwrap();
        let mut ends = Vec::new();
        for ip in replicas.into_iter().filter_map(|pod| pod.status?.pod_ip) {
            let page = http::request("GET", &format!("{ip}:8080"), "/metrics", None).await;
            let page = page.map(|(_, page)| page).unwrap_or_default();
            let is = |row: &str| {
                row.strip_prefix("headgate_webhook_certificate_end_timestamp_seconds ")?.parse::<f64>().ok()
            };
            ends.extend(page.lines().find_map(is));
        }
        ends
    }

    /// If a user deletes a certificate, a new one replaces it. Kubelets mount it for the replicas, and all new pods get
    /// gate and hold.
    async fn serves_another_certificate_once_kubelets_have_mounted_it(&self) {
        let before = self.certificates_end().await;
        assert_eq!(before.len(), 2, "{before:?}");
        let without = json!({"data": {"tls.crt": null, "tls.key": null}});
        self.within.patch::<Secret>(&format!("{}-webhook-tls", self.own), &without).await;
        wait::within(Duration::from_secs(180), "both replicas serve another certificate", || async {
            for _ in 0..5 {
                self.try_new_pod().await.expect("no pod is missed");
            }
            let now = self.certificates_end().await;
            if now.len() == 2 && now.iter().all(|end| !before.contains(end)) { Ok(()) } else { Err(now) }
        })
        .await;
    }

    /// The doctor can check everything, and only reports what these pods lack.
    async fn doctor_finds_only_what_the_pods_lack(&self) {
        let (code, said) = self.ask(&["doctor", "-o=json"]).await;
        let said: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        let found = said["findings"].as_array().unwrap().iter().filter(|one| one["level"] != "info");
        let found: Vec<_> =
            found.map(|one| ["reason", "about"].map(|is| one[is].as_str().unwrap())).collect();
        let service = |name: &str| format!("Service {}/{name}", self.s.cluster.namespace);
        let wanted = [("HoldMissing", "web"), ("HoldTooShort", "gated"), ("RiskyWorkload", "web")];
        assert_eq!(found.len(), wanted.len(), "{found:?}");
        for ([reason, about], (word, name)) in found.iter().zip(wanted) {
            assert!(*reason == word && about.starts_with(&service(name)), "{found:?}");
        }
        assert_eq!(code, Some(1));
    }

    async fn assert_nothing_is_left(&self) {
        assert_eq!(bindings(self.s).await, 0);
        let deployments = self.within.api::<Deployment>().list(&ListParams::default()).await.unwrap();
        assert!(deployments.items.is_empty());
        assert!(self.certificate().await.is_none());
    }

    async fn remove_targets(&self) {
        let (own, lease) = self.names();
        let arguments = ["uninstall", "--remove-targets", &*own, &*lease, &*self.serves];
        let (code, said) = command_as(self.s.facts(), &self.s.facts().kubeconfig, &arguments).await;
        assert_eq!(code, Some(0), "{said}");
    }
}

/// The actions of deploy/iam/aws.json.
fn actions() -> Vec<String> {
    let policy = std::fs::read_to_string(root().join("deploy/iam/aws.json")).unwrap();
    let policy: Value = serde_json::from_str(&policy).unwrap();
    let statements = policy["Statement"].as_array().unwrap().iter();
    let actions = statements.flat_map(|statement| statement["Action"].as_array().unwrap());
    let name =
        |action: &Value| action.as_str().unwrap().strip_prefix("elasticloadbalancing:").unwrap().to_owned();
    actions.map(name).collect()
}

/// The environment of a Headgate with this access key.
fn environment(s: &Scenario, key: &str) -> Vec<Value> {
    let named = |(name, value): (String, String)| {
        let value = if name == "AWS_ACCESS_KEY_ID" { key.to_owned() } else { value };
        json!({"name": name, "value": value})
    };
    aws::environment(s.facts()).into_iter().map(named).collect()
}

/// The name of the stand-in for AWS, which only the name server of [`chart_values`] knows.
const AWS: &str = "elasticloadbalancing.us-east-1.amazonaws.com";

/// The values of the chart for the namespace of the scenario: the pods find AWS by its name.
async fn chart_values(s: &Scenario, own: &str, key: &str, delivered: &Delivered) -> Value {
    let endpoint = s.facts().aws_endpoint.strip_prefix("http://").unwrap();
    let (address, _) = endpoint.split_once(':').unwrap();
    dns::serve(address.parse::<Ipv4Addr>().unwrap(), AWS).await;
    let by_name = |mut variable: Value| {
        variable["value"] = variable["value"].as_str().unwrap().replace(address, AWS).into();
        variable
    };
    json!({
        "fullnameOverride": own,
        "image": delivered.values,
        "namespaces": [s.cluster.namespace, "kube-system"],
        "webhook": {"systemNamespaces": ["kube-system"]},
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": [address]},
        "extraEnv": environment(s, key).into_iter().map(by_name).collect::<Vec<_>>(),
    })
}

/// A selector for this namespace only.
fn selector(namespace: &str) -> String {
    format!("kubernetes.io/metadata.name={namespace}")
}

/// The environment that makes Headgate manage the selected namespaces.
fn serves(selector: &str) -> Value {
    json!({"name": "HEADGATE_NAMESPACE_SELECTOR", "value": selector})
}

/// `install.yaml` for one test.
struct Manifest {
    /// The path of the file.
    file: String,
    /// The path of the file without objects that other tests of the local world need.
    going: String,
}

impl Manifest {
    /// This text, with more environment variables.
    fn with(namespace: &str, text: &str, environment: &[Value]) -> Self {
        let mut all: Vec<Value> =
            text.split("\n---\n").map(|object| serde_saphyr::from_str(object).unwrap()).collect();
        for deployment in all.iter_mut().filter(|object| object["kind"] == "Deployment") {
            let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
            container["imagePullPolicy"] = "Never".into();
            if container["args"][0] == "run" {
                container["env"].as_array_mut().unwrap().extend(environment.iter().cloned());
            }
        }
        let text = |objects: &[&Value]| {
            let objects: Vec<String> = objects.iter().map(ToString::to_string).collect();
            // The first line tells kubectl that it is YAML.
            format!("---\n{}\n", objects.join("\n---\n"))
        };
        let stays = |object: &Value| {
            object["kind"] == "CustomResourceDefinition"
                || object["kind"] == "Namespace"
                || object["metadata"]["name"] == "headgate-marks"
        };
        let folder = root().join("target/install");
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: String, text: &str| {
            let file = folder.join(name);
            std::fs::write(&file, text).unwrap();
            file.display().to_string()
        };
        let going = text(&all.iter().filter(|object| !stays(object)).collect::<Vec<_>>());
        let all = text(&all.iter().collect::<Vec<_>>());
        let file = write(format!("{namespace}.yaml"), &all);
        Self { file, going: write(format!("{namespace}-going.yaml"), &going) }
    }
}

/// A Deployment whose pod requests gate and hold.
async fn deploy_gated(cluster: &Cluster) {
    let mut spec = pod_spec(&[("http", 8080)]);
    spec["terminationGracePeriodSeconds"] = 1.into();
    let template =
        json!({"metadata": {"labels": {"app": "gated", "headgate.dev/inject": "true"}}, "spec": spec});
    cluster
        .create::<Deployment>(json!({
            "metadata": {"name": "gated"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "gated"}}, "template": template},
        }))
        .await;
}

async fn wait_available(cluster: &Cluster, deployment: &str, replicas: i32) {
    wait::until(&format!("{replicas} replicas of {deployment} are available"), || async {
        let status = cluster.api::<Deployment>().get(deployment).await.unwrap().status.unwrap();
        if status.available_replicas == Some(replicas) { Ok(()) } else { Err(status) }
    })
    .await;
}

async fn bindings(s: &Scenario) -> usize {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("headgate.dev", "v1alpha1", "TargetBinding"));
    let api: Api<DynamicObject> = Api::namespaced_with(s.cluster.client.clone(), &s.cluster.namespace, &kind);
    api.list(&ListParams::default()).await.unwrap().items.len()
}
