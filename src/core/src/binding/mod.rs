//! The rules that bind the ports of a Service to target groups, and that keep bindings active if the text is invalid.
//!
//! * **Owns** no state. The rules read an annotation or a user's TargetBinding, and decide which bindings are active.
//! * **Guarantees.** An invalid part does not affect the other parts. The previous valid binding of the part's port
//!   remains active.
//! * **Assumes** that the caller passes the active bindings, and the target group that each name refers to.

pub mod annotation;
pub mod grants;

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    binding::annotation::{BadPart, Part, PartError, TARGET_GROUPS, parse},
    model::{
        Binding, BindingFacts, BindingKey, Cause, GroupRef, Labels, LoadBalancerType, Origin, Policy,
        Problem, Reason, Resolution, ServiceFacts, ServicePort, Settled, TargetPort, Unknown,
        excerpt::brief,
        limits::{self, Limit},
        service::PortRef,
        target_binding::Pods,
    },
};

/// Decides which bindings of `origin`, in the form of `service`, are active. `before` is the previous result.
///
/// A part may be invalid, or name an unknown port or a target group that cannot be found or used. An unusable part does
/// not affect the other parts, and the previous binding for its port or target group remains active. A typing error
/// therefore deregisters no pod. If the text no longer contains a binding, Headgate removes the binding, even if
/// another part is invalid. If every part is invalid, no binding changes. Without the annotation, Headgate removes all
/// bindings.
pub fn settle(
    origin: &Origin,
    service: &ServiceFacts,
    before: &Settled,
    resolve: impl Fn(&GroupRef) -> Resolution,
) -> Settled {
    let mut settled = Settled::default();
    let Some(value) = &service.target_groups else { return settled };
    let (policy, bad) = Policy::read(&service.policy, before.policy);
    settled.policy = policy;
    settled
        .problems
        .extend(bad.into_iter().map(|bad| Problem::of_all(Reason::InvalidBinding, bad.to_string())));

    let exceeds = |limit: &Limit| service.beyond.iter().any(|excess| excess.limit == limit);
    let beyond = service.beyond.iter();
    settled.problems.extend(beyond.map(|excess| Problem::of_all(Reason::LimitExceeded, excess.to_string())));

    let mut selector = Arc::new(service.selector.clone());
    // When a user removes the selector of a Service, Kubernetes also leaves the endpoints unchanged.
    let admits = !service.is_external && (!selector.is_empty() || exceeds(&limits::SELECTOR));
    if service.is_external || selector.is_empty() {
        let last = before.bindings.values().next().map(|binding| binding.selector.clone());
        let missing =
            (!exceeds(&limits::SELECTOR)).then(|| no_selector(origin, service.is_external, last.is_some()));
        settled.problems.extend(missing);
        selector = last.unwrap_or_default();
    }

    let mut doubtful: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut anything_doubtful = exceeds(&limits::TARGET_GROUPS);
    let (mut any_read, mut unread) = (false, Vec::new());
    let parts = if anything_doubtful { Vec::new() } else { read(value, &service.ports) };
    for (text, read) in parts {
        let (part, found) = match read {
            Ok(found) => found,
            Err(bad) => {
                let labels = bad.port.as_ref().map(|port| labels(port, &service.ports)).unwrap_or_default();
                let (reason, said) = unreadable(origin, &bad);
                settled.problems.push(Problem::of_ports(labels.clone(), reason, said));
                anything_doubtful |= matches!(bad.error, PartError::TooMany { .. });
                any_read |=
                    bad.port.as_ref().is_some_and(|port| annotation::find(port, &service.ports).is_ok());
                doubtful.extend(labels);
                unread.push(text);
                continue;
            }
        };
        any_read = true;
        settled.references.insert(part.group.clone());
        let (cause, said) = match resolve(&part.group) {
            Resolution::Pending => {
                settled.unknown = Some(Unknown::Pending);
                doubtful.extend(found.iter().map(|port| port.to_string().into()));
                continue;
            }
            Resolution::Failed(cause, said) => {
                if matches!(cause, Cause::TargetGroupNotFound | Cause::AccessDenied) {
                    settled.unknown = settled.unknown.max(Some(Unknown::NotFound));
                }
                (cause, said.into_string())
            }
            Resolution::Found(group) => {
                // If several ports have the same number, use the ports with a protocol that the target group supports.
                let (served, not): (Vec<&ServicePort>, Vec<_>) =
                    found.iter().partition(|port| group.serves(port.protocol).is_ok());
                if let Some(unsupported) = not.first().and_then(|port| group.serves(port.protocol).err())
                    && served.is_empty()
                {
                    (Cause::TargetGroupUnsupported, unsupported.to_string())
                } else {
                    for port in served.into_iter().filter(|_| !selector.is_empty()) {
                        let port_name = port.to_string().into();
                        let key =
                            BindingKey { origin: origin.clone(), port: port_name, group: group.arn.clone() };
                        // If the Service selects no pods, a changed Service port does not change the existing targets.
                        let stays = before.bindings.get(&key).filter(|_| !admits);
                        let binding = Binding {
                            key: key.clone(),
                            reference: part.group.clone(),
                            port: stays.map_or(port, |binding| &binding.port).clone(),
                            selector: selector.clone(),
                            family: group.ip_family,
                            balancer: LoadBalancerType::of(&group.protocol),
                            least_healthy: group.least_healthy,
                            policy,
                            admits,
                            withheld: None,
                        };
                        settled.bindings.insert(key, binding);
                    }
                    continue;
                }
            }
        };
        let labels: Vec<Arc<str>> = found.iter().map(|port| port.to_string().into()).collect();
        // The text is identical before and after the look-up of the target group, so that users get only one Event.
        let of_port = cause != Cause::NotGranted;
        let said = if of_port { format!("Port {}: {said}", labels.join(", ")) } else { said };
        settled.problems.push(Problem::of_ports(labels.clone(), cause.reason(), said));
        doubtful.extend(labels);
    }
    anything_doubtful |= !any_read;

    let is_doubtful = anything_doubtful || !doubtful.is_empty() || !unread.is_empty();
    settled.doubtful = is_doubtful || service.selector.is_empty() || service.is_external;
    let settled_ports: BTreeSet<Arc<str>> = settled.bindings.keys().map(|key| key.port.clone()).collect();
    for (key, binding) in &before.bindings {
        let is_named = unread.iter().any(|text| may_mean(text, binding));
        let is_open = (anything_doubtful || is_named) && !settled_ports.contains(&key.port);
        let stays = doubtful.contains(&key.port) || is_open;
        if stays && !settled.bindings.contains_key(key) {
            settled.references.insert(binding.reference.clone());
            let mut binding = Binding { selector: selector.clone(), policy, admits, ..binding.clone() };
            // A target group that was deleted and created again has a new ARN.
            if let Resolution::Found(group) = resolve(&binding.reference) {
                (binding.key.group, binding.least_healthy) = (group.arn.clone(), group.least_healthy);
            }
            settled.bindings.entry(binding.key.clone()).or_insert(binding);
        }
    }
    settled
}

/// Whether an invalid part may refer to this binding, because the part resembles the binding's port or target group.
fn may_mean(text: &str, binding: &Binding) -> bool {
    let (reference, port) = (binding.reference.to_string(), binding.port.port.to_string());
    let is_near = |text: &str, name: &str| {
        let most = (name.chars().count() / 3).max(1);
        text.len() <= 2 * name.len() && strsim::osa_distance(text, name) <= most
    };
    let (left, right) = text.split_once('=').unwrap_or((text, text));
    let is_port = |left: &str| [&*binding.key.port, &*port].iter().any(|name| is_near(left, name));
    is_port(left.trim()) || text.contains(&*reference) || is_near(right.trim(), &reference)
}

/// The report about a Service that selects no pods. `had` is true if the Service selected pods before.
fn no_selector(origin: &Origin, is_external: bool, had: bool) -> Problem {
    let what = match origin {
        Origin::Service(_) => TARGET_GROUPS,
        Origin::TargetBinding(_) => "serviceRef",
    };
    let why = if is_external {
        "the Service has type ExternalName and selects no pods. Change its type"
    } else {
        "the Service has no selector. Add spec.selector"
    };
    let then = if had { ". Existing targets remain until their pods end; no pod is added" } else { "" };
    Problem::of_all(Reason::InvalidBinding, format!("{what}: {why}{then}."))
}

/// The report about an invalid part, in the terms of the object that contains the part.
fn unreadable(origin: &Origin, bad: &BadPart) -> (Reason, String) {
    match (origin, &bad.error) {
        (Origin::Service(_), _) => (Reason::InvalidBinding, bad.to_string()),
        (Origin::TargetBinding(_), PartError::NoPort { count, ports }) => (
            Reason::InvalidBinding,
            format!("serviceRef names no port, and the Service has {count} ({ports}). Set serviceRef.port."),
        ),
        (Origin::TargetBinding(_), PartError::Target(error)) => {
            (Reason::InvalidBinding, format!("targetGroup: {error}"))
        }
        (Origin::TargetBinding(_), error) => (Reason::InvalidBinding, format!("serviceRef {error}")),
    }
}

/// A part with the Service ports that the part may refer to.
type Found<'a> = Result<(Part, Vec<&'a ServicePort>), BadPart>;

/// The parts of the annotation in the order of the text, each with the Service ports that the part may refer to.
fn read<'a, 'b>(value: &'b str, ports: &'a [ServicePort]) -> Vec<(&'b str, Found<'a>)> {
    let find = |(part, text): (Part, &str)| match annotation::find(&part.port, ports) {
        Ok(ports) => Ok((part, ports)),
        Err(error) => Err(BadPart { text: brief(text).into(), port: Some(part.port), error }),
    };
    let all = annotation::texts(value).zip(parse(value));
    all.map(|(text, part)| (text, part.and_then(|part| find((part, text))))).collect()
}

/// The port labels that bindings for this reference may have. The list is empty if the reference fits any port.
fn labels(port: &PortRef, ports: &[ServicePort]) -> Vec<Arc<str>> {
    match port {
        PortRef::Only => Vec::new(),
        PortRef::Name(name) => vec![Arc::from(&**name)],
        PortRef::Number(number) => {
            let named = ports.iter().filter(|port| port.port == *number).map(|port| port.to_string().into());
            named.chain([number.to_string().into()]).collect()
        }
    }
}

/// Converts a TargetBinding that a user wrote to a Service whose annotation binds one port.
///
/// TargetBindings therefore follow the rules of Services for invalid content, target group look-ups and deregistration.
/// `named` is the Service that the TargetBinding names, if Headgate knows the Service. The function also returns a
/// report about any other error.
pub fn read_written(
    binding: &BindingFacts,
    named: Option<&ServiceFacts>,
) -> (ServiceFacts, Option<(Reason, String)>) {
    let (key, uid) = (binding.key.clone(), binding.uid.clone());
    let policy = binding.policy.clone();
    // The TargetBinding does not use the Service's annotation, so the length of the annotation does not matter.
    let beyond = named.map_or(&[][..], |service| &service.beyond).iter();
    let beyond = beyond.copied().filter(|excess| *excess.limit != limits::TARGET_GROUPS).collect();
    let is_external = named.is_some_and(|service| service.is_external);
    let read = |target_groups, selector, ports| ServiceFacts {
        key,
        uid,
        target_groups,
        policy,
        selector,
        is_external,
        ports,
        beyond,
    };
    match (&binding.pods, named) {
        (Pods::Selected(selector, port, protocol), _) => {
            let (name, number) = match port {
                TargetPort::Number(number) => (Box::default(), *number),
                TargetPort::Name(name) => (name.clone(), 0),
            };
            let port = ServicePort { name, port: number, target_port: port.clone(), protocol: *protocol };
            (read(Some(binding.group.clone()), selector.clone(), vec![port]), None)
        }
        (Pods::OfService(_, port), Some(service)) => {
            let value = match port {
                PortRef::Only => binding.group.clone(),
                PortRef::Number(number) => format!("{number}={}", binding.group).into(),
                PortRef::Name(name) => format!("{name}={}", binding.group).into(),
            };
            (read(Some(value), service.selector.clone(), service.ports.clone()), None)
        }
        (Pods::Unreadable(why), _) => {
            (read(None, Labels::default(), Vec::new()), Some((Reason::InvalidBinding, why.to_string())))
        }
        (Pods::OfService(name, _), None) => {
            let said = format!(
                "There is no Service {} in namespace {}. Correct serviceRef.name, or create the Service.",
                brief(name),
                brief(&binding.key.namespace)
            );
            (read(None, Labels::default(), Vec::new()), Some((Reason::InvalidBinding, said)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{TargetGroupArn, TargetGroupFacts},
        testing::{ServiceBuilder, group, service},
    };

    const KNOWN: [&str; 3] = ["blue", "green", "red"];

    fn resolve(reference: &GroupRef) -> Resolution {
        match reference {
            GroupRef::Name(name) if KNOWN.contains(&&**name) => Resolution::Found(Arc::new(group(name))),
            GroupRef::Name(name) if name.starts_with("later") => Resolution::Pending,
            other => {
                Resolution::Failed(Cause::TargetGroupNotFound, format!("no target group {other}").into())
            }
        }
    }

    fn web() -> Origin {
        Origin::Service(service("web").build().key)
    }

    fn settle_after(before: &ServiceBuilder, now: &ServiceBuilder) -> Settled {
        let first = settle(&web(), &before.clone().build(), &Settled::default(), resolve);
        assert_eq!(first.problems, []);
        settle(&web(), &now.clone().build(), &first, resolve)
    }

    fn in_force(settled: &Settled) -> Vec<String> {
        settled.bindings.keys().map(|key| format!("{}={}", key.port, key.group.name())).collect()
    }

    fn two_ports(annotation: &str) -> ServiceBuilder {
        service("web").port("web", 80).port("websecure", 443).annotated(annotation)
    }

    #[test]
    fn each_part_becomes_a_binding_and_a_port_may_have_several() {
        let settled =
            settle(&web(), &two_ports("web=blue,443=green,web=red").build(), &Settled::default(), resolve);
        assert_eq!(in_force(&settled), ["web=blue", "web=red", "websecure=green"]);
        assert_eq!(settled.references.len(), 3);
    }

    #[test]
    fn a_readable_annotation_replaces_what_was_in_force() {
        let settled = settle_after(&two_ports("web=blue,websecure=green"), &two_ports("web=red"));
        assert_eq!(in_force(&settled), ["web=red"]);
    }

    #[test]
    fn an_annotation_taken_away_ends_its_bindings() {
        let bare = service("web").port("web", 80);
        assert_eq!(in_force(&settle_after(&two_ports("web=blue"), &bare)), [""; 0]);
    }

    #[test]
    fn what_was_valid_before_stays_in_force_for_the_port_and_the_target_group_of_a_bad_part() {
        for bad in [
            "websecure=",        // the target group is missing
            "websecure=no_name", // the name is invalid
            "websecure=unknown", // AWS does not find the target group
            "websecure=later",   // AWS has not answered the look-up yet
            "443=",              // the part has a port number but no target group
            "wbsecure=green",    // the Service does not have the port
            "'websecure=green'", // the part has quotes
            "green",             // the part has no port
        ] {
            let settled =
                settle_after(&two_ports("web=blue,websecure=green"), &two_ports(&format!("web=red,{bad}")));
            assert_eq!(in_force(&settled), ["web=red", "websecure=green"], "{bad}");
            assert_eq!(settled.problems.len(), usize::from(bad != "websecure=later"), "{bad}: {settled:?}");
        }
    }

    #[test]
    fn what_the_text_names_no_more_ends_also_if_another_part_is_bad() {
        for (annotation, stays) in [
            ("web=red,", &["web=red"][..]),
            ("web=red,,", &["web=red"]),
            ("web=red,oops", &["web=red"]),
            ("web=red,other=", &["web=red"]),
            ("web=,", &["web=blue"]),
            // All parts are invalid, so each part may refer to any port.
            ("oops", &["web=blue", "websecure=green"]),
            (",", &["web=blue", "websecure=green"]),
            ("[\"web=red\", \"api=x\"]", &["web=blue", "websecure=green"]),
        ] {
            let settled = settle_after(&two_ports("web=blue,websecure=green"), &two_ports(annotation));
            assert_eq!(in_force(&settled), stays, "{annotation}");
        }
    }

    #[test]
    fn of_two_ports_with_one_number_the_target_group_takes_those_of_its_protocol() {
        let of_protocol = |protocol: &'static str| {
            move |reference: &GroupRef| match resolve(reference) {
                Resolution::Found(facts) => {
                    let protocol = protocol.into();
                    Resolution::Found(Arc::new(TargetGroupFacts {
                        protocol,
                        ..TargetGroupFacts::clone(&facts)
                    }))
                }
                other => other,
            }
        };
        let dns = service("web").port("dns-tcp", 53).udp_port("dns-udp", 53).annotated("53=blue").build();
        for (protocol, bound) in [
            ("UDP", &["dns-udp=blue"][..]),
            ("TCP", &["dns-tcp=blue"]),
            ("TCP_UDP", &["dns-tcp=blue", "dns-udp=blue"]),
        ] {
            let settled = settle(&web(), &dns, &Settled::default(), of_protocol(protocol));
            assert_eq!(
                (in_force(&settled), &settled.problems[..]),
                (bound.iter().map(|it| (*it).to_owned()).collect(), &[][..])
            );
        }
        let settled = settle(&web(), &dns, &Settled::default(), of_protocol("QUIC"));
        assert!(settled.problems[0].said.starts_with("Port dns-tcp, dns-udp: "), "{settled:?}");
    }

    #[test]
    fn a_service_that_becomes_the_name_of_something_else_keeps_its_targets_and_takes_no_pod() {
        let external = two_ports("web=blue").external();
        let fresh = settle(&web(), &external.clone().build(), &Settled::default(), resolve);
        assert_eq!(
            (fresh.bindings.len(), fresh.problems[0].reason, fresh.doubtful),
            (0, Reason::InvalidBinding, true)
        );
        let settled = settle_after(&two_ports("web=blue"), &external);
        assert!(settled.bindings.values().all(|binding| !binding.admits && !binding.selector.is_empty()));
        let said = &settled.problems[0].said;
        assert!(
            said.contains("ExternalName and selects no pods") && said.contains("remain until their pods end"),
            "{said}"
        );
        let again = settle(&web(), &two_ports("web=blue").build(), &settled, resolve);
        assert!(again.bindings.values().all(|binding| binding.admits) && again.problems.is_empty());
    }

    #[test]
    fn a_bad_part_for_a_port_by_its_number_keeps_the_bindings_of_that_port_only() {
        let settled = settle_after(&two_ports("web=blue,websecure=green"), &two_ports("443="));
        assert_eq!(in_force(&settled), ["websecure=green"]);
    }

    #[test]
    fn what_stays_in_force_follows_the_policy_of_now() {
        let ready = two_ports("web=").with(crate::model::policy::REGISTER_WHEN, "ready");
        let settled = settle_after(&two_ports("web=blue"), &ready);
        assert_ne!(settled.policy, Policy::default());
        let policies: Vec<Policy> = settled.bindings.values().map(|binding| binding.policy).collect();
        assert_eq!(policies, [settled.policy]);
    }

    #[test]
    fn a_binding_is_called_by_its_port_and_its_group() {
        let settled = settle_after(&two_ports("web=blue"), &two_ports("web=blue"));
        let names: Vec<String> = settled.bindings.keys().map(ToString::to_string).collect();
        assert_eq!(names, ["shop/web:web → blue"]);
    }

    #[test]
    fn a_group_that_was_made_again_is_bound_as_the_service_is_now_while_another_cannot_be_found() {
        let made_again = |reference: &GroupRef| match resolve(reference) {
            Resolution::Found(facts) => {
                let arn = facts.arn.as_str().replace("0123456789abcdef", "fedcba9876543210");
                let arn = TargetGroupArn::parse(&arn).unwrap();
                Resolution::Found(Arc::new(TargetGroupFacts { arn, ..TargetGroupFacts::clone(&facts) }))
            }
            other => other,
        };
        let at = |port| service("web").port_to("web", 80, port);
        let blue = at(8080).annotated("web=blue").build();
        let first = settle(&web(), &blue, &Settled::default(), resolve);
        let both = at(8081).annotated("web=blue,web=later").build();
        let settled = settle(&web(), &both, &first, made_again);
        let ports: Vec<_> = settled.bindings.values().map(|binding| &binding.port.target_port).collect();
        assert_eq!(ports, [&crate::model::service::TargetPort::Number(8081)]);
    }

    #[test]
    fn an_empty_annotation_changes_nothing_and_is_said() {
        let settled = settle_after(&two_ports("web=blue"), &two_ports(""));
        assert_eq!(in_force(&settled), ["web=blue"]);
        assert_eq!(settled.problems[0].reason, Reason::InvalidBinding);
        assert!(settled.problems[0].said.contains("is empty. Write <port>="), "{settled:?}");
    }

    #[test]
    fn a_port_that_left_the_service_keeps_its_binding_while_the_annotation_names_it() {
        let one_port = service("web").port("web", 80).annotated("web=blue,websecure=green");
        let settled = settle_after(&two_ports("web=blue,websecure=green"), &one_port);
        assert_eq!(in_force(&settled), ["web=blue", "websecure=green"]);
        assert!(
            settled.problems[0].said.contains("part \"websecure=green\" names port \"websecure\""),
            "{settled:?}"
        );
    }

    #[test]
    fn a_service_without_selector_is_said_and_keeps_the_selector_it_had() {
        let without = two_ports("web=blue").selector(&[]);
        let fresh = settle(&web(), &without.clone().build(), &Settled::default(), resolve);
        assert_eq!((fresh.bindings.len(), fresh.problems[0].reason), (0, Reason::InvalidBinding));
        let settled = settle_after(&two_ports("web=blue"), &without);
        assert_eq!(in_force(&settled), ["web=blue"]);
        assert!(settled.problems[0].said.contains("no pod is added"), "{settled:?}");
        let binding = settled.bindings.values().next().unwrap();
        assert!(!binding.selector.is_empty() && !binding.admits);
    }

    #[test]
    fn what_exceeds_a_bound_is_said_with_one_word_and_what_it_said_before_stays_in_force() {
        for limit in [&limits::SELECTOR, &limits::TARGET_GROUPS] {
            let text = if *limit == limits::SELECTOR { "web=blue" } else { "" };
            let beyond = two_ports(text).beyond(limit);
            let beyond = if *limit == limits::SELECTOR {
                beyond.selector(&[])
            } else {
                beyond.selector(&[("app", "web")])
            };
            let settled = settle_after(&two_ports("web=blue"), &beyond);
            assert_eq!(in_force(&settled), ["web=blue"], "{limit:?}");
            assert!(!settled.bindings.values().next().unwrap().selector.is_empty());
            let said: Vec<(Reason, &str)> =
                settled.problems.iter().map(|problem| (problem.reason, &*problem.said)).collect();
            let excess = limit.excess(limit.most + 1).unwrap().to_string();
            assert_eq!(said, [(Reason::LimitExceeded, &*excess)]);
        }
        let ports = two_ports("web=red,websecure=blue").beyond(&limits::SERVICE_PORTS);
        let settled = settle_after(&two_ports("web=blue"), &ports);
        assert_eq!(in_force(&settled), ["web=red", "websecure=blue"], "the ports that were read count");
    }

    #[test]
    fn a_changed_selector_reaches_bindings_that_stay_only_because_of_a_bad_part() {
        let settled = settle_after(&two_ports("web=blue"), &two_ports("web=").selector(&[("app", "new")]));
        assert_eq!(settled.bindings.values().next().unwrap().selector.get("app"), Some("new"));
    }

    #[test]
    fn a_group_that_cannot_serve_the_port_is_refused_with_what_was_expected() {
        let settled = settle(
            &web(),
            &service("dns").udp_port("dns", 53).annotated("blue").build(),
            &Settled::default(),
            resolve,
        );
        assert_eq!(settled.problems[0].reason, Reason::TargetGroupUnsupported);
        assert!(settled.problems[0].said.contains("Use a TCP port"), "{settled:?}");
    }
}
