//! How each scenario is played.

use std::time::Duration;

use localstack_world::Component;
use tokio::time::sleep;

use crate::{scenario::Scenario, stage::Stage};

/// The notice of a spot instance before its end, in AWS seconds.
const SPOT_NOTICE: f64 = 120.0;
/// The minimum number of terminated pods in the scenario with many.
const DEPARTURES: u32 = 3_000;
/// How long EKS waits between the cordon of a node and its end, in AWS seconds.
const EKS_WAITS: f64 = 60.0;
/// The delay before the old set of a blue/green swap is scaled down, in AWS seconds: the recommended one, and the
/// default of Argo Rollouts (`scaleDownDelaySeconds`).
const SCALE_DOWN_DELAY: f64 = 300.0;
const ARGOS_DELAY: f64 = 30.0;
/// The time from the end of a machine to a new one, in AWS seconds.
const NEW_MACHINE: f64 = 30.0;
/// How long a kubelet delays the shutdown of its node, in seconds.
const SHUTDOWN_GRACE: u32 = 20;
/// The minimum time without replicas in the brief scenario.
const BRIEFLY: Duration = Duration::from_secs(1);

impl Scenario {
    /// Plays the scenario, and waits until everything is quiet.
    pub async fn play(self, stage: &mut Stage) {
        match self {
            Self::RollingUpdate
            | Self::LeastHealthy(_)
            | Self::DaemonSetRoll
            | Self::BeforeItsService
            | Self::KubeSystem
            | Self::IdsRoll
            | Self::IdsRollOfOne
            | Self::IdsNodeReplace => stage.roll().await,
            Self::LeastHealthyUnread => {
                stage.roll().await;
                stage.wait_rolled().await;
            }
            Self::ShiftRoll => {
                stage.shift_away(true).await;
                stage.roll().await;
                stage.wait_rolled().await;
                stage.shift_away(false).await;
            }
            Self::ShiftDrain => {
                stage.shift_away(true).await;
                let nodes = stage.half_of_the_nodes().await;
                stage.drain(&nodes).await;
                stage.shift_away(false).await;
            }
            Self::IdsDrain => {
                let node = stage.one_node().await;
                stage.drain_and_lose(&[node]).await;
            }
            Self::IdsDrainHalf => {
                let nodes = stage.half_of_the_nodes().await;
                stage.drain_and_lose(&nodes).await;
            }
            Self::IdsNewNode => {
                let node = stage.one_node().await;
                stage.replace_machine(&node, Duration::from_secs_f64(NEW_MACHINE * stage.time_scale)).await;
            }
            Self::IdsBadImage => stage.try_what_is_never_healthy_on_every_node().await,
            Self::IdsControllerKilled => {
                stage.roll_until_a_new_pod_counts().await;
                stage.kill_leader_of_sets().await;
            }
            Self::DaemonSetNode => {
                let node = stage.one_node().await;
                stage.cordon(&node).await;
                if stage.care.has_gate() {
                    stage.wait_detached(&node).await;
                }
                stage.lose(&node).await;
            }
            Self::ScaleDown => stage.scale(self.pods_at_the_end().unwrap_or_default()).await,
            Self::Drain => {
                let node = stage.one_node().await;
                stage.drain(&[node]).await;
            }
            Self::DrainHalf => {
                stage.limit_disruptions().await;
                let nodes = stage.half_of_the_nodes().await;
                stage.drain(&nodes).await;
            }
            Self::ManagedNodes | Self::DaemonSetManagedNodes => {
                let nodes = stage.half_of_the_nodes().await;
                stage.replace_group(&nodes, Duration::from_secs_f64(EKS_WAITS * stage.time_scale)).await;
            }
            Self::Departures => stage.depart(DEPARTURES).await,
            Self::BlueGreen | Self::BlueGreenBinding => {
                let delay = if stage.care.has_gate() { SCALE_DOWN_DELAY } else { ARGOS_DELAY };
                stage.swap(Duration::from_secs_f64(delay * stage.time_scale)).await;
            }
            Self::Karpenter => {
                let node = stage.one_node().await;
                stage.taint(&node, "karpenter.sh/disrupted").await;
                stage.evict_all_of(&node).await;
            }
            Self::Spot => {
                let node = stage.one_node().await;
                stage.taint(&node, "aws-node-termination-handler/spot-itn").await;
                // AWS's notice is played as real time, without waiting for anything.
                sleep(Duration::from_secs_f64(SPOT_NOTICE * stage.time_scale)).await;
                stage.lose(&node).await;
            }
            Self::ForceDelete => stage.force_delete_one().await,
            Self::WedgedContainer => stage.wedge_one().await,
            Self::NodePressure => stage.evict_one_under_pressure().await,
            Self::NodeShutdown => {
                let node = stage.one_node().await;
                stage.shut_down(&node, SHUTDOWN_GRACE).await;
            }
            Self::BadImage => {
                stage.roll_out_what_is_never_healthy().await;
                stage.undo().await;
            }
            Self::LeaderKilled => {
                stage.roll_until_a_new_pod_counts().await;
                stage.kill_leader().await;
                // Whether the rollout deletes one at that time is random.
                stage.delete_one().await;
            }
            Self::AllDownBriefly => {
                stage.roll_until_a_new_pod_counts().await;
                stage.all_down_for(BRIEFLY).await;
            }
            Self::AllDownLong => {
                stage.roll_until_a_new_pod_counts().await;
                stage.all_down_for(Duration::from_secs(stage.covering.into())).await;
            }
            Self::AwsThrottled => {
                stage.roll_until_a_new_pod_counts().await;
                stage.throttle_for(Duration::from_secs(stage.margin.into()) / 2).await;
            }
            Self::ApiServerRestarted => {
                stage.roll_until_a_new_pod_counts().await;
                stage.facts.restart_component(Component::ApiServer).await.unwrap();
            }
        }
        stage.wait_quiet(self.pods_at_the_end().unwrap_or(stage.pods_at_rest())).await;
    }
}
