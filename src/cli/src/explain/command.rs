//! `headgate explain`: queries the leader, reads the object from the API server, and prints a report.

use std::{
    fmt::{self, Display},
    io::Write,
};

use anyhow::Context;
use headgate::{
    api::IngressDaemonSet,
    explain::{PATH, node::NodeReport, origin::OriginReport, report::Report},
    kube::words::{plain, plain_chain},
};
use headgate_core::model::excerpt::shown;
use k8s_openapi::{
    api::core::v1::{Node, Pod, Service},
    jiff::Timestamp,
};
use kube::{Api, Client};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    node, origin, pod,
    reach::Way,
    set::{self, SetReport},
    text,
};
use crate::exit::Finding;

/// The maximum number of updating nodes whose pods are queried.
const MOST_TURNS: usize = 5;

/// The object to explain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    Pod(String),
    Service(String),
    TargetBinding(String),
    Node(String),
    IngressDaemonSet(String),
}

impl Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(name) => write!(f, "pod {name}"),
            Self::Service(name) => write!(f, "Service {name}"),
            Self::TargetBinding(name) => write!(f, "TargetBinding {name}"),
            Self::Node(name) => write!(f, "node {name}"),
            Self::IngressDaemonSet(name) => write!(f, "IngressDaemonSet {name}"),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of the object. `None`: the namespace of the kubeconfig's context.
    pub namespace: Option<String>,
    pub object: Object,
    /// How to connect to Headgate.
    pub way: Way,
    /// Whether to print JSON.
    pub json: bool,
}

/// Prints an explanation of an object on `out`.
///
/// # Errors
/// No replica answers, or the object does not exist and has no history.
pub async fn explain(options: Options, out: &mut impl Write) -> anyhow::Result<()> {
    let client = options.way.cluster().await?;
    let namespace = options.namespace.as_deref();
    let namespace = namespace.or_else(|| client.as_ref().map(Client::default_namespace)).unwrap_or("default");
    let (asked, client) = (Asked { options: &options, namespace }, client.as_ref());
    let is_known = match &options.object {
        Object::Pod(name) => asked.pod(client, name, out).await?,
        Object::Service(name) => {
            let exists =
                exists::<Service>(client.map(|client| Api::namespaced(client.clone(), namespace)), name);
            asked.origin(client, "service", name, exists.await, out).await?
        }
        Object::TargetBinding(name) => asked.origin(client, "targetbinding", name, None, out).await?,
        Object::Node(name) => asked.node(client, name, out).await?,
        Object::IngressDaemonSet(name) => asked.set(client, name, out).await?,
    };
    if !is_known {
        let of = if matches!(options.object, Object::Node(_)) {
            String::new()
        } else {
            format!(" in namespace {namespace}")
        };
        let said =
            format!("there is no {}{of}, and Headgate has no history of it. Check the name", options.object);
        return Err(Finding(said).into());
    }
    Ok(())
}

/// The object to explain and its namespace.
struct Asked<'a> {
    options: &'a Options,
    namespace: &'a str,
}

impl Asked<'_> {
    async fn answer<T: DeserializeOwned>(&self, client: Option<&Client>, query: &str) -> anyhow::Result<T> {
        let answer = self.options.way.ask(client, &format!("{PATH}?{query}")).await?;
        serde_json::from_str(&answer)
            .context("the answer cannot be read. Use the version of the Headgate in the cluster")
    }

    fn print(&self, report: &impl Serialize, text: &str, out: &mut impl Write) -> anyhow::Result<()> {
        if self.options.json {
            serde_json::to_writer_pretty(&mut *out, report)?;
            writeln!(out)?;
        } else {
            out.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    /// Explains a pod. Returns whether the pod exists, has targets or has a history.
    async fn pod(&self, client: Option<&Client>, name: &str, out: &mut impl Write) -> anyhow::Result<bool> {
        let namespace = self.namespace;
        let mut report: Report = self.answer(client, &format!("namespace={namespace}&pod={name}")).await?;
        let mut exists = false;
        if let Some(client) = client {
            let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
            match pods.get_opt(name).await {
                Ok(Some(pod)) => {
                    exists = true;
                    if pod.metadata.uid == report.pod.as_ref().map(|pod| pod.uid.clone()) {
                        pod::look_at(&mut report, &pod);
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    // A pod that cannot be read may exist.
                    exists = true;
                    let why = plain(&error);
                    eprintln!("headgate: cannot read the pod, so its hold is not checked: {}", shown(&why));
                }
            }
        }
        self.print(&report, &text::render(&report, Timestamp::now()), out)?;
        // The history or a remaining target can explain a deleted pod.
        let is_known = report.pod.is_some() || !report.targets.is_empty() || !report.past.entries.is_empty();
        Ok(exists || is_known)
    }

    async fn origin(
        &self,
        client: Option<&Client>,
        kind: &str,
        name: &str,
        exists: Option<bool>,
        out: &mut impl Write,
    ) -> anyhow::Result<bool> {
        let query = format!("namespace={}&{kind}={name}", self.namespace);
        let report: OriginReport = self.answer(client, &query).await?;
        self.print(&report, &origin::render(&report), out)?;
        Ok(report.binds || exists.unwrap_or(false))
    }

    /// Explains an IngressDaemonSet from its status. The output has no target states if there is no leader, or if the
    /// leader does not watch nodes.
    async fn set(&self, client: Option<&Client>, name: &str, out: &mut impl Write) -> anyhow::Result<bool> {
        let client = client
            .context("cannot read the IngressDaemonSet: no connection to the API server. Set --kubeconfig")?;
        let sets: Api<IngressDaemonSet> = Api::namespaced(client.clone(), self.namespace);
        let expected = || {
            format!(
                "cannot read IngressDaemonSet {}/{name}. Install the CRD, and grant yourself get on ingressdaemonsets",
                self.namespace
            )
        };
        let Some(set) = sets.get_opt(name).await.with_context(expected)? else { return Ok(false) };
        let mut report = SetReport::new(set);
        for at in 0..report.turns.len().min(MOST_TURNS) {
            let query = format!("node={}", report.turns[at].turn.node);
            match self.answer::<NodeReport>(Some(client), &query).await {
                Ok(node) => {
                    let pods = node.pods.into_iter().filter(|pod| report.has(pod));
                    report.turns[at].pods = pods.collect();
                }
                Err(error) => {
                    eprintln!(
                        "headgate: cannot read the targets of the pods: {}",
                        shown(&plain_chain(&error))
                    );
                    break;
                }
            }
        }
        self.print(&report, &set::render(&report, Timestamp::now()), out)?;
        Ok(true)
    }

    async fn node(&self, client: Option<&Client>, name: &str, out: &mut impl Write) -> anyhow::Result<bool> {
        let report: NodeReport = self.answer(client, &format!("node={name}")).await?;
        self.print(&report, &node::render(&report, Timestamp::now()), out)?;
        let is_known = report.node.is_some() || !report.pods.is_empty() || !report.past.entries.is_empty();
        let exists = exists::<Node>(client.map(|client| Api::all(client.clone())), name).await;
        Ok(is_known || exists.unwrap_or(false))
    }
}

/// Returns whether an object with this name exists. `None`: there is no client. If the read fails, the object counts as
/// existing.
async fn exists<K>(api: Option<Api<K>>, name: &str) -> Option<bool>
where
    K: Clone + DeserializeOwned + fmt::Debug,
{
    Some(api?.get_metadata_opt(name).await.map_or(true, |found| found.is_some()))
}
