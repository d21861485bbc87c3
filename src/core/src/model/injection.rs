//! The properties of a new pod, what is known about its bindings, and what it gets.

use super::{
    Labels, LoadBalancerType, NamedPort,
    notice::{About, Notice},
    object::Uid,
    words::words,
};

/// A pod that is about to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewPod {
    /// `metadata.labels`.
    pub labels: Labels,
    /// The annotation `headgate.dev/hold`.
    pub hold: Option<Box<str>>,
    /// The annotation `headgate.dev/own-prestop`.
    pub own_pre_stop: Option<Box<str>>,
    /// The annotation `headgate.dev/max-grace`.
    pub max_grace: Option<Box<str>>,
    /// The annotation `headgate.dev/injected`.
    pub injected: Option<Box<str>>,
    /// Whether there is an annotation `headgate.dev/expected-bindings`.
    pub has_expectations: bool,
    /// The UID of the controlling owner.
    pub owner: Option<Uid>,
    /// Whether the owner is a Job.
    pub of_job: bool,
    /// The condition types of `spec.readinessGates`.
    pub gates: Vec<Box<str>>,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace: Option<i64>,
    /// The containers that run during the whole life of the pod: `spec.containers`, and native sidecars.
    pub containers: Vec<Container>,
    /// The named ports of these containers.
    pub ports: Vec<NamedPort>,
}

/// A container that runs during the whole life of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: Box<str>,
    /// The position of the container in the pod.
    pub place: Place,
    /// Its `lifecycle.preStop`.
    pub pre_stop: Hook,
    /// Why Headgate's program cannot be mounted in it, if so.
    pub obstacle: Option<Obstacle>,
    /// The ports that it declares.
    pub ports: Vec<u16>,
    /// The probes that may restart it and have no grace period of their own.
    pub probes: Vec<Probe>,
}

/// The content of `lifecycle.preStop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// There is no hook.
    None,
    /// A sleep of this many seconds and nothing else, in any notation.
    Sleep(u32),
    /// A sleep of this many seconds that Headgate has added before the container's own hook.
    Wrapped(u32),
    /// A command of unknown duration.
    Command {
        /// The number of seconds for which it is known to sleep first.
        sleeps: u32,
        /// Whether a shell runs it, which proves that the image has a shell.
        by_shell: bool,
    },
    /// A plain HTTP request to a known port.
    Request,
    /// Any other hook of unknown duration.
    Other,
}

/// Why Headgate's program cannot be mounted in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Another volume or mount has the same name or path.
    Taken,
    /// The pod is or may be a Windows pod.
    Windows,
    /// The RuntimeClass may not run Linux programs, or may not mount images.
    RuntimeClass,
}

/// The annotation of a pod or its namespace that limits the grace period: a duration in the format of
/// [`crate::model::Hold`].
pub const MAX_GRACE: &str = "headgate.dev/max-grace";

/// The pod annotation for a `preStop` that is not a `sleep`.
pub const OWN_PRESTOP: &str = "headgate.dev/own-prestop";

words! {
    /// What happens to a `preStop` that is not a `sleep`.
    #[derive(Default)]
    OwnPreStop {
        /// It does not change.
        #[default]
        Leave = "leave",
        /// It runs after the hold: through its own shell, or through Headgate's program.
        Wrap = "wrap",
        /// It runs after the hold through the `sh` of its image, which must have `sh` and `sleep`.
        WrapByShell = "wrap-by-shell",
    }
}

/// The program that runs a `preStop` after the hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapper {
    /// A shell of the image.
    Shell,
    /// Headgate's program, which is mounted from Headgate's image.
    Program,
    /// The earlier hold: only its seconds change.
    Present,
}

/// Whether Headgate's program can be mounted in a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// It can be mounted.
    Available,
    /// Headgate does not know its own image.
    #[default]
    NoImage,
    /// The API server has no image volumes yet.
    ServerTooOld,
    /// The API server has not returned its version yet.
    ServerUnknown,
}

/// Settings for what pods get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The grace period in seconds for probes of a held container, if the pod's grace period was not shorter.
    pub probe_grace: u32,
    /// Whether Headgate's program can be mounted.
    pub program: Program,
    /// The limit of raised grace periods in seconds, and its source. A limit of the pod comes first.
    pub max_grace: Option<(u32, &'static str)>,
    /// Whether pods of the same owner were not created after they got a hold.
    pub is_refused: bool,
}

/// A probe that restarts its container when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// `livenessProbe`
    Liveness,
    /// `startupProbe`
    Startup,
}

impl OwnPreStop {
    /// The valid values of the annotation.
    pub const EXPECTED: &str = "leave, wrap or wrap-by-shell";
}

impl Obstacle {
    /// The runner's name in the annotation.
    pub const fn said(self) -> &'static str {
        match self {
            Self::Taken => "another volume has the required name or mount path",
            Self::Windows => "the pod may run on Windows",
            Self::RuntimeClass => {
                "the pod has a RuntimeClass, which may not run Linux programs from an image volume"
            }
        }
    }
}

impl Program {
    /// Why the program is missing.
    pub const fn lacks(self) -> Option<&'static str> {
        match self {
            Self::Available => None,
            Self::NoImage => Some("--hold-image does not name the image with headgate-hold"),
            Self::ServerTooOld => Some("the API server has no image volumes before 1.35"),
            Self::ServerUnknown => Some("the API server has not returned its version yet"),
        }
    }
}

impl Probe {
    /// Both kinds of probes.
    pub const ALL: [Self; 2] = [Self::Liveness, Self::Startup];

    /// The field of the container.
    pub const fn field(self) -> &'static str {
        match self {
            Self::Liveness => "livenessProbe",
            Self::Startup => "startupProbe",
        }
    }
}

/// The grace period that a probe gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeGrace {
    /// The container.
    pub place: Place,
    /// The probe.
    pub probe: Probe,
    /// In seconds, at least 1.
    pub seconds: i64,
}

/// The position of a container in the pod's spec, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In `spec.containers`.
    Container(usize),
    /// In `spec.initContainers`, with `restartPolicy: Always`.
    Sidecar(usize),
}

words! {
    /// The webhook's decisions about a new pod, by the names that the annotation `headgate.dev/injected`, the log and
    /// the metrics use.
    Decision {
        /// The pod got the readiness gate.
        GateAdded = "GateAdded",
        /// The pod already has the readiness gate.
        GatePresent = "GatePresent",
        /// Containers got a `preStop` that keeps them alive while a load balancer may still send.
        HoldAdded = "HoldAdded",
        /// The `sleep` of a container's own `preStop` became longer.
        OwnSleepRaised = "OwnSleepRaised",
        /// A container did not get a hold, because it has a `preStop` of its own.
        OwnPreStop = "OwnPreStop",
        /// The `preStop` of a container runs after the hold.
        OwnPreStopWrapped = "OwnPreStopWrapped",
        /// The pod asks for a `preStop` after the hold, and that is not possible.
        OwnPreStopNotWrapped = "OwnPreStopNotWrapped",
        /// No container got a hold, because the hold is off.
        HoldOff = "HoldOff",
        /// The pod is held for less than it needs: an annotation, a flag or another webhook limits its grace period.
        HoldShortened = "HoldShortened",
        /// The pod got no hold, because pods of its owner with a hold were not created. A policy that limits grace
        /// periods may be the cause.
        HoldRefused = "HoldRefused",
        /// The pod got nothing: it belongs to a Job, or no binding selects it, nor has for a while.
        HoldNotNeeded = "HoldNotNeeded",
        /// The grace period became longer by the hold.
        GraceRaised = "GraceRaised",
        /// Probes that restart a container got a grace period of their own, so that the restart takes about the same time as
        /// without a hold.
        ProbeGraceAdded = "ProbeGraceAdded",
        /// The pod got nothing, because of its label.
        InjectionOff = "InjectionOff",
        /// The pod got nothing: this Headgate does not manage its namespace.
        NamespaceNotServed = "NamespaceNotServed",
        /// The pod's bindings were not known: Headgate has not read all objects yet, or the answer took too long.
        BindingsUnknown = "BindingsUnknown",
    }
}

/// What is known about a pod's bindings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// This Headgate does not manage the namespace.
    NotServed,
    /// Not everything was listed yet, or the answer was late.
    Unknown {
        /// Whether this Headgate manages the namespace, if it has read the namespaces.
        served: bool,
    },
    /// No binding selects the pod or was ever used by its workload, and no relevant object is new.
    Excluded,
    /// All bindings that select the pod.
    Bound(Vec<Match>),
}

impl Known {
    /// The known bindings that select the pod.
    pub fn bound(&self) -> &[Match] {
        match self {
            Self::Bound(bound) => bound,
            Self::NotServed | Self::Unknown { .. } | Self::Excluded => &[],
        }
    }
}

impl Container {
    /// Whether the hook may take less than this many seconds.
    pub fn is_shorter_than(&self, seconds: u32) -> bool {
        match self.pre_stop {
            Hook::None | Hook::Request | Hook::Other => true,
            Hook::Sleep(sleeps) | Hook::Wrapped(sleeps) | Hook::Command { sleeps, .. } => sleeps < seconds,
        }
    }
}

/// A binding that selects the pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Match {
    /// The name of the target group.
    pub group: Box<str>,
    /// The port of the pod. `None`: the pod has no port with the name that the binding asks for.
    pub port: Option<u16>,
    /// The object of the binding.
    pub about: Option<About>,
    /// What kind of load balancer uses the target group.
    pub balancer: LoadBalancerType,
    /// How long the pods of the binding are held, in seconds. 0: not at all.
    pub hold: u32,
}

/// What a pod gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injection {
    /// Whether the readiness gate is added.
    pub gate: bool,
    /// How many seconds the containers of `held` sleep in their `preStop`.
    pub seconds: u32,
    /// The containers that get this `preStop`, including those with a shorter own sleep.
    pub held: Vec<Place>,
    /// The containers that lose a `preStop` of an earlier decision.
    pub released: Vec<Place>,
    /// The containers whose own `preStop` runs after the hold, and the program that runs it.
    pub wrapped: Vec<(Place, Wrapper)>,
    /// The probes that get a grace period of their own.
    pub probes: Vec<ProbeGrace>,
    /// The new `terminationGracePeriodSeconds`.
    pub grace: Option<i64>,
    /// The annotations to set.
    pub annotations: Vec<(&'static str, String)>,
    /// The decisions.
    pub decisions: Vec<Decision>,
    /// The decisions that the pod's annotation does not contain yet. Each counts once, for any number of calls of the
    /// webhook.
    pub news: Vec<Decision>,
    /// Warnings for the client that creates the pod.
    pub warnings: Vec<String>,
    /// Reports for the owners of the bindings.
    pub notices: Vec<Notice>,
}

impl Injection {
    /// The pod gets nothing, for this reason.
    pub fn nothing(decision: Decision) -> Self {
        Self { decisions: vec![decision], news: vec![decision], ..Self::default() }
    }

    /// Whether the pod does not change.
    pub fn is_empty(&self) -> bool {
        !self.gate
            && self.held.is_empty()
            && self.released.is_empty()
            && self.wrapped.is_empty()
            && self.probes.is_empty()
            && self.grace.is_none()
            && self.annotations.is_empty()
    }
}
