//! The standard process metrics (Prometheus, "Writing client libraries").

use std::{fmt, time::SystemTime};

#[cfg(target_os = "linux")]
use procfs::process::{LimitValue, Process as Read};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use super::{
    level::Level,
    page::{Declared, Page},
};

/// The name without `_total`, the type, and the help text of each metric.
const METRICS: [(&str, MetricType, &str); 6] = [
    ("process_cpu_seconds", MetricType::Counter, "Processor time of this process in seconds"),
    ("process_resident_memory_bytes", MetricType::Gauge, "Resident memory of this process"),
    ("process_virtual_memory_bytes", MetricType::Gauge, "Virtual memory of this process"),
    ("process_open_fds", MetricType::Gauge, "Open file descriptors of this process"),
    ("process_max_fds", MetricType::Gauge, "Maximum number of open file descriptors of this process"),
    ("process_start_time_seconds", MetricType::Gauge, "Start time of this process in seconds since 1970"),
];

/// Adds the process metrics to the page.
pub(super) fn register(mut page: Page) -> Page {
    let declared = METRICS.map(|(name, kind, help)| Declared {
        name: if matches!(kind, MetricType::Counter) { format!("{name}_total") } else { name.to_owned() },
        labels: &[],
        kind,
        help,
        level: Level::Default,
    });
    let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    page.collect_of_process(&declared, Process { began: began.as_secs_f64() });
    page
}

#[derive(Debug)]
struct Process {
    began: f64,
}

impl Process {
    /// The values of the metrics, in the order of [`METRICS`]. `None`: the operating system does not report the value.
    #[cfg(target_os = "linux")]
    fn values(&self) -> [Option<f64>; 6] {
        let process = Read::myself().ok();
        let stat = process.as_ref().and_then(|process| process.stat().ok());
        let limit = process.as_ref().and_then(|process| process.limits().ok());
        #[allow(clippy::cast_precision_loss)] // the values are far below 2^52
        let number = |value: u64| value as f64;
        let cpu =
            stat.as_ref().map(|stat| number(stat.utime + stat.stime) / number(procfs::ticks_per_second()));
        let fds = process.as_ref().and_then(|process| process.fd_count().ok());
        [
            cpu,
            stat.as_ref().map(|stat| number(stat.rss * procfs::page_size())),
            stat.as_ref().map(|stat| number(stat.vsize)),
            fds.map(|fds| number(fds as u64)),
            limit.and_then(|limit| match limit.max_open_files.soft_limit {
                LimitValue::Value(most) => Some(number(most)),
                LimitValue::Unlimited => None,
            }),
            Some(self.began),
        ]
    }

    /// Operating systems other than Linux do not have the files in `/proc`.
    #[cfg(not(target_os = "linux"))]
    const fn values(&self) -> [Option<f64>; 6] {
        [None, None, None, None, None, Some(self.began)]
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for ((name, kind, help), value) in METRICS.into_iter().zip(self.values()) {
            let Some(value) = value else { continue };
            let metric = encoder.encode_descriptor(name, &format!("{help}."), None, kind)?;
            match kind {
                MetricType::Counter => ConstCounter::new(value).encode(metric)?,
                _ => ConstGauge::new(value).encode(metric)?,
            }
        }
        Ok(())
    }
}
