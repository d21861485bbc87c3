//! Gathers all facts repeatedly. Between two gatherings, only the bindings, the answers from AWS and the last change of
//! LBC's Lease are stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    time::Duration,
};

use anyhow::Context;
use headgate::{
    api::{
        TargetBinding,
        target_binding::{MADE_FROM, ServiceRef},
    },
    aws::TargetGroups,
    kube::{
        ledger::Ledgers,
        slim::{SlimPod, SlimService},
        words::{plain, plain_chain},
    },
    runtime::within::within,
    status::{PATH as STATUS, report::Status},
};
use headgate_core::{
    Answer, Call,
    model::{object::ObjectKey, target_group::GroupRef},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        apps::v1::{DaemonSet, Deployment as KubeDeployment, StatefulSet},
        coordination::v1::Lease,
        core::v1::{Pod as KubePod, PodTemplateSpec, Service as KubeService},
    },
    jiff::Timestamp,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DynamicObject, ListParams},
    core::ApiResource,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    facts::{Binding, Deployment, Facts, Group, Headgate, Lbc, Place, Pod, Service, Told, Webhooks, Written},
    lbc::{self, Spec, Tgb},
    record::{self, Record},
    steps::Wishes,
};
use crate::{
    doctor::facts::{Looked, Shown},
    explain::reach::{Holder, Way},
};

/// The annotation that stores `spec.replicas` of a Deployment before this command stopped the Deployment.
pub const REPLICAS: &str = "migrate.headgate.dev/replicas";
/// The annotation that stores which entries of a webhook configuration had `failurePolicy: Fail` before this command
/// changed them. The names are comma-separated.
pub const STRICT: &str = "migrate.headgate.dev/strict";
/// A holder that has not renewed Headgate's Lease for this long counts as stopped.
const DEAD: Duration = Duration::from_secs(30);
/// The timeout of a request for TargetLedgers.
const PATIENCE: Duration = Duration::from_secs(10);
/// The page size of lists.
const PAGE: u32 = 500;

/// The options of `headgate migrate lbc`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The bindings to migrate.
    pub which: Which,
    /// Whether to migrate from Headgate to LBC.
    pub back: bool,
    /// The place of the new Headgate binding.
    pub to: Place,
    /// Further choices of the user.
    pub wishes: Wishes,
    /// Whether to run the steps.
    pub apply: bool,
    /// Whether to print JSON.
    pub json: bool,
    /// The timeout of one step.
    pub timeout: Duration,
    /// The names of LBC's objects.
    pub lbc: Names,
    /// The Headgate Deployment that the command may stop for some seconds.
    pub stop_headgate: Option<String>,
    /// How to connect to Headgate.
    pub way: Way,
}

/// The selection of the bindings to migrate.
#[derive(Clone, Debug, Default)]
pub struct Which {
    /// The namespace of the bindings. `None`: the namespace of the kubeconfig's context.
    pub namespace: Option<String>,
    /// Whether to migrate the bindings of all namespaces.
    pub everywhere: bool,
    /// The names of the bindings. Empty: all names.
    pub names: Vec<String>,
}

/// The names of LBC's objects.
#[derive(Clone, Debug)]
pub struct Names {
    /// The namespace of LBC.
    pub namespace: String,
    /// The name of LBC's Deployment.
    pub deployment: String,
    /// The name of LBC's webhook configurations.
    pub webhook: String,
}

/// Gathers all facts.
pub struct Gatherer {
    client: Client,
    options: Options,
    /// All bindings that were read at least once. The output also contains bindings that are deleted in the meantime.
    known: BTreeMap<ObjectKey, Known>,
    groups: BTreeMap<ObjectKey, Looked<Group>>,
    aws: Option<Looked<TargetGroups>>,
    lease: Option<(String, Instant)>,
}

/// The stored data of a binding that may be deleted.
#[derive(Clone)]
struct Known {
    spec: Spec,
    record: Option<Record>,
}

/// The objects in the selected namespaces.
struct Objects {
    tgbs: BTreeMap<ObjectKey, Tgb>,
    services: BTreeMap<ObjectKey, Service>,
    written: BTreeMap<ObjectKey, TargetBinding>,
}

impl Gatherer {
    /// Creates a gatherer for this cluster.
    pub fn new(client: Client, options: Options) -> Self {
        let (known, groups) = (BTreeMap::new(), BTreeMap::new());
        Self { client, options, known, groups, aws: None, lease: None }
    }

    /// Returns the selected namespace. `None`: all namespaces.
    pub fn namespace(&self) -> Option<&str> {
        let named = self.options.which.namespace.as_deref();
        (!self.options.which.everywhere).then(|| named.unwrap_or(self.client.default_namespace()))
    }

    /// Gathers all facts. Calls AWS the first time, and later only if `at_aws` is true.
    ///
    /// # Errors
    /// A required fact cannot be read. The message names the missing permission.
    pub async fn look(&mut self, at_aws: bool) -> anyhow::Result<Facts> {
        let objects = self.objects().await?;
        self.learn(&objects)?;
        if at_aws || self.groups.is_empty() {
            self.ask_aws().await;
        }
        let headgate = self.headgate().await?;
        let namespaces: BTreeSet<String> = self.known.keys().map(|key| key.namespace.to_string()).collect();
        let (mut pods, mut templates) = (BTreeMap::new(), BTreeMap::new());
        for namespace in &namespaces {
            pods.insert(namespace.clone(), self.pods(namespace).await?);
            templates.insert(namespace.clone(), self.templates(namespace).await);
        }
        let ledgers = if self.options.back { self.ledgers().await? } else { BTreeSet::new() };
        let bindings = self.known.iter().map(|(key, known)| {
            let namespace: &str = &key.namespace;
            let service = ObjectKey::new(namespace, &*known.spec.service_ref.name);
            let service = objects.services.get(&service);
            let written = objects.written.get(key);
            let mut binding = Binding {
                key: key.clone(),
                tgb: objects.tgbs.get(key).cloned(),
                spec: known.spec.clone(),
                record: known.record.clone(),
                service: service.cloned(),
                written: written.map(of_written),
                told: Told::Nothing,
                group: self.groups.get(key).cloned(),
                pods: pods.get(namespace).cloned().unwrap_or_default(),
                templates: of_template(templates.get(namespace), &key.name),
                others: Vec::new(),
                has_ledger: false,
            };
            binding.told = told(&binding, written);
            binding.others = others(&binding, &objects.written);
            binding.has_ledger = binding.arn().is_some_and(|arn| ledgers.contains(arn));
            binding
        });
        let bindings = bindings.collect();
        Ok(Facts { lbc: self.lbc().await?, headgate, bindings })
    }

    async fn objects(&self) -> anyhow::Result<Objects> {
        let namespace = self.namespace();
        let api: Api<DynamicObject> = match namespace {
            None => Api::all_with(self.client.clone(), &lbc::kind()),
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &lbc::kind()),
        };
        let mut tgbs = BTreeMap::new();
        for object in list(&api, "targetgroupbindings.elbv2.k8s.aws").await? {
            let name = object.name_any();
            let tgb = Tgb::read(&object).with_context(|| format!("cannot read TargetGroupBinding {name}"))?;
            tgbs.insert(tgb.key.clone(), tgb);
        }
        let mut services = BTreeMap::new();
        for object in list(&self.api::<KubeService>(namespace), "services").await? {
            let records = record::read(object.annotations().get(record::ANNOTATION).map(String::as_str));
            let version = object.resource_version().unwrap_or_default();
            let is_paused =
                object.annotations().get("headgate.dev/paused").is_some_and(|is| is.trim() == "true");
            let slim: SlimService = serde_json::from_value(serde_json::to_value(&object)?)?;
            if let Some(facts) = slim.into_facts() {
                let records = records.map_err(|error| error.to_string());
                services.insert(facts.key.clone(), Service { facts, version, is_paused, records });
            }
        }
        // A caller who migrates only one namespace may lack the permission to list all namespaces.
        let everywhere = if self.options.back { None } else { namespace };
        let written = match list(&self.api::<TargetBinding>(everywhere), "targetbindings.headgate.dev").await
        {
            Ok(all) => all,
            Err(_) if everywhere != namespace => {
                list(&self.api::<TargetBinding>(namespace), "targetbindings.headgate.dev").await?
            }
            Err(error) => return Err(error),
        };
        let key = |object: &TargetBinding| {
            ObjectKey::new(object.namespace().unwrap_or_default(), object.name_any())
        };
        let written = written.into_iter().map(|object| (key(&object), object)).collect();
        Ok(Objects { tgbs, services, written })
    }

    fn api<K>(&self, namespace: Option<&str>) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        match namespace {
            None => Api::all(self.client.clone()),
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
        }
    }

    /// Updates the list of the bindings to migrate.
    fn learn(&mut self, objects: &Objects) -> anyhow::Result<()> {
        let names = self.options.which.names.clone();
        let is_meant = |name: &str| names.is_empty() || names.iter().any(|meant| meant == name);
        let only = self.namespace().map(str::to_owned);
        let is_here = |namespace: &str| only.as_deref().is_none_or(|only| only == namespace);
        let of_services = objects.services.values().flat_map(|service| {
            let records = service.records.iter().flatten();
            records.map(|record| (service.facts.key.namespace.to_string(), record.clone()))
        });
        let of_written = objects.written.iter().filter_map(|(key, object)| {
            let records =
                record::read(object.annotations().get(record::ANNOTATION).map(String::as_str)).ok()?;
            Some((key.namespace.to_string(), records.into_iter().next()?))
        });
        let mut recorded = BTreeMap::new();
        for (namespace, record) in of_services.chain(of_written) {
            if is_meant(&record.name) && is_here(&namespace) {
                recorded.insert(ObjectKey::new(namespace, &*record.name), record);
            }
        }
        if !self.options.back {
            for (key, tgb) in objects.tgbs.iter().filter(|(key, _)| is_meant(&key.name)) {
                let record = recorded.get(key).cloned();
                self.known.insert(key.clone(), Known { spec: tgb.spec.clone(), record });
            }
        }
        for (key, record) in recorded {
            if !self.known.contains_key(&key) || self.options.back {
                let spec = serde_json::from_value(record.object["spec"].clone())
                    .with_context(|| format!("cannot read the record of TargetGroupBinding {key}"))?;
                self.known.insert(key, Known { spec, record: Some(record) });
            } else if let Some(known) = self.known.get_mut(&key) {
                known.record = Some(record);
            }
        }
        Ok(())
    }

    async fn ask_aws(&mut self) {
        if self.aws.is_none() && !self.known.is_empty() {
            self.aws = Some(TargetGroups::connect().await.map_err(|error| error.to_string()));
        }
        let Some(aws) = &self.aws else { return };
        for (key, known) in &self.known {
            let group = match aws {
                Ok(aws) => group(aws, &known.spec).await,
                Err(why) => Err(why.clone()),
            };
            self.groups.insert(key.clone(), group);
        }
    }

    async fn lbc(&mut self) -> anyhow::Result<Lbc> {
        let Names { namespace, deployment: name, webhook } = self.options.lbc.clone();
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &namespace);
        let lease = leases.get_opt(lbc::LEASE).await.with_context(|| {
            format!("cannot read Lease {namespace}/{}. Grant yourself get on it", lbc::LEASE)
        })?;
        let renewed = lease.and_then(|lease| lease.spec?.renew_time).map(|time| time.0.to_string());
        let lease_rests = renewed.map(|renewed| {
            let now = Instant::now();
            match &self.lease {
                Some((seen, since)) if *seen == renewed => now - *since,
                _ => {
                    self.lease = Some((renewed, now));
                    Duration::ZERO
                }
            }
        });
        let mut webhooks = Vec::new();
        for kind in [
            ApiResource::erase::<MutatingWebhookConfiguration>(&()),
            ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
        ] {
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
            let found = api
                .get_opt(&webhook)
                .await
                .with_context(|| format!("cannot read {} {webhook}. Grant yourself get on it", kind.kind))?;
            webhooks.extend(found.map(|object| of_webhooks(&kind.kind, &object)));
        }
        let deployment = deployment(&self.client, &namespace, &name).await?;
        Ok(Lbc { name: format!("{namespace}/{name}"), deployment, lease_rests, webhooks })
    }

    async fn headgate(&self) -> anyhow::Result<Headgate> {
        let way = &self.options.way;
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &way.own_namespace);
        let holder = leases.get_opt(&way.lease).await.map(|lease| {
            let holder = lease.as_ref().and_then(|lease| Holder::of(lease, Timestamp::now()));
            let lives = |holder: &Holder| holder.silent_for.is_none_or(|silent| silent < DEAD);
            holder.filter(lives).map(|holder| holder.identity)
        });
        let shown = way.ask(Some(&self.client), "/debug/bindings").await;
        let shown = shown.map_err(|error| plain_chain(&error)).and_then(|text| {
            serde_json::from_str::<Shown>(&text).map_err(|error| {
                format!("cannot read its answer ({error}). Use the version of the Headgate in the cluster")
            })
        });
        let mut read = BTreeMap::new();
        if shown.is_ok()
            && let Ok(text) = way.ask(Some(&self.client), STATUS).await
            && let Ok(status) = serde_json::from_str::<Status>(&text)
        {
            let known = status.target_groups.into_iter().filter(|group| group.last_read.is_some());
            read.extend(known.map(|group| (group.arn, group.foreign)));
        }
        let deployment = match &self.options.stop_headgate {
            None => None,
            Some(name) => {
                let found = deployment(&self.client, &way.own_namespace, name).await?;
                Some((format!("{}/{name}", way.own_namespace), found))
            }
        };
        let holder = holder.map_err(|error| plain(&error));
        Ok(Headgate { holder, shown, read, deployment })
    }

    async fn pods(&self, namespace: &str) -> anyhow::Result<Vec<Pod>> {
        let mut pods = Vec::new();
        for pod in list(&self.api::<KubePod>(Some(namespace)), "pods").await? {
            let gates = gates(&pod);
            let slim: SlimPod = serde_json::from_value(serde_json::to_value(&pod)?)?;
            pods.extend(slim.into_facts().map(|facts| Pod { facts, gates }));
        }
        Ok(pods)
    }

    /// Returns the workloads whose pod template contains LBC's readiness gates. Kinds that cannot be listed are
    /// skipped, because the pods themselves also have the readiness gates.
    async fn templates(&self, namespace: &str) -> Vec<(String, Vec<String>)> {
        let mut all = Vec::new();
        let mut note = |kind: &str, name: String, template: Option<&PodTemplateSpec>| {
            let gates = template.and_then(|template| template.spec.as_ref()?.readiness_gates.as_ref());
            let gates = gates.into_iter().flatten().map(|gate| gate.condition_type.clone());
            let gates: Vec<String> = gates.filter(|gate| gate.starts_with(lbc::GATE)).collect();
            if !gates.is_empty() {
                all.push((format!("{kind} {name}"), gates));
            }
        };
        for one in list(&self.api::<KubeDeployment>(Some(namespace)), "deployments").await.unwrap_or_default()
        {
            note("Deployment", one.name_any(), one.spec.as_ref().map(|spec| &spec.template));
        }
        for one in list(&self.api::<StatefulSet>(Some(namespace)), "statefulsets").await.unwrap_or_default() {
            note("StatefulSet", one.name_any(), one.spec.as_ref().map(|spec| &spec.template));
        }
        for one in list(&self.api::<DaemonSet>(Some(namespace)), "daemonsets").await.unwrap_or_default() {
            note("DaemonSet", one.name_any(), one.spec.as_ref().map(|spec| &spec.template));
        }
        all
    }

    /// Returns the target groups that have a TargetLedger.
    async fn ledgers(&self) -> anyhow::Result<BTreeSet<String>> {
        let Way { own_namespace, lease, .. } = &self.options.way;
        let ledgers = Ledgers::new(self.client.clone(), own_namespace, lease);
        let all = within(PATIENCE, ledgers.load_all()).await;
        let all = all.map_err(|failure| {
            anyhow::anyhow!("cannot read the TargetLedgers in namespace {own_namespace}: {}", failure.message)
        })?;
        Ok(all.iter().filter_map(|stored| Some(stored.open().ok()?.0.as_str().to_owned())).collect())
    }
}

/// Lists all objects of a kind. Empty if the CRD is not installed.
async fn list<K>(api: &Api<K>, what: &str) -> anyhow::Result<Vec<K>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut all = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let listed = match api.list(&page).await {
            Ok(listed) => listed,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(all),
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot list {what}. Grant yourself list on them"));
            }
        };
        let next = listed.metadata.continue_.clone().filter(|next| !next.is_empty());
        all.extend(listed);
        let Some(next) = next else { return Ok(all) };
        page = page.continue_token(&next);
    }
}

async fn deployment(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Option<Deployment>> {
    let api: Api<KubeDeployment> = Api::namespaced(client.clone(), namespace);
    let found = api
        .get_opt(name)
        .await
        .with_context(|| format!("cannot read Deployment {namespace}/{name}. Grant yourself get on it"))?;
    let Some(found) = found else { return Ok(None) };
    let before = found.annotations().get(REPLICAS).and_then(|text| text.parse().ok());
    let Some(spec) = found.spec else { return Ok(None) };
    let labels = spec.selector.match_labels.unwrap_or_default();
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let pods: Api<KubePod> = Api::namespaced(client.clone(), namespace);
    let pods = pods.list(&ListParams::default().labels(&labels.join(","))).await.with_context(|| {
        format!("cannot list the pods of namespace {namespace}. Grant yourself list on pods")
    })?;
    let phase =
        |pod: &KubePod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
    let live: Vec<&KubePod> =
        pods.iter().filter(|pod| !["Succeeded", "Failed"].contains(&&*phase(pod))).collect();
    let is_ready = |pod: &&&KubePod| pod.metadata.deletion_timestamp.is_none() && condition(pod, "Ready");
    Ok(Some(Deployment {
        wanted: spec.replicas.unwrap_or(1),
        pods: live.len(),
        ready: live.iter().filter(is_ready).count(),
        before,
    }))
}

fn condition(pod: &KubePod, kind: &str) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == kind && condition.status == "True")
}

fn gates(pod: &KubePod) -> BTreeMap<String, bool> {
    let gates = pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    let own = gates.map(|gate| gate.condition_type.clone()).filter(|gate| gate.starts_with(lbc::GATE));
    own.map(|gate| {
        let open = condition(pod, &gate);
        (gate, open)
    })
    .collect()
}

fn of_webhooks(kind: &str, object: &DynamicObject) -> Webhooks {
    let entries = object.data["webhooks"].as_array().into_iter().flatten();
    let is_strict = |entry: &&Value| entry["failurePolicy"].as_str().is_none_or(|policy| policy == "Fail");
    let strict = entries.filter(is_strict).filter_map(|entry| entry["name"].as_str().map(str::to_owned));
    let relaxed = object.annotations().get(STRICT).map(String::as_str).unwrap_or_default();
    let relaxed = relaxed.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
    Webhooks {
        name: format!("{kind} {}", object.name_any()),
        strict: strict.collect(),
        relaxed: relaxed.collect(),
    }
}

fn of_written(object: &TargetBinding) -> Written {
    let records = record::read(object.annotations().get(record::ANNOTATION).map(String::as_str));
    Written {
        is_paused: object.spec.paused == Some(true),
        record: records.unwrap_or_default().into_iter().next(),
    }
}

fn of_template(templates: Option<&Vec<(String, Vec<String>)>>, name: &str) -> Vec<String> {
    let gate = lbc::gate_of(name);
    let all = templates.into_iter().flatten().filter(|(_, gates)| gates.contains(&gate));
    all.map(|(what, _)| what.clone()).collect()
}

/// Returns whether a text is the name or ARN of the binding's target group.
pub fn names_group(binding: &Binding, text: &str) -> bool {
    let arn = binding.arn();
    let name = arn.and_then(|arn| arn.split('/').nth(1)).or(binding.spec.name.as_deref());
    Some(text) == arn || Some(text) == name
}

/// Returns whether a part of the annotation, `port=group` or `group`, names this binding.
pub fn is_part_of(binding: &Binding, text: &str) -> bool {
    let (port, group) = text.split_once('=').map_or((None, text), |(port, group)| (Some(port.trim()), group));
    let is_port = |port: &str| {
        let meant = super::diff::port_of(binding);
        port == binding.spec.service_ref.port()
            || meant.is_some_and(|meant| *meant.name == *port || meant.port.to_string() == port)
    };
    names_group(binding, group.trim()) && port.is_none_or(is_port)
}

fn told(binding: &Binding, written: Option<&TargetBinding>) -> Told {
    let says = |is_paused, place| if is_paused { Told::Paused(place) } else { Told::InForce(place) };
    if let Some(service) = &binding.service {
        let text = service.facts.target_groups.as_deref().unwrap_or_default();
        if text.split(',').any(|part| is_part_of(binding, part)) {
            return says(service.is_paused, Place::Annotation);
        }
    }
    let is_its = |object: &&TargetBinding| {
        let TargetBinding { spec, metadata, .. } = object;
        let named = spec.target_group.arn.as_deref().or(spec.target_group.name.as_deref());
        let of_service = |of: &ServiceRef| of.name == binding.spec.service_ref.name;
        metadata.deletion_timestamp.is_none()
            && named.is_some_and(|named| names_group(binding, named))
            && spec.service_ref.as_ref().is_some_and(of_service)
    };
    match written.filter(is_its) {
        Some(object) => says(object.spec.paused == Some(true), Place::TargetBinding),
        None => Told::Nothing,
    }
}

/// Returns other Headgate bindings of the same target group.
fn others(binding: &Binding, all: &BTreeMap<ObjectKey, TargetBinding>) -> Vec<String> {
    let service = &binding.spec.service_ref.name;
    let is_other = |(key, object): &(&ObjectKey, &TargetBinding)| {
        let named = object.status.as_ref().and_then(|status| status.target_group_arn.as_deref());
        let named =
            named.or(object.spec.target_group.arn.as_deref()).or(object.spec.target_group.name.as_deref());
        if !named.is_some_and(|named| names_group(binding, named)) {
            return false;
        }
        let is_made = object.labels().contains_key(MADE_FROM);
        let of_service = object.spec.service_ref.as_ref().is_some_and(|of| of.name == *service);
        let is_own =
            (is_made && of_service && key.namespace == binding.key.namespace) || **key == binding.key;
        !is_own
    };
    all.iter().filter(is_other).map(|(key, _)| format!("TargetBinding {key}")).collect()
}

async fn group(aws: &TargetGroups, spec: &Spec) -> Looked<Group> {
    let named = spec.target_group().ok_or_else(|| "it names no target group".to_owned())?;
    let reference = GroupRef::parse(named).map_err(|error| error.to_string())?;
    let said = |failure: headgate_core::Failure| format!("{}: {}", failure.code, failure.message);
    let find = Call::FindGroups { references: vec![reference] };
    let Answer::Groups(found) = aws.make(&find).await.map_err(said)? else {
        return Err("AWS returned something else; this is a bug".to_owned());
    };
    let facts = found.into_iter().next().ok_or("AWS returned no target group; this is a bug")?;
    let call = Call::ReadHealth { group: facts.arn.clone() };
    let Answer::Health(targets) = aws.make(&call).await.map_err(said)? else {
        return Err("AWS returned something else; this is a bug".to_owned());
    };
    let targets = targets.into_iter().map(|(target, health)| (target, health.state)).collect();
    Ok(Group { facts, targets })
}
