//! RegisterTargets, DeregisterTargets, DescribeTargetHealth.

use super::Api;
use super::form::Form;
use super::xml::Xml;
use crate::model::{RawTarget, Refusal, State, Target, TargetGroup, TargetKey};

/// The `Targets` of a call.
fn parse(form: &Form) -> Result<Vec<RawTarget>, Refusal> {
    form.list("Targets")
        .into_iter()
        .map(|target| {
            Ok(RawTarget {
                id: target.required("Id")?.to_owned(),
                port: target.port("Port")?,
                zone: target.get("AvailabilityZone").map(str::to_owned),
            })
        })
        .collect()
}

/// The targets of a call as the trace names them, whether they are valid or not.
pub fn named(form: &Form) -> Vec<String> {
    let name = |target: &Form| {
        let id = target.get("Id").unwrap_or_default();
        target.get("Port").map_or_else(|| id.to_owned(), |port| format!("{id}:{port}"))
    };
    form.list("Targets").into_iter().map(name).collect()
}

pub fn register(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let arn = form.required("TargetGroupArn")?;
    let targets = parse(form)?;
    api.shared.with(|model, now| model.register(model.group_by_arn(arn)?, &targets, now))?;
    Ok(Xml::default())
}

pub fn deregister(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let arn = form.required("TargetGroupArn")?;
    let targets = parse(form)?;
    api.shared.with(|model, now| model.deregister(model.group_by_arn(arn)?, &targets, now))?;
    Ok(Xml::default())
}

pub fn describe_health(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let arn = form.required("TargetGroupArn")?;
    let asked = parse(form)?;
    api.shared.with(|model, _| {
        let id = model.group_by_arn(arn)?;
        let group = model.group(id)?;
        let rows = if asked.is_empty() {
            group.targets().map(|target| (target.key, Some(target))).collect()
        } else {
            asked.iter().map(|raw| model.look_up(id, raw)).collect::<Result<Vec<_>, _>>()?
        };
        let mut xml = Xml::default();
        xml.list("TargetHealthDescriptions", rows, |member, (key, target)| {
            render(member, group, key, target);
        });
        Ok(xml)
    })
}

fn render(xml: &mut Xml, group: &TargetGroup, key: TargetKey, target: Option<&Target>) {
    let check_port = group.spec.health_check.port.resolve(key.port);
    let in_use = target.is_some_and(|target| !matches!(target.state, State::Unused(_)));
    xml.nest("Target", |xml| {
        xml.text("Id", key.ip)
            .text("Port", key.port)
            .maybe("AvailabilityZone", target.map(|target| target.zone.as_str()));
    });
    xml.maybe("HealthCheckPort", in_use.then_some(check_port));
    xml.nest("TargetHealth", |xml| match target {
        Some(target) => {
            xml.text("State", target.state.name())
                .maybe("Reason", target.state.reason())
                .maybe("Description", target.state.description());
        }
        None => {
            xml.text("State", "unused")
                .text("Reason", "Target.NotRegistered")
                .text("Description", "Target is not registered to the target group");
        }
    });
}
