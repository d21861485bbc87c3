//! Why a call is rejected: AWS's error codes and, if known, its messages.

/// A rejected call. `Display` is the message, [`Refusal::code`] the code in the answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Invalid syntax, or an invalid target address.
    #[error("{0}")]
    Validation(String),
    /// This version of the API has no such action.
    #[error("Could not find operation {action} for version {version}")]
    InvalidAction {
        /// `Action` of the request.
        action: String,
        /// `Version` of the request.
        version: String,
    },
    /// The ARN is well-formed, but there is no such target group.
    #[error("One or more target groups not found")]
    TargetGroupNotFound,
    /// The ARN is well-formed, but there is no such load balancer.
    #[error("One or more load balancers not found")]
    LoadBalancerNotFound,
    /// The ARN is well-formed, but there is no such listener.
    #[error("One or more listeners not found")]
    ListenerNotFound,
    /// The ARN is well-formed, but there is no such rule.
    #[error("One or more rules not found")]
    RuleNotFound,
    /// Another rule of the listener has this priority.
    #[error("Priority '{0}' is currently in use")]
    PriorityInUse(u32),
    /// There is no such subnet.
    #[error("The subnet ID '{0}' does not exist")]
    SubnetNotFound(String),
    /// Subnets that cannot be combined.
    #[error("{0}")]
    InvalidSubnet(String),
    /// A load balancer with this name exists with other settings.
    #[error("A load balancer with the same name '{0}' exists, but with different settings")]
    DuplicateLoadBalancerName(String),
    /// A target group with this name exists with other settings.
    #[error("A target group with the same name '{0}' exists, but with different settings")]
    DuplicateTargetGroupName(String),
    /// The load balancer already has a listener on this port.
    #[error("A listener already exists on this port for this load balancer '{0}'")]
    DuplicateListener(String),
    /// Another resource uses it.
    #[error("{0}")]
    ResourceInUse(String),
    /// Deletion protection is on.
    #[error("{0}")]
    OperationNotPermitted(String),
    /// The same key twice in one call.
    #[error("Tag keys must be unique")]
    DuplicateTagKeys,
    /// More than 50 on one resource.
    #[error("The maximum number of tags has been reached on '{0}'")]
    TooManyTags(String),
    /// Listener and target group have different protocols.
    #[error("{0}")]
    IncompatibleProtocols(String),
    /// A protocol that this stand-in does not support.
    #[error("{0}")]
    UnsupportedProtocol(String),
    /// Valid in AWS, but impossible here. Also a listener port that cannot be bound.
    #[error("{0}")]
    InvalidConfiguration(String),
    /// A type of action that this stand-in does not support.
    #[error("{0}")]
    InvalidLoadBalancerAction(String),
    /// Another load balancer uses the target group.
    #[error("The following target groups cannot be associated with more than one load balancer: {0}")]
    TargetGroupAssociationLimit(String),
    /// The target does not exist or is of another type than the group's.
    #[error("{0}")]
    InvalidTarget(String),
    /// A quota of targets is exceeded.
    #[error("{0}")]
    TooManyTargets(String),
    /// The quota of target groups is exceeded.
    #[error("The maximum number of target groups has been reached")]
    TooManyTargetGroups,
    /// A request without an action.
    #[error("Missing Action")]
    MissingAction,
    /// A request whose form cannot be parsed.
    #[error("{0}")]
    MalformedQueryString(&'static str),
}

impl Refusal {
    /// The HTTP status of all these errors.
    pub const STATUS: u16 = 400;

    /// A [`Refusal::Validation`].
    pub fn validation(message: impl Into<String>) -> Self {
        Self::Validation(message.into())
    }

    /// The error code in the answer.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Validation(_) => "ValidationError",
            Self::InvalidAction { .. } => "InvalidAction",
            Self::TargetGroupNotFound => "TargetGroupNotFound",
            Self::LoadBalancerNotFound => "LoadBalancerNotFound",
            Self::ListenerNotFound => "ListenerNotFound",
            Self::RuleNotFound => "RuleNotFound",
            Self::PriorityInUse(_) => "PriorityInUse",
            Self::SubnetNotFound(_) => "SubnetNotFound",
            Self::InvalidSubnet(_) => "InvalidSubnet",
            Self::DuplicateLoadBalancerName(_) => "DuplicateLoadBalancerName",
            Self::DuplicateTargetGroupName(_) => "DuplicateTargetGroupName",
            Self::DuplicateListener(_) => "DuplicateListener",
            Self::ResourceInUse(_) => "ResourceInUse",
            Self::OperationNotPermitted(_) => "OperationNotPermitted",
            Self::DuplicateTagKeys => "DuplicateTagKeys",
            Self::TooManyTags(_) => "TooManyTags",
            Self::IncompatibleProtocols(_) => "IncompatibleProtocols",
            Self::UnsupportedProtocol(_) => "UnsupportedProtocol",
            Self::InvalidConfiguration(_) => "InvalidConfigurationRequest",
            Self::InvalidLoadBalancerAction(_) => "InvalidLoadBalancerAction",
            Self::TargetGroupAssociationLimit(_) => "TargetGroupAssociationLimit",
            Self::InvalidTarget(_) => "InvalidTarget",
            Self::TooManyTargets(_) => "TooManyTargets",
            Self::TooManyTargetGroups => "TooManyTargetGroups",
            Self::MissingAction => "MissingAction",
            Self::MalformedQueryString(_) => "MalformedQueryString",
        }
    }
}
