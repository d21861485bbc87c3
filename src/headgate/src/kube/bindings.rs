//! Reconciles TargetBindings: generates TargetBindings from annotations, writes every status, and sets the finalizer of
//! user-created TargetBindings.
//!
//! The reconciler runs next to the engine. Once per second, the reconciler compares the views with the watched
//! TargetBindings, and writes a few differences at a time. The reconciler makes no decisions about targets, and no
//! other part waits for the reconciler. The reconciler logs and retries failures. Only the leader writes
//! TargetBindings.
//!
//! With `--namespace-selector`, the reconciler watches the TargetBindings of all namespaces. TargetBindings in other
//! namespaces may belong to another installation, so the reconciler does not change them. When a namespace is no longer
//! selected, the reconciler removes its finalizers from the TargetBindings in that namespace, once.

mod writes;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::{FutureExt, StreamExt, TryStreamExt, stream::BoxStream};
use headgate_core::{
    Origin, Scope,
    model::{excerpt::excerpt, object::ObjectKey, problem::Problem},
    view::BindingView,
};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::{SignedDuration, Timestamp},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        reflector,
        watcher::{self, Event},
    },
};
use tokio::time::{Instant, MissedTickBehavior, timeout};
use tracing::{debug, info, warn};

use writes::Write;

use crate::{
    api::{
        TargetBinding, TargetBindingStatus,
        known::Known,
        status,
        target_binding::{FINALIZER, FROM_SERVICE, MADE_FROM},
    },
    kube::{patience::Patient, watch_failures::judge, words::plain, written::AnyBinding},
    runtime::{
        clock::Clock,
        outage::{Outage, Spelled, What},
        pulse::Pulse,
        views::{Selection, Views},
    },
};

/// The interval between comparisons.
const PERIOD: Duration = Duration::from_secs(1);
/// The maximum number of writes per comparison, for all TargetBindings together.
const BUDGET: usize = 10;
/// The minimum time between two writes of one status.
const STATUS_PERIOD: Duration = Duration::from_secs(5);
/// The interval between two writes of a status in which only the time of the last `DescribeTargetHealth` response
/// changed.
const READ_PERIOD: Duration = Duration::from_secs(60);
/// A write that the API server rejected because of the object's content is retried after this time. The rejected write
/// does not delay other writes.
const REFUSED: Duration = Duration::from_secs(60);
/// The time before Headgate deletes a generated TargetBinding that has no active binding, although its Service has the
/// annotation. The delay is necessary because Headgate looks up target groups after it starts.
const GRACE: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long Headgate removes finalizers from TargetBindings of a namespace that is no longer selected. The time is
/// longer than [`GRACE`] and the takeover by another replica.
const PARTING: Duration = Duration::from_secs(60);
/// If the namespace is not selected, Headgate removes the finalizer of a deleted TargetBinding after this time. After
/// this time, no other installation manages the TargetBinding, so no other program would remove the finalizer.
const NOBODYS: SignedDuration = SignedDuration::from_mins(10);

/// The data that the reconciler needs.
pub struct Bindings<L> {
    /// The API server.
    pub client: Client,
    /// The cluster or the namespaces that are watched.
    pub scopes: Vec<Scope>,
    /// Whether the reconciler manages only TargetBindings in selected namespaces.
    pub namespaces_are_selected: bool,
    /// The engine's views.
    pub views: Arc<Views>,
    /// Whether the engine's initial sync is complete.
    pub pulse: Arc<Pulse>,
    /// The time.
    pub clock: Clock,
    /// Whether this replica is the leader now.
    pub leads: L,
}

/// The installation that is responsible for a TargetBinding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Care {
    /// This installation is responsible.
    Own,
    /// This installation was responsible until the namespace was no longer selected.
    Parting,
    /// Another installation is responsible, or no installation is.
    Others,
}

/// The reconciler's earlier writes and observations.
#[derive(Debug, Default)]
struct Memory {
    written: HashMap<ObjectKey, Instant>,
    unwanted: HashMap<ObjectKey, Instant>,
    /// Objects that the API server rejects because of their content, with the time of the rejection.
    refused: HashMap<ObjectKey, Instant>,
    /// Objects in deselected namespaces from which the reconciler removed its finalizer.
    parted: HashSet<ObjectKey>,
    outage: Outage,
}

impl<L: Fn() -> bool> Bindings<L> {
    /// Runs the reconciler and never returns.
    ///
    /// # Errors
    /// A watch has ended unexpectedly.
    pub async fn keep(self) -> Result<(), String> {
        let mut readers = Vec::new();
        let mut watches = Vec::new();
        for scope in &self.scopes {
            let (reader, writer) = reflector::store();
            readers.push(reader);
            let watch = reflector::reflector(writer, watch(&self.client, scope)).map(|event| {
                if let Err(error) = event {
                    let error = judge("targetbindings", &error).1;
                    debug!(error, "the watch of all TargetBindings was interrupted; retrying");
                }
            });
            watches.push(watch.boxed());
        }
        let mut seen = futures::stream::select_all(watches);
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut memory = Memory::default();
        loop {
            tokio::select! {
                event = seen.next() => if event.is_none() {
                    return Err("the watch of all TargetBindings has ended".into());
                },
                _ = ticks.tick() => {
                    if !self.pulse.is_synced() || !(self.leads)() {
                        memory =
                            Memory { outage: memory.outage, parted: memory.parted, ..Memory::default() };
                        continue;
                    }
                    // Before the initial list is complete, an object that is missing in the cache may exist.
                    if !readers.iter().all(|reader| reader.wait_until_ready().now_or_never().is_some()) {
                        continue;
                    }
                    let there = readers.iter().flat_map(reflector::Store::state);
                    let there = there.filter_map(|object| Some((key_of(&object)?, object))).collect();
                    self.write(self.due(&there, &mut memory), &mut memory).await;
                }
            }
        }
    }

    /// Returns the writes that are due, most urgent first.
    fn due(&self, there: &BTreeMap<ObjectKey, Arc<TargetBinding>>, memory: &mut Memory) -> Vec<Write> {
        let mut writes = Vec::new();
        let mut made = BTreeSet::new();
        let mut views: HashMap<ObjectKey, Arc<BindingView>> = HashMap::new();
        for entry in &self.views.bindings {
            let view = entry.value().clone();
            let Origin::Service(service) = &view.key.origin else {
                views.insert(view.key.origin.key().clone(), view);
                continue;
            };
            let Some(origin) = self.views.origins.get(&view.key.origin) else { continue };
            let wanted = status::made(&view.key, &origin.uid);
            let key = ObjectKey::new(service.namespace.clone(), wanted.name_any());
            match there.get(&key) {
                // Kubernetes garbage-collects the TargetBindings of a deleted Service, so Headgate does not create them
                // again.
                _ if !origin.exists => {}
                Some(object) if status::is_as_made(object, &wanted) => {}
                Some(object) if object.meta().deletion_timestamp.is_some() => {}
                _ => writes.push(Write::Make(Box::new(wanted))),
            }
            made.insert(key.clone());
            views.insert(key, view);
        }
        memory.parted.retain(|key| self.left(key));
        memory.unwanted.retain(|key, _| there.contains_key(key) && !made.contains(key));
        let mut statuses = Vec::new();
        for (key, object) in there {
            let is_made = object.labels().get(MADE_FROM).is_some_and(|from| from == FROM_SERVICE);
            let care = self.care(key, memory);
            if care == Care::Others {
                writes.extend(self.nobodys(key, object));
                continue;
            }
            if is_made && !made.contains(key) {
                if self.is_over(key, object, memory) {
                    writes.push(Write::Unmake(object.clone()));
                }
                continue;
            }
            if care == Care::Parting {
                if object.meta().deletion_timestamp.is_none() || self.is_released(key, object) {
                    let status = Box::new(self.status(key, object, None));
                    writes.push(Write::Part(object.clone(), status, without_own(object)));
                }
                continue;
            }
            if !is_made && !made.contains(key) {
                writes.extend(self.finalizers(key, object).map(|now| Write::Finalizers(object.clone(), now)));
            }
            let status = self.status(key, object, views.get(key));
            if let Some(wait) = memory.written.get(key).map(Instant::elapsed) {
                let before = object.status.as_ref();
                let news = before.is_none_or(|before| !status::same_but_for_reading(before, &status));
                if wait < if news { STATUS_PERIOD } else { READ_PERIOD } {
                    continue;
                }
            }
            if object.status.as_ref() != Some(&status) {
                statuses.push((memory.written.get(key).copied(), object.clone(), status));
            }
        }
        memory.written.retain(|key, _| there.contains_key(key));
        self.views.released.retain(|key, _| there.contains_key(key));
        // The object with the oldest status comes first, so that no status waits forever.
        statuses.sort_by_key(|(written, _, _)| *written);
        writes
            .extend(statuses.into_iter().map(|(_, object, status)| Write::Status(object, Box::new(status))));
        writes
    }

    /// Whether to delete a generated TargetBinding that is no longer needed.
    fn is_over(&self, key: &ObjectKey, object: &TargetBinding, memory: &mut Memory) -> bool {
        if object.meta().deletion_timestamp.is_some() {
            return false;
        }
        let service = object.spec.service_ref.as_ref().map(|service| &service.name);
        let origin =
            service.map(|name| Origin::Service(ObjectKey::new(key.namespace.clone(), name.as_str())));
        let bound = origin.is_some_and(|origin| self.views.origins.contains_key(&origin));
        let since = *memory.unwanted.entry(key.clone()).or_insert_with(Instant::now);
        !bound || since.elapsed() >= GRACE
    }

    /// The desired finalizers of a user's TargetBinding, if they differ from the present ones.
    fn finalizers(&self, key: &ObjectKey, object: &TargetBinding) -> Option<Vec<String>> {
        if object.meta().deletion_timestamp.is_none() {
            let mut finalizers = object.finalizers().to_vec();
            finalizers.push(FINALIZER.to_owned());
            return (!is_kept(object)).then_some(finalizers);
        }
        (is_kept(object) && self.is_released(key, object)).then(|| without_own(object))
    }

    /// Whether the TargetBinding is deleted and all its targets are deregistered.
    fn is_released(&self, key: &ObjectKey, object: &TargetBinding) -> bool {
        let released = self.views.released.get(key).map(|uid| uid.to_string());
        released.is_some() && released == object.uid()
    }

    fn care(&self, key: &ObjectKey, memory: &Memory) -> Care {
        if !self.namespaces_are_selected {
            return Care::Own;
        }
        let selected = |selection: &Selection| *selection == Selection::Selected;
        if self.views.selections.get(&key.namespace).as_deref().is_some_and(selected) {
            Care::Own
        } else if self.left(key) && !memory.parted.contains(key) {
            Care::Parting
        } else {
            Care::Others
        }
    }

    /// Whether the object's namespace was deselected recently.
    fn left(&self, key: &ObjectKey) -> bool {
        let selection = self.views.selections.get(&key.namespace);
        matches!(selection.as_deref(), Some(Selection::Left(then)) if then.elapsed() < PARTING)
    }

    /// Removes the finalizer from a deleted TargetBinding that another installation should have released long ago.
    fn nobodys(&self, key: &ObjectKey, object: &Arc<TargetBinding>) -> Option<Write> {
        let deleted = object.meta().deletion_timestamp.as_ref()?.0;
        let since = Timestamp::now().duration_since(deleted);
        let over = since >= NOBODYS && is_kept(object) && self.is_released(key, object);
        over.then(|| Write::Finalizers(object.clone(), without_own(object)))
    }

    fn status(
        &self,
        key: &ObjectKey,
        object: &TargetBinding,
        view: Option<&Arc<BindingView>>,
    ) -> TargetBindingStatus {
        let target_group = &object.spec.target_group;
        let named = target_group.arn.as_deref().or(target_group.name.as_deref()).unwrap_or_default();
        let group = view.and_then(|view| self.views.groups.get(&view.key.group).map(|group| group.clone()));
        let origin = view.map_or_else(|| Origin::TargetBinding(key.clone()), |view| view.key.origin.clone());
        let mut said = Vec::new();
        if let Some(origin) = self.views.origins.get(&origin) {
            // Errors in other parts of an annotation are reported on the Service.
            let here = |problem: &&Problem| match (&origin.origin, view) {
                (Origin::Service(_), Some(view)) => problem.is_about(&view.key.port),
                _ => true,
            };
            let here = origin.problems.iter().filter(here);
            said.extend(here.map(|problem| (problem.reason, problem.said.clone())));
        }
        said.extend(view.map(|view| view.said.clone()).unwrap_or_default());
        let known = Known {
            named,
            binding: view.map(Arc::as_ref),
            group: group.as_deref(),
            last_read: group.as_ref().and_then(|group| group.last_read).map(|read| self.wall(read)),
            said: &said,
            generation: object.meta().generation,
            ending: object.meta().deletion_timestamp.is_some(),
        };
        status::status(&known, object.status.as_ref(), &wall_now())
    }

    /// The wall time of a moment in whole seconds, as Kubernetes formats times.
    fn wall(&self, moment: headgate_core::Moment) -> Time {
        let ago = SignedDuration::try_from(self.clock.since(moment)).unwrap_or_default();
        let then = Timestamp::try_from(SystemTime::now()).unwrap_or_default() - ago;
        Time(Timestamp::from_second(then.as_second()).unwrap_or_default())
    }

    async fn write(&self, due: Vec<Write>, memory: &mut Memory) {
        memory.refused.retain(|_, since| since.elapsed() < REFUSED);
        let is_taken = |write: &Write| write.key().is_none_or(|key| !memory.refused.contains_key(&key));
        let due: Vec<Write> = due.into_iter().filter(is_taken).take(BUDGET).collect();
        for write in due {
            if !(self.leads)() {
                return;
            }
            let (what, key) = (write.verb(), write.key());
            if let Write::Status(..) = &write
                && let Some(key) = &key
            {
                memory.written.insert(key.clone(), Instant::now());
            }
            let released = write.lets_go();
            let parts = key.as_ref().is_some_and(|key| self.care(key, memory) == Care::Parting);
            let error = match timeout(TIMEOUT, write.carry_out(&self.client)).await {
                Ok(Ok(())) => {
                    if released && let Some(key) = &key {
                        self.views.released.remove(key);
                    }
                    memory.parted.extend(key.filter(|_| parts));
                    if let Some(told) = memory.outage.worked(self.clock.now()) {
                        let failures = told.failures;
                        info!(
                            failures,
                            "TargetBindings can be written again, after {}",
                            Spelled(told.lasted)
                        );
                    }
                    continue;
                }
                Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                    debug!(what, error = %status.message, "a TargetBinding has changed in the meantime; \
                                                           comparing again");
                    continue;
                }
                // The object was stored before the schema rejected its content. Other objects are not affected.
                Ok(Err(kube::Error::Api(status))) if matches!(status.code, 400 | 422) => {
                    let object = key.as_ref().map(ToString::to_string);
                    let error = &*excerpt(&status.message);
                    warn!(what, object, error, "cannot write a TargetBinding; retrying in a minute");
                    memory.refused.extend(key.map(|key| (key, Instant::now())));
                    continue;
                }
                Ok(Err(error)) => plain(&error),
                Err(_) => format!("no answer within {TIMEOUT:?}"),
            };
            self.report(what, key.as_ref(), &error, memory);
            // The API server is unreachable or rejects all writes, so further writes would also fail.
            return;
        }
    }

    /// Logs a failure when it begins, when its cause changes, and when it continues for some time, because the write is
    /// retried every second.
    fn report(&self, what: &str, key: Option<&ObjectKey>, error: &str, memory: &mut Memory) {
        // A write that fails for one object may succeed for the next object.
        let Some(told) = memory.outage.failed(&format!("{what}: {error}"), self.clock.now()) else { return };
        let (object, failures) = (key.map(ToString::to_string), told.failures);
        let since = match told.what {
            What::GoesOn => format!(" for {} now", Spelled(told.lasted)),
            _ => String::new(),
        };
        warn!(
            what,
            object, error, failures, "cannot write TargetBindings{since}; retrying. Targets are not affected"
        );
    }
}

/// Whether the object has Headgate's finalizer.
fn is_kept(object: &TargetBinding) -> bool {
    object.finalizers().iter().any(|name| name == FINALIZER)
}

/// The object's finalizers without Headgate's own.
fn without_own(object: &TargetBinding) -> Vec<String> {
    object.finalizers().iter().filter(|name| *name != FINALIZER).cloned().collect()
}

fn key_of(object: &TargetBinding) -> Option<ObjectKey> {
    Some(ObjectKey::new(object.namespace()?, object.metadata.name.clone()?))
}

fn wall_now() -> Time {
    let now = Timestamp::try_from(SystemTime::now()).unwrap_or_default();
    Time(Timestamp::from_second(now.as_second()).unwrap_or_default())
}

fn known(event: Event<AnyBinding>) -> Event<TargetBinding> {
    match event {
        Event::Apply(object) => Event::Apply(object.into()),
        Event::Delete(object) => Event::Delete(object.into()),
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(object.into()),
        Event::InitDone => Event::InitDone,
    }
}

fn watch(client: &Client, scope: &Scope) -> BoxStream<'static, watcher::Result<Event<TargetBinding>>> {
    let api: Api<AnyBinding> = match scope {
        Scope::Cluster => Api::all(client.clone()),
        Scope::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
    };
    let events = watcher::watcher(api, watcher::Config::default().timeout(60)).patient();
    events.map_ok(known).boxed()
}

#[cfg(test)]
mod tests;
