//! CreateListener, DescribeListeners, ModifyListener, DeleteListener.

use std::collections::BTreeSet;

use super::form::Form;
use super::paging::page;
use super::xml::Xml;
use super::{Api, actions, tags};
use crate::dataplane::bind_all;
use crate::model::{Arn, ArnKind, Listener, ListenerId, Model, Protocol, Refusal};

/// Creates a listener. The sockets are opened first, so that the call fails if a port cannot be bound.
pub fn create(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let balancer_arn = form.required("LoadBalancerArn")?;
    let protocol = Protocol::parse(form.required("Protocol")?)?;
    let port = form.port("Port")?.ok_or_else(|| Refusal::validation("A port must be specified"))?;
    let tags = tags::parse(form)?;
    api.shared.with(|model, now| {
        let balancer = model.balancer_by_arn(balancer_arn)?;
        let action = actions::parse(model, &form.list("DefaultActions"))?;
        model.check_listener(balancer, port, protocol, &action)?;
        let nodes = model.balancer(balancer)?.nodes.clone();
        let sockets =
            bind_all(&nodes, port).map_err(|error| Refusal::InvalidConfiguration(error.to_string()))?;
        let id = model.create_listener(balancer, port, protocol, action, tags, now)?;
        api.dataplane.serve(id, balancer, protocol, sockets);
        answer(model, id)
    })
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

/// Changes the default action of a listener, but not the port or the protocol.
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
            let action = actions::parse(model, &form.list("DefaultActions"))?;
            model.change_listener(id, action, now)?;
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
    xml.text("ListenerArn", &listener.arn)
        .maybe("LoadBalancerArn", model.balancer(listener.balancer).ok().map(|balancer| &balancer.arn))
        .text("Port", listener.port)
        .text("Protocol", listener.protocol.as_str());
    actions::render(xml, "DefaultActions", model, &listener.action);
}
