//! What happens to the pods while the load goes on, and what Headgate promises of it.

use super::stage::Stage;

/// A scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// A new revision, rolled out.
    RollingUpdate,
    /// Fewer replicas.
    ScaleDown,
    /// A new revision that is ready for Kubernetes and never answers the load balancer; taken back.
    BadImage,
    /// SIGKILL of the leading replica of Headgate as a new revision is rolled out.
    LeaderKilled,
}

impl Scenario {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 4] = [Self::RollingUpdate, Self::ScaleDown, Self::BadImage, Self::LeaderKilled];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RollingUpdate => "rolling-update",
            Self::ScaleDown => "scale-down",
            Self::BadImage => "bad-image",
            Self::LeaderKilled => "leader-killed",
        }
    }

    /// What is done, for the page.
    pub const fn is(self) -> &'static str {
        match self {
            Self::RollingUpdate => "a new revision is rolled out over all pods",
            Self::ScaleDown => "from six pods to two at once",
            Self::BadImage => {
                "a revision whose pods are ready for Kubernetes, but listen on another port than the load balancer \
                 sends to, is rolled out; when `kubectl rollout status` has given up on it, `kubectl rollout undo`"
            }
            Self::LeaderKilled => {
                "a rolling update; as the first new pod becomes ready, and old ones are about to go, the leading \
                 replica of Headgate gets SIGKILL, and the other one takes over when the Lease has run out"
            }
        }
    }

    /// Whether it is promised that nothing is lost.
    pub const fn is_promised(self) -> bool {
        match self {
            Self::RollingUpdate | Self::ScaleDown | Self::BadImage | Self::LeaderKilled => true,
        }
    }

    /// Why it is promised, or why it cannot be.
    pub const fn why(self) -> &'static str {
        match self {
            Self::RollingUpdate => {
                "an old pod goes only when a new one is healthy at the load balancer, and serves until the load \
                 balancer has stopped sending to it"
            }
            Self::ScaleDown => "a pod that goes serves until the load balancer has stopped sending to it",
            Self::BadImage => {
                "the gate of the new pods never opens, so the roll stops, and the old pods stay (`maxUnavailable: 0`)"
            }
            Self::LeaderKilled => {
                "the margin of the hold covers the Lease: pods that go while nobody leads are deregistered by the next \
                 leader, and are still held then"
            }
        }
    }

    /// How many pods there are at its end; [`super::stage::REPLICAS`] at its beginning.
    pub const fn pods_at_the_end(self) -> u32 {
        match self {
            Self::ScaleDown => 2,
            Self::RollingUpdate | Self::BadImage | Self::LeaderKilled => super::stage::REPLICAS,
        }
    }

    /// Plays it, and waits until all is quiet again.
    pub async fn play(self, stage: &mut Stage) {
        match self {
            Self::RollingUpdate => stage.roll().await,
            Self::ScaleDown => stage.scale(self.pods_at_the_end()).await,
            Self::BadImage => {
                stage.roll_out_what_is_never_healthy().await;
                stage.undo().await;
            }
            Self::LeaderKilled => {
                let old = stage.pods().await;
                stage.roll().await;
                stage.kill_leader_with_first_of_new(&old).await;
            }
        }
        stage.wait_quiet(self.pods_at_the_end()).await;
    }
}
