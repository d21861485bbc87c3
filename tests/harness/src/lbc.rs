//! The parts of the AWS Load Balancer Controller (LBC) that Headgate interacts with, modelled on its sources. A
//! TargetGroupBinding owns its target group: LBC first deregisters targets that are not among its endpoints, and then
//! registers missing ones. When the binding is deleted, its finalizer keeps it until all targets are deregistered. Each
//! binding has a readiness gate on pods, which the webhook for pods adds and the controller opens.
//!
//! It works while a pod of its Deployment is ready. Scaling that to zero stops it and its webhooks.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use futures::StreamExt;
use headgate::{certificates::certificate, serving::tls};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        coordination::v1::Lease,
        core::v1::{Pod, Service},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::util::intstr::IntOrString,
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
    runtime::{
        WatchStreamExt,
        wait::conditions::is_crd_established,
        watcher::{self, Event, watcher},
    },
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tokio_rustls::TlsAcceptor;

use crate::{
    aws::Aws,
    cluster::{Cluster, OWN_GATE},
    recorder::{Micros, Record, Traced},
    scenario::Scenario,
    wait,
};

/// Its finalizer.
pub const FINALIZER: &str = "elbv2.k8s.aws/resources";
/// The name of its Deployment.
pub const DEPLOYMENT: &str = "aws-load-balancer-controller";
/// The namespace label for the injection of its readiness gates.
pub const INJECT: &str = "elbv2.k8s.aws/pod-readiness-gate-inject";
const CHECKPOINT: &str = "elbv2.k8s.aws/checkpoint";
const LEASE: &str = "aws-load-balancer-controller-leader";
const GATE: &str = "target-health.elbv2.k8s.aws/";
/// The interval between two reconciliations. The real LBC waits for events, and polls while a gate is closed.
const PERIOD: Duration = Duration::from_millis(100);

/// The kind.
pub fn kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("elbv2.k8s.aws", "v1beta1", "TargetGroupBinding"))
}

/// An LBC for one namespace.
pub struct Lbc {
    /// Its own namespace.
    pub own: Cluster,
    /// The name of its webhook configurations.
    pub webhook: String,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Lbc {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Lbc {
    /// Starts it for the namespace of a test, and waits until it is ready.
    pub async fn start(s: &Scenario) -> Self {
        install_kind(s.cluster.client.clone()).await;
        let own = s.cluster.within(&s.name("lbc"));
        own.create_namespace(&own.namespace, &[]).await;
        own.deploy(DEPLOYMENT, 1, &[("http", 8080)]).await;
        let works = Arc::new(AtomicBool::new(false));
        let served = s.cluster.clone();
        let (webhook, serving) = serve_webhooks(s, works.clone()).await;
        let controller = Controller { aws: s.aws.clone(), served, own: own.clone(), works: works.clone() };
        let working = tokio::spawn(controller.work());
        let lbc = Self { own, webhook, tasks: vec![serving, working] };
        wait::until("LBC works", || async { if works.load(Ordering::Relaxed) { Ok(()) } else { Err(()) } })
            .await;
        lbc
    }

    /// The arguments of `headgate migrate lbc` for this LBC.
    pub fn flags(&self) -> [String; 2] {
        [format!("--lbc-namespace={}", self.own.namespace), format!("--lbc-webhook={}", self.webhook)]
    }

    /// Deletes its webhook configurations. It ends with this value.
    pub async fn remove(self) {
        let client = self.own.client.clone();
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(client);
        mutating.delete(&self.webhook, &DeleteParams::default()).await.unwrap();
        validating.delete(&self.webhook, &DeleteParams::default()).await.unwrap();
    }

    /// The failure policies of its webhooks, by entry: what happens to bindings while no pod answers.
    pub async fn failure_policies(&self) -> BTreeMap<String, String> {
        let client = self.own.client.clone();
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(client);
        let mut all = BTreeMap::new();
        for entry in mutating.get(&self.webhook).await.unwrap().webhooks.into_iter().flatten() {
            all.insert(entry.name, entry.failure_policy.unwrap_or_default());
        }
        for entry in validating.get(&self.webhook).await.unwrap().webhooks.into_iter().flatten() {
            all.insert(entry.name, entry.failure_policy.unwrap_or_default());
        }
        all
    }
}

/// The TargetGroupBindings of a namespace.
pub fn tgbs(cluster: &Cluster) -> Api<DynamicObject> {
    Api::namespaced_with(cluster.client.clone(), &cluster.namespace, &kind())
}

/// Creates a TargetGroupBinding for port `http` of an app's Service.
pub async fn bind(cluster: &Cluster, app: &str, arn: &str) {
    let object = json!({
        "apiVersion": "elbv2.k8s.aws/v1beta1", "kind": "TargetGroupBinding", "metadata": {"name": app},
        "spec": {"targetGroupARN": arn, "targetType": "ip", "serviceRef": {"name": app, "port": "http"}},
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let (api, parameters) = (tgbs(cluster), PostParams::default());
    wait::until("the binding is written", || api.create(&parameters, &object)).await;
}

/// The CRD with the documented fields of version v1beta1.
async fn install_kind(client: Client) {
    let text = |values: &[&str]| match values {
        [] => json!({"type": "string"}),
        values => json!({"type": "string", "enum": values}),
    };
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "targetgroupbindings.elbv2.k8s.aws"},
        "spec": {
            "group": "elbv2.k8s.aws",
            "names": {"kind": "TargetGroupBinding", "listKind": "TargetGroupBindingList",
                "plural": "targetgroupbindings", "singular": "targetgroupbinding"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "required": ["serviceRef"], "properties": {
                        "assumeRoleExternalId": text(&[]),
                        "iamRoleArnToAssume": text(&[]),
                        "ipAddressType": text(&["ipv4", "ipv6"]),
                        "multiClusterTargetGroup": {"type": "boolean"},
                        "networking": free, "nodeSelector": free,
                        "serviceRef": {"type": "object", "required": ["name", "port"], "properties": {
                            "name": text(&[]), "port": {"x-kubernetes-int-or-string": true},
                        }},
                        "targetGroupARN": text(&[]), "targetGroupName": text(&[]),
                        "targetGroupProtocol":
                            text(&["HTTP", "HTTPS", "TCP", "TLS", "UDP", "TCP_UDP", "QUIC", "TCP_QUIC"]),
                        "targetType": text(&["instance", "ip"]), "vpcID": text(&[]),
                    }},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                        "observedGeneration": {"type": "integer", "format": "int64"},
                    }},
                }}},
            }],
        },
    });
    let definition: CustomResourceDefinition = serde_json::from_value(definition).unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(client);
    match api.create(&PostParams::default(), &definition).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => panic!("{error}"),
    }
    wait::until("the kind TargetGroupBinding is served", || async {
        let now = api.get(&definition.name_any()).await.unwrap();
        let is_served = kube::runtime::wait::Condition::matches_object(&is_crd_established(), Some(&now));
        if is_served { Ok(()) } else { Err(now.status) }
    })
    .await;
}

/// Its webhooks: one adds gates to pods, and two validate bindings. Without them, no binding can be written.
async fn serve_webhooks(s: &Scenario, works: Arc<AtomicBool>) -> (String, JoinHandle<()>) {
    let issued =
        certificate::issue(&["127.0.0.1".into()], SystemTime::now(), Duration::from_secs(3600)).unwrap();
    let certified = tls::certified(issued.chain.as_bytes(), issued.key.as_bytes()).unwrap();
    let (_, served) = watch::channel(Some(Arc::new(certified)));
    let acceptor = TlsAcceptor::from(tls::configuration(served).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let cluster = s.cluster.clone();
    let serving = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A stopped LBC does not answer.
            if !works.load(Ordering::Relaxed) {
                continue;
            }
            let (acceptor, cluster, works) = (acceptor.clone(), cluster.clone(), works.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(move |request| answer(request, cluster.clone(), works.clone()));
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    let bundle = ByteString(issued.authority().as_bytes().to_vec());
    let here =
        json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": [s.cluster.namespace]});
    let entry = |name: &str, path: &str, rule: Value, policy: &str, selector: Vec<Value>| {
        json!({
            "name": name, "clientConfig": {"url": format!("{url}/{path}"), "caBundle": bundle}, "rules": [rule],
            "namespaceSelector": {"matchExpressions": selector}, "admissionReviewVersions": ["v1"],
            "failurePolicy": policy, "sideEffects": "None", "timeoutSeconds": 5,
        })
    };
    let pods =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
    let bindings = json!({"apiGroups": ["elbv2.k8s.aws"], "apiVersions": ["v1beta1"],
        "operations": ["CREATE", "UPDATE"], "resources": ["targetgroupbindings"]});
    let asks = json!({"key": INJECT, "operator": "In", "values": ["enabled"]});
    let name = s.name("lbc-webhook");
    let mutating = json!({"metadata": {"name": name}, "webhooks": [
        entry("mpod.elbv2.k8s.aws", "pods", pods, "Ignore", vec![here.clone(), asks]),
        entry("mtargetgroupbinding.elbv2.k8s.aws", "bindings", bindings.clone(), "Fail", vec![here.clone()]),
    ]});
    let validating = json!({"metadata": {"name": name}, "webhooks": [
        entry("vtargetgroupbinding.elbv2.k8s.aws", "bindings", bindings, "Fail", vec![here]),
    ]});
    let client = s.cluster.client.clone();
    let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    api.create(&PostParams::default(), &serde_json::from_value(mutating).unwrap()).await.unwrap();
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client);
    api.create(&PostParams::default(), &serde_json::from_value(validating).unwrap()).await.unwrap();
    (name, serving)
}

async fn answer(
    request: Request<Incoming>,
    cluster: Cluster,
    works: Arc<AtomicBool>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    // A connection may be kept alive. An LBC that was stopped since then does not answer on it either.
    if !works.load(Ordering::Relaxed) {
        let mut gone = Response::new(Full::default());
        *gone.status_mut() = hyper::StatusCode::SERVICE_UNAVAILABLE;
        return Ok(gone);
    }
    let is_pod = request.uri().path() == "/pods";
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    if is_pod {
        let pod: Pod = serde_json::from_value(review["request"]["object"].clone()).unwrap();
        let gates = gates_for(&cluster, &pod).await;
        if !gates.is_empty() {
            let given = pod.spec.and_then(|spec| spec.readiness_gates).unwrap_or_default();
            let mut all: Vec<Value> = given.iter().map(|gate| json!(gate)).collect();
            all.extend(gates.iter().map(|gate| json!({"conditionType": gate})));
            let patch = json!([{"op": "add", "path": "/spec/readinessGates", "value": all}]);
            response["patchType"] = "JSONPatch".into();
            response["patch"] = json!(ByteString(patch.to_string().into_bytes()));
        }
    }
    let answer =
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    let mut response = Response::new(Full::from(answer.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// The gates of the bindings whose Services select this pod.
async fn gates_for(cluster: &Cluster, pod: &Pod) -> Vec<String> {
    let mut gates = Vec::new();
    for tgb in tgbs(cluster).list(&ListParams::default()).await.unwrap() {
        if tgb.metadata.deletion_timestamp.is_none() && selects(cluster, &tgb, pod).await {
            gates.push(format!("{GATE}{}", tgb.name_any()));
        }
    }
    gates
}

async fn selects(cluster: &Cluster, tgb: &DynamicObject, pod: &Pod) -> bool {
    let service = service(cluster, tgb).await;
    let selector = service.and_then(|service| service.spec?.selector).unwrap_or_default();
    !selector.is_empty() && selector.iter().all(|(key, value)| pod.labels().get(key) == Some(value))
}

async fn service(cluster: &Cluster, tgb: &DynamicObject) -> Option<Service> {
    let name = tgb.data["spec"]["serviceRef"]["name"].as_str()?;
    cluster.api::<Service>().get_opt(name).await.unwrap()
}

/// The number of the target port. It must be a number here.
fn port(tgb: &DynamicObject, service: &Service) -> Option<u16> {
    let wanted = &tgb.data["spec"]["serviceRef"]["port"];
    let ports = service.spec.as_ref()?.ports.as_ref()?;
    let port = ports.iter().find(|port| {
        port.name.as_deref() == wanted.as_str() || Some(i64::from(port.port)) == wanted.as_i64()
    })?;
    match &port.target_port {
        Some(IntOrString::Int(number)) => u16::try_from(*number).ok(),
        _ => None,
    }
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind).map(|condition| &*condition.status)
}

struct Controller {
    aws: Aws,
    served: Cluster,
    own: Cluster,
    works: Arc<AtomicBool>,
}

impl Controller {
    async fn work(self) {
        let mut ticks = 0_u32;
        loop {
            let pods = self.own.pods_of(DEPLOYMENT).await;
            let is_ready = |pod: &Pod| {
                pod.metadata.deletion_timestamp.is_none() && condition(pod, "Ready") == Some("True")
            };
            let works = pods.iter().any(is_ready);
            self.works.store(works, Ordering::Relaxed);
            if works {
                // The leader renews its Lease every two seconds.
                if ticks.is_multiple_of(20) {
                    self.renew().await;
                }
                ticks += 1;
                // The API server may be restarting, or another write came in between. The next round retries.
                let _ = self.reconcile_all().await;
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    async fn renew(&self) {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE},
            "spec": {"holderIdentity": "lbc-0", "leaseDurationSeconds": 15, "renewTime": now},
        });
        let parameters = PatchParams::apply("lbc").force();
        let _ = self.own.api::<Lease>().patch(LEASE, &parameters, &Patch::Apply(&lease)).await;
    }

    async fn reconcile_all(&self) -> kube::Result<()> {
        for tgb in tgbs(&self.served).list(&ListParams::default()).await? {
            if tgb.metadata.deletion_timestamp.is_some() {
                self.clean_up(&tgb).await?;
            } else {
                self.reconcile(&tgb).await?;
            }
        }
        Ok(())
    }

    async fn patch(&self, tgb: &DynamicObject, patch: &Value) -> kube::Result<()> {
        let api = tgbs(&self.served);
        api.patch(&tgb.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| ())
    }

    /// Deregisters all targets, including those of other writers.
    async fn clean_up(&self, tgb: &DynamicObject) -> kube::Result<()> {
        if !tgb.finalizers().iter().any(|name| name == FINALIZER) {
            return Ok(());
        }
        let arn = tgb.data["spec"]["targetGroupARN"].as_str().unwrap();
        for target in self.aws.registered(arn).await {
            self.aws.deregister_by_hand(arn, &target).await;
        }
        self.patch(tgb, &json!({"metadata": {"finalizers": []}})).await
    }

    async fn reconcile(&self, tgb: &DynamicObject) -> kube::Result<()> {
        if !tgb.finalizers().iter().any(|name| name == FINALIZER) {
            self.patch(tgb, &json!({"metadata": {"finalizers": [FINALIZER]}})).await?;
        }
        let Some(service) = service(&self.served, tgb).await else { return Ok(()) };
        let Some(port) = port(tgb, &service) else { return Ok(()) };
        let mut endpoints = BTreeMap::new();
        for pod in self.served.api::<Pod>().list(&ListParams::default()).await? {
            let counts = pod.metadata.deletion_timestamp.is_none()
                && condition(&pod, "ContainersReady") == Some("True")
                && selects(&self.served, tgb, &pod).await;
            if let (true, Some(ip)) = (counts, pod.status.as_ref().and_then(|status| status.pod_ip.clone())) {
                endpoints.insert(format!("{ip}:{port}"), pod);
            }
        }
        let arn = tgb.data["spec"]["targetGroupARN"].as_str().unwrap();
        let targets = self.aws.targets(arn).await;
        let there: BTreeSet<&String> =
            targets.iter().filter(|(_, state)| *state != "draining").map(|(target, _)| target).collect();
        for target in there.iter().filter(|target| !endpoints.contains_key(**target)) {
            self.aws.deregister_by_hand(arn, target).await;
        }
        for target in endpoints.keys().filter(|target| !there.contains(target)) {
            self.aws.register_by_hand(arn, target).await;
        }
        let gate = format!("{GATE}{}", tgb.name_any());
        let mut all_open = true;
        for (target, pod) in &endpoints {
            let gates = pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
            if !gates.into_iter().any(|one| one.condition_type == gate) {
                continue;
            }
            let is_healthy = targets.get(target).is_some_and(|state| state == "healthy");
            all_open &= is_healthy;
            let should = if is_healthy { "True" } else { "False" };
            if condition(pod, &gate) != Some(should) {
                let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [{"type": gate, "status": should}]}});
                let (pods, parameters) = (self.served.api::<Pod>(), PatchParams::default());
                pods.patch_status(&pod.name_any(), &parameters, &Patch::Strategic(&patch)).await?;
            }
        }
        let seen: Vec<&String> = endpoints.keys().collect();
        let seen = format!("{seen:?}");
        if all_open && tgb.annotations().get(CHECKPOINT) != Some(&seen) {
            self.patch(tgb, &json!({"metadata": {"annotations": {CHECKPOINT: seen}}})).await?;
        }
        Ok(())
    }
}

fn is_gate(kind: &str) -> bool {
    kind.starts_with(GATE) || kind == OWN_GATE
}

/// Watches the readiness gates of living pods, both LBC's and Headgate's. An open gate must not close.
pub struct Gates {
    closed: Arc<std::sync::Mutex<Vec<String>>>,
    watching: JoinHandle<()>,
}

impl Gates {
    /// Starts the watch.
    pub fn watch(cluster: &Cluster) -> Self {
        let closed: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
        let mut events = watcher(cluster.api::<Pod>(), watcher::Config::default()).default_backoff().boxed();
        let found = closed.clone();
        let watching = tokio::spawn(async move {
            let mut open: BTreeSet<(String, String)> = BTreeSet::new();
            while let Some(event) = events.next().await {
                let Ok(Event::Apply(pod) | Event::InitApply(pod)) = event else { continue };
                let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
                for condition in conditions.into_iter().filter(|condition| is_gate(&condition.type_)) {
                    let key = (pod.uid().unwrap_or_default(), condition.type_.clone());
                    if condition.status == "True" {
                        open.insert(key);
                    } else if pod.metadata.deletion_timestamp.is_none() && open.contains(&key) {
                        found.lock().unwrap().push(format!("{} of {}", condition.type_, pod.name_any()));
                    }
                }
            }
        });
        Self { closed, watching }
    }

    /// The gates that have closed.
    pub fn closed(self) -> Vec<String> {
        self.watching.abort();
        self.closed.lock().unwrap().clone()
    }
}

/// The lowest number of healthy targets of a group, and whether any target was deregistered, in an interval of the
/// trace.
pub fn fewest_healthy(record: &Record, group: &str, from: Micros, until: Micros) -> usize {
    let mut healthy = BTreeSet::new();
    let mut fewest = usize::MAX;
    for entry in &record.trace {
        let Traced::Target { target_group, target, to, at } = entry else { continue };
        if target_group != group || *at > until {
            continue;
        }
        if *at > from {
            fewest = fewest.min(healthy.len());
        }
        if to == "healthy" {
            healthy.insert(*target);
        } else {
            healthy.remove(target);
        }
    }
    fewest.min(healthy.len())
}
