//! The AWS Query API: parses form parameters and returns XML.
//!
//! [`server`] reads requests, and [`dispatch`] selects the action. One file per resource parses, validates, applies and
//! renders the call. A rejected call changes nothing, except if partial batches are enabled.

mod account;
mod actions;
mod attributes;
mod form;
mod listeners;
mod load_balancers;
mod paging;
mod rules;
pub mod server;
mod tags;
mod target_groups;
mod targets;
mod xml;

use std::sync::Arc;
use std::time::Duration;

use crate::dataplane::Dataplane;
use crate::model::Refusal;
use crate::shared::Shared;
use form::Form;
use xml::Xml;

/// The state and the sockets that actions need.
#[derive(Debug, Clone)]
pub struct Api {
    pub shared: Arc<Shared>,
    pub dataplane: Arc<Dataplane>,
}

/// The version of the ELBv2 API. Classic Load Balancer has the same service name but another version.
const VERSION: &str = "2015-12-01";

/// Runs one action and returns the content of `<ActionResult>`. Target health is returned as it was `ago` before now.
async fn dispatch(api: &Api, action: &str, form: &Form, ago: Duration) -> Result<Xml, Refusal> {
    if action.is_empty() {
        return Err(Refusal::MissingAction);
    }
    let version = form.get("Version").unwrap_or_default();
    if version != VERSION {
        return Err(Refusal::InvalidAction { action: action.to_owned(), version: version.to_owned() });
    }
    match action {
        "CreateLoadBalancer" => load_balancers::create(api, form),
        "DescribeLoadBalancers" => load_balancers::describe(api, form),
        "DeleteLoadBalancer" => load_balancers::delete(api, form).await,
        "CreateTargetGroup" => target_groups::create(api, form),
        "DescribeTargetGroups" => target_groups::describe(api, form),
        "ModifyTargetGroup" => target_groups::modify(api, form),
        "DeleteTargetGroup" => target_groups::delete(api, form),
        "CreateListener" => listeners::create(api, form),
        "DescribeListeners" => listeners::describe(api, form),
        "ModifyListener" => listeners::modify(api, form),
        "DeleteListener" => listeners::delete(api, form).await,
        "CreateRule" => rules::create(api, form),
        "DescribeRules" => rules::describe(api, form),
        "ModifyRule" => rules::modify(api, form),
        "SetRulePriorities" => rules::set_priorities(api, form),
        "DeleteRule" => rules::delete(api, form),
        "DescribeAccountLimits" => Ok(account::describe_limits(api)),
        "DescribeTargetGroupAttributes" => attributes::describe_group(api, form),
        "ModifyTargetGroupAttributes" => attributes::modify_group(api, form),
        "DescribeListenerAttributes" => attributes::describe_listener(api, form),
        "ModifyListenerAttributes" => attributes::modify_listener(api, form),
        "DescribeLoadBalancerAttributes" => attributes::describe_balancer(api, form),
        "ModifyLoadBalancerAttributes" => attributes::modify_balancer(api, form),
        "AddTags" => tags::add(api, form),
        "RemoveTags" => tags::remove(api, form),
        "DescribeTags" => tags::describe(api, form),
        "RegisterTargets" => targets::register(api, form),
        "DeregisterTargets" => targets::deregister(api, form),
        "DescribeTargetHealth" => targets::describe_health(api, form, ago),
        _ => Err(Refusal::InvalidAction { action: action.to_owned(), version: version.to_owned() }),
    }
}
