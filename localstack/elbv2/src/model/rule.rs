//! Rules of a listener. A node evaluates the rules in the order of their priorities, and the default action last.

use std::net::IpAddr;
use std::time::Duration;

use hyper::HeaderMap;
use ipnet::IpNet;

use super::names::{Arn, ArnKind};
use super::{Action, Kind, ListenerId, Model, Refusal, RuleId, Tags};

/// The properties of a request that conditions use.
#[derive(Debug, Clone, Copy)]
pub struct RequestFacts<'a> {
    /// The method, such as `GET`.
    pub method: &'a str,
    /// The host without the port.
    pub host: &'a str,
    /// The path without the query.
    pub path: &'a str,
    /// The query without the question mark.
    pub query: &'a str,
    pub headers: &'a HeaderMap,
    /// The IP address of the client.
    pub source: IpAddr,
}

/// A condition. The condition is true if one of its values matches. In patterns, `*` stands for any characters, and `?`
/// for one character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// `path-pattern`, case-sensitive.
    Path(Vec<String>),
    /// `host-header`, case-insensitive.
    Host(Vec<String>),
    /// `http-header` with the name of the header, case-insensitive.
    Header(String, Vec<String>),
    /// `http-request-method`, without patterns.
    Method(Vec<String>),
    /// `query-string`: values with optional keys, case-insensitive.
    Query(Vec<(Option<String>, String)>),
    /// `source-ip`.
    Source(Vec<IpNet>),
}

impl Condition {
    fn holds(&self, request: RequestFacts) -> bool {
        let any_case = |text: &str, pattern: &str| {
            matches(text.to_ascii_lowercase().as_bytes(), pattern.to_ascii_lowercase().as_bytes())
        };
        match self {
            Self::Path(patterns) => patterns.iter().any(|p| matches(request.path.as_bytes(), p.as_bytes())),
            Self::Host(patterns) => patterns.iter().any(|pattern| any_case(request.host, pattern)),
            Self::Header(name, patterns) => request
                .headers
                .get_all(name)
                .iter()
                .filter_map(|value| value.to_str().ok())
                .any(|value| patterns.iter().any(|pattern| any_case(value, pattern))),
            Self::Method(methods) => methods.iter().any(|method| method == request.method),
            Self::Query(wanted) => request.query.split('&').any(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                wanted.iter().any(|(wanted_key, pattern)| {
                    wanted_key.as_ref().is_none_or(|wanted| any_case(key, wanted)) && any_case(value, pattern)
                })
            }),
            Self::Source(ranges) => ranges.iter().any(|range| range.contains(&request.source)),
        }
    }
}

/// Returns whether a text matches a pattern. The run time is at most proportional to the product of the two lengths.
fn matches(text: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut next) = (0, 0);
    // The positions to return to if the text after the latest star does not match. The star then matches one more
    // character.
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = text.get(at) {
        match pattern.get(next) {
            Some(b'*') => {
                star = Some((at, next));
                next += 1;
            }
            Some(wanted) if wanted == byte || *wanted == b'?' => (at, next) = (at + 1, next + 1),
            _ => {
                let Some((taken, place)) = star else { return false };
                star = Some((taken + 1, place));
                (at, next) = (taken + 1, place + 1);
            }
        }
    }
    pattern.get(next..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

/// A rule.
#[derive(Debug)]
pub struct Rule {
    pub id: RuleId,
    pub arn: String,
    /// The priority, from 1 to 50000, which is unique in the listener. The lowest priority is evaluated first.
    pub priority: u32,
    /// The conditions. All conditions must be true. A rule has at least one condition.
    pub conditions: Vec<Condition>,
    pub action: Action,
    pub tags: Tags,
}

impl Rule {
    /// Returns whether the rule matches a request.
    pub fn takes(&self, request: RequestFacts) -> bool {
        self.conditions.iter().all(|condition| condition.holds(request))
    }
}

/// The parameters of CreateRule.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // the parameters of CreateRule
pub struct NewRule {
    pub priority: u32,
    pub conditions: Vec<Condition>,
    pub action: Action,
    pub tags: Tags,
}

impl Model {
    /// Creates a rule.
    pub fn create_rule(&mut self, id: ListenerId, new: NewRule, now: Duration) -> Result<RuleId, Refusal> {
        let listener = self.listener(id)?;
        if listener.protocol.kind() == Kind::Network {
            return Err(Refusal::UnsupportedProtocol(format!(
                "Rules are not supported for listeners with protocol '{}'",
                listener.protocol.as_str()
            )));
        }
        check_priority(new.priority)?;
        if listener.rules.iter().any(|rule| rule.priority == new.priority) {
            return Err(Refusal::PriorityInUse(new.priority));
        }
        check_conditions(&new.conditions)?;
        self.check_action(listener.balancer, Kind::Application, &new.action)?;
        let rule_id = RuleId(self.serial());
        let hex = self.hex(16);
        if let Some(listener) = self.listeners.get_mut(&id) {
            let arn = format!("{}/{hex}", listener.arn.replacen(":listener/", ":listener-rule/", 1));
            let NewRule { priority, conditions, action, tags } = new;
            listener.rules.push(Rule { id: rule_id, arn, priority, conditions, action, tags });
            listener.rules.sort_by_key(|rule| rule.priority);
        }
        self.reattach(now);
        Ok(rule_id)
    }

    /// Replaces the conditions of a rule, the action, or both.
    pub fn change_rule(
        &mut self,
        arn: &str,
        conditions: Option<Vec<Condition>>,
        action: Option<Action>,
        now: Duration,
    ) -> Result<(ListenerId, RuleId), Refusal> {
        let (listener, id) = self.rule_by_arn(arn)?;
        if let Some(conditions) = &conditions {
            check_conditions(conditions)?;
        }
        if let Some(action) = &action {
            self.check_action(self.listener(listener)?.balancer, Kind::Application, action)?;
        }
        let found = self.listeners.get_mut(&listener);
        let rule = found.and_then(|listener| listener.rules.iter_mut().find(|rule| rule.id == id));
        let rule = rule.ok_or(Refusal::RuleNotFound)?;
        rule.conditions = conditions.unwrap_or_else(|| std::mem::take(&mut rule.conditions));
        if let Some(action) = action {
            rule.action = action;
        }
        self.reattach(now);
        Ok((listener, id))
    }

    /// Changes the priorities of rules. An invalid priority rejects the whole call.
    pub fn set_priorities(&mut self, wanted: &[(String, u32)]) -> Result<Vec<(ListenerId, RuleId)>, Refusal> {
        let mut found = Vec::with_capacity(wanted.len());
        for (arn, priority) in wanted {
            check_priority(*priority)?;
            found.push((self.rule_by_arn(arn)?, *priority));
        }
        for ((listener, _), priority) in &found {
            let taken = self.listener(*listener)?.rules.iter().any(|rule| {
                let moves = found.iter().any(|((_, id), _)| *id == rule.id);
                rule.priority == *priority && !moves
            });
            let twice =
                found.iter().filter(|((at, _), other)| at == listener && other == priority).count() > 1;
            if taken || twice {
                return Err(Refusal::PriorityInUse(*priority));
            }
        }
        for ((listener, id), priority) in &found {
            let Some(listener) = self.listeners.get_mut(listener) else { continue };
            if let Some(rule) = listener.rules.iter_mut().find(|rule| rule.id == *id) {
                rule.priority = *priority;
            }
            listener.rules.sort_by_key(|rule| rule.priority);
        }
        Ok(found.into_iter().map(|(rule, _)| rule).collect())
    }

    /// Deletes a rule.
    pub fn delete_rule(&mut self, arn: &str, now: Duration) -> Result<(), Refusal> {
        let (listener, id) = self.rule_by_arn(arn)?;
        if let Some(listener) = self.listeners.get_mut(&listener) {
            listener.rules.retain(|rule| rule.id != id);
        }
        self.reattach(now);
        Ok(())
    }

    /// Returns the listener and the identifier of the rule with this ARN. The ARN must be well-formed, and must not be
    /// the ARN of a default rule.
    pub fn rule_by_arn(&self, arn: &str) -> Result<(ListenerId, RuleId), Refusal> {
        Arn::expect_kind(arn, ArnKind::Rule)?;
        if self.listeners().any(|listener| listener.default_rule_arn() == arn) {
            return Err(Refusal::OperationNotPermitted(format!(
                "The default rule '{arn}' changes with its listener only"
            )));
        }
        self.listeners()
            .flat_map(|listener| listener.rules.iter().map(move |rule| (listener.id, rule)))
            .find(|(_, rule)| rule.arn == arn)
            .map(|(listener, rule)| (listener, rule.id))
            .ok_or(Refusal::RuleNotFound)
    }
}

fn check_priority(priority: u32) -> Result<(), Refusal> {
    if (1..=50_000).contains(&priority) {
        Ok(())
    } else {
        Err(Refusal::validation(format!("The priority '{priority}' must be between 1 and 50000")))
    }
}

fn check_conditions(conditions: &[Condition]) -> Result<(), Refusal> {
    if conditions.is_empty() {
        return Err(Refusal::validation("A condition must be specified"));
    }
    let empty = |condition: &Condition| match condition {
        Condition::Path(values)
        | Condition::Host(values)
        | Condition::Method(values)
        | Condition::Header(_, values) => values.is_empty(),
        Condition::Query(values) => values.is_empty(),
        Condition::Source(ranges) => ranges.is_empty(),
    };
    if conditions.iter().any(empty) {
        return Err(Refusal::validation("A condition value must be specified"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_take_stars_and_question_marks() {
        for (text, pattern, wanted) in [
            ("/api/v1/x", "/api/*", true),
            ("/api", "/api/*", false),
            ("/a-b-c", "/*-c", true),
            ("/a-b-d", "/*-c", false),
            ("/img/7", "/img/?", true),
            ("/img/77", "/img/?", false),
            ("", "*", true),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "*a*a*a*a*a*a*a*b", false),
        ] {
            assert_eq!(matches(text.as_bytes(), pattern.as_bytes()), wanted, "{text} {pattern}");
        }
    }
}
