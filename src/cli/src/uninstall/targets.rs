//! Keeps or deregisters the targets in Headgate's ledgers.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    io::Write,
    net::IpAddr,
    time::Duration,
};

use anyhow::bail;
use backon::{BackoffBuilder, ExponentialBuilder};
use headgate::{
    aws::TargetGroups,
    kube::{
        ledger::{Ledgers, NOT_INSTALLED},
        pages::{apis, each},
        slim::SlimPod,
    },
    runtime::within::within,
};
use headgate_core::{
    Failure, FailureClass, Target,
    ledger::StoredLedger,
    model::rates::MAX_TARGETS_PER_CALL,
    model::{health::HealthState, target_group::TargetGroupArn},
};
use kube::Client;

/// The maximum number of retries of an AWS call, which take about two minutes.
const TRIES: usize = 12;
/// The timeout of a request for TargetLedgers.
const LEDGER_PATIENCE: Duration = Duration::from_secs(15);
/// The maximum number of targets that the output names per target group.
const NAMED: usize = 5;

async fn all(ledgers: &Ledgers, own: &str) -> anyhow::Result<Vec<StoredLedger>> {
    match within(LEDGER_PATIENCE, ledgers.load_all()).await {
        Ok(all) => Ok(all),
        Err(failure) if &*failure.code == NOT_INSTALLED => Ok(Vec::new()),
        Err(failure) => bail!("cannot read the TargetLedgers in namespace {own}: {}", failure.message),
    }
}

/// Keeps every target and its ledger, and prints what remains and what the user can do. Does not call AWS.
pub async fn keep(ledgers: &Ledgers, own: &str, out: &mut impl Write) -> anyhow::Result<()> {
    let mut stays = false;
    for stored in all(ledgers, own).await? {
        let name = &stored.name;
        match stored.open() {
            Ok((group, ledger)) => {
                let targets: Vec<Target> = ledger.claims.into_keys().collect();
                if targets.is_empty() {
                    match within(LEDGER_PATIENCE, ledgers.delete(&group, &stored.version)).await {
                        Ok(()) => {
                            writeln!(out, "TargetLedger {own}/{name} is deleted: it contains no target")?;
                        }
                        Err(failure) => {
                            let why = &failure.message;
                            writeln!(out, "TargetLedger {own}/{name} remains, without a target: {why}")?;
                        }
                    }
                    continue;
                }
                stays = true;
                let some: Vec<String> = targets.iter().take(NAMED).map(ToString::to_string).collect();
                let more = if targets.len() > NAMED { ", …" } else { "" };
                writeln!(
                    out,
                    "target group {}: {} targets remain: {}{more} (TargetLedger {own}/{name})",
                    group.name(),
                    targets.len(),
                    some.join(", ")
                )?;
            }
            Err(error) => {
                writeln!(out, "TargetLedger {own}/{name} remains unchanged, it cannot be read: {error}")?;
            }
        }
    }
    if stays {
        writeln!(
            out,
            "No controller registers new pods or deregisters terminating ones any more. To continue, install \
             Headgate again: it uses the TargetLedgers. To deregister the targets: headgate uninstall \
             --remove-targets. If another controller manages them now: kubectl delete targetledgers -n \
             {own}, those named above."
        )?;
    }
    Ok(())
}

/// Deregisters the targets in the ledgers, and deletes each ledger that has no remaining targets. Returns the number of
/// ledgers that remain.
pub async fn remove(
    client: &Client,
    ledgers: &Ledgers,
    own: &str,
    namespaces: Option<&[String]>,
    out: &mut impl Write,
) -> anyhow::Result<usize> {
    let all = all(ledgers, own).await?;
    if all.is_empty() {
        return Ok(0);
    }
    let aws = TargetGroups::connect().await?;
    let addresses = addresses(client, namespaces).await?;
    let mut left = 0;
    for stored in all {
        let done = remove_of(&aws, &stored, &addresses, out).await;
        let done = match (done, stored.content.as_ref().map(|packed| packed.group.clone())) {
            (Ok(()), Ok(group)) => within(LEDGER_PATIENCE, ledgers.delete(&group, &stored.version))
                .await
                .map_err(|failure| failure.message.into_string()),
            (Ok(()), Err(why)) => Err(why.to_string()),
            (Err(why), _) => Err(why),
        };
        match done {
            Ok(()) => writeln!(out, "TargetLedger {own}/{} is deleted", stored.name)?,
            Err(why) => {
                left += 1;
                writeln!(out, "TargetLedger {own}/{} remains: {why}", stored.name)?;
            }
        }
    }
    Ok(left)
}

/// Returns the IP addresses of all pods in these namespaces.
async fn addresses(client: &Client, namespaces: Option<&[String]>) -> anyhow::Result<BTreeSet<IpAddr>> {
    let mut all = BTreeSet::new();
    for api in apis::<SlimPod>(client, namespaces) {
        each(&api, |pod: SlimPod| all.extend(pod.into_facts().into_iter().flat_map(|pod| pod.ips))).await?;
    }
    Ok(all)
}

async fn remove_of(
    aws: &TargetGroups,
    stored: &StoredLedger,
    addresses: &BTreeSet<IpAddr>,
    out: &mut impl Write,
) -> Result<(), String> {
    let (group, ledger) = stored.open().map_err(|error| error.to_string())?;
    let states: BTreeMap<Target, HealthState> = match again(|| aws.read_health(&group)).await {
        Ok(states) => states.into_iter().map(|(target, health)| (target, health.state)).collect(),
        Err(failure) if failure.class == FailureClass::Gone => return Ok(()),
        Err(failure) => return Err(said(&group, "DescribeTargetHealth", &failure)),
    };
    // The controller has the same rule: if no pod has the IP of a healthy target, the target may belong to another
    // cluster.
    let is_suspect = |target: &Target| {
        states.get(target) == Some(&HealthState::Healthy) && !addresses.contains(&target.ip)
    };
    // A claim outlives its target for a while.
    let is_there = |target: &Target| states.get(target).is_some_and(|state| *state != HealthState::Draining);
    let (suspects, own): (Vec<Target>, Vec<Target>) =
        ledger.claims.into_keys().filter(is_there).partition(is_suspect);
    for targets in own.chunks(MAX_TARGETS_PER_CALL) {
        match again(|| aws.deregister(&group, targets.iter().copied())).await {
            Ok(()) => {}
            Err(failure) if failure.class == FailureClass::Gone => return Ok(()),
            Err(failure) => return Err(said(&group, "DeregisterTargets", &failure)),
        }
    }
    let _ = writeln!(out, "{}: {} targets are removed", group.name(), own.len());
    for target in suspects {
        let _ = writeln!(
            out,
            "{}: {target} remains: it is healthy, and no pod here has its address; another cluster may have \
             got it",
            group.name()
        );
    }
    Ok(())
}

fn said(group: &TargetGroupArn, action: &str, failure: &Failure) -> String {
    let expected = match failure.class {
        FailureClass::Denied => format!(". Allow elasticloadbalancing:{action} in the IAM policy"),
        _ => String::new(),
    };
    format!("{action} for {} failed ({}: {}){expected}", group.name(), failure.code, failure.message)
}

/// Retries an AWS call after temporary failures.
async fn again<T, F: Future<Output = Result<T, Failure>>>(call: impl Fn() -> F) -> Result<T, Failure> {
    let waits = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(250))
        .with_max_delay(Duration::from_secs(15))
        .with_max_times(TRIES)
        .build();
    for wait in waits {
        match call().await {
            Err(failure) if matches!(failure.class, FailureClass::Throttled | FailureClass::Unavailable) => {
                tokio::time::sleep(wait).await;
            }
            ended => return ended,
        }
    }
    call().await
}
