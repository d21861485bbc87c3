//! Applies a plan. The loop makes the writes of the first incomplete step, gathers all facts again, and repeats until
//! all steps are done.

use std::{io::Write, time::Duration};

use anyhow::bail;
use kube::Client;
use tokio::time::{Instant, sleep};

use super::{
    back,
    facts::Facts,
    gather::{Gatherer, Options},
    over, steps,
    steps::{Action, State, Step, current},
    text, writes,
};
use crate::exit::Finding;

/// The interval between two gatherings of all facts.
const PERIOD: Duration = Duration::from_millis(500);

/// Plans the steps from the facts.
pub fn plan(facts: &Facts, options: &Options) -> Vec<Step> {
    if options.back {
        back::plan(facts, &options.wishes)
    } else {
        over::plan(facts, &options.wishes, options.to)
    }
}

/// Runs all steps, and prints each step on `out` when it is done.
///
/// # Errors
/// A step is rejected, fails or times out. The user can run the command again, which continues with the same step.
pub async fn apply(
    gatherer: &mut Gatherer,
    client: &Client,
    options: &Options,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut said: Vec<Action> = Vec::new();
    let mut waits_since = (Action::Check, Instant::now());
    loop {
        let facts = gatherer.look(options.back).await?;
        let plan = plan(&facts, options);
        let now: Vec<Step> = current(&plan).cloned().collect();
        let action = now.first().map(|step| step.action);
        for (at, step) in (1..).zip(&plan) {
            if step.state == State::Done && action != Some(step.action) && !said.contains(&step.action) {
                write!(out, "{}", text::line(at, step))?;
            }
        }
        said.extend(
            plan.iter()
                .filter(|step| step.state == State::Done && action != Some(step.action))
                .map(|step| step.action),
        );
        out.flush()?;
        let Some(action) = action else { return Ok(()) };
        if let Some(refused) = now.iter().find(|step| matches!(step.state, State::Refused(_))) {
            let why = refused.state.why().unwrap_or_default();
            return Err(Finding(format!("{}: {why}", refused.says)).into());
        }
        let due: Vec<&Step> = now.iter().filter(|step| step.state == State::Due).collect();
        for (at, step) in due.iter().enumerate() {
            // Steps that change the same Service write one after the other. Each write needs the version that the
            // previous write created.
            let fresh;
            let facts = if at > 0 && writes_services(action) {
                fresh = gatherer.look(false).await?;
                &fresh
            } else {
                &facts
            };
            match carry_out(client, options, facts, step).await {
                // Another client changed the object in the meantime. The next iteration reads the new version.
                Err(error) if is_conflict(&error) => {}
                done => done?,
            }
        }
        if waits_since.0 != action {
            waits_since = (action, Instant::now());
        }
        if waits_since.1.elapsed() > options.timeout {
            let why: Vec<&str> = now.iter().filter_map(|step| step.state.why()).collect();
            bail!(
                "{}: not done within {:?}: {}. Fix the cause, then run this again to continue",
                now[0].says,
                options.timeout,
                why.join("; ")
            );
        }
        if due.is_empty() {
            sleep(PERIOD).await;
        }
    }
}

fn is_conflict(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let answer = cause.downcast_ref::<kube::Error>();
        matches!(answer, Some(kube::Error::Api(status)) if status.code == 409)
    })
}

const fn writes_services(action: Action) -> bool {
    matches!(action, Action::Write | Action::Unpause | Action::Pause | Action::Unwrite)
}

async fn carry_out(client: &Client, options: &Options, facts: &Facts, step: &Step) -> anyhow::Result<()> {
    let binding = step.binding.map(|at| &facts.bindings[at]);
    match (step.action, binding) {
        (Action::Write, Some(binding)) => writes::write(client, binding, options.to).await,
        (Action::Unpause, Some(binding)) => writes::pause(client, binding, false).await,
        (Action::Pause, Some(binding)) => writes::pause(client, binding, true).await,
        (Action::Create, Some(binding)) => writes::create(client, binding).await,
        (Action::Unwrite, Some(binding)) => writes::unwrite(client, binding).await,
        (Action::Forget, Some(binding)) => {
            writes::forget(client, &options.way.own_namespace, &options.way.lease, binding).await
        }
        (Action::TakeFinalizer, Some(binding)) => match &binding.tgb {
            Some(tgb) => writes::take_finalizer(client, tgb).await,
            None => Ok(()),
        },
        (Action::Delete, Some(binding)) => match &binding.tgb {
            Some(tgb) => writes::delete(client, tgb).await,
            None => Ok(()),
        },
        (Action::OpenGates, Some(binding)) => {
            for pod in over::may_open(binding, facts) {
                writes::open_gate(client, binding, pod).await?;
            }
            Ok(())
        }
        (Action::RelaxWebhooks, _) => writes::set_webhooks(client, &options.lbc.webhook, true).await,
        (Action::RestoreWebhooks, _) => writes::set_webhooks(client, &options.lbc.webhook, false).await,
        (Action::StopLbc, _) => {
            let wanted = facts.lbc.deployment.as_ref().map_or(0, |deployment| deployment.wanted);
            writes::stop(client, &options.lbc.namespace, &options.lbc.deployment, wanted).await
        }
        (Action::StartLbc, _) => match facts.lbc.deployment.as_ref().and_then(|deployment| deployment.before)
        {
            Some(before) => {
                writes::start(client, &options.lbc.namespace, &options.lbc.deployment, before).await
            }
            None => Ok(()),
        },
        (Action::StopHeadgate, _) => match named_headgate(facts, options) {
            Some((name, deployment)) => {
                writes::stop(client, &options.way.own_namespace, name, deployment.wanted).await
            }
            None => Ok(()),
        },
        (Action::StartHeadgate, _) => match named_headgate(facts, options) {
            Some((name, super::facts::Deployment { before: Some(before), .. })) => {
                writes::start(client, &options.way.own_namespace, name, *before).await
            }
            _ => Ok(()),
        },
        // All other steps only wait.
        _ => Ok(()),
    }
}

fn named_headgate<'a>(
    facts: &'a Facts,
    options: &'a Options,
) -> Option<(&'a str, &'a super::facts::Deployment)> {
    let (_, deployment) = facts.headgate.deployment.as_ref()?;
    Some((options.stop_headgate.as_deref()?, deployment.as_ref()?))
}

/// Returns whether a current step is rejected.
pub fn is_refused(plan: &[Step]) -> bool {
    steps::current(plan).any(|step| matches!(step.state, State::Refused(_)))
}
