//! Why a call is refused: AWS's error codes and, where they are known, its words.

/// A refused call. `Display` is the message, [`Refusal::code`] the code on the wire.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Syntax and everything about target addresses.
    #[error("{0}")]
    Validation(String),
    /// No such action in this version of the API.
    #[error("Could not find operation {action} for version {version}")]
    InvalidAction {
        /// `Action` of the request.
        action: String,
        /// `Version` of the request.
        version: String,
    },
    /// Well-formed, but there is none.
    #[error("One or more target groups not found")]
    TargetGroupNotFound,
    /// Well-formed, but there is none.
    #[error("One or more load balancers not found")]
    LoadBalancerNotFound,
    /// Well-formed, but there is none.
    #[error("One or more listeners not found")]
    ListenerNotFound,
    /// Well-formed, but there is none.
    #[error("One or more rules not found")]
    RuleNotFound,
    /// Another rule of the listener has it.
    #[error("Priority '{0}' is currently in use")]
    PriorityInUse(u32),
    /// A subnet that this world does not have.
    #[error("The subnet ID '{0}' does not exist")]
    SubnetNotFound(String),
    /// Subnets that do not go together.
    #[error("{0}")]
    InvalidSubnet(String),
    /// Exists with other settings.
    #[error("A load balancer with the same name '{0}' exists, but with different settings")]
    DuplicateLoadBalancerName(String),
    /// Exists with other settings.
    #[error("A target group with the same name '{0}' exists, but with different settings")]
    DuplicateTargetGroupName(String),
    /// The load balancer listens there already.
    #[error("A listener already exists on this port for this load balancer '{0}'")]
    DuplicateListener(String),
    /// Something still uses it.
    #[error("{0}")]
    ResourceInUse(String),
    /// Protection is on.
    #[error("{0}")]
    OperationNotPermitted(String),
    /// The same key twice in one call.
    #[error("Tag keys must be unique")]
    DuplicateTagKeys,
    /// More than 50 on one resource.
    #[error("The maximum number of tags has been reached on '{0}'")]
    TooManyTags(String),
    /// Listener and target group do not speak the same protocol.
    #[error("{0}")]
    IncompatibleProtocols(String),
    /// A protocol that this stand-in does not carry.
    #[error("{0}")]
    UnsupportedProtocol(String),
    /// Valid, but impossible here; also a listener port that cannot be bound.
    #[error("{0}")]
    InvalidConfiguration(String),
    /// An action of a type that this stand-in does not have.
    #[error("{0}")]
    InvalidLoadBalancerAction(String),
    /// Another load balancer has the target group.
    #[error("The following target groups cannot be associated with more than one load balancer: {0}")]
    TargetGroupAssociationLimit(String),
    /// The target does not exist or is of another type than the group's.
    #[error("{0}")]
    InvalidTarget(String),
    /// A quota of targets.
    #[error("{0}")]
    TooManyTargets(String),
    /// A quota of target groups.
    #[error("The maximum number of target groups has been reached")]
    TooManyTargetGroups,
    /// A request without an action.
    #[error("Missing Action")]
    MissingAction,
    /// A request whose form cannot be read.
    #[error("{0}")]
    MalformedQueryString(&'static str),
}

impl Refusal {
    /// The HTTP status on the wire: all of these are the caller's fault.
    pub const STATUS: u16 = 400;

    /// A [`Refusal::Validation`].
    pub fn validation(message: impl Into<String>) -> Self {
        Self::Validation(message.into())
    }

    /// The code on the wire.
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
