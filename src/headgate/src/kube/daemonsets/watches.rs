//! The watches of the controller of IngressDaemonSets.

use std::{fmt::Debug, future::Future, sync::Arc};

use headgate_core::{Change, Scope};
use headgate_daemonset::model::{BudgetFacts, OWNED_BY, SetNode, SetPod};
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource, runtime::watcher};
use tokio::sync::{Notify, mpsc};

use super::{
    budget::SlimBudget,
    node::SlimSetNode,
    pod::SlimSetPod,
    revision::{SeenRevision, SlimRevision},
    set::{SeenSet, SlimSet},
};
use crate::kube::{
    grants::seen::Seen,
    watch::{Closed, Following, stream, within},
};

/// A message from a watch.
#[allow(clippy::large_enum_variant)] // each value is moved once, and few are queued
#[derive(Clone, Debug)]
pub enum News {
    /// A message about sets.
    Sets(Change<SeenSet>),
    /// A message about the pods of sets.
    Pods(Change<SetPod>),
    /// A message about nodes.
    Nodes(Change<SetNode>),
    /// A message about ControllerRevisions.
    Revisions(Change<SeenRevision>),
    /// A message about PodDisruptionBudgets.
    Budgets(Change<BudgetFacts>),
}

/// The data that the watches need.
#[derive(Clone)]
pub struct Watches {
    /// The API server.
    pub client: Client,
    /// The clock, the metrics and the watch failures.
    pub following: Following,
    /// The channel to which the watches send messages.
    pub into: mpsc::Sender<News>,
}

/// The result of a watch task.
pub type Ends = Result<(), Closed>;

impl Watches {
    /// Watches the sets of a scope.
    pub fn sets(self, scope: Scope) -> impl Future<Output = Ends> {
        self.follow("ingressdaemonsets", None, scope, SlimSet::seen, News::Sets)
    }

    /// Watches the pods of sets.
    pub fn pods(self, scope: Scope) -> impl Future<Output = Ends> {
        self.follow("pods", Some(OWNED_BY), scope, SlimSetPod::into_facts, News::Pods)
    }

    /// Watches the ControllerRevisions of sets.
    pub fn revisions(self, scope: Scope) -> impl Future<Output = Ends> {
        self.follow("controllerrevisions", Some(OWNED_BY), scope, SlimRevision::seen, News::Revisions)
    }

    /// Watches all PodDisruptionBudgets.
    pub fn budgets(self, scope: Scope) -> impl Future<Output = Ends> {
        self.follow("poddisruptionbudgets", None, scope, SlimBudget::into_facts, News::Budgets)
    }

    /// Watches the nodes. Lists the nodes again on request.
    pub async fn nodes(self, again: Arc<Notify>) -> Ends {
        let api: Api<SlimSetNode> = Api::all(self.client.clone());
        let stream = move |page| stream(api.clone(), watcher::Config::default().page_size(page));
        let kind = ("nodes", Some(again));
        let news = |seen, _| said(seen, News::Nodes);
        self.following.tell(kind, Scope::Cluster, stream, SlimSetNode::into_facts, self.into, news).await
    }

    async fn follow<K, T>(
        self,
        kind: &'static str,
        label: Option<&'static str>,
        scope: Scope,
        facts: impl FnMut(K) -> Option<T>,
        news: fn(Change<T>) -> News,
    ) -> Ends
    where
        K: Resource<Scope = NamespaceResourceScope>
            + Clone
            + serde::de::DeserializeOwned
            + Debug
            + Send
            + 'static,
        K::DynamicType: Default,
    {
        let api: Api<K> = within(&self.client, &scope);
        let config =
            watcher::Config { label_selector: label.map(ToOwned::to_owned), ..watcher::Config::default() };
        let stream = move |page| stream(api.clone(), config.clone().page_size(page));
        let words = |seen, _| said(seen, news);
        self.following.tell((kind, None), scope, stream, facts, self.into, words).await
    }
}

fn said<T>(seen: Seen<T>, news: fn(Change<T>) -> News) -> Option<News> {
    match seen {
        Seen::Changed(change) => Some(news(change)),
        Seen::Refused(_) | Seen::Failed => None,
    }
}
