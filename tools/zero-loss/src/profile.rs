//! The propagation delay of the load balancer, and the hold for it.

use aws_sdk_elasticloadbalancingv2::types::{LoadBalancerTypeEnum, ProtocolEnum};
use headgate_harness::aws::Aws;
use serde_json::json;

/// A load balancer with a profile of the stand-in, including throttling and API latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// A Network Load Balancer with observed delays.
    TypicalNlb,
    /// An Application Load Balancer with observed delays.
    TypicalAlb,
    /// A Network Load Balancer with a delay of three minutes.
    SlowNlb,
}

impl Profile {
    /// All profiles, in the order of the table.
    pub const ALL: [Self; 3] = [Self::TypicalNlb, Self::TypicalAlb, Self::SlowNlb];

    /// The name of the stand-in's profile.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TypicalNlb => "typical-nlb",
            Self::TypicalAlb => "typical-alb",
            Self::SlowNlb => "slow-nlb",
        }
    }

    /// The kind of its load balancer.
    pub fn kind(self) -> LoadBalancerTypeEnum {
        match self {
            Self::TypicalNlb | Self::SlowNlb => LoadBalancerTypeEnum::Network,
            Self::TypicalAlb => LoadBalancerTypeEnum::Application,
        }
    }

    /// The protocol of its listener and target group.
    pub fn protocol(self) -> ProtocolEnum {
        match self {
            Self::TypicalNlb | Self::SlowNlb => ProtocolEnum::Tcp,
            Self::TypicalAlb => ProtocolEnum::Http,
        }
    }

    /// Whether it is an Application Load Balancer.
    pub fn is_application(self) -> bool {
        self.kind() == LoadBalancerTypeEnum::Application
    }

    /// Real seconds per AWS second if the hold follows it. An Application Load Balancer is fast: at the scale of the
    /// other one, pods would start more slowly than it learns of them.
    pub const fn time_scale(self) -> f64 {
        match self {
            Self::TypicalNlb | Self::SlowNlb => 0.05,
            Self::TypicalAlb => 0.2,
        }
    }

    /// Resets the stand-in to this profile. Returns how long its nodes may keep sending after a DeregisterTargets, in
    /// AWS seconds.
    pub async fn apply(self, aws: &Aws, time_scale: f64) -> f64 {
        aws.control("POST", "/reset", None).await;
        let patch = json!({"profile": self.name(), "time_scale": time_scale});
        let settings = aws.control("PATCH", "/settings", Some(&patch)).await;
        let lag = &settings[self.kind().as_str()]["deregistration"];
        lag[1].as_f64().unwrap_or_else(|| panic!("no bound in the stand-in's settings: {settings}"))
    }
}
