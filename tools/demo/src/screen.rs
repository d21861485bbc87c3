//! The live view: a picture several times a second on a terminal, or plain lines elsewhere.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{IsTerminal, Write as _, stderr},
    net::IpAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use console::{Style, Term};
use headgate_harness::recorder::Record;
use tokio::task::JoinHandle;

use crate::stage::{Care, PORTS};

/// The present state, for the view.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// `careful` or `plain`.
    pub run: &'static str,
    /// The number of the run.
    pub number: usize,
    /// Its settings.
    pub care: Care,
    /// The present phase.
    pub phase: String,
    /// The estimated end of the last run.
    pub end: Option<Instant>,
    /// The requests so far.
    pub counts: Counts,
}

impl Scene {
    /// The estimated remaining time, in steps of 5 s.
    fn left(&self) -> String {
        let left =
            self.end.map(|end| end.saturating_duration_since(Instant::now()).as_secs().div_ceil(5) * 5);
        match left {
            None => String::new(),
            Some(0) => "almost done".to_owned(),
            Some(left) => format!("about {left} s left"),
        }
    }
}

/// The requests so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All requests.
    pub offered: u64,
    /// Complete, correct and in time.
    pub ok: u64,
    /// The same after the one retry of a reused connection that had ended.
    pub retried: u64,
    /// The other requests.
    pub lost: u64,
}

/// A zone's pods and targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// The number of running and of terminating pods.
    pub pods: (usize, usize),
    /// Targets by group and state.
    pub targets: BTreeMap<(String, String), usize>,
}

/// Sorts pods and targets by zone.
pub fn zones(record: &Record, zone_of: impl Fn(IpAddr) -> Option<usize>, count: usize) -> Vec<Zone> {
    let mut zones = vec![Zone::default(); count];
    for pod in record.pods.values().filter(|pod| !pod.gone) {
        let Some(zone) = pod.ip.and_then(&zone_of).and_then(|at| zones.get_mut(at)) else { continue };
        if pod.leaving.is_some() { zone.pods.1 += 1 } else { zone.pods.0 += 1 }
    }
    for ((group, target), state) in &record.states {
        let Some(zone) = zone_of(target.ip()).and_then(|at| zones.get_mut(at)) else { continue };
        *zone.targets.entry((group.clone(), state.clone())).or_default() += 1;
    }
    zones
}

const STATES: [(&str, char); 4] = [("healthy", '●'), ("initial", '◔'), ("draining", '◌'), ("unhealthy", '✗')];
const COLUMN: usize = 16;

/// The picture, line by line.
pub fn render(
    scene: &Scene,
    zones: &[(String, Zone)],
    elapsed: Duration,
    rate: f64,
    colour: bool,
) -> Vec<String> {
    let style = |style: Style| style.force_styling(colour);
    let (bold, dim) = (style(Style::new().bold()), style(Style::new().dim()));
    let good = style(Style::new().green());
    let bad = style(if scene.counts.lost > 0 { Style::new().red().bold() } else { Style::new().green() });
    let clock = format!("{:02}:{:02}", elapsed.as_secs() / 60, elapsed.as_secs() % 60);
    let settings = match scene.care {
        Care::None => "no gate, no hold".to_owned(),
        Care::GateAndHold(seconds) => format!("Headgate's gate, and its hold of {seconds} s"),
    };
    let mut lines = vec![
        format!(
            "{}  {}  {clock}, {}",
            bold.apply_to(format!("{} ({} of 2)", scene.run, scene.number)),
            dim.apply_to(settings),
            scene.left()
        ),
        format!("phase: {}", bold.apply_to(&scene.phase)),
        String::new(),
    ];
    let row = |title: &str, cell: &dyn Fn(&Zone) -> String, legend: &str| {
        let mut line = format!("{title:<12}");
        for (_, zone) in zones {
            let _ = write!(line, "{:<COLUMN$}", cell(zone));
        }
        format!("{line}{}", dim.apply_to(legend))
    };
    let mut head = " ".repeat(12);
    for (name, _) in zones {
        let _ = write!(head, "{name:<COLUMN$}");
    }
    lines.push(head);
    let pods = |zone: &Zone| format!("{}{}", "●".repeat(zone.pods.0), "○".repeat(zone.pods.1));
    lines.push(row("pods", &pods, "● runs  ○ leaves"));
    for (at, (port, ..)) in PORTS.iter().enumerate() {
        let cell = |zone: &Zone| {
            let mut dots = String::new();
            for (state, dot) in STATES {
                let of = |((group, is), _): &(&(String, String), &usize)| {
                    group.ends_with(&format!("-{port}")) && is == state
                };
                let count: usize = zone.targets.iter().filter(of).map(|(_, count)| count).sum();
                dots.extend(std::iter::repeat_n(dot, count));
            }
            dots
        };
        let legend = if at == 0 { "● healthy  ◔ initial  ◌ draining  ✗ unhealthy" } else { "" };
        lines.push(row(port, &cell, legend));
    }
    lines.push(String::new());
    let count = |name: &str, count: u64, style: &Style| {
        format!("{name:<12}{}", style.apply_to(format!("{:>9}", grouped(count))))
    };
    lines.push(format!("{}   {rate:.0}/s", count("requests", scene.counts.offered, &bold)));
    lines.push(count("ok", scene.counts.ok, &good));
    lines.push(count("retried", scene.counts.retried, &dim));
    lines.push(count("lost", scene.counts.lost, &bad));
    lines
}

/// 12345 as 12,345.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Draws until it is dropped.
pub struct Screen {
    scene: Arc<Mutex<Scene>>,
    drawing: JoinHandle<()>,
    live: bool,
}

/// The data that the screen reads each time it draws.
pub type Look = Box<dyn Fn() -> (Counts, Vec<(String, Zone)>) + Send>;

impl Screen {
    /// Begins to draw a run.
    pub fn start(scene: Scene, look: Look) -> Self {
        let live = stderr().is_terminal();
        let scene = Arc::new(Mutex::new(scene));
        let drawing = tokio::spawn(draw(scene.clone(), look, live));
        Self { scene, drawing, live }
    }

    /// Sets the present phase.
    pub fn phase(&self, phase: &str) {
        let mut scene = self.scene.lock().unwrap();
        phase.clone_into(&mut scene.phase);
        if !self.live {
            eprintln!("{}: {phase}", scene.run);
        }
    }
}

impl Screen {
    /// Sets the estimated remaining time.
    pub fn left(&self, left: Duration) {
        self.scene.lock().unwrap().end = Some(Instant::now() + left);
    }

    /// Stops drawing.
    pub async fn end(mut self) {
        self.drawing.abort();
        let _ = (&mut self.drawing).await;
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.drawing.abort();
    }
}

async fn draw(scene: Arc<Mutex<Scene>>, look: Look, live: bool) {
    let (start, term) = (Instant::now(), Term::stderr());
    let period = Duration::from_millis(if live { 200 } else { 5000 });
    let (mut drawn, mut last) = (0, (Instant::now(), 0));
    let mut rate = 0.0;
    loop {
        tokio::time::sleep(period).await;
        let (counts, zones) = look();
        let since = last.0.elapsed();
        if since >= Duration::from_secs(1) {
            #[allow(clippy::cast_precision_loss)] // thousands
            let new = counts.offered.saturating_sub(last.1) as f64;
            (rate, last) = (new / since.as_secs_f64(), (Instant::now(), counts.offered));
        }
        let scene = Scene { counts, ..scene.lock().unwrap().clone() };
        if live {
            let lines = render(&scene, &zones, start.elapsed(), rate, true);
            let _ = term.clear_last_lines(drawn);
            let mut out = stderr().lock();
            for line in &lines {
                let _ = writeln!(out, "{line}");
            }
            drawn = lines.len();
        } else {
            let Counts { offered, ok, retried, lost } = counts;
            eprintln!(
                "{}: {}; offered {offered} ok {ok} retried {retried} lost {lost}; {}",
                scene.run,
                scene.phase,
                scene.left()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_harness::recorder::PodLife;

    #[test]
    fn the_picture_shows_phase_pods_targets_and_requests() {
        let pod = |name: &str, ip: &str, leaving| PodLife {
            name: name.into(),
            ip: ip.parse().ok(),
            leaving,
            gone: false,
        };
        let mut record = Record::default();
        record.pods.insert("1".into(), pod("a", "10.0.0.1", None));
        record.pods.insert("2".into(), pod("b", "10.0.1.2", Some(5)));
        record.states.insert(("careful-web".into(), "10.0.0.1:8080".parse().unwrap()), "healthy".into());
        record.states.insert(("careful-web".into(), "10.0.1.2:8080".parse().unwrap()), "draining".into());
        record
            .states
            .insert(("careful-websecure".into(), "10.0.0.1:8443".parse().unwrap()), "initial".into());
        let zone_of = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => Some(usize::from(ip.octets()[2])),
            IpAddr::V6(_) => None,
        };
        let zones = zones(&record, zone_of, 2);
        let named: Vec<_> = ["a", "b"].map(str::to_owned).into_iter().zip(zones).collect();
        let counts = Counts { offered: 12_345, ok: 12_344, retried: 0, lost: 1 };
        let scene = Scene {
            run: "careful",
            number: 1,
            phase: "rolling restart".into(),
            end: Some(Instant::now()),
            counts,
            ..Scene::default()
        };
        let text = render(&scene, &named, Duration::from_secs(75), 249.7, false).join("\n");
        for part in [
            "careful (1 of 2)",
            "01:15, almost done",
            "phase: rolling restart",
            "pods        ●               ○ ",
            "web         ●               ◌ ",
            "websecure   ◔ ",
            "requests       12,345   250/s",
            "lost                1",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
