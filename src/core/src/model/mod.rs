//! The facts that the core uses, and the names of states and causes. The module `model` uses no other module of the
//! crate.

pub mod account;
pub mod binding;
pub mod cause;
pub mod changes;
pub mod claims;
pub mod eviction;
pub mod excerpt;
pub mod expected;
pub mod explanation;
pub mod gate;
pub mod grant;
pub mod health;
pub mod hold;
pub mod injection;
pub mod lease;
pub mod leaving;
pub mod ledger;
pub mod lifespan;
pub mod limits;
pub mod load_balancer;
pub mod node;
pub mod notice;
pub mod object;
pub mod origin;
pub mod pod;
pub mod policy;
pub mod problem;
pub mod rates;
pub mod readiness;
pub mod reason;
pub mod request;
pub mod service;
pub mod settings;
pub mod shared;
pub mod signal;
pub mod target;
pub mod target_binding;
pub mod target_group;
pub mod time;
pub mod transition;
pub mod troubles;
pub mod view;
pub mod watch;
pub(crate) mod words;
pub mod zone;

pub use self::{
    binding::{Binding, BindingKey, Bindings, Resolution, Settled, Unknown},
    cause::Cause,
    changes::{Changes, Ended, Owner, Trouble, TroubleKind},
    gate::GateFacts,
    health::{Health, HealthState},
    hold::{AskedHold, Bounds, Hold, HoldWanted},
    leaving::LeavingFacts,
    load_balancer::LoadBalancerType,
    node::NodeFacts,
    notice::{Notice, Notices},
    object::{Labels, ObjectKey, Uid},
    origin::Origin,
    pod::{NamedPort, PodFacts, Protocol},
    policy::{GateWhenUnused, MinHealthy, Ownership, Policy, RegisterWhen, Texts, WhenNotReady},
    problem::Problem,
    readiness::{Readiness, Standing},
    reason::Reason,
    request::{Call, CallItem, Failure, FailureClass, RequestId},
    service::{ServiceFacts, ServicePort, TargetPort},
    settings::Settings,
    signal::{Cordon, Fate, Signal, Signals},
    target::Target,
    target_binding::BindingFacts,
    target_group::{GroupRef, IpFamily, LeastHealthy, TargetGroupArn, TargetGroupFacts, TargetType},
    time::{Moment, WallTime, Written},
    transition::{Entry, Transition},
    watch::{Change, Scope},
    zone::ZoneName,
};
