//! `headgate migrate lbc`: gathers facts, plans the steps and prints them. With `--apply`, the command also runs the
//! steps.

use std::io::Write;

use anyhow::bail;
use headgate::kube::client;

use super::{apply, gather::Gatherer, steps::State, text};
use crate::exit::Outcome;

pub use super::{
    facts::Place,
    gather::{Names, Options, Which},
    steps::Wish,
};

/// Prints the steps on `out`, and runs them if requested. Returns `Findings` if a step cannot start.
///
/// # Errors
/// A fact cannot be read, there is nothing to migrate, or a step fails.
pub async fn migrate(options: Options, out: &mut impl Write) -> anyhow::Result<Outcome> {
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
                "binding was migrated from a TargetGroupBinding"
            } else {
                "TargetGroupBinding of elbv2.k8s.aws"
            };
            bail!(
                "There is nothing to migrate{place}: no {what}. Check --namespace, --all-namespaces and the names"
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
                writeln!(out, "\nAll steps are done.")?;
            } else {
                writeln!(
                    out,
                    "\nNothing was changed. With --apply, the command runs the steps in this \
                               order."
                )?;
            }
        }
        return Ok(Outcome::findings(apply::is_refused(&plan)));
    }
    // With JSON, standard output contains only the report.
    if options.json {
        apply::apply(&mut gatherer, &client, &options, &mut std::io::stderr()).await?;
    } else {
        apply::apply(&mut gatherer, &client, &options, out).await?;
        writeln!(out, "\nAll steps are done.")?;
    }
    Ok(Outcome::Fine)
}

/// Returns whether this action is one of the last actions. During the last actions, the command may not find the
/// bindings any more.
const fn is_an_end(action: super::steps::Action) -> bool {
    use super::steps::Action;
    matches!(action, Action::StartLbc | Action::RestoreWebhooks | Action::StartHeadgate)
}
