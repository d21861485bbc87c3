//! Which target groups the ports of a Service are bound to, and what stays in force when what is written is wrong.
//!
//! * **Owns** no state: the rules that read an annotation or a written TargetBinding, and that settle what is in force.
//! * **Guarantees.** A part that cannot be used stops no other; what was valid before stays in force for its port.
//! * **Assumes** that it is told what is in force, and what each name of a target group means.

pub mod annotation;
pub mod grants;

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    binding::annotation::{BadPart, Part, PartError, TARGET_GROUPS, parse},
    model::{
        Binding, BindingFacts, BindingKey, GroupRef, Labels, LoadBalancerType, Origin, Policy, Problem,
        Reason, Resolution, ServiceFacts, ServicePort, Settled, TargetPort,
        excerpt::excerpt,
        limits::{self, Limit},
        service::PortRef,
        target_binding::Pods,
    },
};

/// Decides which bindings of `origin`, read as `service`, are in force, given those that were `before`.
///
/// A part that cannot be read, names an unknown port or a target group that cannot be found or served, never
/// stops another part; and what was in force before for that port stays, so that a slip of the keyboard takes no
/// pod out of service. A readable annotation replaces everything; an annotation that was taken away ends
/// everything.
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
        .extend(bad.into_iter().map(|bad| Problem::of_all(Reason::InvalidAnnotation, bad.to_string())));

    let exceeds = |limit: &Limit| service.beyond.iter().any(|excess| excess.limit == limit);
    let beyond = service.beyond.iter();
    settled.problems.extend(beyond.map(|excess| Problem::of_all(Reason::LimitExceeded, excess.to_string())));

    let mut selector = Arc::new(service.selector.clone());
    if selector.is_empty() {
        let last = before.bindings.values().next().map(|binding| binding.selector.clone());
        let then = if last.is_some() { "; the selector it had stays in force" } else { "" };
        let missing = (!exceeds(&limits::SELECTOR)).then(|| {
            Problem::of_all(
                Reason::NoSelector,
                format!(
                    "{} needs a Service with a selector, which says which pods become targets; \
                 expected spec.selector to have at least one label{then}",
                    match origin {
                        Origin::Service(_) => TARGET_GROUPS,
                        Origin::TargetBinding(_) => "serviceRef",
                    }
                ),
            )
        });
        settled.problems.extend(missing);
        selector = last.unwrap_or_default();
    }

    let mut doubtful: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut anything_doubtful = exceeds(&limits::TARGET_GROUPS);
    let parts = if anything_doubtful { Vec::new() } else { read(value, &service.ports) };
    for read in parts {
        let (bound, port) = match read {
            Ok(found) => found,
            Err(bad) => {
                let labels = bad.port.as_ref().map(|port| labels(port, &service.ports)).unwrap_or_default();
                let (reason, said) = unreadable(origin, &bad);
                settled.problems.push(Problem::of_ports(labels.clone(), reason, said));
                // A port that the Service does not have may be any of its ports, spelt wrong.
                let known =
                    bad.port.as_ref().is_some_and(|port| annotation::find(port, &service.ports).is_ok());
                anything_doubtful |= !known || labels.is_empty();
                doubtful.extend(labels);
                continue;
            }
        };
        let label: Arc<str> = port.to_string().into();
        settled.references.insert(bound.group.clone());
        let problem = match resolve(&bound.group) {
            Resolution::Pending => {
                settled.pending = true;
                None
            }
            Resolution::Failed(reason, said) => Some((reason, said.into_string())),
            Resolution::Found(group) => match group.serves(port.protocol) {
                Err(unsupported) => Some((Reason::TargetGroupUnsupported, unsupported.to_string())),
                Ok(()) if selector.is_empty() => continue,
                Ok(()) => {
                    let key = BindingKey { origin: origin.clone(), port: label, group: group.arn.clone() };
                    let binding = Binding {
                        key: key.clone(),
                        reference: bound.group.clone(),
                        port: port.clone(),
                        selector: selector.clone(),
                        family: group.ip_family,
                        balancer: LoadBalancerType::of(&group.protocol),
                        policy,
                        withheld: None,
                    };
                    settled.bindings.insert(key, binding);
                    continue;
                }
            },
        };
        doubtful.insert(label.clone());
        let problem = problem.map(|(reason, said)| {
            // The same text as when the target group is known, so that there is one Event and not two.
            let of_port = reason != Reason::NotGranted;
            let said = if of_port { format!("port {label}: {said}") } else { said };
            Problem::of_ports([label.clone()], reason, said)
        });
        settled.problems.extend(problem);
    }

    settled.doubtful = anything_doubtful || !doubtful.is_empty() || service.selector.is_empty();
    let settled_ports: BTreeSet<Arc<str>> = settled.bindings.keys().map(|key| key.port.clone()).collect();
    for (key, binding) in &before.bindings {
        let stays = doubtful.contains(&key.port) || (anything_doubtful && !settled_ports.contains(&key.port));
        if stays && !settled.bindings.contains_key(key) {
            settled.references.insert(binding.reference.clone());
            let mut binding = Binding { selector: selector.clone(), policy, ..binding.clone() };
            // A target group that was removed and made again has another ARN.
            if let Resolution::Found(group) = resolve(&binding.reference) {
                binding.key.group = group.arn.clone();
            }
            settled.bindings.entry(binding.key.clone()).or_insert(binding);
        }
    }
    settled
}

/// What is said of a part that cannot be followed, in the words of where it is written.
fn unreadable(origin: &Origin, bad: &BadPart) -> (Reason, String) {
    match (origin, &bad.error) {
        (Origin::Service(_), _) => (Reason::InvalidAnnotation, bad.to_string()),
        (Origin::TargetBinding(_), PartError::NoPort { count, ports }) => (
            Reason::InvalidBinding,
            format!(
                "serviceRef names no port, and the Service has {count} ports ({ports}); expected serviceRef.port"
            ),
        ),
        (Origin::TargetBinding(_), error) => (Reason::InvalidBinding, error.to_string()),
    }
}

/// The parts of the annotation, each with its port of the Service.
fn read<'a>(value: &str, ports: &'a [ServicePort]) -> Vec<Result<(Part, &'a ServicePort), BadPart>> {
    let find = |(part, text): (Part, &str)| match annotation::find(&part.port, ports) {
        Ok(port) => Ok((part, port)),
        Err(error) => Err(BadPart { text: excerpt(text), port: Some(part.port), error }),
    };
    parse(value)
        .into_iter()
        .zip(value.split(',').map(str::trim))
        .map(|(part, text)| find((part?, text)))
        .collect()
}

/// The labels that bindings of this port may have; none if it could be any.
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

/// A TargetBinding that somebody has written is read as a Service whose annotation binds one port. So everything that
/// holds for the annotation holds for it: what is in force when it cannot be followed, how the target group is looked up,
/// when its targets go. `named` is the Service that it names, if that is known; what is wrong with it besides is said.
pub fn read_written(
    binding: &BindingFacts,
    named: Option<&ServiceFacts>,
) -> (ServiceFacts, Option<(Reason, String)>) {
    let (key, uid) = (binding.key.clone(), binding.uid.clone());
    let policy = binding.policy.clone();
    // The TargetBinding does not use the Service's annotation, so an annotation that is too long does not matter.
    let beyond = named.map_or(&[][..], |service| &service.beyond).iter();
    let beyond = beyond.copied().filter(|excess| *excess.limit != limits::TARGET_GROUPS).collect();
    let read = |target_groups, selector, ports| ServiceFacts {
        key,
        uid,
        target_groups,
        policy,
        selector,
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
                "there is no Service {name} in namespace {}; expected serviceRef.name to be the name of one",
                binding.key.namespace
            );
            (read(None, Labels::default(), Vec::new()), Some((Reason::ServiceNotFound, said)))
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
                Resolution::Failed(Reason::TargetGroupNotFound, format!("no target group {other}").into())
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
    fn what_was_valid_before_stays_in_force_for_the_port_of_a_bad_part() {
        for bad in [
            "websecure=",        // cannot be read
            "websecure=no_name", // cannot be a name
            "websecure=unknown", // AWS does not know it
            "websecure=later",   // AWS has not answered yet
            "443=",              // the port by its number
            "",                  // no port can be read at all
            "oops",              // a target group without a port
            "wbsecure=red",      // a port that the Service does not have
        ] {
            let settled =
                settle_after(&two_ports("web=blue,websecure=green"), &two_ports(&format!("web=red,{bad}")));
            assert_eq!(in_force(&settled), ["web=red", "websecure=green"], "{bad}");
            assert_eq!(settled.problems.len(), usize::from(bad != "websecure=later"), "{bad}: {settled:?}");
        }
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
        assert_eq!(settled.problems[0].reason, Reason::InvalidAnnotation);
        assert!(settled.problems[0].said.contains("it is empty; expected <port>="), "{settled:?}");
    }

    #[test]
    fn a_port_that_left_the_service_keeps_its_binding_while_the_annotation_names_it() {
        let one_port = service("web").port("web", 80).annotated("web=blue,websecure=green");
        let settled = settle_after(&two_ports("web=blue,websecure=green"), &one_port);
        assert_eq!(in_force(&settled), ["web=blue", "websecure=green"]);
        assert!(
            settled.problems[0].said.contains("part \"websecure=green\": the Service has no port"),
            "{settled:?}"
        );
    }

    #[test]
    fn a_service_without_selector_is_said_and_keeps_the_selector_it_had() {
        let without = two_ports("web=blue").selector(&[]);
        let fresh = settle(&web(), &without.clone().build(), &Settled::default(), resolve);
        assert_eq!((fresh.bindings.len(), fresh.problems[0].reason), (0, Reason::NoSelector));
        let settled = settle_after(&two_ports("web=blue"), &without);
        assert_eq!(in_force(&settled), ["web=blue"]);
        assert!(settled.problems[0].said.contains("the selector it had stays in force"), "{settled:?}");
        assert!(!settled.bindings.values().next().unwrap().selector.is_empty());
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
        assert!(settled.problems[0].said.contains("expected a Service port of protocol TCP"), "{settled:?}");
    }
}
