//! What a path that leads to something wrong says of requests and answers.

use headgate_core::{
    model::Failure,
    requests::{Answer, Request},
};

use crate::say::{describe_call, describe_request, describe_stored};

/// A request, in a line of a path.
pub fn request(request: &Request) -> String {
    match request {
        Request::Call(call) => describe_call(call),
        Request::Ledger(request) => describe_request(request),
        Request::Gate(write) => {
            let condition = &write.condition;
            let to = if condition.open { "open" } else { "closed" };
            format!("gate of {} {to}: {}", write.pod.name, condition.reason.as_str())
        }
        Request::Mark(write) => format!("mark on {}: {:?}", write.pod.name, write.mark),
        Request::Detached(write) => format!("detached on {}: {}", write.node, write.at.is_some()),
        Request::Check(check) => format!("may {} be evicted?", check.pod.name),
    }
}

/// What becomes of it, in a line of a path.
pub fn answer(result: &Result<Answer, Failure>) -> String {
    match result {
        Ok(Answer::Health(all)) => {
            let all: Vec<String> =
                all.iter().map(|(target, health)| format!("{target} {:?}", health.state)).collect();
            all.join(", ")
        }
        Ok(Answer::Ledgers(all)) => all.iter().map(describe_stored).collect::<Vec<_>>().join("; "),
        Ok(Answer::Written(version)) => format!("{version:?}"),
        Ok(Answer::Ledger(stored)) => stored.as_ref().map_or_else(|| "none".to_owned(), describe_stored),
        Ok(Answer::Done | Answer::Groups(_) | Answer::Attributes(_) | Answer::Checked(_)) => {
            "done".to_owned()
        }
        Err(failure) => format!("{:?}", failure.class),
    }
}
