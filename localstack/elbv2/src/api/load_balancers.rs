//! CreateLoadBalancer, DescribeLoadBalancers, DeleteLoadBalancer.

use std::collections::BTreeSet;

use super::form::Form;
use super::paging::page;
use super::xml::Xml;
use super::{Api, tags};
use crate::clock::Clock;
use crate::model::{ArnKind, BalancerId, Kind, LoadBalancer, Model, NewBalancer, Refusal};

pub fn create(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let spec = parse(form)?;
    api.shared.with(|model, now| {
        let id = model.create_balancer(spec, now)?;
        let mut xml = Xml::default();
        let balancer = model.balancer(id)?;
        xml.list("LoadBalancers", [balancer], |member, balancer| {
            render(member, model, &api.shared.clock, balancer);
        });
        Ok(xml)
    })
}

fn parse(form: &Form) -> Result<NewBalancer, Refusal> {
    let kind = match form.get("Type").unwrap_or("application") {
        "network" => Kind::Network,
        "application" => Kind::Application,
        other => {
            return Err(Refusal::validation(format!(
                "Load balancer type '{other}' is not one of 'application, network'"
            )));
        }
    };
    let internal = match form.get("Scheme").unwrap_or("internet-facing") {
        "internal" => true,
        "internet-facing" => false,
        other => return Err(Refusal::validation(format!("Scheme '{other}' is not valid"))),
    };
    let mapped: Vec<String> = form
        .list("SubnetMappings")
        .into_iter()
        .map(|mapping| mapping.required("SubnetId").map(str::to_owned))
        .collect::<Result<_, _>>()?;
    let listed = form.texts("Subnets");
    if !mapped.is_empty() && !listed.is_empty() {
        return Err(Refusal::validation("Specify either subnets or subnet mappings, but not both"));
    }
    let dualstack = match form.get("IpAddressType").unwrap_or("ipv4") {
        "ipv4" => false,
        "dualstack" => true,
        _ => {
            return Err(Refusal::InvalidConfiguration(
                "This stand-in's clients come by IPv4; leave out the IP address type or give 'ipv4' or 'dualstack'"
                    .to_owned(),
            ));
        }
    };
    Ok(NewBalancer {
        name: form.required("Name")?.to_owned(),
        kind,
        internal,
        dualstack,
        subnets: if mapped.is_empty() { listed } else { mapped },
        security_groups: form.texts("SecurityGroups"),
        tags: tags::parse(form)?,
    })
}

pub fn describe(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let (arns, names) = (form.texts("LoadBalancerArns"), form.texts("Names"));
    if !arns.is_empty() && !names.is_empty() {
        return Err(Refusal::validation("Load balancer ARNs and names cannot be specified at the same time"));
    }
    api.shared.with(|model, _| {
        let by_arn = arns.iter().map(|arn| model.balancer_by_arn(arn));
        let by_name = names.iter().map(|name| model.balancer_by_name(name));
        let asked: BTreeSet<BalancerId> = by_arn.chain(by_name).collect::<Result<_, _>>()?;
        let all = arns.is_empty() && names.is_empty();
        let wanted = model.balancers().filter(|balancer| all || asked.contains(&balancer.id));
        let (balancers, marker) = page(form, wanted, |balancer| balancer.id.number())?;
        let mut xml = Xml::default();
        xml.list("LoadBalancers", balancers, |member, balancer| {
            render(member, model, &api.shared.clock, balancer);
        });
        xml.maybe("NextMarker", marker);
        Ok(xml)
    })
}

/// Deletes a load balancer. As in AWS, the call succeeds if the load balancer does not exist.
pub async fn delete(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let arn = form.required("LoadBalancerArn")?;
    crate::model::Arn::expect_kind(arn, ArnKind::LoadBalancer)?;
    let closed = api.shared.with(|model, now| match model.balancer_by_arn(arn) {
        Ok(id) => model.delete_balancer(id, now),
        Err(_) => Ok(Vec::new()),
    })?;
    for listener in closed {
        api.dataplane.close(listener).await;
    }
    Ok(Xml::default())
}

fn render(xml: &mut Xml, model: &Model, clock: &Clock, balancer: &LoadBalancer) {
    // The hosted zones of AWS load balancers in us-east-1.
    let hosted_zone = match balancer.spec.kind {
        Kind::Network => "Z26RNL4JYFTOTI",
        Kind::Application => "Z35SXDOTRQ7X7K",
    };
    xml.text("LoadBalancerArn", &balancer.arn)
        .text("DNSName", &balancer.dns_name)
        .text("CanonicalHostedZoneId", hosted_zone)
        .text("CreatedTime", format_args!("{:.3}", clock.at(balancer.created)))
        .text("LoadBalancerName", &balancer.spec.name)
        .text("Scheme", if balancer.spec.internal { "internal" } else { "internet-facing" })
        .text("VpcId", &model.settings().vpc.id)
        .nest("State", |state| {
            state.text("Code", balancer.state.as_str());
        })
        .text("Type", balancer.spec.kind.as_str())
        .list("AvailabilityZones", &balancer.nodes, |member, node| {
            member.text("ZoneName", &node.zone).text("SubnetId", &node.subnet);
            member.nest("LoadBalancerAddresses", |_| {});
        })
        .texts("SecurityGroups", &balancer.spec.security_groups)
        .text("IpAddressType", if balancer.spec.dualstack { "dualstack" } else { "ipv4" });
}
