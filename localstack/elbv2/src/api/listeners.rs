//! CreateListener, DescribeListeners, ModifyListener, DeleteListener.

use std::collections::BTreeSet;

use super::form::Form;
use super::paging::page;
use super::xml::Xml;
use super::{Api, tags};
use crate::dataplane::bind_all;
use crate::model::{Arn, ArnKind, Forward, Listener, ListenerId, Model, Protocol, Refusal};

/// Opens the sockets before the listener exists, so that a port that cannot be bound is an error of this call.
pub fn create(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let balancer_arn = form.required("LoadBalancerArn")?;
    let protocol = Protocol::parse(form.required("Protocol")?)?;
    let port = form.port("Port")?.ok_or_else(|| Refusal::validation("A port must be specified"))?;
    let tags = tags::parse(form)?;
    api.shared.with(|model, now| {
        let balancer = model.balancer_by_arn(balancer_arn)?;
        let forwards = parse_actions(model, form)?;
        model.check_listener(balancer, port, protocol, &forwards)?;
        let nodes = model.balancer(balancer)?.nodes.clone();
        let sockets =
            bind_all(&nodes, port).map_err(|error| Refusal::InvalidConfiguration(error.to_string()))?;
        let id = model.create_listener(balancer, port, protocol, forwards, tags, now)?;
        api.dataplane.serve(id, balancer, protocol, sockets);
        answer(model, id)
    })
}

fn parse_actions(model: &Model, form: &Form) -> Result<Vec<Forward>, Refusal> {
    let actions = form.list("DefaultActions");
    let [action] = actions.as_slice() else {
        return Err(Refusal::validation(if actions.is_empty() {
            "A listener must have at least one default action"
        } else {
            "A listener must have exactly one default action"
        }));
    };
    let kind = action.required("Type")?;
    if kind != "forward" {
        return Err(Refusal::InvalidLoadBalancerAction(format!(
            "This stand-in has actions of type 'forward' only, not '{kind}'"
        )));
    }
    let weighted =
        action.field("ForwardConfig").map(|config| config.list("TargetGroups")).unwrap_or_default();
    let single = action.get("TargetGroupArn");
    let forwards = weighted
        .into_iter()
        .map(|group| {
            let weight = group.number("Weight")?.unwrap_or(1);
            if weight > 999 {
                return Err(Refusal::validation(format!("Weight '{weight}' must be between 0 and 999")));
            }
            Ok(Forward { group: model.group_by_arn(group.required("TargetGroupArn")?)?, weight })
        })
        .collect::<Result<Vec<Forward>, Refusal>>()?;
    let single = single.map(|arn| model.group_by_arn(arn)).transpose()?;
    match (forwards.as_slice(), single) {
        ([], None) => Err(Refusal::validation("A target group ARN must be specified for a forward action")),
        ([], Some(group)) => Ok(vec![Forward { group, weight: 1 }]),
        // Both may be given if they agree: that is what a listener reads back as.
        ([only], Some(group)) if only.group == group => Ok(forwards),
        (_, None) => Ok(forwards),
        _ => Err(Refusal::validation(
            "You cannot specify both a target group ARN and a forward configuration that differs from it",
        )),
    }
}

pub fn describe(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let (arns, balancer) = (form.texts("ListenerArns"), form.get("LoadBalancerArn"));
    if arns.is_empty() == balancer.is_none() {
        return Err(Refusal::validation("You must specify either listener ARNs or a load balancer ARN"));
    }
    api.shared.with(|model, _| {
        let balancer = balancer.map(|arn| model.balancer_by_arn(arn)).transpose()?;
        let asked: BTreeSet<ListenerId> =
            arns.iter().map(|arn| model.listener_by_arn(arn)).collect::<Result<_, _>>()?;
        let wanted = model.listeners().filter(|listener| match balancer {
            Some(balancer) => listener.balancer == balancer,
            None => asked.contains(&listener.id),
        });
        let (listeners, marker) = page(form, wanted, |listener| listener.id.number())?;
        let mut xml = Xml::default();
        xml.list("Listeners", listeners, |member, listener| render(member, model, listener));
        xml.maybe("NextMarker", marker);
        Ok(xml)
    })
}

/// Changes the default action. Port and protocol stay.
pub fn modify(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let arn = form.required("ListenerArn")?;
    let (port, protocol) = (form.port("Port")?, form.get("Protocol").map(Protocol::parse).transpose()?);
    api.shared.with(|model, now| {
        let id = model.listener_by_arn(arn)?;
        let listener = model.listener(id)?;
        let moved = port.is_some_and(|port| port != listener.port)
            || protocol.is_some_and(|protocol| protocol != listener.protocol);
        if moved {
            return Err(Refusal::InvalidConfiguration(
                "This stand-in changes a listener's default action only; to change port or protocol, create \
                 another listener"
                    .to_owned(),
            ));
        }
        if form.field("DefaultActions").is_some() {
            let forwards = parse_actions(model, form)?;
            model.change_listener(id, forwards, now)?;
        }
        answer(model, id)
    })
}

pub async fn delete(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let arn = form.required("ListenerArn")?;
    Arn::expect_kind(arn, ArnKind::Listener)?;
    let id = api.shared.with(|model, now| {
        let id = model.listener_by_arn(arn)?;
        model.delete_listener(id, now).map(|()| id)
    })?;
    api.dataplane.close(id).await;
    Ok(Xml::default())
}

fn answer(model: &Model, id: ListenerId) -> Result<Xml, Refusal> {
    let mut xml = Xml::default();
    xml.list("Listeners", [model.listener(id)?], |member, listener| render(member, model, listener));
    Ok(xml)
}

fn render(xml: &mut Xml, model: &Model, listener: &Listener) {
    let arn_of = |forward: &Forward| model.group(forward.group).map(|group| group.arn.clone()).ok();
    let single = if let [only] = listener.forwards.as_slice() { arn_of(only) } else { None };
    xml.text("ListenerArn", &listener.arn)
        .maybe("LoadBalancerArn", model.balancer(listener.balancer).ok().map(|balancer| &balancer.arn))
        .text("Port", listener.port)
        .text("Protocol", listener.protocol.as_str())
        .list("DefaultActions", [()], |action, ()| {
            action.text("Type", "forward").maybe("TargetGroupArn", single.as_deref()).text("Order", 1).nest(
                "ForwardConfig",
                |config| {
                    config
                        .list("TargetGroups", &listener.forwards, |member, forward| {
                            member.maybe("TargetGroupArn", arn_of(forward)).text("Weight", forward.weight);
                        })
                        .nest("TargetGroupStickinessConfig", |stickiness| {
                            stickiness.text("Enabled", false);
                        });
                },
            );
        });
}
