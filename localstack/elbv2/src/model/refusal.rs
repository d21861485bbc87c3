//! The errors for rejected calls: the error codes of AWS and, if known, the messages of AWS.

/// The error for a rejected call. `Display` returns the message, and [`Refusal::code`] returns the error code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The syntax or the address of a target is invalid.
    #[error("{0}")]
    Validation(String),
    /// This version of the API does not have the action.
    #[error("Could not find operation {action} for version {version}")]
    InvalidAction {
        /// The `Action` parameter of the request.
        action: String,
        /// The `Version` parameter of the request.
        version: String,
    },
    /// The ARN is well-formed, but the target group does not exist.
    #[error("One or more target groups not found")]
    TargetGroupNotFound,
    /// The ARN is well-formed, but the load balancer does not exist.
    #[error("One or more load balancers not found")]
    LoadBalancerNotFound,
    /// The ARN is well-formed, but the listener does not exist.
    #[error("One or more listeners not found")]
    ListenerNotFound,
    /// The ARN is well-formed, but the rule does not exist.
    #[error("One or more rules not found")]
    RuleNotFound,
    /// Another rule of the listener has this priority.
    #[error("Priority '{0}' is currently in use")]
    PriorityInUse(u32),
    /// The subnet does not exist.
    #[error("The subnet ID '{0}' does not exist")]
    SubnetNotFound(String),
    /// The subnets cannot be combined.
    #[error("{0}")]
    InvalidSubnet(String),
    /// A load balancer with this name exists but has other settings.
    #[error("A load balancer with the same name '{0}' exists, but with different settings")]
    DuplicateLoadBalancerName(String),
    /// A target group with this name exists but has other settings.
    #[error("A target group with the same name '{0}' exists, but with different settings")]
    DuplicateTargetGroupName(String),
    /// The load balancer already has a listener on this port.
    #[error("A listener already exists on this port for this load balancer '{0}'")]
    DuplicateListener(String),
    /// Another resource uses the resource.
    #[error("{0}")]
    ResourceInUse(String),
    /// Deletion protection is enabled.
    #[error("{0}")]
    OperationNotPermitted(String),
    /// A call contains the same tag key twice.
    #[error("Tag keys must be unique")]
    DuplicateTagKeys,
    /// A resource would have more than 50 tags.
    #[error("The maximum number of tags has been reached on '{0}'")]
    TooManyTags(String),
    /// The listener and the target group have different protocols.
    #[error("{0}")]
    IncompatibleProtocols(String),
    /// The stand-in does not support the protocol.
    #[error("{0}")]
    UnsupportedProtocol(String),
    /// The configuration is valid in AWS, but the stand-in does not support it, or a listener port cannot be bound.
    #[error("{0}")]
    InvalidConfiguration(String),
    /// The stand-in does not support the type of the action.
    #[error("{0}")]
    InvalidLoadBalancerAction(String),
    /// Another load balancer uses the target group.
    #[error("The following target groups cannot be associated with more than one load balancer: {0}")]
    TargetGroupAssociationLimit(String),
    /// The target does not exist, or has another type than the group.
    #[error("{0}")]
    InvalidTarget(String),
    /// The number of targets exceeds a quota.
    #[error("{0}")]
    TooManyTargets(String),
    /// The number of target groups exceeds the quota.
    #[error("The maximum number of target groups has been reached")]
    TooManyTargetGroups,
    /// The request has no action.
    #[error("Missing Action")]
    MissingAction,
    /// The form of the request cannot be parsed.
    #[error("{0}")]
    MalformedQueryString(&'static str),
}

impl Refusal {
    /// The HTTP status of all errors of this type.
    pub const STATUS: u16 = 400;

    /// Creates a [`Refusal::Validation`].
    pub fn validation(message: impl Into<String>) -> Self {
        Self::Validation(message.into())
    }

    /// Returns the error code of the answer.
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
