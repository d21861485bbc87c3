//! The metrics, each registered once, in the OpenMetrics format.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use headgate_core::{
    Origin, Reason, Span,
    model::{health::HealthState, target_group::TargetGroupArn},
    nodes::Fate,
    view::GateView,
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeLabelValue, EncodeMetric, LabelValueEncoder, text},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
    },
    registry::{Registry, Unit},
};

use crate::runtime::views::Views;

/// Seconds; fine where a removal should be, coarse where AWS is.
const BUCKETS: [f64; 18] = [
    0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0,
    60.0,
];

/// Seconds that a load balancer takes to call a new target healthy.
const HEALTH_BUCKETS: [f64; 12] = [1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 300.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    action: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabel {
    verb: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActionLabel {
    action: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabel {
    cause: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServerLabel {
    server: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClosedLabels {
    server: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabel {
    target_group: String,
}

impl GroupLabel {
    fn of(group: &TargetGroupArn) -> Self {
        Self { target_group: group.name().to_owned() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EvictionLabels {
    answer: &'static str,
    reason: ReasonValue,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: ReasonValue,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ReasonValue(Reason);

impl EncodeLabelValue for ReasonValue {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.as_str().encode(encoder)
    }
}

/// All metrics of the program.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pod_ip_to_register: Histogram,
    deletion_to_deregister: Histogram,
    aws_calls: Family<CallLabels, Counter>,
    aws_call_time: Family<ActionLabel, Histogram, fn() -> Histogram>,
    throttle_wait: Family<ActionLabel, Histogram, fn() -> Histogram>,
    aws_reachable: Gauge<f64, AtomicU64>,
    aws_unreachable: Family<CauseLabel, Counter>,
    watch_failures: Family<KindLabel, Counter>,
    notices: Family<ReasonLabel, Counter>,
    events: Family<OutcomeLabel, Counter>,
    pods: Gauge<f64, AtomicU64>,
    synced: Gauge<f64, AtomicU64>,
    leader: Gauge<f64, AtomicU64>,
    lease_is_anothers: Gauge<f64, AtomicU64>,
    lease_failures: Family<VerbLabel, Counter>,
    webhook_requests: Family<StatusLabel, Counter>,
    webhook_request_time: Histogram,
    injections: Family<ReasonLabel, Counter>,
    certificate_end: Gauge<f64, AtomicU64>,
    ledger_requests: Family<RequestLabels, Counter>,
    ledger_request_time: Family<VerbLabel, Histogram, fn() -> Histogram>,
    register_to_healthy: Histogram,
    healthy_to_gate: Histogram,
    gate_writes: Family<OutcomeLabel, Counter>,
    holds_too_short: Family<GroupLabel, Counter>,
    evictions: Family<EvictionLabels, Counter>,
    departure: Histogram,
    nodes_go: Family<ReasonLabel, Gauge<f64, AtomicU64>>,
    connections: Family<ServerLabel, Gauge>,
    connections_closed: Family<ClosedLabels, Counter>,
}

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

impl Metrics {
    /// The metrics; those of bindings and target groups are read from `views` when they are asked for.
    pub fn new(views: Arc<Views>) -> Self {
        let mut registry = Registry::with_prefix("headgate");
        let metrics = Self {
            pod_ip_to_register: histogram(),
            deletion_to_deregister: histogram(),
            aws_calls: Family::default(),
            aws_call_time: Family::new_with_constructor(histogram),
            throttle_wait: Family::new_with_constructor(histogram),
            aws_reachable: Gauge::default(),
            aws_unreachable: Family::default(),
            watch_failures: Family::default(),
            notices: Family::default(),
            events: Family::default(),
            pods: Gauge::default(),
            synced: Gauge::default(),
            leader: Gauge::default(),
            lease_is_anothers: Gauge::default(),
            lease_failures: Family::default(),
            webhook_requests: Family::default(),
            webhook_request_time: histogram(),
            injections: Family::default(),
            certificate_end: Gauge::default(),
            ledger_requests: Family::default(),
            ledger_request_time: Family::new_with_constructor(histogram),
            register_to_healthy: Histogram::new(HEALTH_BUCKETS),
            healthy_to_gate: histogram(),
            gate_writes: Family::default(),
            holds_too_short: Family::default(),
            evictions: Family::default(),
            departure: Histogram::new(HEALTH_BUCKETS),
            nodes_go: Family::default(),
            connections: Family::default(),
            connections_closed: Family::default(),
            registry: Registry::default(),
        };
        registry.register_with_unit(
            "pod_ip_to_register",
            "From the event that shows a pod's IP reaching Headgate to its first RegisterTargets being sent",
            Unit::Seconds,
            metrics.pod_ip_to_register.clone(),
        );
        registry.register_with_unit(
            "deletion_to_deregister",
            "From the event that says a pod goes or has gone reaching Headgate to its first DeregisterTargets being sent",
            Unit::Seconds,
            metrics.deletion_to_deregister.clone(),
        );
        registry.register(
            "aws_calls",
            "Calls to AWS by action and outcome: ok, Throttled, Unavailable, AccessDenied, TargetGroupNotFound, \
             TargetRefused",
            metrics.aws_calls.clone(),
        );
        registry.register_with_unit(
            "aws_call_duration",
            "From a call being sent to AWS to its end",
            Unit::Seconds,
            metrics.aws_call_time.clone(),
        );
        registry.register_with_unit(
            "aws_throttle_wait",
            "For how long a call to AWS that was due had to wait for a token of AWS's limits, or for its turn in a burst",
            Unit::Seconds,
            metrics.throttle_wait.clone(),
        );
        metrics.aws_reachable(true);
        registry.register(
            "aws_reachable",
            "0 while no call gets through to AWS: no way there, no credentials, or none that AWS accepts",
            metrics.aws_reachable.clone(),
        );
        registry.register(
            "aws_unreachable",
            "Calls that did not get through to AWS, by cause: ConnectionRefused, NameNotResolved, TlsFailed, \
             ConnectTimeout, Timeout, NoConnection, NoCredentials, CredentialsFailed, or AWS's word for bad credentials",
            metrics.aws_unreachable.clone(),
        );
        registry.register(
            "watch_failures",
            "Interrupted or refused watches of the Kubernetes API by kind",
            metrics.watch_failures.clone(),
        );
        registry.register("notices", "Warnings given to users, by reason", metrics.notices.clone());
        registry.register(
            "events",
            "Kubernetes Events by outcome: written, failed, dropped",
            metrics.events.clone(),
        );
        registry.register("pods", "Pods that Headgate sees", metrics.pods.clone());
        registry.register("synced", "1 once every watch has listed all there is", metrics.synced.clone());
        registry.register("leader", "1 while this replica leads", metrics.leader.clone());
        registry.register(
            "lease_conflict",
            "1 while a Headgate that serves other namespaces holds the Lease",
            metrics.lease_is_anothers.clone(),
        );
        registry.register(
            "webhook_requests",
            "Requests to the webhooks, by the HTTP status of the answer",
            metrics.webhook_requests.clone(),
        );
        registry.register_with_unit(
            "webhook_request_duration",
            "From the head of a request to the webhook to its answer",
            Unit::Seconds,
            metrics.webhook_request_time.clone(),
        );
        registry.register(
            "injections",
            "Decisions about new pods by reason, each once for a pod; dry runs do not count",
            metrics.injections.clone(),
        );
        registry.register(
            "webhook_certificate_end_timestamp_seconds",
            "When the webhook's own certificate ends, in seconds since 1970; 0 if there is none",
            metrics.certificate_end.clone(),
        );
        registry.register(
            "lease_failures",
            "Requests about the Lease that failed, by verb",
            metrics.lease_failures.clone(),
        );
        registry.register(
            "ledger_requests",
            "Requests about TargetLedgers by verb and outcome: ok, Conflict, Gone, Throttled, Unavailable, Denied, Refused",
            metrics.ledger_requests.clone(),
        );
        registry.register_with_unit(
            "ledger_request_duration",
            "From a request about a TargetLedger being sent to its end; no pod is registered before its ledger is \
             written",
            Unit::Seconds,
            metrics.ledger_request_time.clone(),
        );
        registry.register_with_unit(
            "register_to_healthy",
            "From the answer of RegisterTargets to that of the first read which shows the target healthy",
            Unit::Seconds,
            metrics.register_to_healthy.clone(),
        );
        registry.register_with_unit(
            "healthy_to_gate",
            "From the answer of the read which shows the last target of a pod healthy to its readiness gate being open",
            Unit::Seconds,
            metrics.healthy_to_gate.clone(),
        );
        registry.register(
            "gate_writes",
            "Readiness gates written into the status of pods by outcome: ok, Gone, Conflict, Throttled, Unavailable, Denied, Refused",
            metrics.gate_writes.clone(),
        );
        registry.register(
            "holds_too_short",
            "Pods that ended before their load balancer had stopped sending to them (HoldTooShort), by target group",
            metrics.holds_too_short.clone(),
        );
        registry.register(
            "eviction_requests",
            "Answers to requests for the eviction of pods by answer (pass, wait) and reason; dry runs do not count",
            metrics.evictions.clone(),
        );
        registry.register_with_unit(
            "departure",
            "From the first request for the eviction of a pod that has no hold to its being let through",
            Unit::Seconds,
            metrics.departure.clone(),
        );
        registry.register(
            "nodes_leaving",
            "Nodes that are about to go, by reason: NodeDying, NodeDeleted (and pods of it are left), NodeDisrupted",
            metrics.nodes_go.clone(),
        );
        registry.register(
            "connections",
            "Connections that are open, by server: admin, debug, webhook",
            metrics.connections.clone(),
        );
        registry.register(
            "connections_closed",
            "Connections that Headgate closed, by server and reason: crowd (for a newer one), or what took too long: \
             handshake, header, request, idle",
            metrics.connections_closed.clone(),
        );
        registry.register_collector(Box::new(Counted(views)));
        Self { registry, ..metrics }
    }

    /// The page at `/metrics`.
    ///
    /// # Errors
    /// Only if a metric cannot be formatted.
    pub fn page(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode(&mut page, &self.registry)?;
        Ok(page)
    }

    /// A pod is registered for the first time, `wait` after its IP was seen.
    pub fn registering(&self, wait: Duration) {
        self.pod_ip_to_register.observe(wait.as_secs_f64());
    }

    /// A pod that goes or has gone is deregistered for the first time, `wait` after that was seen.
    pub fn deregistering(&self, wait: Duration) {
        self.deletion_to_deregister.observe(wait.as_secs_f64());
    }

    /// A call has ended.
    pub fn called(&self, action: &'static str, outcome: &'static str, took: Duration) {
        self.aws_calls.get_or_create(&CallLabels { action, outcome }).inc();
        self.aws_call_time.get_or_create(&ActionLabel { action }).observe(took.as_secs_f64());
    }

    /// A call is sent that had to wait so long for a token.
    pub fn waited(&self, action: &'static str, wait: Duration) {
        self.throttle_wait.get_or_create(&ActionLabel { action }).observe(wait.as_secs_f64());
    }

    /// Calls get through to AWS, or do not.
    pub fn aws_reachable(&self, reachable: bool) {
        self.aws_reachable.set(f64::from(u8::from(reachable)));
    }

    /// A call did not get through to AWS.
    pub fn aws_out_of_reach(&self, cause: &str) {
        self.aws_unreachable.get_or_create(&CauseLabel { cause: cause.to_owned() }).inc();
    }

    /// This replica leads, or does not.
    pub fn leads(&self, leads: bool) {
        self.leader.set(f64::from(u8::from(leads)));
    }

    /// Another installation holds the Lease, or does not.
    pub fn lease_is_anothers(&self, is: bool) {
        self.lease_is_anothers.set(f64::from(u8::from(is)));
    }

    /// A request about the Lease has failed.
    pub fn lease_failed(&self, verb: &'static str) {
        self.lease_failures.get_or_create(&VerbLabel { verb }).inc();
    }

    /// A connection to this server is open.
    pub fn connection_opened(&self, server: &'static str) {
        self.connections.get_or_create(&ServerLabel { server }).inc();
    }

    /// It is no longer.
    pub fn connection_ended(&self, server: &'static str) {
        self.connections.get_or_create(&ServerLabel { server }).dec();
    }

    /// This server closes a connection.
    pub fn connection_closed(&self, server: &'static str, reason: &'static str) {
        self.connections_closed.get_or_create(&ClosedLabels { server, reason }).inc();
    }

    /// A request to the webhook was answered with this HTTP status.
    pub fn webhook_answered(&self, status: u16, took: Duration) {
        self.webhook_requests.get_or_create(&StatusLabel { status }).inc();
        self.webhook_request_time.observe(took.as_secs_f64());
    }

    /// This was decided about a new pod.
    pub fn injected(&self, reasons: &[Reason]) {
        for reason in reasons {
            self.injections.get_or_create(&ReasonLabel { reason: ReasonValue(*reason) }).inc();
        }
    }

    /// When the certificate ends that is served, in seconds since 1970.
    pub fn certificate_ends(&self, at: i64) {
        #[allow(clippy::cast_precision_loss)] // exact until the year 285 million
        self.certificate_end.set(at as f64);
    }

    /// A request about a ledger has ended.
    pub fn ledger_answered(&self, verb: &'static str, outcome: &'static str, took: Duration) {
        self.ledger_requests.get_or_create(&RequestLabels { verb, outcome }).inc();
        self.ledger_request_time.get_or_create(&VerbLabel { verb }).observe(took.as_secs_f64());
    }

    /// Something took so long.
    pub fn took(&self, span: Span, took: Duration) {
        let histogram = match span {
            Span::RegisterToHealthy => &self.register_to_healthy,
            Span::HealthyToGate => &self.healthy_to_gate,
            Span::Departure => &self.departure,
        };
        histogram.observe(took.as_secs_f64());
    }

    /// A readiness gate was written, or could not be.
    pub fn gate_written(&self, outcome: &'static str) {
        self.gate_writes.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// This target group is served: what is counted of it begins at zero, so that the first one is seen as an increase.
    pub fn serves(&self, group: &TargetGroupArn) {
        let _ = self.holds_too_short.get_or_create(&GroupLabel::of(group));
    }

    /// This target group is served no more.
    pub fn serves_no_more(&self, group: &TargetGroupArn) {
        self.holds_too_short.remove(&GroupLabel::of(group));
    }

    /// A pod of this target group was not held long enough.
    pub fn hold_too_short(&self, group: &TargetGroupArn) {
        self.holds_too_short.get_or_create(&GroupLabel::of(group)).inc();
    }

    /// The eviction of a pod was asked for, and let through or not.
    pub fn eviction_asked(&self, passes: bool, reason: Reason) {
        let answer = if passes { "pass" } else { "wait" };
        self.evictions.get_or_create(&EvictionLabels { answer, reason: ReasonValue(reason) }).inc();
    }

    /// A watch was interrupted or refused.
    pub fn watch_failed(&self, kind: &'static str) {
        self.watch_failures.get_or_create(&KindLabel { kind }).inc();
    }

    /// A user was told something.
    pub fn noticed(&self, reason: Reason) {
        self.notices.get_or_create(&ReasonLabel { reason: ReasonValue(reason) }).inc();
    }

    /// An Event was written, or could not be.
    pub fn event_written(&self, written: bool) {
        let outcome = if written { "written" } else { "failed" };
        self.events.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// An Event found the queue full.
    pub fn event_dropped(&self) {
        self.events.get_or_create(&OutcomeLabel { outcome: "dropped" }).inc();
    }

    /// How much is known.
    #[allow(clippy::cast_precision_loss)] // pods are far fewer than 2^52
    pub fn known(&self, pods: usize, synced: bool) {
        self.pods.set(pods as f64);
        self.synced.set(f64::from(u8::from(synced)));
    }

    /// So many nodes are about to go.
    #[allow(clippy::cast_precision_loss)] // far from it
    pub fn nodes_go(&self, count: impl Fn(Fate) -> usize) {
        for fate in [Fate::Disrupted, Fate::Dying, Fate::Deleted] {
            let label = ReasonLabel { reason: ReasonValue(fate.reason()) };
            self.nodes_go.get_or_create(&label).set(count(fate) as f64);
        }
    }
}

/// The metrics of bindings and target groups, counted from the views at each scrape.
#[derive(Debug)]
struct Counted(Arc<Views>);

impl Collector for Counted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let count = |count: usize| ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
        let mut targets = encoder.encode_descriptor(
            "targets",
            "Targets in AWS by target group and state",
            None,
            prometheus_client::metrics::MetricType::Gauge,
        )?;
        for group in &self.0.groups {
            for state in HealthState::ALL {
                let seen = group.states.get(&state).copied().unwrap_or_default();
                let labels = [("target_group", group.group.name()), ("state", state.as_str())];
                count(seen).encode(targets.encode_family(&labels)?)?;
            }
        }
        let mut foreign = encoder.encode_descriptor(
            "foreign_targets",
            "Targets in AWS that this Headgate did not register and that are not draining",
            None,
            prometheus_client::metrics::MetricType::Gauge,
        )?;
        for group in &self.0.groups {
            count(group.foreign).encode(foreign.encode_family(&[("target_group", group.group.name())])?)?;
        }
        let mut contested = encoder.encode_descriptor(
            "contested_targets",
            "Targets that somebody else removes again and again soon after they were registered (UnknownWriter)",
            None,
            prometheus_client::metrics::MetricType::Gauge,
        )?;
        for group in &self.0.groups {
            count(group.contested)
                .encode(contested.encode_family(&[("target_group", group.group.name())])?)?;
        }
        let mut never_healthy = encoder.encode_descriptor(
            "never_healthy_targets",
            "Targets that have been registered for long and were never healthy (NeverHealthy)",
            None,
            prometheus_client::metrics::MetricType::Gauge,
        )?;
        for group in &self.0.groups {
            count(group.never_healthy)
                .encode(never_healthy.encode_family(&[("target_group", group.group.name())])?)?;
        }
        let mut paused = encoder.encode_descriptor(
            "paused_changes",
            "Registrations and removals that wait, because a Service of the target group or Headgate is paused",
            None,
            prometheus_client::metrics::MetricType::Gauge,
        )?;
        for group in &self.0.groups {
            let Some((registrations, removals)) = group.paused else { continue };
            for (kind, waiting) in [("registrations", registrations), ("removals", removals)] {
                let labels = [("target_group", group.group.name()), ("kind", kind)];
                count(waiting).encode(paused.encode_family(&labels)?)?;
            }
        }
        let mut unplaced = encoder.encode_descriptor(
            "unplaced_targets",
            "Registrations that wait because AWS takes no more targets (TooManyTargets), when it last said so",
            None,
            prometheus_client::metrics::MetricType::Gauge,
        )?;
        for group in &self.0.groups {
            count(group.unplaced).encode(unplaced.encode_family(&[("target_group", group.group.name())])?)?;
        }
        let mut held = encoder.encode_descriptor(
            "held_removals",
            "Removals that wait, because all targets of the group are being replaced and none of the new is healthy yet",
            None,
            prometheus_client::metrics::MetricType::Gauge,
        )?;
        for group in &self.0.groups {
            count(group.held).encode(held.encode_family(&[("target_group", group.group.name())])?)?;
        }
        let mut bindings = encoder.encode_descriptor(
            "binding_targets",
            "Targets of a binding that are wanted, registered, healthy; whose pods have a closed readiness gate, or none",
            None,
            prometheus_client::metrics::MetricType::Gauge,
        )?;
        for view in &self.0.bindings {
            let origin = match view.key.origin {
                Origin::Service(_) => "service",
                Origin::TargetBinding(_) => "target_binding",
            };
            let wanted = view.targets.len();
            let registered = view.targets.iter().filter(|target| target.registered).count();
            let healthy =
                view.targets.iter().filter(|target| target.state == Some(HealthState::Healthy)).count();
            let gates = |gate: GateView| view.targets.iter().filter(|target| target.gate == gate).count();
            for (kind, seen) in [
                ("wanted", wanted),
                ("registered", registered),
                ("healthy", healthy),
                ("gate_closed", gates(GateView::Closed)),
                ("without_gate", gates(GateView::None)),
            ] {
                let labels = [
                    ("namespace", &*view.key.origin.key().namespace),
                    (origin, &*view.key.origin.key().name),
                    ("port", &*view.key.port),
                    ("target_group", view.key.group.name()),
                    ("kind", kind),
                ];
                count(seen).encode(bindings.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_every_metric_with_its_unit() {
        let metrics = Metrics::new(Arc::default());
        metrics.registering(Duration::from_millis(3));
        metrics.deregistering(Duration::from_millis(3));
        metrics.called("RegisterTargets", "ok", Duration::from_millis(40));
        metrics.waited("RegisterTargets", Duration::ZERO);
        metrics.aws_out_of_reach("ConnectionRefused");
        metrics.watch_failed("pods");
        metrics.noticed(Reason::NoSelector);
        metrics.event_written(true);
        metrics.event_dropped();
        metrics.known(3, true);
        metrics.leads(true);
        metrics.lease_is_anothers(true);
        metrics.lease_failed("update");
        metrics.ledger_answered("create", "ok", Duration::from_millis(4));
        metrics.took(Span::RegisterToHealthy, Duration::from_secs(40));
        metrics.took(Span::HealthyToGate, Duration::from_millis(9));
        metrics.gate_written("ok");
        let arn = |name: &str| {
            let arn = format!(
                "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/{name}/0123456789abcdef"
            );
            TargetGroupArn::parse(&arn).unwrap()
        };
        for group in ["blue", "green", "red"].map(arn) {
            metrics.serves(&group);
        }
        metrics.hold_too_short(&arn("blue"));
        metrics.serves_no_more(&arn("red"));
        metrics.eviction_asked(false, Reason::EvictionRecorded);
        metrics.took(Span::Departure, Duration::from_secs(119));
        let page = metrics.page().unwrap();
        for line in [
            "headgate_register_to_healthy_seconds_bucket{le=\"45.0\"} 1",
            "headgate_healthy_to_gate_seconds_bucket{le=\"0.01\"} 1",
            "headgate_gate_writes_total{outcome=\"ok\"} 1",
            "headgate_holds_too_short_total{target_group=\"blue\"} 1",
            "headgate_holds_too_short_total{target_group=\"green\"} 0",
            "headgate_eviction_requests_total{answer=\"wait\",reason=\"EvictionRecorded\"} 1",
            "headgate_departure_seconds_bucket{le=\"120.0\"} 1",
            "headgate_pod_ip_to_register_seconds_count 1",
            "headgate_deletion_to_deregister_seconds_bucket{le=\"0.003\"} 1",
            "headgate_aws_calls_total{action=\"RegisterTargets\",outcome=\"ok\"} 1",
            "headgate_aws_call_duration_seconds_count{action=\"RegisterTargets\"} 1",
            "headgate_aws_throttle_wait_seconds_count{action=\"RegisterTargets\"} 1",
            "headgate_aws_reachable 1",
            "headgate_aws_unreachable_total{cause=\"ConnectionRefused\"} 1",
            "headgate_watch_failures_total{kind=\"pods\"} 1",
            "headgate_notices_total{reason=\"NoSelector\"} 1",
            "headgate_events_total{outcome=\"written\"} 1",
            "headgate_pods 3",
            "headgate_synced 1",
            "headgate_leader 1",
            "headgate_lease_conflict 1",
            "headgate_lease_failures_total{verb=\"update\"} 1",
            "headgate_ledger_requests_total{verb=\"create\",outcome=\"ok\"} 1",
            "headgate_ledger_request_duration_seconds_count{verb=\"create\"} 1",
        ] {
            assert!(page.contains(line), "{line} is not in\n{page}");
        }
        assert!(!page.contains("=\"red\""), "{page}");
    }
}
