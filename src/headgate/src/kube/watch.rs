//! Watches the API server. Each watch is a task that converts a stream of events to inputs of the engine, or to
//! messages for [`grants`](super::grants).
//!
//! An interrupted watch continues from its last position. If the API server no longer has that position, the watch
//! lists all objects again. Watches retry forever, with growing pauses ([`patience`](super::patience)). Errors are
//! counted, and errors of several watches are logged together ([`watch_failures`](super::watch_failures)). An
//! interrupted watch never removes an object.
//!
//! Lists are consistent reads (without `resourceVersion`), so they are never older than earlier data. Lists are paged,
//! so even in a large cluster each response is small. Streaming lists (WatchList) would be cheaper, but kube requests
//! them with `resourceVersion=0`. An API server may answer a request with `resourceVersion=0` from an old cache, so a
//! deleted pod would appear again.
//!
//! Headgate detects every broken watch. The API server ends each watch after [`WATCH_TIMEOUT`], and the client closes a
//! watch that is silent for 5 s longer.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use headgate_core::{Change, Input, Moment, Scope, leadership::Watch, model::shared::Shared};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, Client, Resource,
    core::PartialObjectMeta,
    runtime::watcher::{self, Event, watcher},
};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, mpsc};
use tracing::{debug, info};

use crate::{
    api::target_binding::{FROM_SERVICE, MADE_FROM},
    kube::{
        grants::{
            seen::{Labelled, News, Seen},
            written::SlimGrant,
        },
        lists::{is_too_large, smaller},
        nodes::SlimNode,
        patience::Patient,
        slim::{SlimPod, SlimService},
        watch_failures::{WatchFailures, is_too_old, refusal},
        written::SlimBinding,
    },
    metrics::Metrics,
    runtime::clock::Clock,
};

/// The number of objects in a page, unless the objects are large. Larger pages would fragment the heap.
pub const PAGE: u32 = 100;
/// A watch ends after this many seconds and continues with a new request.
const WATCH_TIMEOUT: u32 = 20;
/// A failed watch counts as working again if it does not fail for this time, even without events. Headgate detects an
/// unresponsive API server earlier.
const QUIET: Duration = Duration::from_secs(45);

/// The data that the watches need.
#[derive(Clone)]
pub struct Watches {
    /// The API server.
    pub client: Client,
    /// The channel to which the watches send inputs for the engine.
    pub inbox: mpsc::Sender<Input>,
    /// The clock, the metrics and the watch failures.
    pub following: Following,
    /// Requests to list all objects again.
    pub relists: Relists,
}

/// Follows the objects of a watch, and sends their changes.
#[derive(Clone)]
pub struct Following {
    /// The time.
    pub clock: Clock,
    /// The metrics, which count errors.
    pub metrics: Arc<Metrics>,
    /// The reports about failures.
    pub failures: WatchFailures,
}

/// Requests to watches to list all objects again.
#[derive(Clone, Debug)]
pub struct Relists(Arc<BTreeMap<(Watch, Scope), Arc<Notify>>>);

impl Relists {
    /// Creates the requests for the watches of these scopes, and for the watches of namespaces and nodes.
    pub fn new(scopes: &[Scope]) -> Self {
        let of = |watch| scopes.iter().map(move |scope| (watch, scope.clone()));
        let all = [Watch::Pods, Watch::Services, Watch::Bindings].into_iter().flat_map(of);
        let all = all.chain([Watch::Namespaces, Watch::Nodes].map(|watch| (watch, Scope::Cluster)));
        Self(Arc::new(all.map(|watch| (watch, Arc::default())).collect()))
    }

    /// Requests another list of `watch` in `scope`.
    pub fn ask(&self, watch: Watch, scope: &Scope) {
        if let Some(asked) = self.0.get(&(watch, scope.clone())) {
            asked.notify_one();
        }
    }

    fn of(&self, watch: Watch, scope: &Scope) -> Option<Arc<Notify>> {
        self.0.get(&(watch, scope.clone())).cloned()
    }
}

/// The receiver has closed the channel, because the program is stopping.
#[derive(Debug)]
pub struct Closed;

impl Watches {
    /// Watches the pods of `scope`.
    pub async fn pods(self, scope: Scope) -> Result<(), Closed> {
        let api = self.api::<SlimPod>(&scope);
        let stream = move |page| stream(api.clone(), watcher::Config::default().page_size(page));
        let mut shared = Shared::default();
        let facts = |pod: SlimPod| pod.into_facts().map(|facts| shared.share(facts));
        self.feed(Watch::Pods, scope, stream, facts, |change, seen| Input::Pod { change, seen }).await
    }

    /// Watches the Services of `scope`.
    pub async fn services(self, scope: Scope) -> Result<(), Closed> {
        let api = self.api::<SlimService>(&scope);
        let stream = move |page| stream(api.clone(), watcher::Config::default().page_size(page));
        self.feed(Watch::Services, scope, stream, SlimService::into_facts, |change, seen| Input::Service {
            change,
            seen,
        })
        .await
    }

    /// Watches the TargetBindings in `scope` that users created.
    pub async fn bindings(self, scope: Scope) -> Result<(), Closed> {
        let written = watcher::Config::default().labels(&format!("{MADE_FROM}!={FROM_SERVICE}"));
        let api = self.api::<SlimBinding>(&scope);
        let stream = move |page| stream(api.clone(), written.clone().page_size(page));
        self.feed(Watch::Bindings, scope, stream, SlimBinding::into_facts, |change, seen| Input::Binding {
            change,
            seen,
        })
        .await
    }

    /// Watches the namespaces whose labels match `selector`.
    pub async fn namespaces(self, selector: String) -> Result<(), Closed> {
        let api: Api<PartialObjectMeta<Namespace>> = Api::all(self.client.clone());
        let stream =
            move |page| stream(api.clone(), watcher::Config::default().labels(&selector).page_size(page));
        let name = |namespace: PartialObjectMeta<Namespace>| namespace.metadata.name.map(Arc::from);
        self.feed(Watch::Namespaces, Scope::Cluster, stream, name, |change, seen| Input::Namespace {
            change,
            seen,
        })
        .await
    }

    /// Watches the nodes.
    pub async fn nodes(self) -> Result<(), Closed> {
        let api: Api<SlimNode> = Api::all(self.client.clone());
        let stream = move |page| stream(api.clone(), watcher::Config::default().page_size(page));
        self.feed(Watch::Nodes, Scope::Cluster, stream, SlimNode::into_facts, |change, seen| Input::Node {
            change,
            seen,
        })
        .await
    }

    /// Watches the TargetGroupGrants.
    pub async fn grants(self, into: mpsc::Sender<News>) -> Result<(), Closed> {
        let api: Api<SlimGrant> = Api::all(self.client.clone());
        let stream = move |page| stream(api.clone(), watcher::Config::default().page_size(page));
        let news = |seen, _| Some(News::Grants(seen));
        let kind = ("targetgroupgrants", None);
        self.following.tell(kind, Scope::Cluster, stream, SlimGrant::into_entry, into, news).await
    }

    /// Watches the labels of all namespaces, which grants may use.
    pub async fn labels(self, into: mpsc::Sender<News>) -> Result<(), Closed> {
        let api: Api<PartialObjectMeta<Namespace>> = Api::all(self.client.clone());
        let stream = move |page| stream(api.clone(), watcher::Config::default().page_size(page));
        let news = |seen, _| Some(News::Namespaces(seen));
        self.following.tell(("namespaces", None), Scope::Cluster, stream, Labelled::of, into, news).await
    }

    fn api<K>(&self, scope: &Scope) -> Api<K>
    where
        K: Resource<Scope = <Pod as Resource>::Scope>,
        K::DynamicType: Default,
    {
        within(&self.client, scope)
    }

    async fn feed<K, T>(
        self,
        watch: Watch,
        scope: Scope,
        stream: impl Fn(u32) -> BoxStream<'static, watcher::Result<Event<K>>>,
        facts: impl FnMut(K) -> Option<T>,
        input: impl Fn(Change<T>, Moment) -> Input,
    ) -> Result<(), Closed> {
        let inbox = self.inbox.clone();
        let inputs = |seen, at| match seen {
            Seen::Changed(change) => Some(input(change, at)),
            Seen::Refused(_) | Seen::Failed => None,
        };
        let again = self.relists.of(watch, &scope);
        self.following.tell((watch.as_str(), again), scope, stream, facts, inbox, inputs).await
    }
}

impl Following {
    /// Converts the events of a watch with `words`, and sends the results to `into`. Lists all objects again on
    /// request.
    pub async fn tell<K, T, W>(
        self,
        (kind, again): (&'static str, Option<Arc<Notify>>),
        scope: Scope,
        stream: impl Fn(u32) -> BoxStream<'static, watcher::Result<Event<K>>>,
        mut facts: impl FnMut(K) -> Option<T>,
        into: mpsc::Sender<W>,
        words: impl Fn(Seen<T>, Moment) -> Option<W>,
    ) -> Result<(), Closed> {
        let mut listed = Vec::new();
        let mut has_listed = false;
        let mut failed: Option<Moment> = None;
        let mut page = PAGE;
        let mut events = stream(page);
        let asked = || async {
            match &again {
                Some(again) => again.notified().await,
                None => std::future::pending().await,
            }
        };
        loop {
            let quiet = failed.filter(|_| has_listed).map(|failed| failed + QUIET);
            let event = tokio::select! {
                event = events.next() => event,
                () = asked() => {
                    info!(kind, %scope, "listing once more to confirm that most objects are deleted");
                    events = stream(page);
                    continue;
                }
                () = self.clock.sleep_until(quiet.unwrap_or(Moment::START)), if quiet.is_some() => {
                    let since = failed.take().unwrap_or(Moment::START);
                    self.failures.works(kind, &scope, since, self.clock.now());
                    continue;
                }
            };
            let Some(event) = event else { return Ok(()) };
            let seen = self.clock.now();
            let change = match event {
                Ok(Event::Init) => {
                    listed.clear();
                    has_listed = false;
                    continue;
                }
                Ok(Event::InitApply(object)) => {
                    listed.extend(facts(object));
                    continue;
                }
                Ok(Event::InitDone) => {
                    has_listed = true;
                    debug!(kind, %scope, count = listed.len(), "listed");
                    Some(Change::Relisted(scope.clone(), std::mem::take(&mut listed)))
                }
                Ok(Event::Apply(object)) => facts(object).map(Change::Applied),
                Ok(Event::Delete(object)) => facts(object).map(Change::Deleted),
                Err(error) => {
                    self.metrics.watch_failed(kind);
                    if is_too_large(&error) && page > 1 {
                        page = smaller(page);
                        info!(kind, %scope, page, "a page of the list is too large, listing again with smaller pages");
                        events = stream(page);
                        continue;
                    }
                    if is_too_old(&error) {
                        debug!(kind, %scope, "the watch expired, listing again");
                        continue;
                    }
                    failed = Some(seen);
                    self.failures.failed(kind, &scope, &error, seen);
                    let said = refusal(kind, &error).map_or(Seen::Failed, Seen::Refused);
                    if let Some(word) = words(said, seen) {
                        into.send(word).await.map_err(|_| Closed)?;
                    }
                    continue;
                }
            };
            if failed.take().is_some() {
                self.failures.works(kind, &scope, seen, seen);
            }
            if let Some(word) = change.and_then(|change| words(Seen::Changed(change), seen)) {
                into.send(word).await.map_err(|_| Closed)?;
            }
        }
    }
}

/// The API for a kind in a scope.
pub fn within<K>(client: &Client, scope: &Scope) -> Api<K>
where
    K: Resource<Scope = <Pod as Resource>::Scope>,
    K::DynamicType: Default,
{
    match scope {
        Scope::Cluster => Api::all(client.clone()),
        Scope::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
    }
}

/// A stream of the objects in an API server, and of their changes.
pub fn stream<K>(api: Api<K>, config: watcher::Config) -> BoxStream<'static, watcher::Result<Event<K>>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watcher(api, config.timeout(WATCH_TIMEOUT)).patient().boxed()
}
