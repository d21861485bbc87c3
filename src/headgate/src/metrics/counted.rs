//! The metrics of bindings and target groups, which are computed from the views at each scrape. Only the leader serves
//! the metrics of bindings and target groups, so that sums over the replicas are correct.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use headgate_core::{
    Moment, Origin,
    model::{Target, ZoneName, health::HealthState, target_group::TargetGroupArn},
    view::{BindingView, GateView, GroupView, ZoneView},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder},
    metrics::{MetricType, gauge::ConstGauge},
};

use super::{level::Level, page::Page, said::Said};
use crate::runtime::{clock::Clock, views::Views};

/// A metric that is computed from the views.
struct Count {
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    of: Of,
}

/// The source of a metric. If there are several numbers, the last label distinguishes them.
enum Of {
    /// One number per target group.
    Group(fn(&GroupView) -> usize),
    /// Several numbers per target group.
    GroupParts(fn(&GroupView) -> Vec<(&'static str, usize)>),
    /// One number per zone of a target group.
    Zone(fn(&ZoneView) -> usize),
    /// Several numbers per zone of a target group.
    ZoneParts(fn(&ZoneView) -> Vec<(&'static str, usize)>),
    /// How long a state of each target group has lasted, in seconds.
    Age(fn(&GroupView) -> Age),
    /// The number of Services and TargetBindings with a problem, by reason.
    Problems,
    /// The number of problems in `headgate status`.
    Said,
    /// The number of unhealthy targets, by AWS's reason.
    Unhealthy,
    /// Several numbers per binding.
    BindingParts(fn(&BindingView) -> Vec<(&'static str, usize)>),
}

/// The start of a state.
enum Age {
    /// The state began at this time.
    Since(Moment),
    /// The state does not apply.
    Never,
    /// The start is unknown.
    Unknown,
}

const COUNTS: [Count; 14] = [
    Count {
        name: "targets",
        labels: &["target_group", "zone", "state"],
        help: "Targets in AWS by zone and state: AWS's states, zone-not-served (zone not enabled for the \
               load balancer), zonal-shift (healthy, without new traffic)",
        of: Of::ZoneParts(by_state),
    },
    Count {
        name: "wanted_targets",
        labels: &["target_group", "zone"],
        help: "Desired targets by zone",
        of: Of::Zone(|zone| zone.wanted),
    },
    Count {
        name: "oldest_removal_age_seconds",
        labels: &["target_group"],
        help: "Age of the oldest pending deregistration; 0 if there is none",
        of: Of::Age(|group| group.oldest_removal.map_or(Age::Never, Age::Since)),
    },
    Count {
        name: "last_read_age_seconds",
        labels: &["target_group"],
        help: "Age of the last DescribeTargetHealth response; absent before the first response",
        of: Of::Age(|group| group.last_read.map_or(Age::Unknown, Age::Since)),
    },
    Count {
        name: "unresolved_bindings",
        labels: &["reason"],
        help: "Bindings that could not be fully resolved, by reason",
        of: Of::Problems,
    },
    Count {
        name: "problems",
        labels: &["reason", "about"],
        help: "Problems that headgate status shows, by reason and object (target group, Service, \
               TargetBinding, AWS, this replica); absent without problems",
        of: Of::Said,
    },
    Count {
        name: "unhealthy_targets",
        labels: &["target_group", "aws_reason"],
        help: "Unhealthy targets of pods by AWS's reason code: Target.FailedHealthChecks, \
               Target.ResponseCodeMismatch, Target.Timeout; absent without unhealthy targets",
        of: Of::Unhealthy,
    },
    Count {
        name: "foreign_targets",
        labels: &["target_group"],
        help: "Foreign targets in AWS that are not draining",
        of: Of::Group(|group| group.foreign),
    },
    Count {
        name: "contested_targets",
        labels: &["target_group"],
        help: "Targets that another system repeatedly removes (UnknownWriter)",
        of: Of::Group(|group| group.contested),
    },
    Count {
        name: "never_healthy_targets",
        labels: &["target_group"],
        help: "Targets that have not become healthy within --never-healthy-after of their registration (NeverHealthy)",
        of: Of::Group(|group| group.never_healthy),
    },
    Count {
        name: "paused_changes",
        labels: &["target_group", "kind"],
        help: "Changes that wait for the end of a pause or of --read-only, by kind: registrations, removals",
        of: Of::GroupParts(by_change),
    },
    Count {
        name: "unplaced_targets",
        labels: &["target_group"],
        help: "Registrations that wait because the target group is full (QuotaExceeded)",
        of: Of::Group(|group| group.unplaced),
    },
    Count {
        name: "held_removals",
        labels: &["target_group"],
        help: "Deregistrations that wait for healthy replacements or for their zone (RemovalHeld)",
        of: Of::Group(|group| group.held),
    },
    Count {
        name: "binding_targets",
        labels: &["namespace", SERVICE, "port", "target_group", "kind"],
        help: "Targets of a binding by kind: wanted, registered, healthy, gate_closed, gate_unread (opened \
               by --gate-patience), without_gate. \
               Your own TargetBindings have the label target_binding instead of service",
        of: Of::BindingParts(by_progress),
    },
];

/// The label with the name of a binding's Service.
const SERVICE: &str = "service";
/// The label with the name of a binding's TargetBinding, if a user created the TargetBinding.
const TARGET_BINDING: &str = "target_binding";

fn by_state(zone: &ZoneView) -> Vec<(&'static str, usize)> {
    let of = |state| zone.states.get(&state).copied().unwrap_or_default();
    HealthState::ALL.iter().map(|state| (state.as_str(), of(*state))).collect()
}

/// The numbers of pending changes of a paused target group. The list is empty for a target group that is not paused.
fn by_change(group: &GroupView) -> Vec<(&'static str, usize)> {
    group.paused.map_or_else(Vec::new, |(registrations, removals)| {
        vec![("registrations", registrations), ("removals", removals)]
    })
}

fn by_progress(binding: &BindingView) -> Vec<(&'static str, usize)> {
    let targets = &binding.targets;
    let healthy = targets.iter().filter(|target| target.state == Some(HealthState::Healthy)).count();
    let gates = |gate: GateView| targets.iter().filter(|target| target.gate == gate).count();
    vec![
        ("wanted", targets.len()),
        ("registered", targets.iter().filter(|target| target.registered).count()),
        ("healthy", healthy),
        ("gate_closed", gates(GateView::Closed)),
        ("gate_unread", gates(GateView::Unread)),
        ("without_gate", gates(GateView::None)),
    ]
}

/// The unhealthy targets, by target group and AWS's reason code. A target of two bindings counts once.
fn unhealthy(views: &Views) -> BTreeMap<(TargetGroupArn, &'static str), BTreeSet<Target>> {
    let mut all: BTreeMap<_, BTreeSet<Target>> = BTreeMap::new();
    for binding in views.all_bindings() {
        for target in binding.targets.iter().filter(|target| target.state == Some(HealthState::Unhealthy)) {
            all.entry((binding.key.group.clone(), target.why)).or_default().insert(target.target);
        }
    }
    all
}

/// Declares the metrics, and computes them from `views` at each scrape while this replica is the leader.
pub(super) fn register(
    mut page: Page,
    views: Arc<Views>,
    clock: Clock,
    leads: Arc<AtomicBool>,
    said: Said,
) -> Page {
    for count in &COUNTS {
        page.declare(count.name, count.labels, MetricType::Gauge, count.help);
    }
    let level = page.level();
    page.collect(Counted { views, clock, leads, said, level });
    page
}

#[derive(Debug)]
struct Counted {
    views: Arc<Views>,
    clock: Clock,
    leads: Arc<AtomicBool>,
    said: Said,
    level: Level,
}

impl Collector for Counted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if !self.leads.load(Ordering::Relaxed) {
            return Ok(());
        }
        let now = self.clock.now();
        let mut served = COUNTS.iter().filter(|count| self.level.serves(count.name));
        served.try_for_each(|count| count.encode(&self.views, &self.said, now, &mut encoder))
    }
}

impl Count {
    fn encode(
        &self,
        views: &Views,
        said: &Said,
        now: Moment,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), fmt::Error> {
        // The registry also adds a full stop to each help text.
        let help = format!("{}.", self.help);
        let mut family = encoder.encode_descriptor(self.name, &help, None, MetricType::Gauge)?;
        match self.of {
            Of::Group(count) => {
                for group in &views.groups {
                    sample(&mut family, self.labels, &[group.group.name()], count(&group))?;
                }
            }
            Of::GroupParts(counts) => {
                for group in &views.groups {
                    for (part, count) in counts(&group) {
                        sample(&mut family, self.labels, &[group.group.name(), part], count)?;
                    }
                }
            }
            Of::Zone(count) => {
                for group in &views.groups {
                    for (zone, is) in &group.zones {
                        let zone = zone.as_ref().map_or("", ZoneName::as_str);
                        sample(&mut family, self.labels, &[group.group.name(), zone], count(is))?;
                    }
                }
            }
            Of::ZoneParts(counts) => {
                for group in &views.groups {
                    for (zone, is) in &group.zones {
                        let zone = zone.as_ref().map_or("", ZoneName::as_str);
                        for (part, count) in counts(is) {
                            sample(&mut family, self.labels, &[group.group.name(), zone, part], count)?;
                        }
                    }
                }
            }
            Of::Age(age) => {
                for group in &views.groups {
                    let seconds = match age(&group) {
                        Age::Since(since) => now.since(since).as_secs_f64(),
                        Age::Never => 0.0,
                        Age::Unknown => continue,
                    };
                    let labels = [(self.labels[0], group.group.name())];
                    ConstGauge::new(seconds).encode(family.encode_family(&labels)?)?;
                }
            }
            Of::Problems => {
                let mut all: BTreeMap<&str, usize> = BTreeMap::new();
                for origin in &views.origins {
                    for problem in &origin.problems {
                        *all.entry(problem.reason.as_str()).or_default() += 1;
                    }
                }
                for (reason, count) in all {
                    sample(&mut family, self.labels, &[reason], count)?;
                }
            }
            Of::Said => {
                for ((reason, about), count) in said.counted() {
                    sample(&mut family, self.labels, &[&*reason, &*about], count)?;
                }
            }
            Of::Unhealthy => {
                for ((group, why), targets) in unhealthy(views) {
                    sample(&mut family, self.labels, &[group.name(), why], targets.len())?;
                }
            }
            Of::BindingParts(counts) => {
                for binding in &views.bindings {
                    let key = &binding.key;
                    let (labels, name) = (self.labels_of(&key.origin), key.origin.key());
                    for (part, count) in counts(&binding) {
                        let values = [&*name.namespace, &*name.name, &*key.port, key.group.name(), part];
                        sample(&mut family, &labels, &values, count)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The label names for a binding, which depend on whether a Service or a TargetBinding created the binding.
    fn labels_of(&self, origin: &Origin) -> Vec<&'static str> {
        let service = match origin {
            Origin::Service(_) => SERVICE,
            Origin::TargetBinding(_) => TARGET_BINDING,
        };
        self.labels.iter().map(|label| if *label == SERVICE { service } else { label }).collect()
    }
}

/// Writes one sample. The order of the values is the order of the labels.
fn sample(
    family: &mut MetricEncoder<'_>,
    labels: &[&str],
    values: &[&str],
    count: usize,
) -> Result<(), fmt::Error> {
    let labels: Vec<(&str, &str)> = labels.iter().copied().zip(values.iter().copied()).collect();
    ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX)).encode(family.encode_family(&labels)?)
}
