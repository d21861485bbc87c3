//! CreateTargetGroup, DescribeTargetGroups, ModifyTargetGroup, DeleteTargetGroup.

use std::collections::BTreeSet;

use super::form::Form;
use super::paging::page;
use super::xml::Xml;
use super::{Api, tags};
use crate::model::{
    Arn, ArnKind, Family, GroupId, HealthCheck, HealthCheckChange, HealthCheckPort, HealthCheckProtocol,
    Kind, Model, NewGroup, Protocol, Refusal, TargetGroup, TargetType,
};

pub fn create(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let spec = parse(form)?;
    api.shared.with(|model, _| {
        let id = model.create_group(spec)?;
        answer(model, [id])
    })
}

fn parse(form: &Form) -> Result<NewGroup, Refusal> {
    let target_type = form.get("TargetType").map_or(Ok(TargetType::Instance), TargetType::parse)?;
    let protocol = form.get("Protocol").map(Protocol::parse).transpose()?;
    let kind = protocol.map_or(Kind::Application, Protocol::kind);
    let change = parse_health_check(form)?;
    let check_protocol = change.protocol.unwrap_or(match kind {
        Kind::Network => HealthCheckProtocol::Tcp,
        Kind::Application => HealthCheckProtocol::Http,
    });
    if kind == Kind::Application && check_protocol == HealthCheckProtocol::Tcp {
        return Err(Refusal::validation(
            "Health check protocol 'TCP' is not supported for this target group",
        ));
    }
    Ok(NewGroup {
        name: form.required("Name")?.to_owned(),
        target_type,
        protocol,
        protocol_version: form
            .get("ProtocolVersion")
            .or((kind == Kind::Application && protocol.is_some()).then_some("HTTP1"))
            .map(str::to_owned),
        port: form.port("Port")?,
        vpc: form.get("VpcId").map(str::to_owned),
        family: form.get("IpAddressType").map_or(Ok(Family::Ipv4), Family::parse)?,
        health_check: HealthCheck::defaults(kind, check_protocol).changed(change)?,
        tags: tags::parse(form)?,
    })
}

fn parse_health_check(form: &Form) -> Result<HealthCheckChange, Refusal> {
    if form.get("HealthCheckEnabled") == Some("false") {
        return Err(Refusal::validation("Health checks must be enabled for target groups of this type"));
    }
    Ok(HealthCheckChange {
        protocol: form.get("HealthCheckProtocol").map(HealthCheckProtocol::parse).transpose()?,
        port: form.get("HealthCheckPort").map(HealthCheckPort::parse).transpose()?,
        path: form.get("HealthCheckPath").map(str::to_owned),
        interval: form.number("HealthCheckIntervalSeconds")?,
        timeout: form.number("HealthCheckTimeoutSeconds")?,
        healthy_threshold: form.number("HealthyThresholdCount")?,
        unhealthy_threshold: form.number("UnhealthyThresholdCount")?,
        matcher: form.field("Matcher").and_then(|matcher| matcher.get("HttpCode")).map(str::to_owned),
    })
}

pub fn describe(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let (arns, names) = (form.texts("TargetGroupArns"), form.texts("Names"));
    let balancer = form.get("LoadBalancerArn");
    let filters = [!arns.is_empty(), !names.is_empty(), balancer.is_some()];
    if filters.iter().filter(|given| **given).count() > 1 {
        return Err(Refusal::validation(
            "Specify only one of the following: target group ARNs, target group names, a load balancer ARN",
        ));
    }
    api.shared.with(|model, _| {
        let balancer = balancer.map(|arn| model.balancer_by_arn(arn)).transpose()?;
        let by_arn = arns.iter().map(|arn| model.group_by_arn(arn));
        let by_name = names.iter().map(|name| model.group_by_name(name));
        let asked: BTreeSet<GroupId> = by_arn.chain(by_name).collect::<Result<_, _>>()?;
        let all = arns.is_empty() && names.is_empty();
        let wanted = model
            .groups()
            .filter(|group| all || asked.contains(&group.id))
            .filter(|group| balancer.is_none() || group.balancer() == balancer);
        let (groups, marker) = page(form, wanted, |group| group.id.number())?;
        let mut xml = Xml::default();
        xml.list("TargetGroups", groups, |member, group| render(member, model, group));
        xml.maybe("NextMarker", marker);
        Ok(xml)
    })
}

pub fn modify(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let arn = form.required("TargetGroupArn")?;
    let change = parse_health_check(form)?;
    api.shared.with(|model, _| {
        let id = model.group_by_arn(arn)?;
        model.change_health_check(id, change)?;
        answer(model, [id])
    })
}

/// Deletes a target group. As in AWS, the call succeeds if the target group does not exist.
pub fn delete(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let arn = form.required("TargetGroupArn")?;
    Arn::expect_kind(arn, ArnKind::TargetGroup)?;
    api.shared.with(|model, _| match model.group_by_arn(arn) {
        Ok(id) => model.delete_group(id),
        Err(_) => Ok(()),
    })?;
    Ok(Xml::default())
}

fn answer(model: &Model, ids: impl IntoIterator<Item = GroupId>) -> Result<Xml, Refusal> {
    let groups = ids.into_iter().map(|id| model.group(id)).collect::<Result<Vec<_>, _>>()?;
    let mut xml = Xml::default();
    xml.list("TargetGroups", groups, |member, group| render(member, model, group));
    Ok(xml)
}

fn render(xml: &mut Xml, model: &Model, group: &TargetGroup) {
    let (spec, check) = (&group.spec, &group.spec.health_check);
    let http = check.protocol == HealthCheckProtocol::Http;
    let balancer = group.balancer().and_then(|id| model.balancer(id).ok()).map(|balancer| &balancer.arn);
    xml.text("TargetGroupArn", &group.arn)
        .text("TargetGroupName", &spec.name)
        .maybe("Protocol", spec.protocol.map(Protocol::as_str))
        .maybe("Port", spec.port)
        .maybe("VpcId", spec.vpc.as_deref())
        .text("HealthCheckProtocol", check.protocol.as_str())
        .text("HealthCheckPort", port_text(check.port))
        .text("HealthCheckEnabled", true)
        .text("HealthCheckIntervalSeconds", check.interval)
        .text("HealthCheckTimeoutSeconds", check.timeout)
        .text("HealthyThresholdCount", check.healthy_threshold)
        .text("UnhealthyThresholdCount", check.unhealthy_threshold)
        .maybe("HealthCheckPath", http.then_some(&check.path));
    if http {
        xml.nest("Matcher", |matcher| {
            matcher.text("HttpCode", &check.matcher);
        });
    }
    xml.texts("LoadBalancerArns", balancer)
        .text("TargetType", spec.target_type.as_str())
        .maybe("ProtocolVersion", spec.protocol_version.as_deref())
        .text("IpAddressType", spec.family.as_str());
}

fn port_text(port: HealthCheckPort) -> String {
    match port {
        HealthCheckPort::Traffic => "traffic-port".to_owned(),
        HealthCheckPort::Fixed(port) => port.to_string(),
    }
}
