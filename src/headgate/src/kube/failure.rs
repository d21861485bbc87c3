//! Classifies the errors of requests to the API server.

use headgate_core::{Failure, FailureClass};
use kube::core::Status;

use super::words::plain;

/// Converts an error to a failure.
pub fn of(error: &kube::Error) -> Failure {
    let kube::Error::Api(status) = error else {
        return Failure::new(FailureClass::Unavailable, "NoAnswer", plain(error));
    };
    let class = match status.code {
        _ if is_gone(status) => FailureClass::Gone,
        // Another client has changed the object, or there were too many writes.
        409 => FailureClass::Conflict,
        429 => FailureClass::Throttled,
        401 | 403 => FailureClass::Denied,
        // An admission policy may reject a request with different status codes. No rejection by a policy is temporary.
        400..=499 => FailureClass::Refused,
        _ => FailureClass::Unavailable,
    };
    let code = if status.reason.is_empty() { status.code.to_string() } else { status.reason.clone() };
    Failure::new(class, code, plain(error))
}

/// Whether the error means that the object does not exist. If a patch contains another UID than the pod, the API server
/// returns 409 or 422 with a text about the UID.
pub fn is_gone(status: &Status) -> bool {
    let about_the_uid = || status.message.contains("metadata.uid") || status.message.contains("UID");
    status.code == 404 || (matches!(status.code, 409 | 422) && about_the_uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: u16, message: &str) -> FailureClass {
        let status = Status { code, message: message.into(), ..Status::default() };
        of(&kube::Error::Api(Box::new(status))).class
    }

    #[test]
    fn every_refusal_has_its_class() {
        for (code, message, class) in [
            (404, "pods \"a\" not found", FailureClass::Gone),
            (422, "metadata.uid: Invalid value: \"u-1\": field is immutable", FailureClass::Gone),
            (
                409,
                "Precondition failed: UID in precondition: u-1, UID in object meta: u-2",
                FailureClass::Gone,
            ),
            (
                409,
                "Operation cannot be fulfilled on pods \"a\": the object has been modified",
                FailureClass::Conflict,
            ),
            (429, "too many requests", FailureClass::Throttled),
            (403, "pods \"a\" is forbidden", FailureClass::Denied),
            (401, "Unauthorized", FailureClass::Denied),
            (422, "status.conditions: invalid", FailureClass::Refused),
            (400, "an admission policy says no", FailureClass::Refused),
            (500, "more than one PodDisruptionBudget", FailureClass::Unavailable),
            (503, "later", FailureClass::Unavailable),
        ] {
            assert_eq!(told(code, message), class, "{code} {message}");
        }
    }

    #[test]
    fn a_failure_has_a_code_and_a_sentence() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let failure = of(&kube::Error::ReadEvents(refused));
        assert_eq!((&*failure.code, &*failure.message), ("NoAnswer", "connection refused"));
        let status =
            Status { code: 403, reason: "Forbidden".into(), message: "may not".into(), ..Status::default() };
        let failure = of(&kube::Error::Api(Box::new(status)));
        assert_eq!((&*failure.code, &*failure.message), ("Forbidden", "may not"));
        let status = Status { code: 503, ..Status::default() };
        assert_eq!(&*of(&kube::Error::Api(Box::new(status))).code, "503");
    }
}
