//! Proves that a leader has terminated. Each replica writes the proof, and standbys read it.
//! [`headgate_core::leadership::lease`] explains why the proof is sufficient.
//!
//! At startup, each replica writes its identity to its termination log. The log is a file that the kubelet mounts.
//! While another replica is the leader, this module watches only the leader's pod, by name. The module returns the
//! states of terminated containers, and the state machine makes the decision. Without the file or the permission to
//! watch, there is no proof, and the Lease of a killed leader must expire.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Write},
    path::Path,
    sync::Arc,
};

use futures::{StreamExt, stream::BoxStream};
use headgate_core::leadership::lease::EndedContainer;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client,
    runtime::watcher::{self, Event, watcher},
};
use serde::Deserialize;
use tracing::{debug, info, warn};

use super::{
    patience::Patient,
    slim::without_annotations,
    watch_failures::{is_too_old, refusal},
};
use crate::{
    metrics::Metrics,
    runtime::{
        clock::Clock,
        outage::{Outage, Spelled, What},
    },
};

/// A watch ends after this many seconds and continues with a new request, so that Headgate detects a broken connection.
const WATCH_TIMEOUT: u32 = 20;

/// Writes the identity of this replica to a file that the kubelet reads after the container has terminated.
pub fn leave(identity: &str, termination_log: &Path) {
    let path = termination_log.display();
    // The kubelet creates the file for each container. If the file does not exist, the program does not run in a pod
    // and must not create the file.
    let opened = OpenOptions::new().write(true).truncate(true).open(termination_log);
    match opened.and_then(|mut file| file.write_all(identity.as_bytes())) {
        Ok(()) => {
            debug!(identity, %path, "if this replica is killed, its container's status will show that");
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            debug!(%path, "there is no termination log: if this replica is killed, its Lease must expire");
        }
        Err(error) => warn!(
            %path, %error,
            "cannot write the termination log: if this replica is killed, its Lease must expire. Set \
             --termination-log to a file that its user may write, like the kubelet creates it"
        ),
    }
}

/// A pod of Headgate, and the states of its containers.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = Pod)]
struct Replica {
    #[serde(default, deserialize_with = "without_annotations")]
    metadata: ObjectMeta,
    status: Option<Status>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    container_statuses: Option<Vec<Option<Container>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    state: Option<State>,
    last_state: Option<State>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct State {
    terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Terminated {
    reason: Option<String>,
    message: Option<String>,
}

impl Replica {
    fn ended(self) -> Vec<EndedContainer> {
        let Some(pod) = self.metadata.name else { return Vec::new() };
        let containers = self.status.unwrap_or_default().container_statuses.into_iter().flatten().flatten();
        let states = containers.flat_map(|container| [container.last_state, container.state]).flatten();
        let of = |ended: Terminated| EndedContainer {
            pod: pod.as_str().into(),
            reason: ended.reason.unwrap_or_default().into(),
            message: ended.message.unwrap_or_default().into(),
        };
        states.filter_map(|state| state.terminated).map(of).collect()
    }
}

/// The watch of the leader's pod.
pub struct Proofs {
    pods: Api<Replica>,
    clock: Clock,
    metrics: Arc<Metrics>,
    pod: Option<Box<str>>,
    watching: Option<BoxStream<'static, watcher::Result<Event<Replica>>>>,
    outage: Outage,
}

impl Proofs {
    /// Creates the state without a watch.
    pub fn new(client: Client, own_namespace: &str, clock: Clock, metrics: Arc<Metrics>) -> Self {
        let pods = Api::namespaced(client, own_namespace);
        Self { pods, clock, metrics, pod: None, watching: None, outage: Outage::default() }
    }

    /// Watches only the pod `pod` from now on.
    pub fn follow(&mut self, pod: Option<&str>) {
        if self.pod.as_deref() == pod {
            return;
        }
        self.pod = pod.map(Box::from);
        self.watching = pod.map(|pod| {
            let only =
                watcher::Config::default().fields(&format!("metadata.name={pod}")).timeout(WATCH_TIMEOUT);
            watcher(self.pods.clone(), only).patient().boxed()
        });
    }

    /// Waits until the pod changes. Returns the terminated containers of the pod.
    pub async fn next(&mut self) -> Vec<EndedContainer> {
        loop {
            let event = match &mut self.watching {
                Some(watching) => watching.next().await,
                None => std::future::pending().await,
            };
            match event {
                Some(Ok(Event::InitApply(pod) | Event::Apply(pod))) => {
                    self.works();
                    return pod.ended();
                }
                // The watcher starts to list, which may still fail.
                Some(Ok(Event::Init)) => {}
                // A deleted pod does not prove that its containers have terminated.
                Some(Ok(Event::InitDone | Event::Delete(_))) => self.works(),
                Some(Err(error)) if is_too_old(&error) => {}
                Some(Err(error)) => self.fails(&error),
                None => self.watching = None,
            }
        }
    }

    fn fails(&mut self, error: &watcher::Error) {
        self.metrics.watch_failed("pods");
        let Some(said) = refusal("pods", error) else {
            // If the API server is unavailable, every watch fails, and the other watches report the failure.
            debug!(pod = self.pod, %error, "the watch of the leader's pod was interrupted; retrying");
            return;
        };
        let Some(told) = self.outage.failed("", self.clock.now()) else { return };
        let since = match told.what {
            What::GoesOn => format!(" for {} now", Spelled(told.lasted)),
            _ => String::new(),
        };
        warn!(
            pod = self.pod,
            "cannot watch the leader's pod{since}, so if it is killed, its Lease must expire. Create the \
             Role of config/rbac/own-namespace.yaml in Headgate's own namespace: {said}"
        );
    }

    fn works(&mut self) {
        if let Some(told) = self.outage.worked(self.clock.now()) {
            info!(
                failures = told.failures,
                "the leader's pod is watched again, after {}",
                Spelled(told.lasted)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ended(status: &Value) -> Vec<(String, String)> {
        let pod =
            json!({"metadata": {"name": "headgate-a", "uid": "u"}, "spec": {"large": []}, "status": status});
        let read = serde_json::from_value::<Replica>(pod).unwrap().ended();
        assert!(read.iter().all(|ended| &*ended.pod == "headgate-a"));
        read.into_iter().map(|ended| (ended.reason.into(), ended.message.into())).collect()
    }

    #[test]
    fn of_each_container_that_has_ended_before_or_now_its_word_is_read() {
        let of = |reason: &str, message: &str| json!({"terminated": {"exitCode": 137, "reason": reason, "message": message}});
        let status = json!({"phase": "Running", "containerStatuses": [
            {"name": "headgate", "state": of("Error", "headgate-a_2"), "lastState": of("OOMKilled", "headgate-a_1")},
            {"name": "side", "state": {"running": {}}, "lastState": {}},
        ]});
        let wanted = [("OOMKilled", "headgate-a_1"), ("Error", "headgate-a_2")];
        assert_eq!(ended(&status), wanted.map(|(reason, message)| (reason.to_owned(), message.to_owned())));
    }

    #[test]
    fn what_is_missing_or_null_anywhere_is_no_word() {
        for status in [
            json!(null),
            json!({}),
            json!({"containerStatuses": null}),
            json!({"containerStatuses": [null, {}, {"state": null, "lastState": null}, {"state": {"terminated": null}}]}),
            json!({"initContainerStatuses": [{"state": {"terminated": {"message": "headgate-a_1"}}}]}),
        ] {
            assert_eq!(ended(&status), [], "{status}");
        }
        let bare =
            json!({"containerStatuses": [{"state": {"terminated": {"reason": null, "message": null}}}]});
        assert_eq!(ended(&bare), [(String::new(), String::new())]);
    }

    #[test]
    fn the_word_is_left_in_a_file_that_is_there_and_none_is_made() {
        let folder = std::env::temp_dir().join(format!("headgate-termination-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let log = folder.join("termination-log");
        leave("headgate-a_1", &log);
        assert!(!log.exists());
        std::fs::write(&log, "a much longer text that somebody left there").unwrap();
        leave("headgate-a_1", &log);
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "headgate-a_1");
        leave("headgate-a_1", &folder);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
