//! What a new pod is like, what is known of its bindings, and what it is given.

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
    /// What controls it.
    pub owner: Option<Uid>,
    /// Whether a Job made it.
    pub of_job: bool,
    /// The condition types of `spec.readinessGates`.
    pub gates: Vec<Box<str>>,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace: Option<i64>,
    /// The containers that run while the pod does: `spec.containers`, and native sidecars.
    pub containers: Vec<Container>,
    /// Their named ports.
    pub ports: Vec<NamedPort>,
}

/// A container that runs while the pod does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: Box<str>,
    /// The path of the container.
    pub place: Place,
    /// Its `lifecycle.preStop`.
    pub pre_stop: Hook,
    /// What keeps Headgate's program out of it.
    pub obstacle: Option<Obstacle>,
    /// The ports that it declares.
    pub ports: Vec<u16>,
    /// Its probes that may end it, and have no grace period of their own.
    pub probes: Vec<Probe>,
}

/// What stands in `lifecycle.preStop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Nothing.
    None,
    /// It sleeps for this many seconds and does nothing else, in any form.
    Sleep(u32),
    /// The sleep that Headgate has put before the container's own hook: this many seconds.
    Wrapped(u32),
    /// A command, which may take any time.
    Command {
        /// For how many seconds it is known to sleep first.
        sleeps: u32,
        /// Whether a shell runs it, so that the image has one.
        by_shell: bool,
    },
    /// A plain HTTP request, to a port that is known.
    Request,
    /// Something else that may take any time.
    Other,
}

/// Why Headgate's program cannot be brought into a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Another volume, or another mount, is where it would be.
    Taken,
    /// The pod is one for Windows, or may be.
    Windows,
    /// Its RuntimeClass may be one that runs no Linux program, or mounts no image.
    RuntimeClass,
}

/// The annotation of a pod, or of its namespace, that limits its grace period: a duration in the format of
/// [`crate::model::Hold`].
pub const MAX_GRACE: &str = "headgate.dev/max-grace";

/// The annotation of a pod about a `preStop` that is no `sleep`.
pub const OWN_PRESTOP: &str = "headgate.dev/own-prestop";

words! {
    /// What happens to a `preStop` that is no `sleep`.
    #[derive(Default)]
    OwnPreStop {
        /// It does not change.
        #[default]
        Leave = "leave",
        /// It is run after the hold: by the shell that runs it anyway, or by Headgate's program.
        Wrap = "wrap",
        /// It is run after the hold by the `sh` of its image, which must have one, and `sleep`.
        WrapByShell = "wrap-by-shell",
    }
}

/// What runs a `preStop` after the hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapper {
    /// A shell of the image.
    Shell,
    /// Headgate's program, in a volume that is Headgate's image.
    Program,
    /// What runs it already: only its seconds change.
    Present,
}

/// Whether Headgate's program can be brought into a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// It can.
    Available,
    /// Headgate does not know its own image.
    #[default]
    NoImage,
    /// The API server has no image volumes yet.
    ServerTooOld,
    /// The API server has not returned its version yet.
    ServerUnknown,
}

/// What pods get, if they get anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// For how many seconds a probe leaves a held container alive that it ends, if the pod had no less.
    pub probe_grace: u32,
    /// Whether there is a program that holds.
    pub program: Program,
    /// No grace period is raised above this many seconds, unless the pod itself has another limit; and the source of
    /// the limit.
    pub max_grace: Option<(u32, &'static str)>,
    /// Pods of its owner that were given a hold were not created.
    pub is_refused: bool,
}

/// A probe that ends its container when it fails.
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
    /// What it is.
    pub const fn said(self) -> &'static str {
        match self {
            Self::Taken => "another volume has the name or the place of the one that would be needed",
            Self::Windows => "the pod may run on Windows",
            Self::RuntimeClass => {
                "the pod has a RuntimeClass, which may run no Linux program from an image volume"
            }
        }
    }
}

impl Program {
    /// Why there is none.
    pub const fn lacks(self) -> Option<&'static str> {
        match self {
            Self::Available => None,
            Self::NoImage => Some("--hold-image does not say in which image headgate-hold is"),
            Self::ServerTooOld => Some("the API server has no image volumes before 1.35"),
            Self::ServerUnknown => Some("the API server has not said its version yet"),
        }
    }
}

impl Probe {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Liveness, Self::Startup];

    /// Its field of a container.
    pub const fn field(self) -> &'static str {
        match self {
            Self::Liveness => "livenessProbe",
            Self::Startup => "startupProbe",
        }
    }
}

/// The grace period that a probe is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeGrace {
    /// Of which container.
    pub place: Place,
    /// Which of its probes.
    pub probe: Probe,
    /// In seconds, at least 1.
    pub seconds: i64,
}

/// The position of a container in the spec of its pod, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In `spec.containers`.
    Container(usize),
    /// In `spec.initContainers`, with `restartPolicy: Always`.
    Sidecar(usize),
}

words! {
    /// What the webhook decides about a new pod, as the annotation `headgate.dev/injected`, the log and the metrics name it.
    Decision {
        /// The pod was given the readiness gate.
        GateAdded = "GateAdded",
        /// It has the readiness gate already.
        GatePresent = "GatePresent",
        /// Containers were given a `preStop` that keeps them alive while a load balancer may still send.
        HoldAdded = "HoldAdded",
        /// The `sleep` of a container's own `preStop` was raised to that time.
        OwnSleepRaised = "OwnSleepRaised",
        /// A container did not get one: it has a `preStop` of its own.
        OwnPreStop = "OwnPreStop",
        /// The `preStop` of a container is run after that time.
        OwnPreStopWrapped = "OwnPreStopWrapped",
        /// The pod wants that, and it is not possible.
        OwnPreStopNotWrapped = "OwnPreStopNotWrapped",
        /// No container was given a hold: that is not wanted.
        HoldOff = "HoldOff",
        /// The pod is held for less than it needs: an annotation, a flag or another webhook limits its grace period.
        HoldShortened = "HoldShortened",
        /// It is not held: pods of its owner with a hold were not created, for example because of a policy that
        /// limits grace periods.
        HoldRefused = "HoldRefused",
        /// The pod was given nothing: it is a Job's, or no binding selects it, nor has for a while.
        HoldNotNeeded = "HoldNotNeeded",
        /// The grace period was raised by the time that the containers are held.
        GraceRaised = "GraceRaised",
        /// The probes that end a container have a grace period of their own, so that it restarts about as soon as
        /// without a hold.
        ProbeGraceAdded = "ProbeGraceAdded",
        /// The pod got nothing, because of its label.
        InjectionOff = "InjectionOff",
        /// The pod was given nothing: this Headgate does not manage its namespace.
        NamespaceNotServed = "NamespaceNotServed",
        /// What binds the pod was not known: not everything was read yet, or it took too long.
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
        /// Whether this Headgate manages the namespace, with any content.
        served: bool,
    },
    /// No binding selects the pod, nor has any had one of its workload, and nothing of that is new.
    Excluded,
    /// All bindings that select the pod.
    Bound(Vec<Match>),
}

impl Known {
    /// The bindings that select the pod, as far as they are known.
    pub fn bound(&self) -> &[Match] {
        match self {
            Self::Bound(bound) => bound,
            Self::NotServed | Self::Unknown { .. } | Self::Excluded => &[],
        }
    }
}

impl Container {
    /// Whether its own `preStop` may take less than this many seconds.
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
    /// The port of the pod; `None`: it has none of the name that the binding asks for.
    pub port: Option<u16>,
    /// The object of the binding.
    pub about: Option<About>,
    /// What kind of load balancer uses the target group.
    pub balancer: LoadBalancerType,
    /// For how long its pods are held, in seconds; 0: not at all.
    pub hold: u32,
}

/// What a pod is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injection {
    /// The readiness gate is added.
    pub gate: bool,
    /// How many seconds those of `held` sleep in their `preStop`.
    pub seconds: u32,
    /// The containers that are given this `preStop`, those among them whose own sleep is shorter.
    pub held: Vec<Place>,
    /// The containers whose `preStop` comes from an earlier decision, and that should have none.
    pub released: Vec<Place>,
    /// The containers whose own `preStop` is run after as many seconds, and by what.
    pub wrapped: Vec<(Place, Wrapper)>,
    /// The probes that are given a grace period of their own.
    pub probes: Vec<ProbeGrace>,
    /// What `terminationGracePeriodSeconds` becomes.
    pub grace: Option<i64>,
    /// Annotations that are set.
    pub annotations: Vec<(&'static str, String)>,
    /// What was decided.
    pub decisions: Vec<Decision>,
    /// Those that the pod's annotation did not contain yet: each counts once, for any number of calls of the API
    /// server.
    pub news: Vec<Decision>,
    /// What the creator of the pod should know.
    pub warnings: Vec<String>,
    /// What those should know who bind it.
    pub notices: Vec<Notice>,
}

impl Injection {
    /// Nothing, for this reason.
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
