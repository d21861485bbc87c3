//! What a trace says of inputs and calls.

use headgate_core::{
    engine::Input,
    ledger::{LedgerRequest, PackedLedger, StoredLedger},
    model::{
        BindingFacts, Call, Change, NodeFacts, PodFacts, RequestId, ServiceFacts, gate::GateWrite,
        target_group::list,
    },
    requests::Answer,
};

/// A call, in a line of a trace.
pub fn describe_call(call: &Call) -> String {
    match call {
        Call::Register { group, items } | Call::Deregister { group, items } => {
            let items: Vec<String> = items
                .iter()
                .map(|item| format!("{} (pod {}, {})", item.target, item.uid, item.reason.as_str()))
                .collect();
            format!("{} {} {}", call.action(), group.name(), items.join(" "))
        }
        Call::ReadHealth { group } | Call::ReadAttributes { group } => {
            format!("{} {}", call.action(), group.name())
        }
        Call::FindGroups { references } => format!("{} {}", call.action(), list(references)),
    }
}

/// A request about a ledger, in a line of a trace.
pub fn describe_request(request: &LedgerRequest) -> String {
    match request {
        LedgerRequest::LoadAll => "load the ledgers".to_owned(),
        LedgerRequest::Load(group) => format!("load the ledger of {}", group.name()),
        LedgerRequest::Write(base, ledger) => format!("write over {base:?}: {}", describe_ledger(ledger)),
        LedgerRequest::Delete(group, base) => format!("drop {base:?} of {}", group.name()),
    }
}

/// A write to a gate, in a line of a trace.
pub fn describe_gate(id: RequestId, write: &GateWrite) -> String {
    let condition = &write.condition;
    let sign = if condition.open { '+' } else { '-' };
    format!("gate {} of {} {} {sign} {}", id.0, write.pod.name, write.uid, condition.reason.as_str())
}

/// A stored ledger, in a line of a trace.
pub fn describe_stored(stored: &StoredLedger) -> String {
    let content = stored.content.as_ref().map_or_else(|error| format!("{error:?}"), describe_ledger);
    format!("{:?} {content}", stored.version)
}

fn describe_ledger(packed: &PackedLedger) -> String {
    let claims = crate::store::claims(packed);
    let entries: Vec<String> = claims.keys().map(ToString::to_string).collect();
    format!("{}: {}", packed.group.name(), entries.join(", "))
}

fn describe_node(node: &NodeFacts) -> String {
    let NodeFacts { name, taints, cordoned, shuts_down, not_ready, .. } = node;
    let says = |is: bool, word: &'static str| if is { word } else { "" };
    format!(
        "{name}{}{}{}{}",
        taints.join(" "),
        says(*cordoned, " cordoned"),
        says(*shuts_down, " shuts down"),
        says(*not_ready, " not ready")
    )
}

fn describe_pod(pod: &PodFacts) -> String {
    format!(
        "{} {} {:?} on {} ips {:?} gate {:?}{}{}{}{}",
        pod.key.name,
        pod.uid,
        pod.labels,
        pod.node.as_deref().unwrap_or("none"),
        pod.ips,
        pod.gate.as_deref().map(|gate| gate.shown),
        if pod.readiness.is_ready() { " ready" } else { "" },
        if pod.terminating { " terminating" } else { "" },
        if pod.finished { " finished" } else { "" },
        pod.leaving.as_deref().map(|leaving| format!(" {leaving:?}")).unwrap_or_default()
    )
}

fn describe_binding(binding: &BindingFacts) -> String {
    let BindingFacts { key, group, pods, policy, ending, .. } = binding;
    format!("{} {group} {pods:?} {policy:?}{}", key.name, if *ending { " ending" } else { "" })
}

fn describe_service(service: &ServiceFacts) -> String {
    let ServiceFacts { key, target_groups, ports, selector, policy, .. } = service;
    format!("{} {target_groups:?} {:?} {selector:?} {policy:?}", key.name, ports[0].target_port)
}

fn describe_all<T>(all: &[T], describe: impl Fn(&T) -> String) -> String {
    let all: Vec<String> = all.iter().map(describe).collect();
    all.join("; ")
}

/// An input, in a line of a trace.
pub fn describe(input: &Input) -> String {
    match input {
        Input::Pod { change: Change::Applied(pod), .. } => format!("pod {}", describe_pod(pod)),
        Input::Pod { change: Change::Deleted(pod), .. } => {
            format!("pod {} {} DELETED", pod.key.name, pod.uid)
        }
        Input::Pod { change: Change::Relisted(_, all), .. } => {
            format!("pods relisted: {}", describe_all(all, describe_pod))
        }
        Input::Binding { change: Change::Applied(binding), .. } => {
            format!("binding {}", describe_binding(binding))
        }
        Input::Binding { change: Change::Deleted(binding), .. } => {
            format!("binding {} DELETED", binding.key.name)
        }
        Input::Binding { change: Change::Relisted(_, all), .. } => {
            format!("bindings relisted: {}", describe_all(all, describe_binding))
        }
        Input::Service { change: Change::Applied(service), .. } => {
            format!("service {}", describe_service(service))
        }
        Input::Service { change: Change::Deleted(service), .. } => {
            format!("service {} DELETED", service.key.name)
        }
        Input::Service { change: Change::Relisted(_, all), .. } => {
            format!("services relisted: {}", describe_all(all, describe_service))
        }
        Input::Namespace { .. } => "namespace".to_owned(),
        Input::Grants { all, .. } => format!("grants: {}", all.len()),
        Input::Answered { id, result } => {
            let how = match result {
                Ok(Answer::Ledgers(ledgers)) => {
                    let ledgers: Vec<String> = ledgers.iter().map(describe_stored).collect();
                    format!("ledgers {}", ledgers.join("; "))
                }
                Ok(Answer::Ledger(stored)) => {
                    let stored = stored.as_ref().map_or_else(|| "none".to_owned(), describe_stored);
                    format!("ledger {stored}")
                }
                Ok(Answer::Written(version)) => format!("written {version:?}"),
                Ok(Answer::Checked(checked)) => format!("{checked:?}"),
                Ok(Answer::Done | Answer::Health(_) | Answer::Groups(_) | Answer::Attributes(_)) => {
                    "ok".to_owned()
                }
                Err(failure) => format!("{:?}", failure.class),
            };
            format!("request {} ended: {how}", id.0)
        }
        Input::Leadership(leadership) => format!("{leadership:?}"),
        Input::Node { change: Change::Applied(node), .. } => format!("node {}", describe_node(node)),
        Input::Node { change: Change::Deleted(node), .. } => format!("node {} DELETED", node.name),
        Input::Node { change: Change::Relisted(_, all), .. } => {
            format!("nodes relisted: {}", describe_all(all, describe_node))
        }
        Input::Clock(wall) => format!("the clock shows {wall:?}"),
        Input::Tick => "tick".to_owned(),
    }
}
