//! The simulation settings in a pod's annotations.
//!
//! The module defines the names, forms and defaults of the annotations `sim.headgate.dev/…`, and is pure. The
//! annotations are read only once, when the kubelet first sees the pod. An invalid annotation adds a message to the log
//! and the control API. An invalid annotation has no effect on the pod or on other annotations.

use crate::container::conduct::{Conduct, OnSigterm};
use crate::object::{Pod, Role};
use crate::span::{self, Span};
use std::time::Duration;

/// The prefix of all simulation annotations.
pub const PREFIX: &str = "sim.headgate.dev/";

/// The supported annotations, without the prefix.
pub const KNOWN: [&str; 12] = [
    "cni-annotation",
    "crash-after",
    "drain-for",
    "gate-delay",
    "init-duration",
    "on-sigterm",
    "pull-delay",
    "pull-fails",
    "request-delay",
    "seed",
    "sigterm-exit-code",
    "start-delay",
];

/// The exit code of a process after SIGKILL: 128 + 9.
const KILLED: i32 = 137;

/// The settings in a pod's annotations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Behaviour {
    /// The duration of the image pull, from the sandbox to the first container.
    pub pull_delay: Duration,
    /// Whether the image pull fails after `pull_delay`.
    pub pull_fails: bool,
    /// Whether the CNI also writes the address into an annotation.
    pub cni_annotation: bool,
    /// The time that the kubelet takes to notice a change of a readiness gate.
    pub gate_delay: Span,
    /// The run time of an ordinary init container.
    pub init_duration: Duration,
    /// The time between a start of a main container and a crash of the container. `None`: no crash.
    pub crash_after: Option<Duration>,
    main: Conduct,
}

impl Behaviour {
    /// Reads a pod's annotations. Returns the settings, and a message for each invalid annotation.
    pub fn read(pod: &Pod) -> (Self, Vec<String>) {
        let mut reader = Reader { pod, problems: Vec::new() };
        let name = format!("{}/{}", pod.namespace(), pod.name());
        let drain_for = reader.read("drain-for", span::duration);
        let on_sigterm = reader.read("on-sigterm", |text| match text {
            "close" => Ok(OnSigterm::Close),
            "drain" => Ok(OnSigterm::Drain(drain_for.unwrap_or(Duration::from_secs(10)))),
            "ignore" => Ok(OnSigterm::Ignore),
            other => Err(format!("`{other}` is none of close, drain and ignore")),
        });
        if drain_for.is_some() && !matches!(on_sigterm, Some(OnSigterm::Drain(_))) {
            reader.problem("drain-for", "has an effect only with on-sigterm: drain");
        }
        let main = Conduct {
            request_delay: reader.read("request-delay", Span::parse).unwrap_or_default(),
            seed: reader.read("seed", str::parse).unwrap_or_else(|| span::seed(&name)),
            start_delay: reader.read("start-delay", span::duration).unwrap_or_default(),
            ends: None,
            on_sigterm: on_sigterm.unwrap_or_default(),
            sigterm_exit_code: reader.read("sigterm-exit-code", str::parse).unwrap_or_default(),
        };
        let behaviour = Self {
            pull_delay: reader.read("pull-delay", span::duration).unwrap_or_default(),
            pull_fails: reader.read("pull-fails", str::parse).unwrap_or_default(),
            cni_annotation: reader.read("cni-annotation", str::parse).unwrap_or_default(),
            gate_delay: reader.read("gate-delay", Span::parse).unwrap_or_default(),
            init_duration: reader.read("init-duration", span::duration).unwrap_or_default(),
            crash_after: reader.read("crash-after", span::duration),
            main,
        };
        reader.refuse_unknown();
        (behaviour, reader.problems)
    }

    /// Returns the behavior of a process with this role. The settings for start, crash and SIGTERM apply to main
    /// containers only. The request delay applies to all containers. An ordinary init container exits on its own.
    pub fn conduct(&self, role: Role) -> Conduct {
        let plain =
            Conduct { request_delay: self.main.request_delay, seed: self.main.seed, ..Conduct::default() };
        match role {
            Role::Init => Conduct { ends: Some((self.init_duration, 0)), ..plain },
            Role::Sidecar => plain,
            Role::Main => Conduct { ends: self.crash_after.map(|after| (after, KILLED)), ..self.main },
        }
    }

    /// Returns the time that the kubelet takes to notice change number `count` of a readiness gate.
    pub fn notices_gate_after(&self, count: u64) -> Duration {
        self.gate_delay.draw(self.main.seed, count)
    }
}

struct Reader<'a> {
    pod: &'a Pod,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn read<T, E: ToString>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, E>) -> Option<T> {
        match parse(self.pod.annotation(&format!("{PREFIX}{name}"))?) {
            Ok(value) => Some(value),
            Err(error) => {
                self.problem(name, &error.to_string());
                None
            }
        }
    }

    fn problem(&mut self, name: &str, what: &str) {
        self.problems.push(format!("annotation {PREFIX}{name}: {what}; it is ignored"));
    }

    fn refuse_unknown(&mut self) {
        let annotations = self.pod.metadata.annotations.iter().flatten();
        let unknown = annotations
            .filter_map(|(key, _)| key.strip_prefix(PREFIX))
            .filter(|name| !KNOWN.contains(name))
            .collect::<Vec<_>>();
        for name in unknown {
            self.problem(name, &format!("is not known; known are {}", KNOWN.join(", ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(annotations: &[(&str, &str)]) -> (Behaviour, Vec<String>) {
        let mut pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "shop"}})).unwrap();
        let annotations =
            annotations.iter().map(|(name, value)| (format!("{PREFIX}{name}"), (*value).to_owned()));
        pod.metadata.annotations = Some(annotations.collect());
        Behaviour::read(&pod)
    }

    #[test]
    fn a_pod_without_annotations_behaves_plainly() {
        let (behaviour, problems) = read(&[]);
        assert_eq!(problems, [""; 0]);
        let main = behaviour.conduct(Role::Main);
        assert_eq!(Conduct { seed: 0, ..main }, Conduct::default());
        assert_eq!(behaviour.conduct(Role::Init).ends, Some((Duration::ZERO, 0)));
    }

    #[test]
    fn each_annotation_reaches_the_containers_it_is_about() {
        let (behaviour, problems) = read(&[
            ("request-delay", "5ms-20ms"),
            ("start-delay", "2s"),
            ("crash-after", "5s"),
            ("on-sigterm", "drain"),
            ("drain-for", "3s"),
            ("init-duration", "1s"),
            ("cni-annotation", "true"),
            ("sigterm-exit-code", "143"),
            ("seed", "7"),
        ]);
        assert_eq!(problems, [""; 0]);
        let (main, sidecar) = (behaviour.conduct(Role::Main), behaviour.conduct(Role::Sidecar));
        assert_eq!(main.on_sigterm, OnSigterm::Drain(Duration::from_secs(3)));
        assert_eq!(main.ends, Some((Duration::from_secs(5), 137)));
        assert_eq!((main.start_delay, main.sigterm_exit_code), (Duration::from_secs(2), 143));
        assert_eq!((sidecar.on_sigterm, sidecar.ends), (OnSigterm::Close, None));
        assert_eq!((sidecar.request_delay, sidecar.seed), (main.request_delay, 7));
        assert_eq!(behaviour.conduct(Role::Init).ends, Some((Duration::from_secs(1), 0)));
        assert!(behaviour.cni_annotation);
    }

    #[test]
    fn what_cannot_be_read_is_a_sentence_that_names_the_annotation_and_leaves_the_others_in_force() {
        let (behaviour, problems) = read(&[
            ("start-delay", "soon"),
            ("on-sigterm", "wait"),
            ("cni-annotation", "yes"),
            ("shout", "1"),
            ("pull-delay", "9s"),
        ]);
        assert_eq!(behaviour.pull_delay, Duration::from_secs(9));
        assert_eq!(behaviour.conduct(Role::Main).start_delay, Duration::ZERO);
        let about = |name: &str| problems.iter().any(|problem| problem.contains(&format!("{PREFIX}{name}")));
        assert!(about("start-delay") && about("on-sigterm") && about("cni-annotation") && about("shout"));
        assert_eq!(problems.len(), 4, "{problems:#?}");
    }

    #[test]
    fn a_drain_without_its_mode_is_a_mistake_that_is_told() {
        assert!(read(&[("drain-for", "3s")]).1[0].contains("on-sigterm: drain"));
    }
}
