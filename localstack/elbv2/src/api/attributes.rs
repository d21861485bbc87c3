//! Describes and modifies the attributes of target groups, load balancers and listeners.

use std::collections::BTreeMap;

use super::Api;
use super::form::Form;
use super::xml::Xml;
use crate::model::Refusal;

pub fn describe_group(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let arn = form.required("TargetGroupArn")?;
    api.shared.with(|model, _| Ok(render(&model.group(model.group_by_arn(arn)?)?.attributes)))
}

pub fn modify_group(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let arn = form.required("TargetGroupArn")?;
    let changes = parse(form)?;
    api.shared.with(|model, _| {
        let id = model.group_by_arn(arn)?;
        model.set_group_attributes(id, changes)?;
        Ok(render(&model.group(id)?.attributes))
    })
}

pub fn describe_balancer(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let arn = form.required("LoadBalancerArn")?;
    api.shared.with(|model, _| Ok(render(&model.balancer(model.balancer_by_arn(arn)?)?.attributes)))
}

pub fn modify_balancer(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let arn = form.required("LoadBalancerArn")?;
    let changes = parse(form)?;
    api.shared.with(|model, _| {
        let id = model.balancer_by_arn(arn)?;
        model.set_balancer_attributes(id, changes)?;
        Ok(render(&model.balancer(id)?.attributes))
    })
}

pub fn describe_listener(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let arn = form.required("ListenerArn")?;
    api.shared.with(|model, _| Ok(render(&model.listener(model.listener_by_arn(arn)?)?.attributes)))
}

pub fn modify_listener(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let arn = form.required("ListenerArn")?;
    let changes = parse(form)?;
    api.shared.with(|model, _| {
        let id = model.listener_by_arn(arn)?;
        model.set_listener_attributes(id, changes)?;
        Ok(render(&model.listener(id)?.attributes))
    })
}

fn parse(form: &Form) -> Result<BTreeMap<String, String>, Refusal> {
    let changes = form
        .list("Attributes")
        .into_iter()
        .map(|attribute| {
            let key = attribute.required("Key")?.to_owned();
            Ok((key, attribute.get("Value").unwrap_or_default().to_owned()))
        })
        .collect::<Result<BTreeMap<_, _>, Refusal>>()?;
    if changes.is_empty() {
        Err(Refusal::validation("At least one attribute must be specified"))
    } else {
        Ok(changes)
    }
}

fn render(attributes: &BTreeMap<String, String>) -> Xml {
    let mut xml = Xml::default();
    xml.list("Attributes", attributes, |member, (key, value)| {
        member.text("Key", key).text("Value", value);
    });
    xml
}
