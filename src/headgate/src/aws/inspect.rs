//! A target group as whoever runs `headgate doctor` sees it, with credentials of their own. Headgate itself never calls
//! this.

use aws_sdk_elasticloadbalancingv2::operation::describe_target_group_attributes::DescribeTargetGroupAttributesOutput as Answer;

use super::{TargetGroups, failure};
use headgate_core::{
    Failure, FailureClass,
    model::target_group::{TargetGroupArn, TargetType},
};

/// What counts of a target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// What its targets are.
    pub target_type: TargetType,
    /// How many load balancers use it.
    pub load_balancers: usize,
    /// Whether it checks the health of its targets.
    pub checks_health: bool,
    /// `deregistration_delay.timeout_seconds`; none: it may not be looked at.
    pub deregistration_delay: Option<u32>,
}

impl TargetGroups {
    /// `DescribeTargetGroups` and, where that is allowed, `DescribeTargetGroupAttributes` of one.
    pub async fn inspect(&self, arn: &TargetGroupArn) -> Result<Inspected, Failure> {
        let call = self.client.describe_target_groups().target_group_arns(arn.as_str());
        let answer = call.send().await.map_err(|error| failure::of(&error))?;
        let group = answer.target_groups().first().ok_or_else(failure::empty_answer)?;
        let attributes = self.client.describe_target_group_attributes().target_group_arn(arn.as_str());
        let attributes = match attributes.send().await.map_err(|error| failure::of(&error)) {
            Ok(answer) => Some(answer),
            Err(Failure { class: FailureClass::Denied, .. }) => None,
            Err(failure) => return Err(failure),
        };
        let attributes = attributes.as_ref().map(Answer::attributes).unwrap_or_default();
        let delay = attributes.iter().find_map(|attribute| {
            let is = attribute.key() == Some("deregistration_delay.timeout_seconds");
            attribute.value().filter(|_| is)?.parse().ok()
        });
        Ok(Inspected {
            target_type: TargetType::parse(group.target_type().map_or("", |kind| kind.as_str())),
            load_balancers: group.load_balancer_arns().len(),
            checks_health: group.health_check_enabled().unwrap_or(true),
            deregistration_delay: delay,
        })
    }
}
