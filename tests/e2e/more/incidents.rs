//! A real Prometheus watches two replicas during one incident after the other. The expected alert fires, and no other
//! one. For the six most important alerts, the first line of `headgate status` and the top of the page show the same
//! reason.
//!
//! Time runs [`FACTOR`] times as fast as in the rules. Every `for` and every window is divided by it, and Prometheus
//! reads more often. Ages in rules are divided by [`AGES`], because a removal takes its usual time, and longer on a
//! busy machine. Flags shorten Headgate's own times.

use std::{
    collections::BTreeSet,
    fmt::Write,
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use aws_sdk_elasticloadbalancingv2::types::{LoadBalancerTypeEnum, ProtocolEnum};
use headgate_harness::{
    aws::Group,
    browser::Browser,
    cluster::{OWN_GATE, pod_spec},
    daemonsets::IngressDaemonSet,
    headgate::{Headgate, command},
    monitoring::{each, names, queries, rules},
    prometheus::{Alert, Place, Prometheus},
    proxy::Proxy,
    scenario::{Scenario, http_port, targets},
    shared_world::alone,
    wait,
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::DeleteParams;
use localstack_world::World;
use serde_json::{Value, json};

/// The factor between the rules' times and the test's.
const FACTOR: u32 = 60;
/// The divisor for ages.
const AGES: u32 = 15;
/// The PodMonitor's interval of half a minute, shortened, in milliseconds.
const PERIOD: u32 = 30_000 / FACTOR;
/// The hold of pods in seconds: longer than the load balancer needs and an incident with removals takes.
const HOLD: u32 = 15;
/// The port of the ALB.
const ALB_PORT: u16 = 28_080;
const ZONE: &str = "topology.kubernetes.io/zone";
/// The alerts whose reason is checked in all three places: a bad health check, a blocked port, a zone without targets,
/// a forgotten pause, a short hold, and throttling.
const BY_ALL_WAYS: [&str; 6] = [
    "HeadgateTargetsUnhealthy",
    "HeadgatePortBlocked",
    "HeadgateZoneWithoutHealthyTarget",
    "HeadgatePaused",
    "HeadgateHoldTooShort",
    "HeadgateAwsThrottled",
];
const AWS: &str = "AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2";

/// The shortened duration of a rule, in milliseconds.
fn shortened(duration: &str) -> String {
    let (number, unit) = duration.split_at(duration.len() - 1);
    let unit = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        other => panic!("{duration}: expected a unit of s, m or h, found {other}"),
    };
    format!("{}ms", number.parse::<u32>().unwrap() * unit / FACTOR)
}

/// An expression with shorter windows and ages.
fn shortened_expression(expression: &str) -> String {
    let mut parts = expression.split('[');
    let mut short = parts.next().unwrap().to_owned();
    for part in parts {
        let (window, rest) = part.split_once(']').unwrap();
        write!(short, "[{}]{rest}", shortened(window)).unwrap();
    }
    let age = "_age_seconds) > ";
    let mut parts = short.split(age);
    let mut all = parts.next().unwrap().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let (seconds, rest) = part.split_at(end);
        write!(all, "{age}{}{rest}", f64::from(seconds.parse::<u32>().unwrap()) / f64::from(AGES)).unwrap();
    }
    all
}

/// The rules, [`FACTOR`] times as fast.
fn shortened_rules() -> Value {
    let mut rules = rules();
    for rule in rules["groups"][0]["rules"].as_array_mut().unwrap() {
        rule["expr"] = shortened_expression(rule["expr"].as_str().unwrap()).into();
        if let Some(duration) = rule["for"].as_str() {
            rule["for"] = shortened(duration).into();
        }
    }
    rules
}

#[test]
fn all_times_of_the_rules_are_shortened_alike() {
    assert_eq!(
        shortened_expression("max(a_age_seconds) > 30\nunless rate(b[5m]) > 3 or max(a_age_seconds) > 300"),
        "max(a_age_seconds) > 2\nunless rate(b[5000ms]) > 3 or max(a_age_seconds) > 20"
    );
    let (rules, short) = (rules(), shortened_rules());
    let of = |rules: &Value, field: &str| {
        each(rules)
            .into_iter()
            .filter(|rule| rule[field].is_string())
            .map(|rule| rule[field].clone())
            .collect::<Vec<_>>()
    };
    assert!(of(&short, "for").iter().all(|duration| duration.as_str().unwrap().ends_with("ms")));
    assert_eq!(of(&rules, "for").len(), of(&short, "for").len());
}

/// The stage of the incidents.
struct Stage {
    s: Scenario,
    /// The label `app` of the pods, and the name of their Deployment and Service.
    app: String,
    group: Group,
    prometheus: Prometheus,
    /// The addresses that Prometheus reads.
    places: [Place; 2],
    /// The proxy to the API server.
    kubernetes: Proxy,
    /// The proxy to AWS.
    aws: Proxy,
    kubeconfig: PathBuf,
    /// The debug address of each replica.
    asked: Mutex<[String; 2]>,
    browser: Browser,
    played: AtomicUsize,
}

impl Stage {
    /// Six healthy pods in all zones with gate and hold, and two replicas that Prometheus reads.
    async fn new(world: &'static World) -> (Self, Vec<Headgate>) {
        let s = Scenario::new(world, "alerts").await;
        let (kubernetes, aws) = (Proxy::to_api_server(s.facts()).await, Proxy::to_aws(s.facts()).await);
        let kubeconfig = kubernetes.kubeconfig(s.facts(), &s.facts().folder);
        let places = [Place::new().await, Place::new().await];
        let asked = [("headgate-0", places[0].address()), ("headgate-1", places[1].address())];
        let folder = s.facts().folder.join("prometheus");
        let prometheus = Prometheus::start(&folder, &shortened_rules(), &asked, PERIOD).await;
        let (app, group) = (s.name("web"), s.group("web").await);
        let (asked, played, browser) = (Mutex::default(), AtomicUsize::new(0), Browser::start().await);
        let stage =
            Self { s, app, group, prometheus, places, kubernetes, aws, kubeconfig, asked, browser, played };
        stage.quicken(&stage.group).await;
        stage.deploy(&stage.app, &stage.app, 6, None).await;
        stage.bind(&stage.app, &stage.group).await;
        let replicas = vec![stage.replica(0).await, stage.replica(1).await];
        stage.wait_serving(&stage.app, &stage.group, 6, &BTreeSet::new()).await;
        stage.wait_proven(&stage.app, 6).await;
        stage.wait_quiet().await;
        (stage, replicas)
    }

    /// Starts a replica and adds it to Prometheus.
    async fn replica(&self, place: usize) -> Headgate {
        let namespace = &self.s.cluster.namespace;
        let aws = format!("http://{}", self.aws.address());
        let arguments = [
            &*format!("--own-namespace={namespace}"),
            &*format!("--namespace-selector=kubernetes.io/metadata.name={namespace}"),
            "--lease-retry-period=500ms",
            "--read-interval=1s",
            "--never-healthy-after=3s",
            "--nlb-propagation-bound=3s",
            "--show-daemonsets",
        ];
        let headgate =
            Headgate::start_within(self.s.facts(), &self.kubeconfig, &arguments, &[(AWS, &*aws)]).await;
        wait::until("headgate is ready", || headgate.probe("/readyz")).await;
        self.places[place].leads_to(Some(headgate.admin()));
        headgate.debug().clone_into(&mut self.asked.lock().unwrap()[place]);
        headgate
    }

    /// A load balancer without delays, with fast health checks.
    async fn quicken(&self, group: &Group) {
        let path = format!("/target-groups/{}/settings", group.name);
        self.s.aws.control("PATCH", &path, Some(&json!({"profile": "instant"}))).await;
        let modify = self.s.aws.client().modify_target_group().target_group_arn(&group.arn);
        let modify = modify.health_check_interval_seconds(5).health_check_timeout_seconds(5);
        modify.healthy_threshold_count(2).unhealthy_threshold_count(2).send().await.unwrap();
    }

    /// Changes the port and protocol of a group's health check.
    async fn check(&self, group: &Group, port: &str, protocol: ProtocolEnum) {
        let modify = self.s.aws.client().modify_target_group().target_group_arn(&group.arn);
        modify.health_check_port(port).health_check_protocol(protocol).send().await.unwrap();
    }

    /// A Deployment of pods of an app with gate and hold, in one zone or spread over all.
    async fn deploy(&self, name: &str, app: &str, replicas: u32, zone: Option<&str>) {
        let mut spec = pod_spec(&[("http", 8080)]);
        spec["terminationGracePeriodSeconds"] = (HOLD + 5).into();
        spec["readinessGates"] = json!([{"conditionType": OWN_GATE}]);
        spec["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": HOLD}}});
        match zone {
            Some(zone) => spec["nodeSelector"] = json!({ZONE: zone}),
            None => {
                spec["topologySpreadConstraints"] = json!([{
                    "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"part": name}}, "matchLabelKeys": ["pod-template-hash"],
                }]);
            }
        }
        let labels = json!({"app": app, "part": name});
        self.s
            .cluster
            .create::<Deployment>(json!({
                "metadata": {"name": name},
                "spec": {
                    "replicas": replicas,
                    "strategy": {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 0}},
                    "selector": {"matchLabels": {"part": name}},
                    "template": {"metadata": {"labels": labels}, "spec": spec},
                },
            }))
            .await;
    }

    /// A Service with this name for the pods of this app, bound to a group.
    async fn bind(&self, app: &str, group: &Group) {
        let binding = format!("http={}", group.name);
        self.s.cluster.service(app, app, http_port(), Some(&binding)).await;
    }

    /// Waits until `count` pods of an app, without these, are the healthy targets of a group, also in Headgate's state.
    async fn wait_serving(&self, app: &str, group: &Group, count: usize, but: &BTreeSet<String>) {
        wait::until(&format!("{count} pods of {app} are healthy targets"), || async {
            let running = self.s.cluster.running(app).await;
            let states = self.s.aws.targets(&group.arn).await;
            let healthy =
                states.iter().filter(|(_, state)| *state == "healthy").map(|(target, _)| target.clone());
            let done = running.len() == count
                && running.keys().all(|pod| !but.contains(pod))
                && healthy.collect::<BTreeSet<_>>() == targets(&running, 8080);
            if done { Ok(()) } else { Err((running, states)) }
        })
        .await;
        let seen =
            format!("sum(headgate_targets{{target_group=\"{}\", state=\"healthy\"}}) == {count}", group.name);
        wait::until("the leader has read that", || async {
            let found = self.prometheus.query(&seen).await.unwrap();
            if found.is_empty() { Err("not yet") } else { Ok(()) }
        })
        .await;
    }

    /// Waits until Headgate has seen these pods healthy, and knows that the health is theirs and not of an earlier pod
    /// with the address.
    async fn wait_proven(&self, app: &str, count: usize) {
        self.s.cluster.wait_gates(app, count, "True", "TargetsHealthy").await;
    }

    /// Waits until six pods serve again.
    async fn wait_six(&self) {
        self.wait_serving(&self.app, &self.group, 6, &BTreeSet::new()).await;
    }

    /// The alerts that are pending or fire, queried a few times per second.
    async fn alerts(&self) -> Vec<Alert> {
        tokio::time::sleep(Duration::from_millis(200)).await;
        self.prometheus.alerts().await
    }

    /// Waits until no alert is pending or fires.
    async fn wait_quiet(&self) {
        wait::until("no alert is pending or fires", || async {
            let alerts = self.alerts().await;
            if alerts.is_empty() { Ok(()) } else { Err(alerts) }
        })
        .await;
    }

    /// Plays something for which no alert may fire.
    async fn calm(&self, what: &str, play: impl AsyncFnOnce()) {
        let began = Instant::now();
        play().await;
        self.wait_quiet().await;
        let fired = self.prometheus.fired_since(began).await;
        assert!(fired.is_empty(), "{what}: {fired:?} fired; {}", self.counted().await);
        eprintln!("{what}: no alert, in {:.1} s", began.elapsed().as_secs_f64());
    }

    /// Plays an incident: this alert fires with this reason, and no other one, until the incident is over.
    async fn incident(&self, alert: &str, reason: &str, cause: impl AsyncFnOnce(), cure: impl AsyncFnOnce()) {
        let began = Instant::now();
        self.wait_fires(alert, reason, cause).await;
        let fires = began.elapsed();
        cure().await;
        self.wait_quiet().await;
        self.assert_fired_alone(alert, reason, began).await;
        let (fires, all) = (fires.as_secs_f64(), began.elapsed().as_secs_f64());
        eprintln!("{alert}: fires with {reason} after {fires:.1} s, over after {all:.1} s");
    }

    async fn wait_fires(&self, alert: &str, reason: &str, cause: impl AsyncFnOnce()) {
        self.played.fetch_add(1, Ordering::Relaxed);
        cause().await;
        let fires = wait::until(&format!("{alert} fires"), || async {
            let alerts = self.alerts().await;
            let fires = alerts.iter().find(|one| one.fires && one.name == alert).cloned();
            fires.ok_or(alerts)
        })
        .await;
        assert_eq!(fires.labels["reason"], reason, "{fires:?}");
        let said = fires.annotations["summary"].as_str().unwrap();
        assert!(!said.contains("<no value>") && !said.contains("  "), "{said}");
        if BY_ALL_WAYS.contains(&alert) {
            self.wait_first(alert, reason).await;
        }
    }

    /// Waits until the first line of `headgate status` and the top of the page show this reason.
    async fn wait_first(&self, alert: &str, reason: &str) {
        let replicas = self.asked.lock().unwrap().clone();
        let leader = wait::until(&format!("{alert}: the first line of the status is {reason}"), || async {
            let mut all = String::new();
            for replica in &replicas {
                let (code, said) =
                    command(self.s.facts(), &["status", &format!("--address={replica}")]).await;
                if code == Some(0) && said.starts_with(&format!("{reason} ")) {
                    return Ok(replica.clone());
                }
                all += &said;
            }
            Err(all)
        })
        .await;
        self.browser.open(&format!("http://{leader}/")).await;
        self.browser.wait_text("#top", |text| text.starts_with(reason)).await;
    }

    async fn assert_fired_alone(&self, alert: &str, reason: &str, began: Instant) {
        let fired = self.prometheus.fired_since(began).await;
        let wanted = BTreeSet::from([(alert.to_owned(), reason.to_owned())]);
        assert!(fired == wanted, "{fired:?} fired, expected {wanted:?}; {}", self.counted().await);
    }

    /// Details that help to explain an unexpected alert.
    async fn counted(&self) -> String {
        let counted =
            "{__name__=~\"headgate_problems|headgate_(watch|lease)_failures_total|headgate_leader\"}";
        let found = self.prometheus.query(counted).await.unwrap();
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    /// Makes calls of an action for the group fail.
    async fn fail(&self, action: &str, effect: &Value) {
        let fault = json!({"action": action, "target_group": self.group.name, "effect": effect});
        self.s.aws.control("POST", "/faults", Some(&fault)).await;
    }

    async fn heal(&self) {
        self.s.aws.control("DELETE", "/faults", None).await;
    }

    async fn pods(&self) -> BTreeSet<String> {
        self.s.cluster.running(&self.app).await.into_keys().collect()
    }
}

/// The index of the leader.
async fn leader(replicas: &[Headgate]) -> usize {
    wait::until("one of the replicas leads", || async {
        for (at, replica) in replicas.iter().enumerate() {
            if replica.leads().await {
                return Ok(at);
            }
        }
        Err("none does")
    })
    .await
}

#[test]
fn each_alert_fires_in_its_incident_and_in_no_other_and_none_when_all_is_well() {
    alone(|world| async move {
        let began = Instant::now();
        let (stage, mut replicas) = Box::pin(Stage::new(world)).await;
        // At addresses that no other pod had. If not, health counts as the pod's own only after 90 s.
        Box::pin(targets_are_ill(&stage)).await;
        Box::pin(all_is_well(&stage, &mut replicas)).await;
        // The status then names a pod that stopped too early for an hour.
        Box::pin(a_pause_is_forgotten(&stage)).await;
        Box::pin(pods_leave(&stage)).await;
        Box::pin(something_is_refused(&stage)).await;
        Box::pin(a_set_stands_still(&stage)).await;
        Box::pin(the_way_is_cut(&stage, replicas)).await;
        let rules = rules();
        let alerts = each(&rules).len();
        // These replicas have no webhook. Only promtool tests the alert for an expiring certificate.
        assert_eq!(stage.played.into_inner() + 1, alerts, "each other alert has an incident");
        eprintln!("all of it took {:.0} s", began.elapsed().as_secs_f64());
    });
}

async fn all_is_well(stage: &Stage, replicas: &mut Vec<Headgate>) {
    let Stage { s, app, group, .. } = stage;
    stage
        .calm("a roll", async || {
            let old = stage.pods().await;
            s.cluster.restart(app).await;
            stage.wait_serving(app, group, 6, &old).await;
        })
        .await;
    stage
        .calm("a change of leader", async || {
            let old = leader(replicas).await;
            let replica = replicas.remove(old);
            stage.places[old].leads_to(None);
            replica.terminate().await;
            replicas[0].wait_leads().await;
            replicas.insert(old, stage.replica(old).await);
            s.cluster.scale(app, 5).await;
            stage.wait_serving(app, group, 5, &BTreeSet::new()).await;
            s.cluster.scale(app, 6).await;
            stage.wait_six().await;
        })
        .await;
}

async fn targets_are_ill(stage: &Stage) {
    let Stage { s, group, .. } = stage;
    let well = async |group: &Group| stage.check(group, "traffic-port", ProtocolEnum::Tcp).await;
    // Nothing listens there.
    let ill = async |group: &Group| stage.check(group, "9", ProtocolEnum::Tcp).await;
    stage
        .incident(
            "HeadgateTargetsUnhealthy",
            "TargetUnhealthy",
            async || ill(group).await,
            async || well(group).await,
        )
        .await;
    // Connections there are accepted and never answered. Only an ALB distinguishes that from other failures.
    let walled = behind_an_alb(stage).await;
    stage.deploy("walled", "walled", 2, None).await;
    stage.bind("walled", &walled).await;
    stage.wait_serving("walled", &walled, 2, &BTreeSet::new()).await;
    stage.wait_proven("walled", 2).await;
    stage.wait_quiet().await;
    let silent = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let blocked = async || stage.check(&walled, &port, ProtocolEnum::Http).await;
    let opened = async || stage.check(&walled, "traffic-port", ProtocolEnum::Http).await;
    stage.incident("HeadgatePortBlocked", "TargetUnhealthy", blocked, opened).await;
    drop(silent);

    let new = s.group("new").await;
    stage.quicken(&new).await;
    let arrives = async || {
        ill(&new).await;
        stage.deploy("new", "new", 3, None).await;
        stage.bind("new", &new).await;
    };
    stage.incident("HeadgateTargetsNeverHealthy", "NeverHealthy", arrives, async || well(&new).await).await;
    stage.wait_serving("new", &new, 3, &BTreeSet::new()).await;

    let zonal = s.group("zonal").await;
    stage.quicken(&zonal).await;
    stage.bind("zonal", &zonal).await;
    for (name, zone) in [("one", &s.facts().zones[0].name), ("other", &s.facts().zones[1].name)] {
        stage.deploy(name, "zonal", 1, Some(zone)).await;
    }
    stage.wait_serving("zonal", &zonal, 2, &BTreeSet::new()).await;
    stage.wait_quiet().await;
    stage
        .incident(
            "HeadgateZoneWithoutHealthyTarget",
            "ZoneWithoutHealthyTarget",
            async || s.cluster.scale("other", 0).await,
            async || s.cluster.scale("other", 1).await,
        )
        .await;
}

/// A target group behind a new ALB without delays.
async fn behind_an_alb(stage: &Stage) -> Group {
    let (aws, name) = (&stage.s.aws, stage.s.name("walled"));
    let (balancer, dns_name) = aws.balancer(&name, LoadBalancerTypeEnum::Application).await;
    let arn = aws.create_ip_group_as(&name, ProtocolEnum::Http, 8080).await;
    aws.listen_as(&balancer, ProtocolEnum::Http, ALB_PORT, &arn).await;
    let group = Group { name, arn, dns_name, listener_port: ALB_PORT };
    stage.quicken(&group).await;
    group
}

async fn a_pause_is_forgotten(stage: &Stage) {
    let Stage { s, app, .. } = stage;
    let pause = async || s.cluster.set_annotation(app, "headgate.dev/paused", Some("true")).await;
    let go_on = async || s.cluster.set_annotation(app, "headgate.dev/paused", None).await;
    stage.incident("HeadgatePaused", "Paused", pause, go_on).await;
}

async fn pods_leave(stage: &Stage) {
    let Stage { s, app, group, .. } = stage;
    s.cluster.pod("short", app, &[("http", 8080)]).await;
    stage.wait_serving(app, group, 7, &BTreeSet::new()).await;
    let ends = async || s.cluster.delete_pod("short", 0).await;
    stage.incident("HeadgateHoldTooShort", "HoldTooShort", ends, async || {}).await;
    let away = json!({"fail": {"status": 503, "xml": false}});
    let leaves = async || {
        stage.fail("DeregisterTargets", &away).await;
        s.cluster.scale(app, 5).await;
    };
    let returns = async || {
        stage.heal().await;
        s.cluster.scale(app, 6).await;
        stage.wait_six().await;
    };
    stage.incident("HeadgateRemovalsWait", "RemovalsFail", leaves, returns).await;
    let unread = async || stage.fail("DescribeTargetHealth", &away).await;
    stage.incident("HeadgateGroupNotRead", "HealthUnread", unread, async || stage.heal().await).await;
}

/// An IngressDaemonSet whose pods are not targets, so nothing else fails.
async fn a_set_stands_still(stage: &Stage) {
    let s = &stage.s;
    let template = |image: Option<&str>, gates: Value| {
        let mut spec = pod_spec(&[("http", 8080)]);
        spec["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
        spec["readinessGates"] = gates;
        if let Some(image) = image {
            spec["containers"][0]["image"] = image.into();
        }
        json!({"metadata": {"labels": {"app": "edge"}}, "spec": spec})
    };
    let good = || template(None, json!([]));
    let write = async |template: Value| {
        s.cluster.patch::<IngressDaemonSet>("edge", &json!({"spec": {"template": template}})).await;
    };
    let (kind, update) = ("IngressDaemonSet", json!({"progressDeadlineSeconds": 4}));
    s.cluster
        .create::<IngressDaemonSet>(json!({
            "apiVersion": "headgate.dev/v1alpha1", "kind": kind, "metadata": {"name": "edge"},
            "spec": {"template": good(), "updateStrategy": update},
        }))
        .await;
    let only = format!("--namespaces={}", s.cluster.namespace);
    let _controller = Headgate::start_daemonsets(s.facts(), &s.facts().kubeconfig, &[&only]).await;
    let is_complete = async || {
        wait::until("all nodes are updated", || async {
            let set = s.cluster.api::<IngressDaemonSet>().get("edge").await.unwrap();
            let (generation, status) = (set.metadata.generation, set.status.unwrap_or_default());
            let is_done = status.observed_generation == generation
                && status.nodes > 0
                && status.updated_nodes == status.nodes
                && status.turns.is_empty();
            if is_done { Ok(()) } else { Err(status) }
        })
        .await;
    };
    is_complete().await;
    let never = json!([{"conditionType": "example.com/never"}]);
    let stops = async || write(template(None, never.clone())).await;
    let goes_on = async || {
        write(good()).await;
        is_complete().await;
    };
    stage.incident("HeadgateRollStopped", "ProgressDeadlineExceeded", stops, goes_on).await;
    let refused = async || write(template(Some(" "), json!([]))).await;
    stage.incident("HeadgatePodsRefused", "PodsRefused", refused, goes_on).await;
    let api = s.cluster.api::<IngressDaemonSet>();
    api.delete("edge", &DeleteParams::background()).await.unwrap();
    wait::until_equal("pods go with their set", &0, || async { s.cluster.running("edge").await.len() }).await;
}

async fn something_is_refused(stage: &Stage) {
    let Stage { s, app, group, .. } = stage;
    let refused = |code: &str| json!({"refuse": {"code": code, "message": "no"}});
    let denied = async || {
        stage.fail("RegisterTargets", &refused("AccessDenied")).await;
        s.cluster.scale(app, 7).await;
    };
    let allowed = async || {
        stage.heal().await;
        stage.wait_serving(app, group, 7, &BTreeSet::new()).await;
        s.cluster.scale(app, 6).await;
        stage.wait_six().await;
    };
    stage.incident("HeadgateRefused", "AccessDenied", denied, allowed).await;
    let misspelt = async || s.cluster.service("nowhere", app, http_port(), Some("http=no-such-group")).await;
    let corrected = async || {
        // During an incident, most metrics have values.
        every_query_has_an_answer(stage).await;
        s.cluster.annotate("nowhere", None).await;
    };
    stage.incident("HeadgateBindingUnresolved", "TargetGroupNotFound", misspelt, corrected).await;
}

async fn the_way_is_cut(stage: &Stage, replicas: Vec<Headgate>) {
    let Stage { s, app, .. } = stage;
    let cut = async || stage.aws.cut();
    stage.incident("HeadgateAwsUnreachable", "AwsUnreachable", cut, async || stage.aws.heal()).await;
    let cut = async || stage.kubernetes.cut();
    let healed = async || {
        stage.kubernetes.heal();
        leader(&replicas).await;
    };
    stage.incident("HeadgateKubernetesUnreachable", "WatchesFail", cut, healed).await;
    let mut new = Vec::new();
    let end = async || {
        for (place, replica) in stage.places.iter().zip(replicas) {
            place.leads_to(None);
            replica.terminate().await;
        }
    };
    let start = async || {
        new.push(stage.replica(0).await);
        new.push(stage.replica(1).await);
    };
    stage.incident("HeadgateNoLeader", "NoLeader", end, start).await;
    leader(&new).await;
    stage.wait_six().await;
    stage.wait_quiet().await;
    // The last incident, because Headgate is slower for a minute afterwards.
    let began = Instant::now();
    let throttled = async || {
        let refused = json!({"refuse": {"code": "Throttling", "message": "Rate exceeded"}});
        stage.fail("RegisterTargets", &refused).await;
        s.cluster.scale(app, 7).await;
    };
    stage.wait_fires("HeadgateAwsThrottled", "Throttled", throttled).await;
    stage.assert_fired_alone("HeadgateAwsThrottled", "Throttled", began).await;
    stage.heal().await;
}

/// The query for all reasons, because without problems some reasons have no series.
fn of_all_reasons(query: &str) -> String {
    let Some((before, rest)) = query.split_once(", reason=~\"") else { return query.to_owned() };
    let (_, after) = rest.split_once('"').expect("the reasons end with a quote");
    format!("{before}{after}")
}

/// Every query of the dashboard is valid, and returns values if its metrics exist.
async fn every_query_has_an_answer(stage: &Stage) {
    let mut answered = 0;
    for (panel, query) in queries() {
        let query =
            query.replace("$__rate_interval", "30s").replace("$job", ".*").replace("$target_group", ".*");
        let query = of_all_reasons(&query);
        let mut are_there = true;
        for (name, _) in names(&query) {
            are_there &= !stage.prometheus.query(&format!("count({name})")).await.unwrap().is_empty();
        }
        wait::until(&format!("{panel}: {query} has an answer"), || async {
            let found = stage.prometheus.query(&query).await.unwrap();
            if found.is_empty() && are_there { Err("nothing yet") } else { Ok(()) }
        })
        .await;
        answered += usize::from(are_there);
    }
    eprintln!("{answered} queries of the dashboard have data");
    assert!(answered > 30, "{answered}");
}
