//! `headgate run`: starts all parts and waits until they stop.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::info;

pub use super::options::Options;
use super::{
    owner::{self, Owner},
    parts::{self, Listeners, Shared},
};
use crate::{
    aws::TargetGroups,
    explain,
    journal::keeper::journal,
    kube::{client, events, evictions::Evictions, watch::Relists},
    runtime::{
        clock::{self, Clock, Wall},
        supervise::{Supervisor, stop_on_signals},
    },
    webhook::{ask, evict::Evicting, files::Published, notes::Notes},
};

/// Runs `headgate run` until SIGTERM or SIGINT.
///
/// # Errors
/// A part cannot be started, or ends unexpectedly.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let clock = Clock::start();
    let stop = CancellationToken::new();
    stop_on_signals(&stop)?;
    options.check_webhook()?;
    let listeners = Listeners::open(&options).await?;
    let (aws, credentials) = TargetGroups::connect_kept(clock).await?;
    let client = client::connect().await?;
    listeners.log_start(&aws)?;

    let wall = Wall::new(clock::wall(), clock.now());
    let engine = options.engine(aws.region(), wall);
    let (inbox_in, inbox) = mpsc::channel(owner::INBOX);
    let (notices, notices_out) = events::channel(clock);
    let mut tasks = Supervisor::new(stop.clone());
    tasks.spawn("aws credentials", credentials.run());
    tasks.spawn("namespaces", parts::name_missing(client.clone(), options.serves.namespaces.clone()));
    let retired = CancellationToken::new();
    let shared = Shared::new(&options, client, &notices, clock, &retired, &mut tasks).await?;
    if options.leading.elect && !options.settings.read_only {
        shared.leave_namespaces(&mut tasks);
    }

    let published = Published::nothing();
    let (out_of_reach, aws_trouble) = watch::channel(None);
    let (explain_in, explain) = mpsc::channel(explain::ask::QUEUE);
    let certified = options.webhook.is_some().then(|| published.certificate.subscribe());
    let (recorder, kept, keep) = journal(clock, options.journal_entries);
    tasks.spawn("journal", async move {
        keep.await;
        Ok(())
    });
    shared.tell_metrics_what_is_wrong(aws_trouble.clone());
    listeners.serve(&shared.shown(certified, aws_trouble, explain_in, kept), &stop, &mut tasks);
    shared.write_events(notices_out, options.docs_url, &mut tasks);
    let evictions = Evictions::new(shared.client.clone());
    let (questions_in, questions) = mpsc::channel(ask::QUEUE);
    if let Some(webhook) = options.webhook {
        let notes = Notes::new(options.settings.leaving, clock, shared.metrics.clone());
        let evicting = Evicting::new(notes, shared.node_reads(&options.settings), notices.clone());
        let served =
            shared.webhook(evicting, evictions.clone(), questions_in, published, webhook.giving.clone());
        served.start(webhook, &mut tasks, &stop).await?;
    }
    let relists = Relists::new(&shared.scopes);
    shared.watch(inbox_in, notices.clone(), &relists, &mut tasks);
    if options.show_daemonsets {
        shared.show_sets(&mut tasks);
    }

    let owner = Owner {
        engine,
        clock,
        wall,
        inbox,
        reports: shared.reports(&aws, out_of_reach, notices),
        carrier: Arc::new(shared.carrier(aws, evictions)),
        authority: shared.authority,
        views: shared.views,
        metrics: shared.metrics,
        pulse: shared.pulse,
        relists,
        questions,
        explain,
        journal: recorder,
    };
    tasks.spawn_draining("engine", async move {
        // However the task ends, the Lease is released only after the last call.
        let _retired = retired.drop_guard();
        owner.run(stop).await
    });
    tasks.run().await?;
    info!("ended");
    Ok(())
}
