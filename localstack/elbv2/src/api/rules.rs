//! CreateRule, DescribeRules, ModifyRule, SetRulePriorities, DeleteRule.

use super::form::Form;
use super::paging::page;
use super::xml::Xml;
use super::{Api, actions, tags};
use crate::model::{Action, Condition, Listener, ListenerId, Model, NewRule, Refusal, Rule, RuleId};

pub fn create(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let listener = form.required("ListenerArn")?;
    let priority = form.number("Priority")?;
    let priority = priority.ok_or_else(|| Refusal::validation("A priority must be specified"))?;
    let (conditions, tags) = (parse_conditions(form)?, tags::parse(form)?);
    api.shared.with(|model, now| {
        let listener = model.listener_by_arn(listener)?;
        let action = actions::parse(model, &form.list("Actions"))?;
        let rule = model.create_rule(listener, NewRule { priority, conditions, action, tags }, now)?;
        answer(model, &[(listener, rule)])
    })
}

pub fn modify(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let arn = form.required("RuleArn")?;
    let conditions = form.field("Conditions").map(|_| parse_conditions(form)).transpose()?;
    api.shared.with(|model, now| {
        let action =
            form.field("Actions").map(|_| actions::parse(model, &form.list("Actions"))).transpose()?;
        let rule = model.change_rule(arn, conditions, action, now)?;
        answer(model, &[rule])
    })
}

pub fn set_priorities(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let wanted = form
        .list("RulePriorities")
        .into_iter()
        .map(|pair| {
            let priority = pair.number("Priority")?;
            let priority = priority.ok_or_else(|| Refusal::validation("A priority must be specified"))?;
            Ok((pair.required("RuleArn")?.to_owned(), priority))
        })
        .collect::<Result<Vec<_>, Refusal>>()?;
    if wanted.is_empty() {
        return Err(Refusal::validation("At least one rule must be specified"));
    }
    api.shared.with(|model, _| {
        let rules = model.set_priorities(&wanted)?;
        answer(model, &rules)
    })
}

pub fn delete(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let arn = form.required("RuleArn")?;
    api.shared.with(|model, now| model.delete_rule(arn, now))?;
    Ok(Xml::default())
}

pub fn describe(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let (arns, listener) = (form.texts("RuleArns"), form.get("ListenerArn"));
    if arns.is_empty() == listener.is_none() {
        return Err(Refusal::validation("You must specify either rule ARNs or a listener ARN"));
    }
    api.shared.with(|model, _| {
        let listener = listener.map(|arn| model.listener_by_arn(arn)).transpose()?;
        for arn in &arns {
            let is_default = model.listeners().any(|listener| listener.default_rule_arn() == *arn);
            if !is_default {
                model.rule_by_arn(arn)?;
            }
        }
        let mut rows: Vec<(u64, Row)> = model
            .listeners()
            .filter(|found| listener.is_none_or(|listener| listener == found.id))
            .flat_map(|found| {
                let rules = found.rules.iter().map(|rule| (rule.id.number(), Row::Rule(rule)));
                rules.chain([(found.id.number(), Row::Default(found))])
            })
            .filter(|(_, row)| arns.is_empty() || arns.contains(&row.arn()))
            .collect();
        rows.sort_by_key(|(number, _)| *number);
        let (rows, marker) = page(form, rows.into_iter(), |(number, _)| *number)?;
        let mut xml = Xml::default();
        xml.list("Rules", rows, |member, (_, row)| row.render(member, model));
        xml.maybe("NextMarker", marker);
        Ok(xml)
    })
}

/// A row in the list of rules: a rule with conditions, or the default rule of a listener.
enum Row<'a> {
    Rule(&'a Rule),
    Default(&'a Listener),
}

impl Row<'_> {
    fn arn(&self) -> String {
        match self {
            Self::Rule(rule) => rule.arn.clone(),
            Self::Default(listener) => listener.default_rule_arn(),
        }
    }

    fn action(&self) -> &Action {
        match self {
            Self::Rule(rule) => &rule.action,
            Self::Default(listener) => &listener.action,
        }
    }

    fn render(&self, xml: &mut Xml, model: &Model) {
        let (priority, conditions) = match self {
            Self::Rule(rule) => (rule.priority.to_string(), rule.conditions.as_slice()),
            Self::Default(_) => ("default".to_owned(), [].as_slice()),
        };
        xml.text("RuleArn", self.arn()).text("Priority", priority);
        xml.list("Conditions", conditions, render_condition);
        actions::render(xml, "Actions", model, self.action());
        xml.text("IsDefault", matches!(self, Self::Default(_)));
    }
}

fn answer(model: &Model, rules: &[(ListenerId, RuleId)]) -> Result<Xml, Refusal> {
    let mut xml = Xml::default();
    let mut found = Vec::with_capacity(rules.len());
    for (listener, id) in rules {
        let rules = &model.listener(*listener)?.rules;
        found.push(rules.iter().find(|rule| rule.id == *id).ok_or(Refusal::RuleNotFound)?);
    }
    xml.list("Rules", found, |member, rule| Row::Rule(rule).render(member, model));
    Ok(xml)
}

fn parse_conditions(form: &Form) -> Result<Vec<Condition>, Refusal> {
    form.list("Conditions").into_iter().map(parse_condition).collect()
}

/// Parses the values of a condition in the newer form (`PathPatternConfig`) or in the older form (`Values`).
fn parse_condition(condition: &Form) -> Result<Condition, Refusal> {
    let values = |config: &str| {
        let newer = condition.field(config).map(|config| config.texts("Values")).unwrap_or_default();
        if newer.is_empty() { condition.texts("Values") } else { newer }
    };
    match condition.required("Field")? {
        "path-pattern" => Ok(Condition::Path(values("PathPatternConfig"))),
        "host-header" => Ok(Condition::Host(values("HostHeaderConfig"))),
        "http-request-method" => Ok(Condition::Method(values("HttpRequestMethodConfig"))),
        "http-header" => {
            let name = condition.field("HttpHeaderConfig").and_then(|config| config.get("HttpHeaderName"));
            let name =
                name.ok_or_else(|| Refusal::validation("The name of an HTTP header must be specified"))?;
            Ok(Condition::Header(name.to_owned(), values("HttpHeaderConfig")))
        }
        "query-string" => {
            let pairs = condition.field("QueryStringConfig").map(|config| config.list("Values"));
            let pair = |pair: &Form| {
                (pair.get("Key").map(str::to_owned), pair.get("Value").unwrap_or_default().to_owned())
            };
            Ok(Condition::Query(pairs.unwrap_or_default().into_iter().map(pair).collect()))
        }
        "source-ip" => values("SourceIpConfig")
            .iter()
            .map(|range| {
                range.parse().map_err(|_| Refusal::validation(format!("'{range}' is not a valid CIDR block")))
            })
            .collect::<Result<_, _>>()
            .map(Condition::Source),
        field => Err(Refusal::validation(format!("Condition field '{field}' is not valid"))),
    }
}

fn render_condition(xml: &mut Xml, condition: &Condition) {
    let mut plain = |field: &str, config: &str, values: &[String], older: bool| {
        xml.text("Field", field);
        if older {
            xml.texts("Values", values);
        }
        xml.nest(config, |config| {
            config.texts("Values", values);
        });
    };
    match condition {
        Condition::Path(values) => plain("path-pattern", "PathPatternConfig", values, true),
        Condition::Host(values) => plain("host-header", "HostHeaderConfig", values, true),
        Condition::Method(values) => plain("http-request-method", "HttpRequestMethodConfig", values, false),
        Condition::Source(ranges) => {
            let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
            plain("source-ip", "SourceIpConfig", &ranges, false);
        }
        Condition::Header(name, values) => {
            xml.text("Field", "http-header").nest("HttpHeaderConfig", |config| {
                config.text("HttpHeaderName", name).texts("Values", values);
            });
        }
        Condition::Query(pairs) => {
            xml.text("Field", "query-string").nest("QueryStringConfig", |config| {
                config.list("Values", pairs, |member, (key, value)| {
                    member.maybe("Key", key.as_ref()).text("Value", value);
                });
            });
        }
    }
}
