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
    /// The object that binds them.
    pub origin: Origin,
    /// The port by name, or by number if it has none: of the Service, or of the pods if there is none.
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
    /// Its name.
    pub key: BindingKey,
    /// How the user named the target group.
    pub reference: GroupRef,
    /// The port as the Service has it, or last had it.
    pub port: ServicePort,
    /// Which pods: the Service's selector, never empty.
    pub selector: Arc<Labels>,
    /// The family of addresses the target group takes.
    pub family: IpFamily,
    /// What kind of load balancer uses the target group.
    pub balancer: LoadBalancerType,
    /// How many healthy targets the target group asks for; `None`: not read yet.
    pub least_healthy: Option<LeastHealthy>,
    /// How its pods are registered.
    pub policy: Policy,
    /// Whether it registers pods that are not its targets yet. A Service that no longer selects pods does not.
    pub admits: bool,
    /// The namespace may no longer bind the target group: existing targets remain for a while.
    pub withheld: Option<Withheld>,
}

impl Binding {
    /// When its pods are registered, which is never `Auto`.
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

    /// Whether it deregisters pods that are no longer ready.
    pub const fn lets_go(&self) -> bool {
        matches!(self.policy.when_not_ready, WhenNotReady::Deregister)
    }
}

/// The bindings of one Service that are in force.
pub type Bindings = BTreeMap<BindingKey, Binding>;

/// What is known of a target group that a user named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// AWS has been asked, or will be.
    Pending,
    /// AWS knows it.
    Found(Arc<TargetGroupFacts>),
    /// AWS knows no such target group, or does not let us look: a sentence for the user.
    Failed(Cause, Box<str>),
}

/// Why it is not known whether there is a target group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unknown {
    /// AWS knew none of that name when it was asked, or did not let us look. A leader asks again, and a standby does not.
    NotFound,
    /// It has not been looked up yet.
    Pending,
}

/// The effect of a Service's annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// What is in force now.
    pub bindings: Bindings,
    /// How the pods are registered.
    pub policy: Policy,
    /// What the user should know.
    pub problems: Vec<Problem>,
    /// The target groups named by the annotation.
    pub references: BTreeSet<GroupRef>,
    /// Whether a part of the annotation is invalid, or unknown so far: what was in force before for it remains, if it
    /// is known.
    pub doubtful: bool,
    /// What is not known of a target group that it names.
    pub unknown: Option<Unknown>,
    /// Whether the namespace may not bind a target group that it names.
    pub refused: bool,
}
