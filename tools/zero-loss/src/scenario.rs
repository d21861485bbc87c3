//! What happens to the pods while the load goes on, and what Headgate promises of it.

use std::time::Duration;

use crate::{
    profile::Profile,
    stage::{
        Place,
        replicas::{LEASE, Lease},
        workload::{Kind, Update},
    },
};

/// A scenario. How it is played: [`crate::acts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// A new revision, rolled out.
    RollingUpdate,
    /// The same for pods that were there before their Service.
    BeforeItsService,
    /// The same in `kube-system`.
    KubeSystem,
    /// Fewer replicas.
    ScaleDown,
    /// `kubectl drain` of one node.
    Drain,
    /// `kubectl drain` of half of the nodes at once, under a `PodDisruptionBudget`.
    DrainHalf,
    /// A new revision of a DaemonSet, rolled out.
    DaemonSetRoll,
    /// `kubectl drain` of a node, which leaves its DaemonSet's pod there, and the node is lost when it is detached.
    DaemonSetNode,
    /// A new template of an IngressDaemonSet with two pods on each node, rolled out.
    IdsRoll,
    /// The same with one pod on each node.
    IdsRollOfOne,
    /// `kubectl drain` of a node with pods of an IngressDaemonSet, and the node is lost.
    IdsDrain,
    /// The same of half of the nodes at once.
    IdsDrainHalf,
    /// A node with pods of an IngressDaemonSet is removed from the cluster, and a new one is added.
    IdsNewNode,
    /// A new template whose pods are ready for Kubernetes and never answer the load balancer; taken back.
    IdsBadImage,
    /// SIGKILL of the controller of IngressDaemonSets in the middle of a roll.
    IdsControllerKilled,
    /// A new template where nodes have no room for one pod more.
    IdsNodeReplace,
    /// Half of the nodes are replaced as those of an EKS managed node group are.
    ManagedNodes,
    /// The same under a DaemonSet.
    DaemonSetManagedNodes,
    /// A second set of pods takes the place of the first as a whole.
    BlueGreen,
    /// The same by a `TargetBinding` that somebody has written.
    BlueGreenBinding,
    /// Thousands of pods leave, one roll after another.
    Departures,
    /// A node disrupted as Karpenter does it.
    Karpenter,
    /// A node that is lost two minutes after that was announced.
    Spot,
    /// A pod deleted by force.
    ForceDelete,
    /// A container that answers nobody any more, and that its liveness probe has started again.
    WedgedContainer,
    /// A pod ended by its kubelet, which is short of memory.
    NodePressure,
    /// A node that is shut down, and its kubelet ends the pods.
    NodeShutdown,
    /// A new revision that is ready for Kubernetes and never answers the load balancer; taken back.
    BadImage,
    /// SIGKILL of the leading replica of Headgate as a new revision is rolled out, and a pod is deleted.
    LeaderKilled,
    /// SIGKILL of all replicas during a roll; they are back within the hold's margin.
    AllDownBriefly,
    /// SIGKILL of all replicas during a roll; they are away for longer than pods are held.
    AllDownLong,
    /// AWS refuses all calls for half of the margin during a roll.
    AwsThrottled,
    /// The API server restarts during a roll.
    ApiServerRestarted,
}

/// What is said of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its name.
    pub name: &'static str,
    /// What is done.
    pub is: &'static str,
    /// Why it is promised that nothing is lost, or why that cannot be.
    pub why: &'static str,
}

impl Scenario {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 33] = [
        Self::RollingUpdate,
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
    ];

    /// What is said of it.
    pub const fn about(self) -> About {
        let (name, is, why) = match self {
            Self::RollingUpdate => (
                "rolling-update",
                "a new revision is rolled out over all pods",
                "an old pod goes only when a new one is healthy at the load balancer, and serves until the load \
                 balancer has stopped sending to it",
            ),
            Self::BeforeItsService => (
                "before-its-service",
                "the same for a Deployment that was applied 20 s before its Service, in a namespace with the label",
                "pods are given gate and hold also while nothing binds them yet, as behind an NLB: they are held for 150 s",
            ),
            Self::KubeSystem => (
                "kube-system",
                "the same in `kube-system`, which is opted in, by the label of the pods",
                "as anywhere else",
            ),
            Self::ScaleDown => (
                "scale-down",
                "from six pods to two at once",
                "a pod that goes serves until the load balancer has stopped sending to it",
            ),
            Self::Drain => (
                "drain",
                "`kubectl drain` of a node that has pods",
                "a pod that is evicted serves until the load balancer has stopped sending to it: by its hold, or, \
                 where it has none, because its eviction waits; and no zone is left without a healthy target while a \
                 replacement may come",
            ),
            Self::DrainHalf => (
                "drain-half",
                "`kubectl drain` of the node of each zone that has the most pods, half of all nodes, at the same moment, with \
                 a PodDisruptionBudget of `maxUnavailable: 2`",
                "as for one node; a pod that is replaced counts only when the load balancer calls it healthy, so the \
                 budget is kept for the load balancer too",
            ),
            Self::DaemonSetRoll => (
                "daemonset-roll",
                "a new revision of a DaemonSet with `maxSurge: 1` and `maxUnavailable: 0` is rolled out over all nodes",
                "as for a Deployment: the second pod of a node is healthy at the load balancer before the first one goes",
            ),
            Self::DaemonSetNode => (
                "daemonset-node",
                "`kubectl drain --ignore-daemonsets` of a node with a pod of a DaemonSet; the node is lost as soon as it has \
                 the annotation `headgate.dev/detached-at` (in the control, at once); another one comes for it",
                "nobody evicts that pod, so it leaves its target group when the node is cordoned, whatever its hold, and \
                 Headgate says when the load balancer has stopped sending to the node",
            ),
            Self::IdsRoll => (
                "ids-roll",
                "a new template of an IngressDaemonSet with two pods on each node is rolled out, a node at a time (the control: a \
                 DaemonSet with hostPort, without a surge, whose new revision is)",
                "on each node a third pod is healthy at the load balancer before one of the first two goes",
            ),
            Self::IdsRollOfOne => (
                "ids-roll-one",
                "the same with one pod on each node",
                "on each node a second pod is healthy at the load balancer before the first one goes",
            ),
            Self::IdsDrain => (
                "ids-drain",
                "`kubectl drain` of a node with two pods of an IngressDaemonSet; the node is lost as soon as the drain is over (in \
                 the control the drain passes over the pod of its DaemonSet)",
                "the drain evicts these pods, and waits for them: each serves until the load balancer has stopped sending to it",
            ),
            Self::IdsDrainHalf => (
                "ids-drain-half",
                "the same of the node of each zone that has the most pods, half of all nodes, at the same moment",
                "as for one node; the budget of the set lets a quarter of the pods go at a time",
            ),
            Self::IdsNewNode => (
                "ids-new-node",
                "a node with two pods of an IngressDaemonSet is drained, its machine ends, and its Node is deleted; 30 s of AWS's later a \
                 new machine registers itself, and gets pods (in the control the drain passes over the pod of its DaemonSet)",
                "what leaves is evicted, as in a drain; what comes is sent to when it is healthy at the load balancer",
            ),
            Self::IdsBadImage => (
                "ids-bad-image",
                "a template whose pods are ready for Kubernetes, but listen on another port than the load balancer sends to, is rolled \
                 out; when the set says that its roll has stopped, the template from before is written again",
                "the gate of the first new pod never opens, so no other node gets its turn, and all old pods stay",
            ),
            Self::IdsControllerKilled => (
                "ids-killed",
                "a roll; as the first new pod becomes ready, the leading replica of `headgate daemonsets` gets SIGKILL",
                "pods go on without it; the next one goes on with the nodes that the status says have their turn",
            ),
            Self::IdsNodeReplace => (
                "ids-node-replace",
                "a new template with `NodeReplace`: both pods of a node are evicted, and the new ones are made when those are gone",
                "the pods are evicted as in a drain: each serves until the load balancer has stopped sending to it",
            ),
            Self::ManagedNodes => (
                "managed-node-group",
                "half of the nodes are tainted `eks.amazonaws.com/nodegroup=unschedulable:NoSchedule` at once; then, one after \
                 another, the pods of a node are evicted, it is cordoned, and lost 60 s of AWS's later",
                "as for `kubectl drain`: the taint of many nodes moves nothing by itself, and a node is lost only when its \
                 pods are gone",
            ),
            Self::DaemonSetManagedNodes => (
                "daemonset-managed-nodes",
                "the same under a DaemonSet, whose pods nobody evicts: they leave when their node is cordoned",
                "behind an ALB: it has stopped sending long before the node is lost. An NLB may go on sending for longer than \
                 the 60 s that EKS waits: a lifecycle hook that waits for `headgate.dev/detached-at` gives it the time",
            ),
            Self::BlueGreen => (
                "blue-green",
                "a second Deployment is made; when its pods are ready, the Service's selector moves to them; the first is scaled \
                 to nothing 300 s of AWS's later (in the control after 30 s, the default of Argo Rollouts)",
                "the new pods are registered first, and one of the old goes for each of them that is healthy",
            ),
            Self::BlueGreenBinding => (
                "blue-green-binding",
                "the same without a Service: the `podSelector` of a TargetBinding moves",
                "as by a Service",
            ),
            Self::Departures => (
                "departures",
                "a Deployment of 60 pods is rolled again and again, all of it at a time, until 3,000 pods have left",
                "as for one roll",
            ),
            Self::Karpenter => (
                "karpenter-drain",
                "a node is tainted `karpenter.sh/disrupted:NoSchedule`; its pods are evicted by the API, asked for again \
                 every second; the node comes back when they are gone",
                "as for `kubectl drain`",
            ),
            Self::Spot => (
                "spot-interruption",
                "a node is tainted `aws-node-termination-handler/spot-itn:NoSchedule`, and nothing else is done; 120 s of \
                 AWS's later it is lost, and its pods are deleted by force",
                "behind an ALB: the targets are removed at the announcement, and the load balancer has stopped sending \
                 long before the end. An NLB may go on sending for just as long as the announcement comes early, and \
                 keeps connections that are open",
            ),
            Self::ForceDelete => (
                "force-delete",
                "`kubectl delete pod --force --grace-period=0` of one pod",
                "nobody is told before the container is killed: requests are lost from then until the load balancer \
                 has stopped sending",
            ),
            Self::WedgedContainer => (
                "wedged-container",
                "the process of one pod is stopped (SIGSTOP), so that it answers nobody; its liveness probe fails, and the kubelet \
                 starts the container again",
                "nobody is told before requests fail: they are lost until the load balancer's health checks have failed too, or the \
                 container is there again. The hold makes that no longer: the kubelet waits 5 s for such a container, and \
                 without a hold the pod's whole grace period",
            ),
            Self::NodePressure => (
                "node-pressure",
                "the kubelet evicts a pod because its node is short of memory (hard threshold, one second of grace)",
                "the kubelet says nothing before the container is dead: requests are lost from then until the load \
                 balancer has stopped sending",
            ),
            Self::NodeShutdown => (
                "node-shutdown",
                "a node is shut down; its kubelet ends the pods (shutdownGracePeriod 20 s) and is gone a second later",
                "the kubelet says nothing of a pod before its container is dead. Headgate removes the targets when the \
                 node's condition says that it is shutting down, and the hold keeps the pods alive only as far as the \
                 kubelet's own grace period has room for it",
            ),
            Self::BadImage => (
                "bad-image",
                "a revision whose pods are ready for Kubernetes, but listen on another port than the load balancer \
                 sends to, is rolled out; when `kubectl rollout status` has given up on it, `kubectl rollout undo`",
                "the gate of the new pods never opens, so the roll stops, and the old pods stay (`maxUnavailable: 0`)",
            ),
            Self::LeaderKilled => (
                "leader-killed",
                "a rolling update; as the first new pod becomes ready, and old ones are about to go, the leading \
                 replica of Headgate gets SIGKILL, a pod is deleted, and the other replica takes over when the Lease \
                 has run out",
                "the margin of the hold covers the Lease: pods that go while nobody leads are deregistered by the next \
                 leader, and are still held then",
            ),
            Self::AllDownBriefly => (
                "all-down-briefly",
                "a rolling update; as the first new pod becomes ready, all replicas of Headgate get SIGKILL, and are \
                 started again a second later",
                "the margin of the hold covers it. Pods that are made meanwhile get neither gate nor hold (the webhook \
                 is one that may be missed); those that were there have both",
            ),
            Self::AllDownLong => (
                "all-down-long",
                "the same, but they are started again after as long as pods are held",
                "pods end before anybody can tell the load balancer, and those made meanwhile are waited for by nobody",
            ),
            Self::AwsThrottled => (
                "aws-throttled",
                "a rolling update; from when the first new pod is ready, AWS answers every call about the target group \
                 with Throttling, for half of the hold's margin",
                "the margin of the hold covers it: removals are tried again, before anything else, and are accepted \
                 before the margin is used up",
            ),
            Self::ApiServerRestarted => (
                "api-server-restarted",
                "a rolling update; as the first new pod becomes ready, the API server is restarted",
                "while no watch speaks nothing is removed and no gate is opened; what was missed is listed anew",
            ),
        };
        About { name, is, why }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.about().name
    }

    /// Whether it is promised that nothing is lost.
    pub fn is_promised(self, profile: Profile) -> bool {
        match self {
            Self::RollingUpdate
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
            Self::AllDownLong
            | Self::ForceDelete
            | Self::WedgedContainer
            | Self::NodePressure
            | Self::NodeShutdown => false,
        }
    }

    /// Whether real kubelets can be brought to it here.
    pub const fn needs_simulated_nodes(self) -> bool {
        matches!(self, Self::NodePressure | Self::NodeShutdown)
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
        self != Self::Departures || profile == Profile::TypicalNlb
    }
}
