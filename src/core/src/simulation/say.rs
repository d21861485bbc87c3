//! What a trace says of inputs and calls.

use crate::input::{Call, Change, Input};

/// A call, in a line of a trace.
pub fn describe_call(call: &Call) -> String {
    match call {
        Call::Register { group, items } | Call::Deregister { group, items } => {
            let items: Vec<String> = items
                .iter()
                .map(|item| format!("{} (pod {}, {})", item.target, item.uid, item.reason))
                .collect();
            format!("{} {} {}", call.action(), group.name(), items.join(" "))
        }
        Call::ReadHealth { group } => format!("{} {}", call.action(), group.name()),
        Call::FindGroup { reference } => format!("{} {reference}", call.action()),
    }
}

/// An input, in a line of a trace.
pub fn describe(input: &Input) -> String {
    match input {
        Input::Pod { change: Change::Applied(pod), .. } => format!(
            "pod {} {} ips {:?}{}{}",
            pod.key.name,
            pod.uid,
            pod.ips,
            if pod.terminating { " terminating" } else { "" },
            if pod.finished { " finished" } else { "" }
        ),
        Input::Pod { change: Change::Deleted(pod), .. } => {
            format!("pod {} {} DELETED", pod.key.name, pod.uid)
        }
        Input::Pod { change: Change::Relisted(_, all), .. } => format!("pods relisted: {}", all.len()),
        Input::Binding { .. } => "bindings relisted: 0".to_owned(),
        Input::Service { change: Change::Applied(service), .. } => {
            format!(
                "service {} {:?} {:?}",
                service.key.name, service.target_groups, service.ports[0].target_port
            )
        }
        Input::Service { change: Change::Deleted(service), .. } => {
            format!("service {} DELETED", service.key.name)
        }
        Input::Service { change: Change::Relisted(_, all), .. } => {
            format!("services relisted: {}", all.len())
        }
        Input::Namespace { .. } => "namespace".to_owned(),
        Input::Answered { id, result } => {
            let how =
                result.as_ref().map_or_else(|failure| format!("{:?}", failure.class), |_| "ok".to_owned());
            format!("call {} ended: {how}", id.0)
        }
        Input::Leadership(leadership) => format!("{leadership:?}"),
        Input::LedgersLoaded { id, result } => format!("ledgers {} loaded: {result:?}", id.0),
        Input::LedgerLoaded { id, result } => format!("ledger {} loaded: {result:?}", id.0),
        Input::LedgerWritten { id, result } => format!("ledger {} written: {result:?}", id.0),
        Input::LedgerDropped { id, result } => format!("ledger {} dropped: {result:?}", id.0),
        Input::GateWritten { id, result } => format!("gate {id:?} {result:?}"),
        Input::Tick => "tick".to_owned(),
    }
}
