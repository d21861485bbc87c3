//! The properties of a new pod, its known bindings, and the changes that the webhook makes to the pod.

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
    /// Whether the pod has the annotation `headgate.dev/expected-bindings`.
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
    /// The named ports of the containers.
    pub ports: Vec<NamedPort>,
}

/// A container that runs during the whole life of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The name of the container.
    pub name: Box<str>,
    /// The position of the container in the pod.
    pub place: Place,
    /// The container's `lifecycle.preStop`.
    pub pre_stop: Hook,
    /// The obstacle, if Headgate's program cannot be mounted in the container.
    pub obstacle: Option<Obstacle>,
    /// The ports that the container declares.
    pub ports: Vec<u16>,
    /// The probes that may restart the container and have no grace period of their own.
    pub probes: Vec<Probe>,
}

/// The content of `lifecycle.preStop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// The container has no `preStop` hook.
    None,
    /// A hook that only sleeps for this number of seconds, in any notation.
    Sleep(u32),
    /// A sleep of this many seconds that Headgate has added before the container's own hook.
    Wrapped(u32),
    /// A command of unknown duration.
    Command {
        /// The minimum number of seconds that the command sleeps first.
        sleeps: u32,
        /// Whether a shell runs the command, which proves that the image has a shell.
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
    /// The RuntimeClass might not support Linux programs or image volumes.
    RuntimeClass,
}

/// The annotation on a pod or its namespace that limits the grace period. The value is a duration in the format of
/// [`crate::model::Hold`].
pub const MAX_GRACE: &str = "headgate.dev/max-grace";

/// The pod annotation that controls a `preStop` other than a `sleep`.
pub const OWN_PRESTOP: &str = "headgate.dev/own-prestop";

words! {
    /// How Headgate treats a `preStop` that is not a `sleep`.
    #[derive(Default)]
    OwnPreStop {
        /// The `preStop` does not change.
        #[default]
        Leave = "leave",
        /// The `preStop` runs after the hold, through its own shell or through Headgate's program.
        Wrap = "wrap",
        /// The `preStop` runs after the hold, through the `sh` of the container's image. The image must contain `sh`
        /// and `sleep`.
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
    /// The wrapper of an earlier decision, of which only the seconds change.
    Present,
}

/// Whether Headgate's program can be mounted in a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// The program can be mounted.
    Available,
    /// Headgate does not know its own image.
    #[default]
    NoImage,
    /// The API server does not support image volumes.
    ServerTooOld,
    /// The API server has not returned its version yet.
    ServerUnknown,
}

/// Settings for the changes to new pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The maximum grace period of probes of a held container, in seconds.
    pub probe_grace: u32,
    /// Whether Headgate's program can be mounted.
    pub program: Program,
    /// The maximum raised grace period in seconds, and the source of this limit. A limit in the pod's annotation takes
    /// precedence.
    pub max_grace: Option<(u32, &'static str)>,
    /// Whether pods of the same owner could not be created with a hold.
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
    /// The description of the obstacle in the annotation.
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
    /// Why the program cannot be mounted.
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

    /// The probe's field in the container.
    pub const fn field(self) -> &'static str {
        match self {
            Self::Liveness => "livenessProbe",
            Self::Startup => "startupProbe",
        }
    }
}

/// A new grace period for a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeGrace {
    /// The container.
    pub place: Place,
    /// The probe.
    pub probe: Probe,
    /// The grace period in seconds, at least 1.
    pub seconds: i64,
}

/// The position of a container in the pod's spec, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A container in `spec.containers`.
    Container(usize),
    /// A container in `spec.initContainers` with `restartPolicy: Always`.
    Sidecar(usize),
}

words! {
    /// The webhook's decisions about a new pod. The annotation `headgate.dev/injected`, the log and the metrics use the
    /// same names.
    Decision {
        /// The pod got the readiness gate.
        GateAdded = "GateAdded",
        /// The pod already has the readiness gate.
        GatePresent = "GatePresent",
        /// Containers got a `preStop` sleep, so that they keep serving while a load balancer may still send requests.
        HoldAdded = "HoldAdded",
        /// The `sleep` of a container's own `preStop` became longer.
        OwnSleepRaised = "OwnSleepRaised",
        /// A container did not get a hold, because the container has its own `preStop`.
        OwnPreStop = "OwnPreStop",
        /// The `preStop` of a container runs after the hold.
        OwnPreStopWrapped = "OwnPreStopWrapped",
        /// The pod requests that its `preStop` runs after the hold, but Headgate cannot wrap the `preStop`.
        OwnPreStopNotWrapped = "OwnPreStopNotWrapped",
        /// No container got a hold, because the hold is off.
        HoldOff = "HoldOff",
        /// The hold is shorter than required, because an annotation, a flag or another webhook limits the pod's grace
        /// period.
        HoldShortened = "HoldShortened",
        /// The pod got no hold, because pods of the same owner could not be created with a hold. The cause may be a
        /// policy that limits grace periods.
        HoldRefused = "HoldRefused",
        /// The pod did not change, because a Job owns it, or no current or recent binding selects it.
        HoldNotNeeded = "HoldNotNeeded",
        /// Headgate extended the grace period for the hold.
        GraceRaised = "GraceRaised",
        /// Probes that restart a container got their own grace period, so that the hold hardly delays a restart.
        ProbeGraceAdded = "ProbeGraceAdded",
        /// The pod did not change, because its label excludes it.
        InjectionOff = "InjectionOff",
        /// The pod did not change, because this Headgate does not manage its namespace.
        NamespaceNotServed = "NamespaceNotServed",
        /// Headgate did not know the pod's bindings, because it has not read all objects yet or the answer took too
        /// long.
        BindingsUnknown = "BindingsUnknown",
    }
}

/// Headgate's knowledge of a pod's bindings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// This Headgate does not manage the namespace.
    NotServed,
    /// Headgate has not completed its initial sync, or the answer was late.
    Unknown {
        /// Whether this Headgate manages the namespace, if Headgate has already read the namespaces.
        served: bool,
    },
    /// No binding selects the pod or has ever selected a pod of its workload, and no relevant object is new.
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
    /// Whether the hook may be shorter than this number of seconds.
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
    /// The port of the pod, or `None` if the pod has no port with the name in the binding.
    pub port: Option<u16>,
    /// The object of the binding.
    pub about: Option<About>,
    /// The type of the load balancer that uses the target group.
    pub balancer: LoadBalancerType,
    /// How long the pods of the binding are held, in seconds. 0 means no hold.
    pub hold: u32,
}

/// The changes that the webhook makes to a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injection {
    /// Whether the readiness gate is added.
    pub gate: bool,
    /// How many seconds the containers in `held` sleep in their `preStop`.
    pub seconds: u32,
    /// The containers that get the `preStop` sleep, including containers whose own sleep is shorter.
    pub held: Vec<Place>,
    /// The containers from which the webhook removes the `preStop` of an earlier decision.
    pub released: Vec<Place>,
    /// The containers whose own `preStop` runs after the hold, each with the program that runs the `preStop`.
    pub wrapped: Vec<(Place, Wrapper)>,
    /// The probes that get a grace period of their own.
    pub probes: Vec<ProbeGrace>,
    /// The new `terminationGracePeriodSeconds`.
    pub grace: Option<i64>,
    /// The annotations to set.
    pub annotations: Vec<(&'static str, String)>,
    /// The decisions.
    pub decisions: Vec<Decision>,
    /// The decisions that the pod's annotation does not contain yet. Each decision counts once, even if the API server
    /// calls the webhook several times.
    pub news: Vec<Decision>,
    /// Warnings for the client that creates the pod.
    pub warnings: Vec<String>,
    /// Reports for the owners of the bindings.
    pub notices: Vec<Notice>,
}

impl Injection {
    /// Leaves the pod unchanged, for this reason.
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
