//! Actions of listeners and rules: forward, fixed-response, redirect.

use super::form::Form;
use super::xml::Xml;
use crate::model::{Action, FixedResponse, Forward, Model, Redirect, Refusal};

/// Parses a list that contains exactly one action.
pub fn parse(model: &Model, actions: &[&Form]) -> Result<Action, Refusal> {
    let [action] = actions else {
        return Err(Refusal::validation(if actions.is_empty() {
            "A listener must have at least one default action"
        } else {
            "A listener must have exactly one default action"
        }));
    };
    match action.required("Type")? {
        "forward" => parse_forward(model, action).map(Action::Forward),
        "fixed-response" => parse_fixed(action).map(Action::Fixed),
        "redirect" => parse_redirect(action).map(Action::Redirect),
        kind => Err(Refusal::InvalidLoadBalancerAction(format!(
            "This stand-in has actions of the types 'forward', 'fixed-response' and 'redirect', not '{kind}'"
        ))),
    }
}

fn parse_fixed(action: &Form) -> Result<FixedResponse, Refusal> {
    let missing = || Refusal::validation("A fixed response needs a FixedResponseConfig");
    let config = action.field("FixedResponseConfig").ok_or_else(missing)?;
    Ok(FixedResponse {
        status: config.number("StatusCode")?.ok_or_else(missing)?,
        content_type: config.get("ContentType").map(str::to_owned),
        body: config.get("MessageBody").unwrap_or_default().to_owned(),
    })
}

fn parse_redirect(action: &Form) -> Result<Redirect, Refusal> {
    let missing = || Refusal::validation("A redirect needs a RedirectConfig");
    let config = action.field("RedirectConfig").ok_or_else(missing)?;
    let permanent = match config.required("StatusCode")? {
        "HTTP_301" => true,
        "HTTP_302" => false,
        other => {
            return Err(Refusal::validation(format!("'{other}' must be one of 'HTTP_301, HTTP_302'")));
        }
    };
    let part = |name: &str, default: &str| config.get(name).unwrap_or(default).to_owned();
    Ok(Redirect {
        permanent,
        protocol: part("Protocol", "#{protocol}"),
        host: part("Host", "#{host}"),
        port: part("Port", "#{port}"),
        path: part("Path", "/#{path}"),
        query: part("Query", "#{query}"),
    })
}

fn parse_forward(model: &Model, action: &Form) -> Result<Vec<Forward>, Refusal> {
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
        // Both forms may be present if they agree. AWS returns both forms for a listener.
        ([only], Some(group)) if only.group == group => Ok(forwards),
        (_, None) => Ok(forwards),
        _ => Err(Refusal::validation(
            "You cannot specify both a target group ARN and a forward configuration that differs from it",
        )),
    }
}

/// Renders the action as a list with one member.
pub fn render(xml: &mut Xml, name: &str, model: &Model, action: &Action) {
    xml.list(name, [action], |member, action| match action {
        Action::Forward(forwards) => render_forward(member, model, forwards),
        Action::Fixed(fixed) => {
            member.text("Type", "fixed-response").text("Order", 1).nest("FixedResponseConfig", |config| {
                config
                    .text("StatusCode", fixed.status)
                    .maybe("ContentType", fixed.content_type.as_ref())
                    .text("MessageBody", &fixed.body);
            });
        }
        Action::Redirect(redirect) => {
            let status = if redirect.permanent { "HTTP_301" } else { "HTTP_302" };
            member.text("Type", "redirect").text("Order", 1).nest("RedirectConfig", |config| {
                config
                    .text("Protocol", &redirect.protocol)
                    .text("Port", &redirect.port)
                    .text("Host", &redirect.host)
                    .text("Path", &redirect.path)
                    .text("Query", &redirect.query)
                    .text("StatusCode", status);
            });
        }
    });
}

/// Renders both forms if there is only one target group, as AWS does.
fn render_forward(xml: &mut Xml, model: &Model, forwards: &[Forward]) {
    let arn_of = |forward: &Forward| model.group(forward.group).map(|group| group.arn.clone()).ok();
    let single = if let [only] = forwards { arn_of(only) } else { None };
    xml.text("Type", "forward").maybe("TargetGroupArn", single).text("Order", 1).nest(
        "ForwardConfig",
        |config| {
            config
                .list("TargetGroups", forwards, |member, forward| {
                    member.maybe("TargetGroupArn", arn_of(forward)).text("Weight", forward.weight);
                })
                .nest("TargetGroupStickinessConfig", |stickiness| {
                    stickiness.text("Enabled", false);
                });
        },
    );
}
