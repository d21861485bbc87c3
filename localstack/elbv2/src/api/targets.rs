//! RegisterTargets, DeregisterTargets, DescribeTargetHealth.

use std::time::Duration;

use super::Api;
use super::form::Form;
use super::xml::Xml;
use crate::model::{RawTarget, Refusal, Shown, State, TargetGroup, TargetKey};

/// Parses the `Targets` parameter of a call.
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

/// Returns the targets of a call in the notation of the trace, including invalid targets.
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

/// Describes target health as it was `ago` before now, in real time.
pub fn describe_health(api: &Api, form: &Form, ago: Duration) -> Result<Xml, Refusal> {
    let arn = form.required("TargetGroupArn")?;
    let asked = parse(form)?;
    api.shared.with(|model, now| {
        let id = model.group_by_arn(arn)?;
        let group = model.group(id)?;
        let shown = group.shown_at(now.saturating_sub(ago));
        let row = |key, shown: Option<&Shown>| (key, shown.cloned());
        let rows = if asked.is_empty() {
            shown.iter().map(|(key, shown)| row(*key, Some(shown))).collect()
        } else {
            let asked = asked.iter().map(|raw| {
                let key = model.key_of(id, raw)?;
                let found = shown.get(&key).filter(|shown| shown.is_in(raw.zone.as_deref()));
                Ok(row(key, found))
            });
            asked.collect::<Result<Vec<_>, Refusal>>()?
        };
        let mut xml = Xml::default();
        xml.list("TargetHealthDescriptions", rows, |member, (key, target)| {
            render(member, group, key, target.as_ref());
            let shifted = target.as_ref().map(|target| model.is_shifted(group, &target.zone));
            render_override(member, shifted.unwrap_or_default(), model.behaviour().no_override_shown);
        });
        Ok(xml)
    })
}

fn render(xml: &mut Xml, group: &TargetGroup, key: TargetKey, target: Option<&Shown>) {
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

/// Renders the effect of a zonal shift on a target. It is unknown whether AWS also returns the element without a shift.
fn render_override(xml: &mut Xml, shifted: bool, always: bool) {
    let words = match (shifted, always) {
        (true, _) => {
            ("zonal_shift_active", "AdministrativeOverride.ZonalShiftActive", "Zonal shift is active")
        }
        (false, true) => ("no_override", "AdministrativeOverride.NoOverride", "No override is in effect"),
        (false, false) => return,
    };
    xml.nest("AdministrativeOverride", |xml| {
        xml.text("State", words.0).text("Reason", words.1).text("Description", words.2);
    });
}
