//! What happens to the pods during the load, and what Headgate guarantees.

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

/// A scenario. [`crate::acts`] plays it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// A rollout of a new revision.
    RollingUpdate,
    /// A new revision of pods that listen late, all at once (`maxSurge: 100%`). The target group requires this many
    /// healthy targets; if there are fewer, the load balancer sends to all of them.
    LeastHealthy(Least),
    /// The same with 60 percent, if Headgate may not read the attributes of target groups and registers pods at their
    /// IP.
    LeastHealthyUnread,
    /// A new revision while traffic is shifted away from a zone with a third or half of the pods.
    ShiftRoll,
    /// `kubectl drain` of a node of that zone and of one node in each other zone at the same time.
    ShiftDrain,
    /// The same for a Deployment that was applied 20 s before its Service, in a namespace with the label.
    BeforeItsService,
    /// The same in `kube-system`, enabled by the label of the pods.
    KubeSystem,
    /// From six pods to two at once.
    ScaleDown,
    /// `kubectl drain` of one node.
    Drain,
    /// `kubectl drain` of the node with the most pods in each zone at once, under a `PodDisruptionBudget` with
    /// `maxUnavailable: 2`.
    DrainHalf,
    /// A rollout of a DaemonSet with `maxSurge: 1` and `maxUnavailable: 0`.
    DaemonSetRoll,
    /// `kubectl drain --ignore-daemonsets` of a node. The node is lost when it has the annotation
    /// `headgate.dev/detached-at` (in the control, at once), and another one replaces it.
    DaemonSetNode,
    /// A rollout of an IngressDaemonSet with two pods per node. The control of this and the next scenarios is a
    /// DaemonSet with hostPort and without surge, whose pods a drain skips.
    IdsRoll,
    /// The same with one pod on each node.
    IdsRollOfOne,
    /// `kubectl drain` of a node with pods of an IngressDaemonSet. Then the node is lost.
    IdsDrain,
    /// The same for half of the nodes at once.
    IdsDrainHalf,
    /// A node with pods of an IngressDaemonSet is drained, its machine ends, and its Node is deleted. After 30 AWS
    /// seconds, a new machine registers.
    IdsNewNode,
    /// A new template whose pods are ready for Kubernetes but listen on another port than the load balancer uses. The
    /// earlier template is restored when the set reports that the rollout has stopped.
    IdsBadImage,
    /// SIGKILL of the leading `headgate daemonsets` during a roll, as the first new pod becomes ready.
    IdsControllerKilled,
    /// A new template with `NodeReplace`: both pods of a node are evicted, and the new ones are created afterwards.
    IdsNodeReplace,
    /// Half of the nodes are replaced like in an EKS managed node group: all are tainted
    /// `eks.amazonaws.com/nodegroup=unschedulable:NoSchedule`. One after another, the pods of a node are evicted, the
    /// node is cordoned, and is lost after 60 AWS seconds.
    ManagedNodes,
    /// The same with a DaemonSet, whose pods are not evicted.
    DaemonSetManagedNodes,
    /// A second Deployment is created. When its pods are ready, the Service's selector moves to them. The first
    /// Deployment is scaled to 0 after 300 AWS seconds (in the control after 30 s, the default of Argo Rollouts).
    BlueGreen,
    /// The same without a Service: the `podSelector` of a TargetBinding moves.
    BlueGreenBinding,
    /// A Deployment of 60 pods is rolled out repeatedly, all pods at a time, until 3,000 pods have terminated.
    Departures,
    /// A node is tainted `karpenter.sh/disrupted:NoSchedule`, and evictions of its pods are requested every second.
    Karpenter,
    /// A node is tainted `aws-node-termination-handler/spot-itn:NoSchedule`, and is lost after 120 AWS seconds.
    Spot,
    /// A pod deleted by force.
    ForceDelete,
    /// The process of a pod is stopped (SIGSTOP), and its liveness probe restarts the container.
    WedgedContainer,
    /// The kubelet evicts a pod because its node is short of memory (hard threshold, one second of grace).
    NodePressure,
    /// A node is shut down. Its kubelet terminates the pods (shutdownGracePeriod 20 s), and is stopped a second later.
    NodeShutdown,
    /// A new revision whose pods are ready for Kubernetes but listen on another port than the load balancer uses. It is
    /// undone when `kubectl rollout status` has given up.
    BadImage,
    /// SIGKILL of the leader during a rollout when the first new pod becomes ready. Then a pod is deleted.
    LeaderKilled,
    /// SIGKILL of all replicas during a rollout. They are started again a second later.
    AllDownBriefly,
    /// SIGKILL of all replicas during a rollout. They are started again after the time of the hold.
    AllDownLong,
    /// AWS rejects all calls for half of the reserve during a rollout.
    AwsThrottled,
    /// The API server restarts during a rollout.
    ApiServerRestarted,
}

/// A group of similar scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// New revisions, including bad ones, and replaced sets of pods.
    Rollouts,
    /// Fewer pods.
    ScaleDown,
    /// Drains and replaced nodes.
    Nodes,
    /// DaemonSets.
    DaemonSets,
    /// IngressDaemonSets.
    IngressDaemonSets,
    /// Headgate, AWS or Kubernetes fail during a rollout.
    Faults,
    /// Nodes and pods that terminate unexpectedly.
    Sudden,
}

impl Group {
    /// All groups.
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
    /// All scenarios, in the order of the table.
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

    /// The scenario with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.name() == name)
    }

    /// The group of the scenario.
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

    /// Whether no lost request is guaranteed.
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

    /// Whether it cannot be played with real kubelets here.
    pub const fn needs_simulated_nodes(self) -> bool {
        matches!(
            self,
            Self::NodePressure | Self::NodeShutdown | Self::LeastHealthy(_) | Self::LeastHealthyUnread
        )
    }

    /// The workload of the pods.
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

    /// The workload of the control. For an IngressDaemonSet, what people use without it.
    pub const fn kind_of_control(self) -> Kind {
        match self.kind() {
            Kind::IngressDaemonSet(..) => Kind::HostPort,
            kind => kind,
        }
    }

    /// The requirements of the target group, if they are not AWS's default.
    pub const fn asks(self) -> Option<Asks> {
        match self {
            Self::LeastHealthy(least) => Some(Asks { least, is_read: true }),
            Self::LeastHealthyUnread => Some(Asks { least: Least::Percent(60), is_read: false }),
            _ => None,
        }
    }

    /// The place of the pods.
    pub const fn place(self) -> Place {
        match self {
            Self::BeforeItsService => Place::BeforeItsService,
            Self::KubeSystem => Place::System,
            Self::BlueGreenBinding => Place::ByBinding,
            _ => Place::Usual,
        }
    }

    /// Whether there must never be fewer healthy targets than before, because one set of pods replaces another of the
    /// same size.
    pub const fn keeps_its_healthy_targets(self) -> bool {
        matches!(self, Self::BlueGreen | Self::BlueGreenBinding)
    }

    /// Whether pods may be created while no webhook answers.
    pub const fn may_miss_the_webhook(self) -> bool {
        matches!(self, Self::AllDownBriefly | Self::AllDownLong)
    }

    /// The number of pods at its end, if that differs from the beginning.
    pub const fn pods_at_the_end(self) -> Option<u32> {
        match self {
            Self::ScaleDown => Some(2),
            Self::Departures => Some(60),
            _ => None,
        }
    }

    /// How much longer its steps take than in other scenarios, because there are sixty pods instead of six.
    pub fn takes_longer(self) -> Duration {
        if self == Self::Departures { Duration::from_secs(300) } else { Duration::ZERO }
    }

    /// The Lease of the replicas, if it is not Headgate's default. An hour of rollouts on a busy machine keeps the
    /// default, because nothing kills the leader there.
    pub fn lease(self) -> Option<Lease> {
        (self != Self::Departures).then_some(LEASE)
    }

    /// Whether it is played behind this load balancer. Long scenarios are played once.
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
