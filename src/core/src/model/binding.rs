//! The bindings of Service ports to target groups.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use super::{
    Cause, GroupRef, IpFamily, Labels, LeastHealthy, LoadBalancerType, Origin, Policy, Problem, RegisterWhen,
    ServicePort, TargetGroupArn, TargetGroupFacts, WhenNotReady, grant::Withheld,
};

/// Identifies a binding by its object, port and target group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingKey {
    /// The object that defines the binding.
    pub origin: Origin,
    /// The name of the port, or its number if the port has no name. The port belongs to the Service, or to the pods if
    /// there is no Service.
    pub port: Arc<str>,
    /// The target group.
    pub group: TargetGroupArn,
}

impl fmt::Display for BindingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} → {}", self.origin.key(), self.port, self.group.name())
    }
}

/// One port of a Service bound to one target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The identity of the binding.
    pub key: BindingKey,
    /// How the user named the target group.
    pub reference: GroupRef,
    /// The port, as last read from the Service.
    pub port: ServicePort,
    /// The selector of the pods, which is never empty.
    pub selector: Arc<Labels>,
    /// The family of addresses that the target group accepts.
    pub family: IpFamily,
    /// The load balancer type of the target group.
    pub balancer: LoadBalancerType,
    /// How many healthy targets the target group requires, or `None` until AWS has returned the value.
    pub least_healthy: Option<LeastHealthy>,
    /// How the pods are registered.
    pub policy: Policy,
    /// Whether the binding registers additional pods. If the Service no longer selects pods, only its existing targets
    /// remain registered.
    pub admits: bool,
    /// Set if the namespace is no longer allowed to bind the target group. Existing targets remain registered for a
    /// while.
    pub withheld: Option<Withheld>,
}

impl Binding {
    /// Returns when the pods are registered, which is never `Auto`.
    ///
    /// If a target group requires more healthy targets than the AWS default, unhealthy targets can make the load
    /// balancer send requests to all targets. Headgate therefore registers a pod only after its containers are ready.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/target-group-health.html>
    pub fn register_when(&self) -> RegisterWhen {
        match self.policy.register_when.behind(self.balancer) {
            RegisterWhen::Ip if self.least_healthy.is_none_or(LeastHealthy::is_above_default) => {
                RegisterWhen::ContainersReady
            }
            given => given,
        }
    }

    /// Whether pods that are no longer ready are deregistered.
    pub const fn lets_go(&self) -> bool {
        matches!(self.policy.when_not_ready, WhenNotReady::Deregister)
    }
}

/// The active bindings of one Service.
pub type Bindings = BTreeMap<BindingKey, Binding>;

/// The result of looking up a target group that a user named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// AWS has not answered the look-up yet.
    Pending,
    /// The target group exists.
    Found(Arc<TargetGroupFacts>),
    /// AWS did not find the target group or denied the look-up. The second value is the message for the user.
    Failed(Cause, Box<str>),
}

/// Why it is unknown whether a target group exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unknown {
    /// AWS did not find the name or denied the look-up. The leader retries the look-up; a standby does not.
    NotFound,
    /// The look-up is still in progress.
    Pending,
}

/// The effect of a Service's annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The active bindings.
    pub bindings: Bindings,
    /// How the pods are registered.
    pub policy: Policy,
    /// Problems to report to the user.
    pub problems: Vec<Problem>,
    /// The target groups that the annotation names.
    pub references: BTreeSet<GroupRef>,
    /// Whether a part of the annotation is invalid or names a target group that Headgate has not looked up yet.
    /// Previous bindings of invalid or unresolved parts remain active.
    pub doubtful: bool,
    /// Why it is unknown whether a target group of the annotation exists.
    pub unknown: Option<Unknown>,
    /// Whether the namespace lacks the permission to bind one of the target groups.
    pub refused: bool,
}
