//! Gathers the facts. If a fact cannot be read, the reason is recorded and the gathering continues.

mod policies;
pub mod rights;
mod sets;
mod surroundings;
mod webhook;
mod workloads;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use headgate::{
    aws::TargetGroups,
    kube::{
        installation,
        ledger::Ledgers,
        words::{plain, plain_chain},
    },
    runtime::within::within,
};
use headgate_core::{FailureClass, inject, model::target_group::TargetGroupArn};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::facts::{Facts, Looked, Shown};
use crate::{
    doctor::inspect::{Inspected, inspect},
    explain::reach::{Holder, Way},
};

/// The API version of the CRDs.
const API: &str = "headgate.dev/v1alpha1";
/// The plural names of the CRDs.
const KINDS: [&str; 3] = ["targetbindings", "targetledgers", "targetgroupgrants"];
/// The page size of lists.
const PAGE: u32 = 500;
/// The timeout of a request for TargetLedgers.
const PATIENCE: Duration = Duration::from_secs(10);

/// The options of `headgate doctor`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace whose bindings to check. `None`: all managed namespaces.
    pub namespace: Option<String>,
    /// How to connect to Headgate.
    pub way: Way,
    /// Headgate's ServiceAccount. `None`: the ServiceAccount of the leader's pod.
    pub service_account: Option<String>,
    /// The names of the webhook configurations and their Secret.
    pub webhook: Names,
}

/// The names of the webhook configurations and their Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The name of both webhook configurations.
    pub configuration: String,
    /// The name of the Secret in Headgate's own namespace.
    pub secret: String,
}

pub async fn gather(client: &Client, options: &Options) -> Facts {
    let leader = options.way.holder(client).await.map_err(|error| plain_chain(&error));
    let shown = shown(client, options).await;
    let none = Shown::default();
    let known = shown.as_ref().unwrap_or(&none);
    let namespaces: BTreeSet<&str> = known.bindings.iter().map(|bound| &*bound.namespace).collect();
    let asking = asking(client, &namespaces).await;
    let webhook = webhook::look(client, options, &namespaces, asking.as_ref().ok()).await;
    let pods = pods(client, known).await;
    Facts {
        missing_kinds: missing_kinds(client).await,
        holders: holders(client, &options.way).await,
        narrowed: options.namespace.is_some(),
        missing_rights: missing_rights(client, options, leader.as_ref().ok(), &webhook).await,
        policies: policies::look(client, &options.way.lease, sees_nodes(leader.as_ref().ok())).await,
        missing_namespaces: missing_namespaces(client, leader.as_ref().ok()).await,
        surroundings: surroundings::look(client, &namespaces, &pods).await,
        pods,
        workloads: workloads::look(client, &namespaces).await,
        sets: sets::look(client, options.namespace.as_deref(), leader.as_ref().ok(), &namespaces).await,
        groups: groups(known).await,
        leader,
        webhook,
        asking,
        shown,
    }
}

async fn missing_kinds(client: &Client) -> Looked<Vec<String>> {
    let name = |kind: &&str| format!("{kind}.headgate.dev");
    match client.list_api_group_resources(API).await {
        Ok(list) => {
            let there = |kind: &&&str| list.resources.iter().any(|resource| resource.name == **kind);
            Ok(KINDS.iter().filter(|kind| !there(kind)).map(name).collect())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(KINDS.iter().map(name).collect()),
        Err(error) => Err(format!("cannot list the installed kinds: {}", plain(&error))),
    }
}

/// Returns the namespaces that own each target group, from the ledgers that can be read.
async fn holders(client: &Client, way: &Way) -> Looked<BTreeMap<TargetGroupArn, BTreeSet<String>>> {
    let ledgers = Ledgers::new(client.clone(), &way.own_namespace, &way.lease);
    let all = within(PATIENCE, ledgers.load_all()).await.map_err(|failure| {
        format!(
            "cannot read the TargetLedgers in namespace {} ({}). Grant yourself list on targetledgers",
            way.own_namespace, failure.message
        )
    })?;
    let opened = all.iter().filter_map(|stored| stored.open().ok());
    let held = opened.map(|(group, ledger)| {
        let namespaces = ledger.holders.iter().map(ToString::to_string).collect();
        (group, namespaces)
    });
    Ok(held.collect())
}

async fn missing_namespaces(client: &Client, leader: Option<&Holder>) -> Vec<String> {
    let serves = leader.and_then(|leader| leader.serves.as_deref()).unwrap_or_default();
    installation::missing(client, installation::named(serves)).await
}

async fn shown(client: &Client, options: &Options) -> Looked<Shown> {
    let text = options.way.ask(Some(client), "/debug/bindings").await.map_err(|error| plain_chain(&error))?;
    let mut shown: Shown = serde_json::from_str(&text).map_err(|error| {
        format!("cannot read its answer ({error}). Use the version of the Headgate in the cluster")
    })?;
    if let Some(only) = &options.namespace {
        shown.bindings.retain(|bound| bound.namespace == *only);
        shown.origins.retain(|origin| origin.namespace == *only);
    }
    Ok(shown)
}

async fn asking(client: &Client, namespaces: &BTreeSet<&str>) -> Looked<BTreeSet<String>> {
    let api: Api<Namespace> = Api::all(client.clone());
    let mut asking = BTreeSet::new();
    for name in namespaces {
        let found = api.get_opt(name).await.map_err(|error| {
            format!("cannot read namespace {name} ({}). Grant yourself get on namespaces", plain(&error))
        })?;
        let asks =
            |namespace: Namespace| namespace.labels().get(inject::INJECT).is_some_and(|is| is == "true");
        if found.is_some_and(asks) {
            asking.insert((*name).to_owned());
        }
    }
    Ok(asking)
}

/// Returns the pods that are targets.
async fn pods(client: &Client, shown: &Shown) -> Looked<Vec<Pod>> {
    let mut meant: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for bound in &shown.bindings {
        let pods = bound.targets.iter().map(|target| &*target.pod);
        meant.entry(&bound.namespace).or_default().extend(pods);
    }
    let mut all = Vec::new();
    for (namespace, names) in meant {
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let listed = api.list(&page).await.map_err(|error| {
                format!(
                    "cannot list the pods of namespace {namespace} ({}). Grant yourself list on pods",
                    plain(&error)
                )
            })?;
            let next = listed.metadata.continue_.clone().filter(|next| !next.is_empty());
            all.extend(listed.into_iter().filter(|pod| names.contains(&*pod.name_any())));
            let Some(next) = next else { break };
            page = page.continue_token(&next);
        }
    }
    Ok(all)
}

async fn groups(shown: &Shown) -> Looked<BTreeMap<TargetGroupArn, Looked<Inspected>>> {
    let arns: BTreeSet<TargetGroupArn> =
        shown.bindings.iter().filter_map(|bound| TargetGroupArn::parse(&bound.target_group).ok()).collect();
    let mut groups = BTreeMap::new();
    if arns.is_empty() {
        return Ok(groups);
    }
    let unchecked = "the target groups are not checked";
    let aws = TargetGroups::connect().await.map_err(|error| format!("{unchecked}: {error}"))?;
    for arn in arns {
        let looked = match inspect(&aws, &arn).await {
            Ok(group) => Ok(group),
            // Without a connection or credentials, all other calls would fail too.
            Err(failure) if failure.class == FailureClass::Unavailable => {
                return Err(format!("{unchecked}: {}: {}", failure.code, failure.message));
            }
            Err(failure) => Err(format!("cannot check it: {}: {}", failure.code, failure.message)),
        };
        groups.insert(arn, looked);
    }
    Ok(groups)
}

/// Returns whether the leader may watch the whole cluster, including nodes.
fn sees_nodes(leader: Option<&Holder>) -> bool {
    let serves = leader.and_then(|leader| leader.serves.as_deref());
    serves.is_some_and(|serves| installation::named(serves).next().is_none())
}

async fn missing_rights(
    client: &Client,
    options: &Options,
    leader: Option<&Holder>,
    webhook: &super::facts::Webhook,
) -> Looked<Vec<String>> {
    let own = &options.way.own_namespace;
    let (namespace, account) = match (&options.service_account, leader) {
        (Some(account), _) => (own.clone(), account.clone()),
        (None, None) => {
            return Err("without a leader its ServiceAccount is unknown. Set --service-account".into());
        }
        (None, Some(leader)) => {
            let pods: Api<Pod> = Api::namespaced(client.clone(), own);
            let pod = pods
                .get_opt(leader.pod())
                .await
                .map_err(|error| format!("cannot read its pod: {}", plain(&error)))?;
            let account = pod.and_then(|pod| pod.spec?.service_account_name).ok_or_else(|| {
                format!("{} is not a pod of namespace {own}. Set --service-account", leader.identity)
            })?;
            (own.clone(), account)
        }
    };
    let serves = leader.and_then(|leader| leader.serves.as_deref()).unwrap_or_default();
    let evictions = !matches!(webhook.validating, Ok(None));
    let needed = rights::needed(serves, &options.way, evictions);
    rights::missing(client, &namespace, &account, needed).await
}
