//! The page at `/metrics` in either format, and the declared metrics.

use std::{
    fmt::{self, Debug, Write},
    sync::atomic::AtomicU64,
};

use prometheus_client::{
    collector::Collector,
    encoding::text,
    metrics::{MetricType, counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Metric, Registry, Unit},
};

use super::{
    format::Format,
    labels::{BuildLabels, Labels},
    level::Level,
};

const PREFIX: &str = "headgate";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Buckets in seconds, fine for short durations and coarse for slow answers from AWS.
pub(super) const FAST: [f64; 18] = [
    0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0,
    60.0,
];

/// Buckets in seconds for the time until a new target is healthy.
pub(super) const SLOW: [f64; 12] = [1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 300.0];

/// A gauge without labels.
pub(super) type Number = Gauge<f64, AtomicU64>;
/// A counter for each set of labels.
pub(super) type Counters<L> = Family<L, Counter>;
/// A histogram of seconds for each set of labels.
pub(super) type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// A declared metric.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The served name, with prefix, unit and, for a counter, `_total`.
    pub name: String,
    /// The names of the metric's labels.
    pub labels: &'static [&'static str],
    /// The type of the metric: counter, gauge or histogram.
    pub kind: MetricType,
    /// The help text, without the full stop at the end.
    pub help: &'static str,
    /// The lowest level that serves the metric.
    pub level: Level,
}

/// The page with all metrics. Each type of metric has its own method for registration.
#[derive(Debug)]
pub(super) struct Page {
    registry: Registry,
    /// The standard process metrics, which have no prefix.
    process: Registry,
    declared: Vec<Declared>,
    prefix: &'static str,
    level: Level,
}

impl Page {
    /// Creates the page of `headgate run`.
    pub(super) fn new(level: Level) -> Self {
        Self::of(PREFIX, level)
    }

    /// Creates a page whose metrics have the prefix `prefix`.
    pub(super) fn of(prefix: &'static str, level: Level) -> Self {
        Self {
            registry: Registry::with_prefix(prefix),
            process: Registry::default(),
            declared: Vec::new(),
            prefix,
            level,
        }
    }

    /// Adds counters. The served name is `name`_total.
    pub(super) fn counters<L: Labels>(&mut self, name: &str, help: &'static str) -> Counters<L> {
        self.add(name, L::NAMES, help, Family::default())
    }

    /// Adds a gauge without labels.
    pub(super) fn gauge(&mut self, name: &str, help: &'static str) -> Number {
        self.add(name, &[], help, Gauge::default())
    }

    /// Adds gauges of integers or of floating-point numbers.
    pub(super) fn gauges<L: Labels, G: Default>(&mut self, name: &str, help: &'static str) -> Family<L, G>
    where
        Family<L, G>: Metric,
    {
        self.add(name, L::NAMES, help, Family::default())
    }

    /// Adds a histogram of seconds without labels. The served name is `name`_seconds.
    pub(super) fn histogram<const N: usize>(
        &mut self,
        name: &str,
        buckets: [f64; N],
        help: &'static str,
    ) -> Histogram {
        self.add(name, &[], help, Histogram::new(buckets))
    }

    /// Adds histograms of seconds with the buckets [`FAST`]. The served name is `name`_seconds.
    pub(super) fn histograms<L: Labels>(&mut self, name: &str, help: &'static str) -> Histograms<L> {
        self.add(name, L::NAMES, help, Family::new_with_constructor(|| Histogram::new(FAST)))
    }

    /// Adds the metric `build_info`, whose value is 1 and whose label is the program's version.
    pub(super) fn build_info(&mut self) {
        let info: Family<BuildLabels, Number> =
            self.gauges("build_info", "1, with the version of the program");
        let labels = BuildLabels { version: VERSION };
        info.get_or_create(&labels).set(1.0);
    }

    fn add<M: Metric + Clone>(
        &mut self,
        name: &str,
        labels: &'static [&'static str],
        help: &'static str,
        metric: M,
    ) -> M {
        let kind = metric.metric_type();
        self.declare(name, labels, kind, help);
        if !self.level.serves(name) {
            return metric;
        }
        match kind {
            MetricType::Histogram => {
                self.registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
            }
            _ => self.registry.register(name, help, metric.clone()),
        }
        metric
    }

    /// Declares a metric whose samples come from a collector.
    pub(super) fn declare(
        &mut self,
        name: &str,
        labels: &'static [&'static str],
        kind: MetricType,
        help: &'static str,
    ) {
        let suffix = match kind {
            MetricType::Counter => "_total",
            MetricType::Histogram => "_seconds",
            _ => "",
        };
        let prefix = self.prefix;
        let (level, name) = (Level::of(name), format!("{prefix}_{name}{suffix}"));
        self.declared.push(Declared { name, labels, kind, help, level });
    }

    /// Adds a collector of declared metrics, which runs at each scrape.
    pub(super) fn collect(&mut self, collector: impl Collector) {
        self.registry.register_collector(Box::new(collector));
    }

    /// Adds a collector of the standard process metrics, which runs at each scrape.
    pub(super) fn collect_of_process(&mut self, metrics: &[Declared], collector: impl Collector) {
        self.declared.extend_from_slice(metrics);
        self.process.register_collector(Box::new(collector));
    }

    /// Formats the page.
    pub(super) fn text(&self, format: Format) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode_registry(&mut page, &self.registry)?;
        text::encode_registry(&mut page, &self.process)?;
        match format {
            Format::OpenMetrics => {
                text::encode_eof(&mut page)?;
                Ok(page)
            }
            Format::Prometheus => Ok(plain(&page)),
        }
    }

    /// The level of the page.
    pub(super) const fn level(&self) -> Level {
        self.level
    }

    /// Every metric of any level, in the order of the page.
    pub(super) fn declared(&self) -> &[Declared] {
        &self.declared
    }
}

/// Converts a boolean to a sample: 1 for true, 0 for false.
pub(super) fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// Converts the page to the Prometheus text format, in which all lines of a counter end in `_total` and units are
/// absent.
fn plain(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    let mut help = None;
    for line in page.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(_), said) => help = Some(said.unwrap_or_default()),
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let total = if kind == MetricType::Counter.as_str() { "_total" } else { "" };
                let said = help.take().unwrap_or_default();
                // Writing to a String cannot fail.
                let _ = writeln!(text, "# HELP {name}{total} {said}\n# TYPE {name}{total} {kind}");
            }
            (Some("#"), ..) => {}
            _ => {
                text += line;
                text.push('\n');
            }
        }
    }
    text
}
