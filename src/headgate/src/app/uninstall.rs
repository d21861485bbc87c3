//! `headgate uninstall`: leaves the cluster and the target groups as if Headgate had never been there.
//!
//! What is Headgate's own stands in its ledgers: those targets are removed, and nobody else's. Each step can be done
//! again: what could not be removed keeps its ledger, and the next call goes on from there.

mod certificate;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    io::Write,
    net::IpAddr,
    time::Duration,
};

use anyhow::{Context, bail};
use backon::{BackoffBuilder, ExponentialBuilder};
use headgate_core::{
    ErrorClass, Failure, Target,
    health::HealthState,
    lanes::MAX_TARGETS_PER_CALL,
    ledger::{LedgerFailure, Noted, StoredLedger},
    target_group::TargetGroupArn,
};
use k8s_openapi::{
    api::{apps::v1::Deployment, coordination::v1::Lease},
    jiff::Timestamp,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    api::{
        TargetBinding,
        target_binding::{FINALIZER, MADE_FROM},
    },
    aws::TargetGroups,
    kube::{
        client,
        installation::{SERVES, Serves},
        ledger::Ledgers,
        slim::SlimPod,
    },
    webhook::secret_name,
};

/// What `headgate uninstall` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which namespaces were served.
    pub serves: Serves,
    /// Headgate's own namespace; none: that of the ServiceAccount, or of the kubeconfig's context.
    pub own_namespace: Option<String>,
    /// The name of the Lease.
    pub lease: String,
    /// The Secret of the webhook's certificate; none: that of the Lease.
    pub webhook_secret: Option<String>,
    /// Leave the targets where they are.
    pub keep_targets: bool,
    /// Also while a Headgate runs.
    pub force: bool,
    /// The Deployment of `headgate run`, to be scaled down first.
    pub stop: Option<String>,
}

/// A Deployment has ended within this: its pods have 30 s, and Headgate needs 5 of them.
const STOP: Duration = Duration::from_secs(120);
/// Calls to AWS that fail for a passing reason are tried again for about two minutes.
const TRIES: usize = 12;

/// Removes what is Headgate's own, and says on `out` what it did.
///
/// # Errors
/// If a Headgate still runs, or something could not be removed; all the rest was then tried all the same.
pub async fn uninstall(options: Options, out: &mut impl Write) -> anyhow::Result<()> {
    let client = client::connect().await?;
    let own = options.own_namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    if let Some(name) = &options.stop {
        stop(&client, &own, name, out).await?;
    }
    if !options.force {
        may_leave(&client, &own, &options).await?;
    }
    let namespaces = options.serves.names(&client).await.context("cannot list namespaces")?;
    let left = clear_ledgers(&client, &own, &options, namespaces.as_deref(), out).await?;
    let secret = options.webhook_secret.clone().unwrap_or_else(|| secret_name(&options.lease));
    let secret = certificate::remove(&client, &own, &secret, out).await;
    let freed = free_bindings(&client, namespaces.as_deref(), out).await?;
    writeln!(out, "{freed} TargetBindings are free")?;
    if left > 0 {
        bail!("{left} target groups could not be cleared, see above; run it again when that is mended");
    }
    secret
}

/// Scales the Deployment down to 0 and waits until its pods are gone: a leader that leaves gives its Lease back.
async fn stop(client: &Client, namespace: &str, name: &str, out: &mut impl Write) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    match deployments.patch_scale(name, &PatchParams::default(), &none).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {
            writeln!(out, "Deployment {namespace}/{name} is not there")?;
            return Ok(());
        }
        Err(error) => {
            return Err(error)
                .with_context(|| format!("cannot scale Deployment {namespace}/{name} down to 0"));
        }
    }
    let end = tokio::time::Instant::now() + STOP;
    loop {
        let deployment = deployments.get_opt(name).await.context("cannot read the Deployment")?;
        let seen = deployment.as_ref().is_none_or(|deployment| {
            let observed = deployment.status.as_ref().and_then(|status| status.observed_generation);
            observed >= deployment.metadata.generation
        });
        let pods = deployment.and_then(|deployment| deployment.status?.replicas).unwrap_or_default();
        if seen && pods == 0 {
            writeln!(out, "Deployment {namespace}/{name} is stopped")?;
            return Ok(());
        }
        if tokio::time::Instant::now() > end {
            bail!(
                "Deployment {namespace}/{name} still has {pods} pods after {STOP:?}; run this again when they are gone"
            );
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// A Headgate that runs would put everything back; and one that served other namespaces is another one.
async fn may_leave(client: &Client, namespace: &str, options: &Options) -> anyhow::Result<()> {
    let (name, asked) = (&*options.lease, options.serves.to_string());
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = leases.get_opt(name).await.context("cannot read the Lease of Headgate")?;
    let Some(lease) = lease else { return Ok(()) };
    if let Some(served) = lease.annotations().get(SERVES).filter(|served| **served != asked) {
        bail!(
            "the Headgate of the Lease {namespace}/{name} served {served}, and you ask for {asked}; expected the same \
             --namespaces or --namespace-selector, or the --lease-name of another one; or say --force"
        );
    }
    let Some(spec) = lease.spec else { return Ok(()) };
    let duration =
        Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or(15)).unwrap_or(15));
    let renewed = spec.renew_time.map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let age = Duration::try_from(Timestamp::now().duration_since(renewed)).unwrap_or_default();
    match spec.holder_identity {
        Some(holder) if !holder.is_empty() && age < duration * 2 => bail!(
            "{holder} holds the Lease {namespace}/{name} and would put everything back; scale `headgate run` down to \
             0 first, or say --force"
        ),
        _ => Ok(()),
    }
}

/// Removes the targets that the ledgers name, and each ledger whose targets are gone; gives how many are left.
async fn clear_ledgers(
    client: &Client,
    own: &str,
    options: &Options,
    namespaces: Option<&[String]>,
    out: &mut impl Write,
) -> anyhow::Result<usize> {
    let ledgers = Ledgers::new(client.clone(), own, &options.lease);
    let all = match ledgers.load_all().await {
        Ok(all) => all,
        Err(LedgerFailure::Denied(why)) if why.contains("is not installed") => Vec::new(),
        Err(failure) => bail!("cannot read the TargetLedgers in namespace {own}: {failure:?}"),
    };
    let aws =
        if options.keep_targets || all.is_empty() { None } else { Some(TargetGroups::connect().await?) };
    let addresses = if aws.is_some() { addresses(client, namespaces).await? } else { BTreeSet::new() };
    let mut left = 0;
    for stored in all {
        let done = match &aws {
            Some(aws) => remove_targets(aws, &stored, &addresses, out).await,
            None => Ok(()),
        };
        let done = match (done, stored.content.as_ref().map(|packed| packed.group.clone())) {
            (Ok(()), Ok(group)) => {
                ledgers.delete(&group, &stored.version).await.map_err(|failure| format!("{failure:?}"))
            }
            (Ok(()), Err(why)) => Err(why.to_string()),
            (Err(why), _) => Err(why),
        };
        match done {
            Ok(()) => writeln!(out, "TargetLedger {own}/{} is removed", stored.name)?,
            Err(why) => {
                left += 1;
                writeln!(out, "TargetLedger {own}/{} stays: {why}", stored.name)?;
            }
        }
    }
    Ok(left)
}

/// The addresses of all pods that can be seen.
async fn addresses(client: &Client, namespaces: Option<&[String]>) -> anyhow::Result<BTreeSet<IpAddr>> {
    let mut all = BTreeSet::new();
    for api in apis::<SlimPod>(client, namespaces) {
        let pods = api.list(&ListParams::default()).await.context("cannot list pods")?;
        all.extend(pods.into_iter().filter_map(SlimPod::into_facts).flat_map(|pod| pod.ips));
    }
    Ok(all)
}

async fn remove_targets(
    aws: &TargetGroups,
    stored: &StoredLedger,
    addresses: &BTreeSet<IpAddr>,
    out: &mut impl Write,
) -> Result<(), String> {
    let (group, ledger) = stored.open().map_err(|error| error.to_string())?;
    let states: BTreeMap<Target, HealthState> = match again(|| aws.read_health(&group)).await {
        Ok(states) => states.into_iter().map(|(target, health)| (target, health.state)).collect(),
        Err(failure) if failure.class == ErrorClass::GroupGone => return Ok(()),
        Err(failure) => return Err(said(&group, "DescribeTargetHealth", &failure)),
    };
    // As while it runs: what is healthy though no pod has its address may be another cluster's by now.
    let is_suspect = |target: &Target| {
        states.get(target) == Some(&HealthState::Healthy) && !addresses.contains(&target.ip)
    };
    let own = ledger.iter().filter(|(_, noted, _)| *noted != Noted::Removed).map(|(target, ..)| *target);
    let (suspects, own): (Vec<Target>, Vec<Target>) = own.partition(is_suspect);
    for targets in own.chunks(MAX_TARGETS_PER_CALL) {
        match again(|| aws.deregister(&group, targets.iter().copied())).await {
            Ok(()) => {}
            Err(failure) if failure.class == ErrorClass::GroupGone => return Ok(()),
            Err(failure) => return Err(said(&group, "DeregisterTargets", &failure)),
        }
    }
    let _ = writeln!(out, "{}: {} targets are removed", group.name(), own.len());
    for target in suspects {
        let _ = writeln!(
            out,
            "{}: {target} is left: it is healthy, and no pod here has its address; another cluster may have got it",
            group.name()
        );
    }
    Ok(())
}

fn said(group: &TargetGroupArn, action: &str, failure: &Failure) -> String {
    let expected = match failure.class {
        ErrorClass::Denied => format!("; expected the IAM policy to allow elasticloadbalancing:{action}"),
        _ => String::new(),
    };
    format!("{action} for {} failed ({}: {}){expected}", group.name(), failure.code, failure.message)
}

/// Makes a call again while it fails for a passing reason.
async fn again<T, F: Future<Output = Result<T, Failure>>>(call: impl Fn() -> F) -> Result<T, Failure> {
    let waits = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(250))
        .with_max_delay(Duration::from_secs(15))
        .with_max_times(TRIES)
        .build();
    for wait in waits {
        match call().await {
            Err(failure) if matches!(failure.class, ErrorClass::Throttled | ErrorClass::Unavailable) => {
                tokio::time::sleep(wait).await;
            }
            ended => return ended,
        }
    }
    call().await
}

/// Takes the finalizer off every TargetBinding, and removes those that Headgate made; gives how many there were.
async fn free_bindings(
    client: &Client,
    namespaces: Option<&[String]>,
    out: &mut impl Write,
) -> anyhow::Result<usize> {
    let mut freed = 0;
    for api in apis::<TargetBinding>(client, namespaces) {
        let all = match api.list(&ListParams::default()).await {
            Ok(all) => all,
            // The kind is not installed.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(0),
            Err(error) => return Err(error).context("cannot list TargetBindings"),
        };
        for object in all {
            let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
            let here: Api<TargetBinding> = Api::namespaced(client.clone(), &namespace);
            if object.finalizers().iter().any(|name| name == FINALIZER) {
                let others: Vec<&String> =
                    object.finalizers().iter().filter(|name| *name != FINALIZER).collect();
                let version = object.resource_version();
                let patch = json!({"metadata": {"finalizers": others, "resourceVersion": version}});
                here.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.with_context(
                    || format!("cannot take the finalizer off TargetBinding {namespace}/{name}"),
                )?;
                writeln!(out, "TargetBinding {namespace}/{name} has no finalizer any more")?;
            }
            if object.labels().contains_key(MADE_FROM) {
                match here.delete(&name, &DeleteParams::default()).await {
                    Ok(_) => writeln!(out, "TargetBinding {namespace}/{name} is removed")?,
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(error) => {
                        return Err(error).with_context(|| format!("cannot remove {namespace}/{name}"));
                    }
                }
            }
            freed += 1;
        }
    }
    Ok(freed)
}

/// One for each namespace, or one for all.
fn apis<K>(client: &Client, namespaces: Option<&[String]>) -> Vec<Api<K>>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    match namespaces {
        None => vec![Api::all(client.clone())],
        Some(named) => named.iter().map(|name| Api::namespaced(client.clone(), name)).collect(),
    }
}
