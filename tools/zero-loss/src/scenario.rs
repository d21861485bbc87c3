//! What happens to the pods while the load goes on, and what Headgate promises of it.

use std::time::Duration;

use crate::{
    asks::{Asks, Least},
    profile::Profile,
    replica::Lease,
    stage::{
        Place,
        replicas::LEASE,
        workload::{Kind, Update},
    },
};

/// A scenario. How it is played: [`crate::acts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// A new revision, rolled out.
    RollingUpdate,
    /// A new revision of pods that listen late, all at once (`maxSurge: 100%`), behind a target group that asks for so many
    /// healthy targets, else the load balancer sends to all of them.
    LeastHealthy(Least),
    /// The same with 60 percent where Headgate may not read attributes of target groups, and registers pods at their IP.
    LeastHealthyUnread,
    /// A new revision while traffic is shifted away from a zone, in which a third or half of the pods are.
    ShiftRoll,
    /// `kubectl drain` of a node of that zone, and of one of each other zone, at the same moment.
    ShiftDrain,
    /// The same for a Deployment that was applied 20 s before its Service, in a namespace with the label.
    BeforeItsService,
    /// The same in `kube-system`, opted in by the label of the pods.
    KubeSystem,
    /// From six pods to two at once.
    ScaleDown,
    /// `kubectl drain` of one node.
    Drain,
    /// `kubectl drain` of the node of each zone with the most pods at once, under a `PodDisruptionBudget` of `maxUnavailable: 2`.
    DrainHalf,
    /// A new revision of a DaemonSet with `maxSurge: 1` and `maxUnavailable: 0`, rolled out.
    DaemonSetRoll,
    /// `kubectl drain --ignore-daemonsets` of a node; the node is lost when it has the annotation
    /// `headgate.dev/detached-at` (in the control, at once), and another one takes its place.
    DaemonSetNode,
    /// A new template of an IngressDaemonSet with two pods on each node, rolled out. The control of this and the next ones: a
    /// DaemonSet with hostPort and without a surge, whose pod a drain passes over.
    IdsRoll,
    /// The same with one pod on each node.
    IdsRollOfOne,
    /// `kubectl drain` of a node with pods of an IngressDaemonSet, and the node is lost.
    IdsDrain,
    /// The same of half of the nodes at once.
    IdsDrainHalf,
    /// A node with pods of an IngressDaemonSet is drained, its machine ends, its Node is deleted; 30 s of AWS's later a new
    /// machine registers itself.
    IdsNewNode,
    /// A new template whose pods are ready for Kubernetes and listen on another port than the load balancer sends to; the
    /// template from before is written again when the set reports that the roll has stopped.
    IdsBadImage,
    /// SIGKILL of the leading `headgate daemonsets` during a roll, as the first new pod becomes ready.
    IdsControllerKilled,
    /// A new template with `NodeReplace`: both pods of a node are evicted, and the new ones are made after that.
    IdsNodeReplace,
    /// Half of the nodes are replaced as in an EKS managed node group: all are tainted
    /// `eks.amazonaws.com/nodegroup=unschedulable:NoSchedule`; one after another its pods are evicted, it is cordoned, and lost
    /// 60 s of AWS's later.
    ManagedNodes,
    /// The same under a DaemonSet, whose pods nobody evicts.
    DaemonSetManagedNodes,
    /// A second Deployment is made; when its pods are ready, the Service's selector moves to them; the first one is scaled to
    /// nothing 300 s of AWS's later (in the control after 30 s, the default of Argo Rollouts).
    BlueGreen,
    /// The same without a Service: the `podSelector` of a TargetBinding moves.
    BlueGreenBinding,
    /// A Deployment of 60 pods is rolled again and again, all of it at a time, until 3,000 pods have terminated.
    Departures,
    /// A node is tainted `karpenter.sh/disrupted:NoSchedule`, and its pods are evicted by the API, every second again.
    Karpenter,
    /// A node is tainted `aws-node-termination-handler/spot-itn:NoSchedule`; 120 s of AWS's later it is lost.
    Spot,
    /// A pod deleted by force.
    ForceDelete,
    /// The process of a pod is stopped (SIGSTOP), and its liveness probe starts the container again.
    WedgedContainer,
    /// The kubelet evicts a pod because its node is short of memory (hard threshold, one second of grace).
    NodePressure,
    /// A node is shut down; its kubelet ends the pods (shutdownGracePeriod 20 s) and is gone a second later.
    NodeShutdown,
    /// A new revision whose pods are ready for Kubernetes and listen on another port than the load balancer sends to; undone
    /// when `kubectl rollout status` has given up on it.
    BadImage,
    /// SIGKILL of the leading replica of Headgate during a roll, as the first new pod becomes ready, and a pod is deleted.
    LeaderKilled,
    /// SIGKILL of all replicas during a roll; they are started again a second later.
    AllDownBriefly,
    /// SIGKILL of all replicas during a roll; they are started again after as long as pods are held.
    AllDownLong,
    /// AWS refuses all calls for half of the margin during a roll.
    AwsThrottled,
    /// The API server restarts during a roll.
    ApiServerRestarted,
}

/// Scenarios that have something in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// New revisions, also bad ones, and one set of pods for another.
    Rollouts,
    /// Fewer pods.
    ScaleDown,
    /// Drains, and nodes that are replaced.
    Nodes,
    /// DaemonSets.
    DaemonSets,
    /// IngressDaemonSets.
    IngressDaemonSets,
    /// Headgate, AWS or Kubernetes fail during a roll.
    Faults,
    /// Nodes and pods that end by themselves.
    Sudden,
}

impl Group {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Rollouts,
        Self::ScaleDown,
        Self::Nodes,
        Self::DaemonSets,
        Self::IngressDaemonSets,
        Self::Faults,
        Self::Sudden,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rollouts => "rollouts, rollbacks, blue/green",
            Self::ScaleDown => "scale-down",
            Self::Nodes => "drains and new nodes",
            Self::DaemonSets => "DaemonSets",
            Self::IngressDaemonSets => "IngressDaemonSets",
            Self::Faults => "faults of Headgate, AWS, API server",
            Self::Sudden => "spot interruption (ALB)",
        }
    }
}

impl Scenario {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 40] = [
        Self::RollingUpdate,
        Self::LeastHealthy(Least::Percent(20)),
        Self::LeastHealthy(Least::Percent(60)),
        Self::LeastHealthy(Least::Percent(90)),
        Self::LeastHealthy(Least::Count(3)),
        Self::ShiftRoll,
        Self::ShiftDrain,
        Self::BeforeItsService,
        Self::KubeSystem,
        Self::ScaleDown,
        Self::Drain,
        Self::DrainHalf,
        Self::DaemonSetRoll,
        Self::DaemonSetNode,
        Self::IdsRoll,
        Self::IdsRollOfOne,
        Self::IdsDrain,
        Self::IdsDrainHalf,
        Self::IdsNewNode,
        Self::IdsBadImage,
        Self::IdsControllerKilled,
        Self::IdsNodeReplace,
        Self::ManagedNodes,
        Self::DaemonSetManagedNodes,
        Self::BlueGreen,
        Self::BlueGreenBinding,
        Self::Departures,
        Self::Karpenter,
        Self::BadImage,
        Self::LeaderKilled,
        Self::AllDownBriefly,
        Self::AwsThrottled,
        Self::ApiServerRestarted,
        Self::Spot,
        Self::AllDownLong,
        Self::ForceDelete,
        Self::WedgedContainer,
        Self::NodePressure,
        Self::NodeShutdown,
        Self::LeastHealthyUnread,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RollingUpdate => "rolling-update",
            Self::LeastHealthy(Least::Percent(..=20)) => "least-healthy-20-percent",
            Self::LeastHealthy(Least::Percent(..=60)) => "least-healthy-60-percent",
            Self::LeastHealthy(Least::Percent(_)) => "least-healthy-90-percent",
            Self::LeastHealthy(Least::Count(_)) => "least-healthy-3",
            Self::LeastHealthyUnread => "least-healthy-unread",
            Self::ShiftRoll => "zonal-shift-roll",
            Self::ShiftDrain => "zonal-shift-drain",
            Self::BeforeItsService => "before-its-service",
            Self::KubeSystem => "kube-system",
            Self::ScaleDown => "scale-down",
            Self::Drain => "drain",
            Self::DrainHalf => "drain-half",
            Self::DaemonSetRoll => "daemonset-roll",
            Self::DaemonSetNode => "daemonset-node",
            Self::IdsRoll => "ids-roll",
            Self::IdsRollOfOne => "ids-roll-one",
            Self::IdsDrain => "ids-drain",
            Self::IdsDrainHalf => "ids-drain-half",
            Self::IdsNewNode => "ids-new-node",
            Self::IdsBadImage => "ids-bad-image",
            Self::IdsControllerKilled => "ids-killed",
            Self::IdsNodeReplace => "ids-node-replace",
            Self::ManagedNodes => "managed-node-group",
            Self::DaemonSetManagedNodes => "daemonset-managed-nodes",
            Self::BlueGreen => "blue-green",
            Self::BlueGreenBinding => "blue-green-binding",
            Self::Departures => "departures",
            Self::Karpenter => "karpenter-drain",
            Self::Spot => "spot-interruption",
            Self::ForceDelete => "force-delete",
            Self::WedgedContainer => "wedged-container",
            Self::NodePressure => "node-pressure",
            Self::NodeShutdown => "node-shutdown",
            Self::BadImage => "bad-image",
            Self::LeaderKilled => "leader-killed",
            Self::AllDownBriefly => "all-down-briefly",
            Self::AllDownLong => "all-down-long",
            Self::AwsThrottled => "aws-throttled",
            Self::ApiServerRestarted => "api-server-restarted",
        }
    }

    /// That of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.name() == name)
    }

    /// What it has in common with others.
    pub const fn group(self) -> Group {
        match self {
            Self::RollingUpdate
            | Self::LeastHealthy(_)
            | Self::LeastHealthyUnread
            | Self::ShiftRoll
            | Self::BeforeItsService
            | Self::KubeSystem
            | Self::BadImage
            | Self::BlueGreen
            | Self::BlueGreenBinding
            | Self::Departures => Group::Rollouts,
            Self::ScaleDown => Group::ScaleDown,
            Self::Drain | Self::ShiftDrain | Self::DrainHalf | Self::ManagedNodes | Self::Karpenter => {
                Group::Nodes
            }
            Self::DaemonSetRoll | Self::DaemonSetNode | Self::DaemonSetManagedNodes => Group::DaemonSets,
            Self::IdsRoll
            | Self::IdsRollOfOne
            | Self::IdsDrain
            | Self::IdsDrainHalf
            | Self::IdsNewNode
            | Self::IdsBadImage
            | Self::IdsControllerKilled
            | Self::IdsNodeReplace => Group::IngressDaemonSets,
            Self::LeaderKilled
            | Self::AllDownBriefly
            | Self::AllDownLong
            | Self::AwsThrottled
            | Self::ApiServerRestarted => Group::Faults,
            Self::Spot
            | Self::ForceDelete
            | Self::WedgedContainer
            | Self::NodePressure
            | Self::NodeShutdown => Group::Sudden,
        }
    }

    /// Whether it is promised that nothing is lost.
    pub fn is_promised(self, profile: Profile) -> bool {
        match self {
            Self::RollingUpdate
            | Self::LeastHealthy(_)
            | Self::ShiftRoll
            | Self::ShiftDrain
            | Self::BeforeItsService
            | Self::KubeSystem
            | Self::ScaleDown
            | Self::Drain
            | Self::DrainHalf
            | Self::DaemonSetRoll
            | Self::DaemonSetNode
            | Self::IdsRoll
            | Self::IdsRollOfOne
            | Self::IdsDrain
            | Self::IdsDrainHalf
            | Self::IdsNewNode
            | Self::IdsBadImage
            | Self::IdsControllerKilled
            | Self::IdsNodeReplace
            | Self::ManagedNodes
            | Self::BlueGreen
            | Self::BlueGreenBinding
            | Self::Departures
            | Self::Karpenter
            | Self::BadImage
            | Self::LeaderKilled
            | Self::AllDownBriefly
            | Self::AwsThrottled
            | Self::ApiServerRestarted => true,
            Self::Spot | Self::DaemonSetManagedNodes => profile.is_application(),
            Self::LeastHealthyUnread
            | Self::AllDownLong
            | Self::ForceDelete
            | Self::WedgedContainer
            | Self::NodePressure
            | Self::NodeShutdown => false,
        }
    }

    /// Whether real kubelets can be brought to it here.
    pub const fn needs_simulated_nodes(self) -> bool {
        matches!(
            self,
            Self::NodePressure | Self::NodeShutdown | Self::LeastHealthy(_) | Self::LeastHealthyUnread
        )
    }

    /// What makes the pods.
    pub const fn kind(self) -> Kind {
        match self {
            Self::DaemonSetRoll | Self::DaemonSetNode | Self::DaemonSetManagedNodes => Kind::DaemonSet,
            Self::IdsRollOfOne => Kind::IngressDaemonSet(1, Update::Surge),
            Self::IdsNodeReplace => Kind::IngressDaemonSet(2, Update::NodeReplace),
            Self::IdsRoll
            | Self::IdsDrain
            | Self::IdsDrainHalf
            | Self::IdsNewNode
            | Self::IdsBadImage
            | Self::IdsControllerKilled => Kind::IngressDaemonSet(2, Update::Surge),
            _ => Kind::Deployment,
        }
    }

    /// What makes those of the control: of an IngressDaemonSet what people have without it.
    pub const fn kind_of_control(self) -> Kind {
        match self.kind() {
            Kind::IngressDaemonSet(..) => Kind::HostPort,
            kind => kind,
        }
    }

    /// What the target group asks for, if not AWS's default.
    pub const fn asks(self) -> Option<Asks> {
        match self {
            Self::LeastHealthy(least) => Some(Asks { least, is_read: true }),
            Self::LeastHealthyUnread => Some(Asks { least: Least::Percent(60), is_read: false }),
            _ => None,
        }
    }

    /// Where it is played.
    pub const fn place(self) -> Place {
        match self {
            Self::BeforeItsService => Place::BeforeItsService,
            Self::KubeSystem => Place::System,
            Self::BlueGreenBinding => Place::ByBinding,
            _ => Place::Usual,
        }
    }

    /// Whether there are never to be fewer healthy targets than before: one set of pods takes the place of another of the same size.
    pub const fn keeps_its_healthy_targets(self) -> bool {
        matches!(self, Self::BlueGreen | Self::BlueGreenBinding)
    }

    /// Whether pods may be made while no webhook answers.
    pub const fn may_miss_the_webhook(self) -> bool {
        matches!(self, Self::AllDownBriefly | Self::AllDownLong)
    }

    /// How many pods there are at its end, if not as many as at its beginning.
    pub const fn pods_at_the_end(self) -> Option<u32> {
        match self {
            Self::ScaleDown => Some(2),
            Self::Departures => Some(60),
            _ => None,
        }
    }

    /// How much longer than in others things take in it: there are sixty pods, and not six.
    pub fn takes_longer(self) -> Duration {
        if self == Self::Departures { Duration::from_secs(300) } else { Duration::ZERO }
    }

    /// The Lease of the replicas, if not Headgate's default. Through an hour of rolls on a busy machine the default one is kept:
    /// nobody kills the leader there.
    pub fn lease(self) -> Option<Lease> {
        (self != Self::Departures).then_some(LEASE)
    }

    /// Whether it is played behind a load balancer like this: once is enough where it takes long.
    pub fn is_played_behind(self, profile: Profile) -> bool {
        match self {
            Self::Departures => profile == Profile::TypicalNlb,
            Self::LeastHealthy(_) | Self::LeastHealthyUnread | Self::ShiftRoll | Self::ShiftDrain => {
                profile != Profile::SlowNlb
            }
            _ => true,
        }
    }
}
