//! Classifies a failed call by AWS's error code, or by the obstacle if AWS did not respond.

use std::{error::Error, io};

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_elasticloadbalancingv2::error::{ProvideErrorMetadata, SdkError};
use headgate_core::{Failure, FailureClass};

use crate::runtime::within::TIMEOUT;

/// The endpoint refuses connections.
pub const CONNECTION_REFUSED: &str = "ConnectionRefused";
/// DNS returns no address for the endpoint's name.
pub const NAME_NOT_RESOLVED: &str = "NameNotResolved";
/// The TLS connection fails, for example because a certificate is not trusted.
pub const TLS_FAILED: &str = "TlsFailed";
/// The connection fails for another reason.
pub const NO_CONNECTION: &str = "NoConnection";
/// The endpoint did not accept a connection in time.
pub const CONNECT_TIMEOUT: &str = "ConnectTimeout";
/// No provider in the chain has credentials.
pub const NO_CREDENTIALS: &str = "NoCredentials";
/// A provider should have credentials, but cannot fetch them.
pub const CREDENTIALS_FAILED: &str = "CredentialsFailed";

/// Converts the SDK's error to a failure.
pub fn of<E>(error: &SdkError<E>) -> Failure
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match error {
        SdkError::ServiceError(answer) => {
            let status = answer.raw().status().as_u16();
            let code = answer.err().code();
            Failure {
                class: classify(code, status),
                code: code.map_or_else(|| format!("HTTP {status}").into(), Into::into),
                message: answer.err().message().unwrap_or("no message").into(),
            }
        }
        SdkError::TimeoutError(_) => unavailable(TIMEOUT, error),
        SdkError::DispatchFailure(failure) if failure.is_timeout() => unavailable(CONNECT_TIMEOUT, error),
        SdkError::DispatchFailure(_) | SdkError::ConstructionFailure(_) => {
            unavailable(obstacle(error), error)
        }
        _ => unavailable("UnreadableAnswer", error),
    }
}

/// `DescribeTargetGroups` succeeded but returned no target group.
pub fn empty_answer() -> Failure {
    let message = "AWS returned no target group that could be read".into();
    Failure { class: FailureClass::Gone, code: "EmptyAnswer".into(), message }
}

/// The name of the obstacle to a call.
fn obstacle(error: &(dyn Error + 'static)) -> &'static str {
    for cause in causes(error) {
        match cause.downcast_ref::<CredentialsError>() {
            // The SDK fetches credentials before it sends the call.
            Some(CredentialsError::CredentialsNotLoaded(_)) => return NO_CREDENTIALS,
            Some(_) => return CREDENTIALS_FAILED,
            None => {}
        }
        if cause.downcast_ref::<rustls::Error>().is_some() {
            return TLS_FAILED;
        }
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                return CONNECTION_REFUSED;
            }
            // `io::Error::source` does not return the wrapped error.
            if error.get_ref().is_some_and(|inner| inner.downcast_ref::<rustls::Error>().is_some()) {
                return TLS_FAILED;
            }
        }
        if cause.to_string().starts_with("dns error") {
            return NAME_NOT_RESOLVED;
        }
    }
    NO_CONNECTION
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source())
}

/// The messages of an error and its causes, without duplicates. The SDK's own text ends with a dump of the SDK's data.
pub(super) fn sentences(error: &(dyn Error + 'static)) -> String {
    let mut said: Vec<String> = Vec::new();
    for cause in causes(error) {
        let sentence = cause.to_string();
        if !sentence.is_empty() && said.last().is_none_or(|last| !last.ends_with(&*sentence)) {
            said.push(sentence);
        }
    }
    said.join(": ")
}

fn unavailable<E: Error + 'static>(code: &str, error: &SdkError<E>) -> Failure {
    Failure { class: FailureClass::Unavailable, code: code.into(), message: sentences(error).into() }
}

/// Classifies AWS's error codes (ELBv2 API reference, "Common Error Types" and each action's errors).
fn classify(code: Option<&str>, status: u16) -> FailureClass {
    match code {
        Some(
            "Throttling"
            | "ThrottlingException"
            | "ThrottledException"
            | "RequestThrottled"
            | "RequestThrottledException"
            | "RequestLimitExceeded"
            | "TooManyRequestsException"
            | "SlowDown",
        ) => FailureClass::Throttled,
        Some(
            "AccessDenied"
            | "AccessDeniedException"
            | "UnauthorizedOperation"
            | "NotAuthorized"
            | "OptInRequired"
            | "InvalidClientTokenId"
            | "UnrecognizedClientException"
            | "SignatureDoesNotMatch"
            | "IncompleteSignature"
            | "MissingAuthenticationToken"
            | "ExpiredToken"
            | "ExpiredTokenException"
            | "RequestExpired",
        ) => FailureClass::Denied,
        // `TooManyTargets` concerns the whole target group. `TooManyRegistrationsForTargetId` concerns one address, so
        // it counts as an error of that target.
        Some("TooManyTargets") => FailureClass::Full,
        Some("TargetGroupNotFound" | "TargetGroupNotFoundException") => FailureClass::Gone,
        _ if status == 429 => FailureClass::Throttled,
        _ if status >= 500 => FailureClass::Unavailable,
        _ => FailureClass::Refused,
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_elasticloadbalancingv2::operation::describe_target_groups::DescribeTargetGroupsError;

    use super::*;

    /// The SDK's error for a call that was never sent, for the reason `why`.
    fn not_sent(why: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
        of(&SdkError::<DescribeTargetGroupsError>::construction_failure(why))
    }

    #[test]
    fn what_stood_in_the_way_is_told_apart_and_said_without_dumps() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let tls = io::Error::other(rustls::Error::HandshakeNotComplete);
        for (failure, code) in [
            (not_sent(refused), CONNECTION_REFUSED),
            (not_sent(tls), TLS_FAILED),
            (not_sent("dns error"), NAME_NOT_RESOLVED),
            (not_sent(CredentialsError::not_loaded("no providers")), NO_CREDENTIALS),
            (not_sent(CredentialsError::provider_error("STS says no")), CREDENTIALS_FAILED),
            (not_sent("something else"), NO_CONNECTION),
        ] {
            assert_eq!(
                (&*failure.code, failure.class),
                (code, FailureClass::Unavailable),
                "{}",
                failure.message
            );
            assert!(!failure.message.contains(" { "), "{}", failure.message);
        }
    }

    #[test]
    fn every_error_code_of_the_api_has_its_class() {
        for (code, status, class) in [
            (Some("Throttling"), 400, FailureClass::Throttled),
            (Some("ThrottlingException"), 400, FailureClass::Throttled),
            (Some("PriorRequestNotComplete"), 429, FailureClass::Throttled),
            (Some("AccessDenied"), 403, FailureClass::Denied),
            (Some("ExpiredToken"), 403, FailureClass::Denied),
            (Some("TargetGroupNotFound"), 400, FailureClass::Gone),
            (Some("HealthUnavailable"), 500, FailureClass::Unavailable),
            (Some("InternalFailure"), 500, FailureClass::Unavailable),
            (None, 503, FailureClass::Unavailable),
            (Some("ValidationError"), 400, FailureClass::Refused),
            (Some("InvalidTarget"), 400, FailureClass::Refused),
            (Some("TooManyTargets"), 400, FailureClass::Full),
            (Some("TooManyRegistrationsForTargetId"), 400, FailureClass::Refused),
        ] {
            assert_eq!(classify(code, status), class, "{code:?} {status}");
        }
    }
}
