//! `headgate explain`: asks the leader, looks at the pod itself, and prints.

use std::io::Write;

use anyhow::{Context, bail};
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{Api, Client};

use super::{reach::Way, report::Report, text};
use crate::kube::words::plain;

/// What `headgate explain` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of the pod; none: that of the kubeconfig's context.
    pub namespace: Option<String>,
    /// The name of the pod.
    pub pod: String,
    /// Where Headgate is.
    pub way: Way,
    /// Print JSON.
    pub json: bool,
}

/// Explains a pod on `out`.
///
/// # Errors
/// If nobody answers, or there is no such pod.
pub async fn explain(options: Options, out: &mut impl Write) -> anyhow::Result<()> {
    let client = options.way.cluster().await?;
    let namespace = options.namespace.as_deref();
    let namespace = namespace.or_else(|| client.as_ref().map(Client::default_namespace)).unwrap_or("default");
    let path = format!("{PATH}?namespace={namespace}&pod={}", options.pod);
    let answer = options.way.ask(client.as_ref(), &path).await?;
    let mut report: Report = serde_json::from_str(&answer)
        .context("the answer cannot be read; expected a Headgate of the same version as this program")?;
    let mut exists = false;
    if let Some(client) = &client {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        match pods.get_opt(&options.pod).await {
            Ok(Some(pod)) => {
                exists = true;
                if pod.metadata.uid == report.pod.as_ref().map(|pod| pod.uid.clone()) {
                    report.look_at(&pod);
                }
            }
            Ok(None) => {}
            Err(error) => {
                // Who knows.
                exists = true;
                let why = plain(&error);
                eprintln!("headgate: the pod itself cannot be read, its hold is not judged: {why}");
            }
        }
    }
    if options.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        out.write_all(text::render(&report, Timestamp::now()).as_bytes())?;
    }
    // Of one that is gone and still a target there is something to say.
    if !exists && report.pod.is_none() && report.targets.is_empty() {
        bail!("there is no pod {} in namespace {namespace}; expected one that exists", options.pod);
    }
    Ok(())
}

/// Where it is asked.
pub const PATH: &str = "/debug/explain";
