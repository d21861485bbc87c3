//! `headgate uninstall`: removes Headgate so that nothing in the cluster waits for it.
//!
//! The steps are:
//!
//! 1. Stop Headgate, if requested.
//! 2. Empty the webhook configurations, so that no new pod gets a readiness gate.
//! 3. Open the readiness gates that wait.
//! 4. Keep the targets in Headgate's ledgers, or deregister them if requested. Foreign targets always remain.
//! 5. Remove finalizers.
//!
//! The command prints what remains. Each step can be repeated, and a step that fails does not prevent the others.

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

/// The options of `headgate uninstall`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster.
    pub which: client::Which,
    /// The managed namespaces.
    pub serves: Serves,
    /// Headgate's own namespace. `None`: [`client::own_namespace`].
    pub own_namespace: Option<String>,
    /// The name of the Lease.
    pub lease: String,
    /// The name of the webhook configurations. `None`: the name of the Lease.
    pub webhook_configuration: Option<String>,
    /// Whether to only open the readiness gates that wait.
    pub only_gates: bool,
    /// Whether to deregister Headgate's targets. If not, they remain.
    pub remove_targets: bool,
    /// Whether to continue while a Headgate runs.
    pub force: bool,
    /// The Deployment of `headgate run` to scale to 0 first.
    pub stop: Option<String>,
}

/// How long to wait for the Deployment's pods: they have 30 s, and Headgate needs 5 s of them.
const STOP: Duration = Duration::from_secs(120);
/// The Lease counts as free if it had no holder for this long. Kubelets stop the pods of a Deployment at slightly
/// different times.
const RELEASED: Duration = Duration::from_secs(5);

/// Uninstalls Headgate, and prints on `out` what it did and what remains.
///
/// # Errors
/// A Headgate still runs, or a step failed. The other steps were still tried.
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

/// Scales the Deployment to 0 and waits until it counts no pods. Terminating pods do not count.
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

/// Checks that no Headgate runs, which would undo the steps, and that the last one managed the same namespaces.
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

/// The present holder of the Lease, or one that renewed it recently.
fn holder(lease: &Lease) -> Option<&str> {
    let spec = lease.spec.as_ref()?;
    let duration =
        Duration::from_secs(u64::try_from(spec.lease_duration_seconds.unwrap_or(15)).unwrap_or(15));
    let renewed = spec.renew_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let age = Duration::try_from(Timestamp::now().duration_since(renewed)).unwrap_or_default();
    spec.holder_identity.as_deref().filter(|holder| !holder.is_empty() && age < duration * 2)
}

/// Waits until the Lease has no holder. A leader releases it when it stops, and a replica that is not stopped yet may
/// acquire it in between.
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

/// Removes the finalizer of every TargetBinding, and deletes those that Headgate made. Returns their number.
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
            // The kind is not installed.
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
