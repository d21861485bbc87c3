//! `headgate migrate lbc`: looks, plans and prints; with `--apply` it does it.

use std::io::Write;

use anyhow::bail;
use headgate::kube::client;

use super::{apply, gather::Gatherer, steps::State, text};

pub use super::{
    facts::Place,
    gather::{Names, Options, Which},
    steps::Wish,
};

/// Says on `out` what is to be done, and does it if that was asked for. Gives whether something is in the way.
///
/// # Errors
/// If something cannot be read, there is nothing to move, or a step fails.
pub async fn migrate(options: Options, out: &mut impl Write) -> anyhow::Result<bool> {
    let client = client::connect_to(&options.way.which).await?;
    let mut gatherer = Gatherer::new(client.clone(), options.clone());
    let facts = gatherer.look(true).await?;
    let plan = apply::plan(&facts, &options);
    if facts.bindings.is_empty()
        && plan.iter().all(|step| step.state == State::Done || step.binding.is_none())
    {
        let left = plan
            .iter()
            .any(|step| matches!(step.state, State::Due | State::Waits(_)) && is_an_end(step.action));
        if !left {
            let place = gatherer
                .namespace()
                .map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
            let what = if options.back {
                "what was moved over from a TargetGroupBinding"
            } else {
                "a TargetGroupBinding of elbv2.k8s.aws"
            };
            bail!(
                "there is nothing to move{place}; expected {what}, see --namespace, --all-namespaces and the names"
            );
        }
    }
    if options.json {
        serde_json::to_writer_pretty(&mut *out, &text::report(&facts, &plan))?;
        writeln!(out)?;
    } else {
        write!(out, "{}", text::bindings(&facts))?;
    }
    if !options.apply {
        if !options.json {
            write!(out, "{}", text::steps(&plan))?;
            if plan.iter().all(|step| step.state == State::Done) {
                writeln!(out, "\nAll of it is done.")?;
            } else {
                writeln!(out, "\nNothing was changed. With --apply the steps are done in this order.")?;
            }
        }
        return Ok(apply::is_refused(&plan));
    }
    // With JSON the report is all that a program reads.
    if options.json {
        apply::apply(&mut gatherer, &client, &options, &mut std::io::stderr()).await?;
    } else {
        apply::apply(&mut gatherer, &client, &options, out).await?;
        writeln!(out, "\nAll of it is done.")?;
    }
    Ok(false)
}

/// Whether this is what comes last, when the bindings may be forgotten already.
const fn is_an_end(action: super::steps::Action) -> bool {
    use super::steps::Action;
    matches!(action, Action::StartLbc | Action::RestoreWebhooks | Action::StartHeadgate)
}
