//! `headgate uninstall`: removes Headgate without blocking any object in the cluster.
//!
//! The steps are:
//!
//! 1. Stop Headgate, if requested.
//! 2. Empty the webhook configurations, so that new pods get no readiness gate.
//! 3. Open all closed readiness gates.
//! 4. Keep or deregister the targets in Headgate's ledgers, as requested. Foreign targets always remain.
//! 5. Remove Headgate's finalizers.
//!
//! The command prints which objects and targets remain. You can repeat each step. If a step fails, the command still
//! runs the other steps.

mod targets;
mod webhooks;

use std::{io::Write, time::Duration};

use anyhow::{Context, bail};
use headgate::{
    api::{
        TargetBinding,
        target_binding::{FINALIZER, MADE_FROM},
    },
    app::gates,
    kube::{
        client,
        installation::{SERVES, Serves},
        ledger::Ledgers,
        pages::{apis, each},
    },
};
use k8s_openapi::{
    api::{apps::v1::Deployment, coordination::v1::Lease},
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
    core::PartialObjectMeta,
};
use serde_json::json;
use tokio::time::Instant;

#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster.
    pub which: client::Which,
    /// The managed namespaces.
    pub serves: Serves,
    /// Headgate's own namespace. `None`: the default of [`client::own_namespace`].
    pub own_namespace: Option<String>,
    /// The name of the Lease.
    pub lease: String,
    /// The name of the webhook configurations. `None`: the name of the Lease.
    pub webhook_configuration: Option<String>,
    /// Whether to only open the closed readiness gates.
    pub only_gates: bool,
    /// Whether to deregister Headgate's targets. By default, the targets remain.
    pub remove_targets: bool,
    /// Whether to continue even if a Headgate replica still runs.
    pub force: bool,
    /// The Deployment of `headgate run` to scale to 0 first. `None`: no Deployment is scaled.
    pub stop: Option<String>,
}

/// The timeout for the deletion of the Deployment's pods. The pods' grace period is 30 s, of which Headgate needs 5 s.
const STOP: Duration = Duration::from_secs(120);
/// The Lease counts as released after it had no holder for this long. Kubelets stop the pods of a Deployment at
/// different times.
const RELEASED: Duration = Duration::from_secs(5);

/// Uninstalls Headgate. Prints on `out` which changes were made, and which objects and targets remain.
///
/// # Errors
/// A Headgate replica still runs, or a step failed. A failed step does not prevent the other steps.
pub async fn uninstall(options: Options, out: &mut impl Write) -> anyhow::Result<()> {
    let client = client::connect_to(&options.which).await?;
    let own = options.own_namespace.clone().unwrap_or_else(client::own_namespace);
    if options.only_gates {
        let named = options.serves.names(&client).await.context("cannot list namespaces")?;
        return gates::open(&client, named.as_deref(), &[], out).await;
    }
    if let Some(name) = &options.stop {
        stop(&client, &own, name, out).await?;
        wait_released(&client, &own, &options.lease).await?;
    }
    if !options.force {
        may_leave(&client, &own, &options).await?;
    }
    let namespaces = options.serves.names(&client).await.context("cannot list namespaces")?;
    let namespaces = namespaces.as_deref();
    let configuration = options.webhook_configuration.as_ref().unwrap_or(&options.lease);
    let silent = webhooks::empty(&client, configuration, out).await;
    let opened = gates::open(&client, namespaces, &[], out).await;
    let ledgers = Ledgers::new(client.clone(), &own, &options.lease);
    let cleared = if options.remove_targets {
        targets::remove(&client, &ledgers, &own, namespaces, out).await
    } else {
        targets::keep(&ledgers, &own, out).await.map(|()| 0)
    };
    let freed = free_bindings(&client, namespaces, out).await;
    if let Ok(freed) = freed {
        writeln!(out, "removed the finalizers of {freed} TargetBindings")?;
    }
    let left = cleared.and_then(|left| match left {
        0 => Ok(()),
        left => Err(anyhow::anyhow!("{left} target groups still have targets, see above")),
    });
    let failed = [silent, opened, left, freed.map(|_| ())].into_iter().filter_map(Result::err);
    let failed: Vec<String> = failed.map(|error| format!("{error:#}")).collect();
    if !failed.is_empty() {
        bail!("{}. Fix the cause, then run this again", failed.join("; "));
    }
    Ok(())
}

/// Scales the Deployment to 0 and waits until its status counts no replicas. The status does not count terminating
/// pods.
async fn stop(client: &Client, namespace: &str, name: &str, out: &mut impl Write) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    match deployments.patch_scale(name, &PatchParams::default(), &none).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {
            writeln!(out, "Deployment {namespace}/{name} does not exist")?;
            return Ok(());
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot scale Deployment {namespace}/{name} to 0"));
        }
    }
    let end = Instant::now() + STOP;
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
        if Instant::now() > end {
            bail!(
                "Deployment {namespace}/{name} still has {pods} pods after {STOP:?}. Run this again when \
                 they are deleted"
            );
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Checks that no Headgate replica runs, because a replica would revert the steps. The last leader must have managed
/// the same namespaces.
async fn may_leave(client: &Client, namespace: &str, options: &Options) -> anyhow::Result<()> {
    let (name, asked) = (&*options.lease, options.serves.to_string());
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = leases.get_opt(name).await.context("cannot read the Lease of Headgate")?;
    let Some(lease) = lease else { return Ok(()) };
    if let Some(served) = lease.annotations().get(SERVES).filter(|served| **served != asked) {
        bail!(
            "the Headgate of the Lease {namespace}/{name} managed {served}, and you name {asked}. Set the \
             same --namespaces or --namespace-selector, or the --lease-name of another installation; or set \
             --force"
        );
    }
    match holder(&lease) {
        Some(holder) => bail!(
            "{holder} holds the Lease {namespace}/{name} and would revert all changes. Scale `headgate run` \
             to 0 first, or set --force"
        ),
        None => Ok(()),
    }
}

/// Returns the holder of the Lease, unless the holder has not renewed the Lease for two lease durations.
fn holder(lease: &Lease) -> Option<&str> {
    let spec = lease.spec.as_ref()?;
    let duration =
        Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or(15)).unwrap_or(15));
    let renewed = spec.renew_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let age = Duration::try_from(Timestamp::now().duration_since(renewed)).unwrap_or_default();
    spec.holder_identity.as_deref().filter(|holder| !holder.is_empty() && age < duration * 2)
}

/// Waits until the Lease remains released. A stopping leader releases the Lease, but another replica that still runs
/// may then acquire the Lease.
async fn wait_released(client: &Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let end = Instant::now() + STOP;
    let mut free_since = None;
    while Instant::now() < end {
        let lease = leases.get_opt(name).await.context("cannot read the Lease of Headgate")?;
        let is_free = lease.is_none_or(|lease| holder(&lease).is_none());
        free_since = is_free.then(|| free_since.unwrap_or_else(Instant::now));
        if free_since.is_some_and(|since| since.elapsed() >= RELEASED) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// Removes Headgate's finalizer from every TargetBinding, and deletes each TargetBinding that Headgate created. Returns
/// the number of TargetBindings.
async fn free_bindings(
    client: &Client,
    namespaces: Option<&[String]>,
    out: &mut impl Write,
) -> anyhow::Result<usize> {
    let mut freed = 0;
    for api in apis::<PartialObjectMeta<TargetBinding>>(client, namespaces) {
        let mut all = Vec::new();
        match each(&api, |object| all.push(object)).await {
            Ok(()) => {}
            // The CRD is not installed.
            Err(error) if is_not_found(&error) => return Ok(0),
            Err(error) => return Err(error),
        }
        for object in all {
            let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
            let here: Api<PartialObjectMeta<TargetBinding>> = Api::namespaced(client.clone(), &namespace);
            if object.finalizers().iter().any(|name| name == FINALIZER) {
                let others: Vec<&String> =
                    object.finalizers().iter().filter(|name| *name != FINALIZER).collect();
                let version = object.resource_version();
                let patch = json!({"metadata": {"finalizers": others, "resourceVersion": version}});
                here.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.with_context(
                    || format!("cannot remove the finalizer from TargetBinding {namespace}/{name}"),
                )?;
                writeln!(out, "TargetBinding {namespace}/{name} has no finalizer any more")?;
            }
            if object.labels().contains_key(MADE_FROM) {
                match here.delete(&name, &DeleteParams::default()).await {
                    Ok(_) => writeln!(out, "TargetBinding {namespace}/{name} is deleted")?,
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(error) => {
                        return Err(error).with_context(|| format!("cannot delete {namespace}/{name}"));
                    }
                }
            }
            freed += 1;
        }
    }
    Ok(freed)
}

fn is_not_found(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == 404)
}
