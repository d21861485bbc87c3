//! The annotation `headgate.dev/target-groups` of a Service.
//!
//! The value has the form `web=<target>,websecure=<target>`. The left side of each part is the name or the number of a
//! Service port. The right side is the ARN or the name of a target group. A Service with one port may use `<target>`
//! alone, and a port may appear several times. Commas or line breaks separate the parts; a comma after the last part is
//! allowed.
//!
//! Headgate reads each part separately, so an invalid part does not affect the other parts.

use std::fmt;

use thiserror::Error;

use crate::{
    inject::INJECT,
    model::{
        GroupRef, ServicePort,
        excerpt::{brief, excerpt},
        limits, policy,
        service::PortRef,
        target_group::ReferenceError,
    },
};

/// The name of the annotation.
pub const TARGET_GROUPS: &str = "headgate.dev/target-groups";
/// The prefix of all annotations of Headgate.
pub const PREFIX: &str = "headgate.dev/";

/// Whether Headgate knows this annotation of Services.
pub fn is_known(name: &str) -> bool {
    name == TARGET_GROUPS || policy::ALL.contains(&name)
}

/// The report about an unknown Service annotation that begins with [`PREFIX`].
pub fn unknown(name: &str) -> String {
    let name = &*excerpt(name);
    let known = || std::iter::once(TARGET_GROUPS).chain(policy::ALL);
    let far = |other: &&str| strsim::osa_distance(name, other);
    let nearest = known().min_by_key(far).filter(|nearest| far(nearest) <= NEAR);
    let instead = match nearest {
        _ if name == INJECT => "Set the label of this name on pods or namespaces.".to_owned(),
        Some(nearest) => format!("Write {nearest}."),
        None => "Remove the annotation, or look up its name in the reference.".to_owned(),
    };
    format!("Unknown annotation {name} has no effect. {instead}")
}

/// A name that differs from a known name in at most this many letters counts as a typing error.
const NEAR: usize = 4;

/// Finds the ports of a Service that a part may refer to. Several ports may have the same number but different
/// protocols, because Kubernetes only requires that pairs of number and protocol are unique. Headgate reads digits as a
/// port number first, then as a name.
///
/// # Errors
/// No port matches; the error lists the ports of the Service.
pub fn find<'a>(port: &PortRef, ports: &'a [ServicePort]) -> Result<Vec<&'a ServicePort>, PartError> {
    let named = |name: &str| ports.iter().find(|port| *port.name == *name).into_iter().collect();
    let found: Vec<&ServicePort> = match port {
        PortRef::Only => match ports {
            [only] => vec![only],
            _ => return Err(PartError::NoPort { count: ports.len(), ports: list(ports) }),
        },
        PortRef::Number(number) => {
            let found: Vec<_> = ports.iter().filter(|port| port.port == *number).collect();
            if found.is_empty() { named(&number.to_string()) } else { found }
        }
        PortRef::Name(name) => named(name),
    };
    if found.is_empty() {
        return Err(PartError::UnknownPort { port: brief(&port.to_string()).into(), ports: list(ports) });
    }
    Ok(found)
}

/// An error message lists at most this many ports of a Service.
const NAMED: usize = 3;

fn list(ports: &[ServicePort]) -> Box<str> {
    let mut names: Vec<String> = ports
        .iter()
        .take(NAMED)
        .map(|port| match &*port.name {
            "" => port.port.to_string(),
            name => format!("{name} ({})", port.port),
        })
        .collect();
    if ports.len() > NAMED {
        names.push(format!("and {} more", ports.len() - NAMED));
    }
    names.join(", ").into()
}

/// One valid part, `port=target`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The port of the Service.
    pub(crate) port: PortRef,
    /// The target group.
    pub(crate) group: GroupRef,
}

/// An invalid part of the annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPart {
    /// The text of the part, or its beginning.
    pub(super) text: Box<str>,
    /// The port, if the left side is valid.
    pub(super) port: Option<PortRef>,
    /// The error of the part.
    pub(crate) error: PartError,
}

impl fmt::Display for BadPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            PartError::Target(error) => write!(f, "{TARGET_GROUPS}: {error}"),
            error => write!(f, "{TARGET_GROUPS}: part \"{}\" {error}", self.text),
        }
    }
}

/// Why a part of the annotation is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PartError {
    /// The part is empty.
    #[error("is empty. Write <port>=<target group ARN or name>, such as web=my-group.")]
    Empty,
    /// The part contains separators of a JSON or YAML list.
    #[error(
        "has brackets, braces or quotes. Write <port>=<target group ARN or name>, and commas between several."
    )]
    Quoted,
    /// The part has the form `=target`, without a port.
    #[error("has no port before the \"=\". Write <port>=<target group ARN or name>.")]
    EmptyPort,
    /// The part has the form `port=`, without a target group.
    #[error("has no target group after the \"=\". Write <port>=<target group ARN or name>.")]
    EmptyTarget,
    /// The right side is not a valid target group.
    #[error(transparent)]
    Target(#[from] ReferenceError),
    /// The port number is 0 or above 65535.
    #[error("has the port number {port}. Write 1 to 65535, or the name of a Service port.")]
    PortNumber {
        /// The port number in the part.
        port: Box<str>,
    },
    /// The Service does not have the port.
    #[error("names port \"{port}\", which the Service lacks. Name one of: {ports}.")]
    UnknownPort {
        /// The port in the part.
        port: Box<str>,
        /// The ports of the Service.
        ports: Box<str>,
    },
    /// The part names only a target group, but the Service does not have exactly one port.
    #[error("names no port, and the Service has {count} ({ports}). Write <port>=<target group>.")]
    NoPort {
        /// How many ports the Service has.
        count: usize,
        /// The ports of the Service.
        ports: Box<str>,
    },
    /// The annotation has more parts than Headgate reads.
    #[error(
        "and later ones are ignored: {count} parts, limit {MOST_PARTS}. Use more Services or TargetBindings."
    )]
    TooMany {
        /// The number of parts in the annotation.
        count: usize,
    },
}

/// Headgate reads at most this many parts.
pub const MOST_PARTS: usize = limits::PARTS.most;

/// Parses the value of the annotation part by part. Returns at most [`MOST_PARTS`] parts, and one error if the value
/// has more parts.
pub fn parse(value: &str) -> Vec<Result<Part, BadPart>> {
    let mut texts = texts(value);
    let read = |text: &str| {
        let mut port = None;
        parse_part(text, &mut port).map_err(|error| BadPart { text: brief(text).into(), port, error })
    };
    let mut parts: Vec<_> = texts.by_ref().take(MOST_PARTS).map(read).collect();
    if let Some(first) = texts.next() {
        let count = MOST_PARTS + 1 + texts.count();
        let error = PartError::TooMany { count };
        parts.push(Err(BadPart { text: brief(first).into(), port: None, error }));
    }
    parts
}

/// Returns the parts in the order of the text, or one empty part if the text has no parts.
pub fn texts(value: &str) -> impl Iterator<Item = &str> {
    let mut parts = value.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty()).peekable();
    let none = parts.peek().is_none().then_some("");
    none.into_iter().chain(parts)
}

fn parse_part(text: &str, read: &mut Option<PortRef>) -> Result<Part, PartError> {
    if text.is_empty() {
        return Err(PartError::Empty);
    }
    if text.contains(['[', ']', '{', '}', '"', '\'', '`']) {
        return Err(PartError::Quoted);
    }
    // In `tag:key=value` without a port, the "=" belongs to the tag.
    let (port, target) = match text.split_once('=') {
        Some((port, target)) if !port.starts_with("tag:") => (Some(port.trim()), target.trim()),
        _ => (None, text),
    };
    let port = match port {
        None => PortRef::Only,
        Some("") => return Err(PartError::EmptyPort),
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => match port.parse() {
            Ok(number) if number > 0 => PortRef::Number(number),
            _ => return Err(PartError::PortNumber { port: brief(port).into() }),
        },
        Some(port) => PortRef::Name(port.into()),
    };
    *read = Some(port.clone());
    if target.is_empty() {
        return Err(PartError::EmptyTarget);
    }
    Ok(Part { port, group: GroupRef::parse(target)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_service_with_many_ports_only_the_first_are_named() {
        for (count, rest) in [(NAMED, None), (NAMED + 1, Some("and 1 more")), (NAMED + 5, Some("and 5 more"))]
        {
            let mut service = crate::testing::service("web");
            for port in 1..=count {
                service = service.port(&format!("p{port}"), u16::try_from(port).unwrap());
            }
            let ports = service.build().ports;
            let said = list(&ports);
            let last = said.split(", ").last().filter(|last| last.starts_with("and"));
            assert_eq!((said.matches('(').count(), last), (NAMED, rest), "{said}");
        }
    }

    #[test]
    fn a_slip_in_the_name_of_an_annotation_is_answered_with_the_nearest_name() {
        for (slip, expected) in [
            ("headgate.dev/target-group", "Write headgate.dev/target-groups."),
            ("headgate.dev/hodl", "Write headgate.dev/hold."),
            ("headgate.dev/inject", "Set the label of this name on pods or namespaces."),
            ("headgate.dev/something-else", "Remove the annotation"),
        ] {
            let said = unknown(slip);
            assert!(!is_known(slip) && said.contains(slip) && said.contains(expected), "{said}");
        }
        assert!(is_known(TARGET_GROUPS) && is_known(policy::HOLD));
    }
    use crate::model::{Protocol, TargetPort};

    const ARN: &str = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/web/73e2d6bc24d8a067";

    fn error(value: &str) -> String {
        let [Err(bad)] = &parse(value)[..] else { panic!("{value} was read: {:?}", parse(value)) };
        bad.to_string()
    }

    #[test]
    fn a_part_is_a_port_and_a_target_group_by_name_or_arn() {
        let parts: Vec<Part> =
            parse(&format!("web=tg-1, 443={ARN}")).into_iter().map(Result::unwrap).collect();
        assert_eq!(
            parts[0],
            Part { port: PortRef::Name("web".into()), group: GroupRef::Name("tg-1".into()) }
        );
        assert_eq!(parts[1].port, PortRef::Number(443));
        assert_eq!(parts[1].group.to_string(), ARN);
    }

    #[test]
    fn a_target_group_alone_means_the_only_port() {
        for alone in ["tg-1", ARN] {
            assert_eq!(parse(alone)[0].as_ref().unwrap().port, PortRef::Only);
        }
    }

    #[test]
    fn a_port_may_appear_several_times() {
        assert_eq!(parse("web=a,web=b").into_iter().flatten().count(), 2);
    }

    #[test]
    fn parts_stand_between_commas_or_on_lines_of_their_own() {
        for list in [
            "web=a,api=b",
            "web=a, api=b,",
            "web=a,\n  api=b,\n",
            "\nweb = a\napi = b\n",
            ",web=a,,api=b , ,",
        ] {
            let names: Vec<String> =
                parse(list).into_iter().map(|part| part.unwrap().group.to_string()).collect();
            assert_eq!(names, ["a", "b"], "{list:?}");
        }
        for empty in ["", " ", ",", "\n,\n"] {
            assert_eq!(parse(empty).len(), 1);
            assert!(error(empty).contains("is empty"), "{empty:?}");
        }
    }

    #[test]
    fn a_bad_part_leaves_the_others_readable() {
        let parts = parse("web=tg-1,websecure=,metrics=tg-2");
        assert!(parts[0].is_ok() && parts[1].is_err() && parts[2].is_ok());
    }

    #[test]
    fn each_bad_part_says_what_to_write() {
        for (value, said) in [
            ("", "part \"\" is empty. Write <port>=<target group ARN or name>"),
            ("[\"web=tg\"]", "has brackets, braces or quotes. Write <port>="),
            ("'web=tg'", "has brackets, braces or quotes"),
            ("web=my tg", "characters other than letters"),
            ("web port=tg=x", "characters other than letters"),
            ("web=ARN:AWS:x", "it does not begin with \"arn:\""),
            ("=tg", "part \"=tg\" has no port before the \"=\""),
            ("web=", "part \"web=\" has no target group after the \"=\""),
            ("0=tg", "has the port number 0. Write 1 to 65535"),
            ("70000=tg", "has the port number 70000"),
            ("web=tg_1", "characters other than letters"),
            ("web=tag:a=b", "is a tag, which is not supported"),
            ("tag:a=b", "is a tag, which is not supported"),
            ("web=arn:aws:x", "is no target group ARN"),
        ] {
            let text = error(value);
            assert!(text.starts_with("headgate.dev/target-groups: ") && text.contains(said), "{text}");
        }
    }

    #[test]
    fn a_port_is_found_by_name_or_number_and_a_missing_one_is_said_with_the_ports_there_are() {
        let port = |name: &str, port| ServicePort {
            name: name.into(),
            port,
            target_port: TargetPort::Number(port),
            protocol: Protocol::Tcp,
        };
        let ports = [port("web", 80), port("websecure", 443)];
        let found = |port: PortRef, ports| {
            let found = find(&port, ports).unwrap();
            found.into_iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(found(PortRef::Name("web".into()), &ports), ["web"]);
        assert_eq!(found(PortRef::Number(443), &ports), ["websecure"]);
        assert_eq!(found(PortRef::Only, &ports[..1]), ["web"]);
        let odd = [port("8080", 80), port("http", 9090), port("9090", 443)];
        assert_eq!(found(PortRef::Number(8080), &odd), ["8080"], "digits may be a name");
        assert_eq!(found(PortRef::Number(9090), &odd), ["http"], "and are a number before");
        let dns = [port("dns-tcp", 53), ServicePort { protocol: Protocol::Udp, ..port("dns-udp", 53) }];
        assert_eq!(found(PortRef::Number(53), &dns), ["dns-tcp", "dns-udp"]);
        for (reference, said) in [
            (
                PortRef::Name("wbe".into()),
                "names port \"wbe\", which the Service lacks. Name one of: web (80), websecure (443)",
            ),
            (
                PortRef::Number(81),
                "names port \"81\", which the Service lacks. Name one of: web (80), websecure (443)",
            ),
            (PortRef::Only, "names no port, and the Service has 2 ("),
        ] {
            let text = find(&reference, &ports).unwrap_err().to_string();
            assert!(text.contains(said), "{text}");
        }
    }
}
