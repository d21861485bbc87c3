//! Manages the Lease object: sends the requests of the state machine in [`headgate_core::leadership::lease`], and
//! publishes whether this replica is the leader.
//!
//! The election sends one request at a time on its own client, each with a timeout well below the renew deadline. While
//! another replica is the leader, a watch detects immediately that the Lease was released. The watch is only an
//! optimization: the state machine also reads the Lease every retry period.
//!
//! When the engine has stopped, the election releases the Lease, so that another replica takes over before the Lease
//! expires. If the leader is killed, its container's status also proves that the Lease is free
//! ([`proof`](super::proof)). The election logs a failure when it begins, changes, continues and ends. The election
//! retries requests forever.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use headgate_core::{
    Moment,
    leadership::lease::{Claim, EndedContainer, Failure, Lease, Record, Request, Stored, Timing},
};
use k8s_openapi::{
    api::coordination::v1::{Lease as Object, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, PostParams, WatchEvent, WatchParams},
};
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    kube::{
        handover::Handover,
        installation::{SERVED_BEFORE, SERVES},
        proof::Proofs,
        resting,
        words::plain,
    },
    metrics::Metrics,
    runtime::{
        authority::{Ledgers, Standing, Stranger},
        clock::Clock,
        outage::{Outage, Spelled, What},
    },
};

/// The election reopens the watch of the Lease after this many seconds. A gap between two watches loses no change.
const WATCH_SECONDS: u32 = 20;

/// The annotation of a released Lease whose last holder had no call or write in flight.
const SETTLED: &str = "headgate.dev/settled";

type Watching = BoxStream<'static, kube::Result<WatchEvent<Object>>>;

/// The options of the leader election.
#[derive(Clone, Debug)]
pub struct Options {
    /// The Lease's name.
    pub name: String,
    /// The Lease's namespace, which is Headgate's own namespace.
    pub namespace: String,
    /// The name of this replica in the Lease.
    pub identity: Arc<str>,
    /// The duration of the Lease and the interval of its renewals.
    pub timing: Timing,
    /// The namespaces that this replica manages, as text. The holder writes its namespaces to the Lease.
    pub serves: String,
}

/// The holder of the Lease, or a candidate.
pub struct Election {
    api: Api<Object>,
    options: Options,
    machine: Lease,
    handover: Handover,
    /// The Lease object from the last response. A write keeps the object's other fields.
    object: Option<Object>,
    clock: Clock,
    tell: watch::Sender<Standing>,
    /// What the engine reports about the ledgers.
    ledgers: watch::Receiver<Ledgers>,
    metrics: Arc<Metrics>,
    outage: Outage,
    /// The verb of the request that fails. A successful read does not end the failure of a write.
    fails: Option<&'static str>,
    /// The holder with other settings, if there is one.
    stranger: Option<Stranger>,
}

impl Election {
    /// A candidate that publishes its state through `tell` and learns about the ledgers from `ledgers`. No other task should use `client`. `handover` belongs to
    /// the namespace of the Lease.
    pub fn new(
        client: Client,
        options: Options,
        handover: Handover,
        clock: Clock,
        (tell, ledgers): (watch::Sender<Standing>, watch::Receiver<Ledgers>),
        metrics: Arc<Metrics>,
    ) -> Self {
        let api = Api::namespaced(client, &options.namespace);
        let machine = Lease::new(options.identity.clone(), options.timing);
        Self {
            api,
            options,
            machine,
            handover,
            object: None,
            clock,
            tell,
            ledgers,
            metrics,
            outage: Outage::default(),
            fails: None,
            stranger: None,
        }
    }

    /// Runs until `retired`, and then releases the Lease or gives up after a timeout. `proofs` must belong to the
    /// namespace of the Lease.
    pub async fn run(mut self, mut proofs: Proofs, retired: CancellationToken) -> Result<(), String> {
        let mut watching: Option<Watching> = None;
        let mut leave_by: Option<Moment> = None;
        loop {
            while let Some(request) = self.machine.request(self.clock.now()) {
                let answer = self.make(&request).await;
                self.report(&request, answer.as_ref().err());
                self.machine.answered(answer, self.clock.now());
                self.publish();
            }
            if leave_by.is_none() {
                self.hand_over().await;
            }
            self.publish();
            let now = self.clock.now();
            if self.machine.has_left() || leave_by.is_some_and(|by| by <= now) {
                info!(released = self.machine.has_left(), "Lease released");
                return Ok(());
            }
            let stands_by = self.machine.term(now).is_none() && leave_by.is_none();
            if !stands_by {
                watching = None;
            } else if watching.is_none() {
                watching = self.watch().await;
            }
            proofs.follow(self.machine.pod_of_holder().filter(|_| stands_by));
            let due = self.machine.due().unwrap_or(now);
            let due = self.machine.term(now).map_or(due, |term| due.min(term.until));
            tokio::select! {
                event = next(&mut watching) => self.observe(event, &mut watching),
                ended = proofs.next() => self.judge(&ended),
                () = self.clock.sleep_until(due) => {}
                Ok(()) = self.ledgers.changed() => {
                    let Ledgers { later_term, .. } = *self.ledgers.borrow_and_update();
                    self.machine.outdated(later_term, self.clock.now());
                }
                () = retired.cancelled(), if leave_by.is_none() => {
                    let now = self.clock.now();
                    self.machine.leave(self.ledgers.borrow().are_settled, now);
                    leave_by = Some(now + self.options.timing.request_timeout() * 2);
                }
            }
        }
    }

    /// Releases the Lease if this replica is the leader but is unable to do its work.
    async fn hand_over(&mut self) {
        let clock = self.clock;
        if self.machine.term(clock.now()).is_none() {
            self.handover.stands_by(clock.now());
            return;
        }
        let by = self.options.timing.request_timeout();
        if let Some((reason, pause)) = self.handover.decide(&self.machine, by, || clock.now()).await {
            self.machine.steps_down(reason, pause, clock.now());
        }
    }

    async fn make(&mut self, request: &Request) -> Result<Option<Stored>, Failure> {
        let (name, by) = (&self.options.name, self.options.timing.request_timeout());
        let post = PostParams::default();
        let answer = match request {
            Request::Read => timeout(by, self.api.get_opt(name)).await,
            Request::Create(claim) => {
                let mut object = Object {
                    metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
                    spec: None,
                };
                write(&mut object, claim, &self.options.serves);
                timeout(by, self.api.create(&post, &object)).await.map(|made| made.map(Some))
            }
            Request::Replace { version, claim } => {
                let mut object = self.object.clone().unwrap_or_default();
                object.metadata.name = Some(name.clone());
                object.metadata.resource_version = Some(version.to_string());
                write(&mut object, claim, &self.options.serves);
                timeout(by, self.api.replace(name, &post, &object)).await.map(|made| made.map(Some))
            }
        };
        match answer {
            Err(_) => Err(Failure::Other(format!("no answer within {by:?}").into())),
            Ok(Ok(object)) => {
                self.object.clone_from(&object);
                Ok(object.as_ref().map(read))
            }
            Ok(Err(error)) => Err(self.class(request, &error)),
        }
    }

    fn class(&self, request: &Request, error: &kube::Error) -> Failure {
        let code = match error {
            kube::Error::Api(status) => status.code,
            _ => 0,
        };
        match (code, request) {
            (409, _) | (404, Request::Replace { .. }) => Failure::Conflict,
            (404, Request::Create(_)) => {
                let namespace = &self.options.namespace;
                let text = format!(
                    "there is no namespace {namespace}. Create Headgate's own namespace, or name another one \
                     with --own-namespace"
                );
                Failure::Other(text.into())
            }
            (403, _) => {
                let namespace = &self.options.namespace;
                let text = format!(
                    "{}. Create a Role in namespace {namespace} with the verbs get, create, update and watch \
                     on leases.coordination.k8s.io, see config/rbac/own-namespace.yaml",
                    plain(error)
                );
                Failure::Other(text.into())
            }
            _ => Failure::Other(plain(error).into()),
        }
    }

    async fn watch(&self) -> Option<Watching> {
        let version = self.object.as_ref()?.metadata.resource_version.as_deref()?;
        let only = WatchParams::default()
            .fields(&format!("metadata.name={}", self.options.name))
            .timeout(WATCH_SECONDS)
            .disable_bookmarks();
        let opened = timeout(self.options.timing.request_timeout(), self.api.watch(&only, version)).await;
        match opened {
            Ok(Ok(stream)) => Some(stream.boxed()),
            // After the next read of the Lease, the election opens another watch.
            Ok(Err(error)) => {
                debug!(error = plain(&error), "cannot watch the Lease");
                None
            }
            Err(_) => None,
        }
    }

    fn observe(&mut self, event: Option<kube::Result<WatchEvent<Object>>>, watching: &mut Option<Watching>) {
        let now = self.clock.now();
        match event {
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                self.machine.observed(Some(read(&object)), now);
                self.object = Some(object);
            }
            Some(Ok(WatchEvent::Deleted(_))) => {
                self.machine.observed(None, now);
                self.object = None;
            }
            Some(Ok(WatchEvent::Bookmark(_))) => {}
            Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => *watching = None,
        }
    }

    fn judge(&mut self, ended: &[EndedContainer]) {
        let now = self.clock.now();
        for container in ended {
            if self.machine.ended(container, now) {
                info!(
                    holder = self.machine.holder(),
                    reason = &*container.reason,
                    "the container of the leader has terminated: acquiring its Lease before it expires"
                );
            }
        }
    }

    fn report(&mut self, request: &Request, failure: Option<&Failure>) {
        let verb = match request {
            Request::Read => "get",
            Request::Create(_) => "create",
            Request::Replace { .. } => "update",
        };
        let now = self.clock.now();
        match failure {
            None => {
                // The election reads the Lease before each create or renewal. A successful read does not mean that this
                // replica holds the Lease.
                if self.fails.is_none_or(|fails| fails != verb && verb == "get") {
                    return;
                }
                self.fails = None;
                if let Some(told) = self.outage.worked(now) {
                    info!(
                        verb,
                        failures = told.failures,
                        "the Lease can be renewed again, after {}",
                        Spelled(told.lasted)
                    );
                }
            }
            Some(Failure::Conflict) => debug!(verb, "another client has changed the Lease"),
            Some(Failure::Other(error)) => {
                self.metrics.lease_failed(verb);
                self.fails = Some(verb);
                let Some(told) = self.outage.failed(error, now) else { return };
                let failures = told.failures;
                match told.what {
                    What::Begins | What::Changed => {
                        warn!(verb, %error, "cannot renew or read the Lease; retrying");
                    }
                    _ => warn!(
                        verb, %error, failures,
                        "cannot renew or read the Lease for {} now; retrying", Spelled(told.lasted)
                    ),
                }
            }
        }
    }

    /// Checks whether the holder has other settings than this replica. During an upgrade that changes settings, a
    /// difference is normal.
    fn compare(&mut self) {
        let holder = self.machine.holder().filter(|holder| **holder != *self.options.identity);
        let serves = holder.and_then(|_| self.object.as_ref()?.annotations().get(SERVES));
        let other = serves.filter(|serves| **serves != self.options.serves);
        if self.stranger.as_ref().map(|stranger| &*stranger.serves) == other.map(String::as_str) {
            return;
        }
        let since = self.stranger.as_ref().map_or_else(|| self.clock.now(), |stranger| stranger.since);
        self.stranger = other.map(|serves| Stranger::new(serves, &self.options.serves, since));
        self.metrics.lease_is_anothers(self.stranger.is_some());
        if let Some(stranger) = &self.stranger {
            warn!(
                lease = self.options.name,
                namespace = self.options.namespace,
                holder = self.machine.holder(),
                "{}",
                stranger.said
            );
        }
    }

    fn publish(&mut self) {
        self.compare();
        let now = Standing {
            term: self.machine.term(self.clock.now()),
            holder: self.machine.holder().map(Box::from),
            stranger: self.stranger.clone(),
            unable: self.handover.unable(),
        };
        let number = |standing: &Standing| standing.term.map(|term| term.number);
        self.tell.send_if_modified(|before| {
            let changed = *before != now;
            if number(before) != number(&now) || before.holder != now.holder {
                let holder = now.holder.as_deref().unwrap_or("nobody");
                let identity = &*self.options.identity;
                if let Some(term) = now.term {
                    info!(term = term.number, identity, "leading");
                } else {
                    info!(holder, identity, "standing by");
                }
            }
            *before = now;
            changed
        });
    }
}

async fn next(watching: &mut Option<Watching>) -> Option<kube::Result<WatchEvent<Object>>> {
    match watching {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

fn write(object: &mut Object, claim: &Claim, serves: &str) {
    let before = object.annotations_mut().insert(SERVES.to_owned(), serves.to_owned());
    if let Some(before) = before.filter(|before| before != serves) {
        // The annotation remains until a leader has opened the gates in the namespaces that are no longer managed.
        let known = object.annotations_mut().entry(SERVED_BEFORE.to_owned()).or_default();
        if known.is_empty() {
            *known = before;
        } else if !known.split("; ").any(|known| known == before) {
            *known = format!("{known}; {before}");
        }
    }
    if claim.is_settled {
        object.annotations_mut().insert(SETTLED.to_owned(), "true".to_owned());
    } else {
        object.annotations_mut().remove(SETTLED);
    }
    let now = MicroTime(Timestamp::now());
    resting::write(object, &claim.rests, &now.0.to_string());
    let before = object.spec.take().unwrap_or_default();
    let acquired = before.acquire_time.clone().filter(|_| !claim.acquired_now);
    // Like client-go, Headgate writes an empty holder to a released Lease.
    let seconds = claim.duration.as_secs() + u64::from(claim.duration.subsec_nanos() > 0);
    object.spec = Some(LeaseSpec {
        acquire_time: Some(acquired.unwrap_or_else(|| now.clone())),
        holder_identity: Some(claim.holder.as_deref().unwrap_or_default().to_owned()),
        lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
        lease_transitions: Some(i32::try_from(claim.transitions).unwrap_or(i32::MAX)),
        renew_time: Some(now),
        ..before
    });
}

pub(super) fn read(object: &Object) -> Stored {
    let spec = object.spec.clone().unwrap_or_default();
    let text = |time: Option<MicroTime>| time.map(|time| time.0.to_string().into());
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Stored {
        version: object.metadata.resource_version.as_deref().unwrap_or_default().into(),
        record: Record {
            holder: spec.holder_identity.filter(|holder| !holder.is_empty()).map(Into::into),
            duration: seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs),
            is_settled: object.annotations().get(SETTLED).is_some_and(|value| value == "true"),
            transitions: spec.lease_transitions.and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
            acquired: text(spec.acquire_time),
            renewed: text(spec.renew_time),
        },
        rests: resting::read(object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(holder: Option<&str>) -> Claim {
        Claim {
            holder: holder.map(Arc::from),
            duration: Duration::from_secs(15),
            transitions: 2,
            is_settled: false,
            acquired_now: false,
            rests: Vec::new(),
        }
    }

    #[test]
    fn what_is_written_is_read_again_and_what_is_others_stays() {
        let mut object = Object::default();
        object.metadata.resource_version = Some("7".into());
        object.spec = Some(LeaseSpec { preferred_holder: Some("x".into()), ..LeaseSpec::default() });
        write(&mut object, &claim(Some("me")), "all");
        let stored = read(&object);
        assert_eq!(&*stored.version, "7");
        assert_eq!(stored.record.holder.as_deref(), Some("me"));
        assert_eq!((stored.record.duration, stored.record.transitions), (Some(Duration::from_secs(15)), 2));
        assert_eq!(object.annotations()[SERVES], "all");
        assert_eq!(object.spec.unwrap().preferred_holder.as_deref(), Some("x"));
    }

    #[test]
    fn what_holders_before_served_stands_there_until_somebody_has_seen_to_it() {
        let mut object = Object::default();
        for serves in ["a", "a", "b", "a", "b", "c"] {
            write(&mut object, &claim(Some("me")), serves);
        }
        assert_eq!(object.annotations()[SERVED_BEFORE], "a; b");
        object.annotations_mut().remove(SERVED_BEFORE);
        write(&mut object, &claim(Some("me")), "c");
        assert_eq!(object.annotations().get(SERVED_BEFORE), None);
    }

    #[test]
    fn the_time_of_acquisition_is_kept_by_a_renewal_and_new_for_a_new_holder() {
        let mut object = Object::default();
        write(&mut object, &claim(Some("me")), "all");
        let long_ago = MicroTime(Timestamp::UNIX_EPOCH);
        object.spec.as_mut().unwrap().acquire_time = Some(long_ago.clone());
        write(&mut object, &claim(Some("me")), "all");
        assert_eq!(object.spec.as_ref().unwrap().acquire_time, Some(long_ago.clone()));
        write(&mut object, &Claim { acquired_now: true, ..claim(Some("you")) }, "all");
        assert_ne!(object.spec.as_ref().unwrap().acquire_time, Some(long_ago));
    }

    #[test]
    fn a_released_lease_has_an_empty_holder_which_is_nobody() {
        let mut object = Object::default();
        write(&mut object, &claim(None), "all");
        assert_eq!(object.spec.as_ref().unwrap().holder_identity.as_deref(), Some(""));
        assert_eq!(read(&object).record.holder, None);
    }

    #[test]
    fn nonsense_in_a_lease_is_read_as_nothing() {
        let spec = LeaseSpec {
            lease_duration_seconds: Some(-5),
            lease_transitions: Some(-1),
            ..LeaseSpec::default()
        };
        let record = read(&Object { spec: Some(spec), ..Object::default() }).record;
        assert_eq!((record.holder, record.duration, record.transitions), (None, None, 0));
    }
}
