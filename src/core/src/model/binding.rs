//! Which port of a Service is bound to which target group.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use super::{
    Cause, GroupRef, IpFamily, Labels, LeastHealthy, LoadBalancerType, Origin, Policy, Problem, RegisterWhen,
    ServicePort, TargetGroupArn, TargetGroupFacts, WhenNotReady, grant::Withheld,
};

/// Identifies a binding: its object, a port and a target group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingKey {
    /// The object that makes the binding.
    pub origin: Origin,
    /// The name of the port, or its number if it has no name. It is a port of the Service, or of the pods if there is
    /// no Service.
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
    /// The port, as last seen in the Service.
    pub port: ServicePort,
    /// The selector of the pods: the Service's, never empty.
    pub selector: Arc<Labels>,
    /// The family of addresses that the target group accepts.
    pub family: IpFamily,
    /// What kind of load balancer uses the target group.
    pub balancer: LoadBalancerType,
    /// How many healthy targets the target group requires. `None`: not read yet.
    pub least_healthy: Option<LeastHealthy>,
    /// How the pods are registered.
    pub policy: Policy,
    /// Whether it registers pods that are not its targets yet. A Service that no longer selects pods does not.
    pub admits: bool,
    /// Set if the namespace may no longer bind the target group. Existing targets remain for a while.
    pub withheld: Option<Withheld>,
}

impl Binding {
    /// When the pods are registered; never `Auto`.
    ///
    /// If a target group requires more than AWS's default, each unhealthy target counts against it, and the load
    /// balancer may send to all targets. A pod whose containers are not ready therefore waits.
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

/// The bindings of one Service that are in force.
pub type Bindings = BTreeMap<BindingKey, Binding>;

/// What is known about a target group that a user named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// AWS has not answered yet.
    Pending,
    /// The target group exists.
    Found(Arc<TargetGroupFacts>),
    /// AWS does not find the target group, or denies the look-up. The sentence is for the user.
    Failed(Cause, Box<str>),
}

/// Why it is unknown whether a target group exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unknown {
    /// AWS did not find the name, or denied the look-up. A leader retries, a standby does not.
    NotFound,
    /// The look-up has not ended yet.
    Pending,
}

/// The effect of a Service's annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The bindings in force.
    pub bindings: Bindings,
    /// How the pods are registered.
    pub policy: Policy,
    /// Problems to report to the user.
    pub problems: Vec<Problem>,
    /// The target groups that the annotation names.
    pub references: BTreeSet<GroupRef>,
    /// Whether a part of the annotation is invalid, or its target group is not known yet. The binding that was in force
    /// for it remains.
    pub doubtful: bool,
    /// Why it is unknown whether one of its target groups exists.
    pub unknown: Option<Unknown>,
    /// Whether the namespace may not bind one of the target groups.
    pub refused: bool,
}
