//! How a failed call is to be taken, by AWS's error code.

use aws_sdk_elasticloadbalancingv2::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use headgate_core::{ErrorClass, Failure};

/// What the SDK's error means.
pub fn of<E>(error: &SdkError<E>) -> Failure
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
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
        SdkError::TimeoutError(_) => unavailable("Timeout", error),
        SdkError::DispatchFailure(failure) if failure.is_timeout() => unavailable("ConnectTimeout", error),
        SdkError::DispatchFailure(_) => unavailable("NoConnection", error),
        // Also credentials that cannot be had: they are fetched before the call is made.
        SdkError::ConstructionFailure(_) => unavailable("NotSent", error),
        _ => unavailable("UnreadableAnswer", error),
    }
}

/// `DescribeTargetGroups` succeeded and named none.
pub fn empty_answer() -> Failure {
    let message = "AWS answered without a target group that could be read".into();
    Failure { class: ErrorClass::GroupGone, code: "EmptyAnswer".into(), message }
}

fn unavailable<E: std::error::Error + 'static>(code: &str, error: &SdkError<E>) -> Failure {
    let message = DisplayErrorContext(error).to_string();
    Failure { class: ErrorClass::Unavailable, code: code.into(), message: message.into() }
}

/// Sorts AWS's error codes (ELBv2 API reference, "Common Error Types" and each action's errors).
fn classify(code: Option<&str>, status: u16) -> ErrorClass {
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
        ) => ErrorClass::Throttled,
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
        ) => ErrorClass::Denied,
        Some("TooManyTargets" | "TooManyRegistrationsForTargetId") => ErrorClass::Quota,
        Some("TargetGroupNotFound" | "TargetGroupNotFoundException") => ErrorClass::GroupGone,
        _ if status == 429 => ErrorClass::Throttled,
        _ if status >= 500 => ErrorClass::Unavailable,
        _ => ErrorClass::TargetRefused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_code_of_the_api_has_its_class() {
        for (code, status, class) in [
            (Some("Throttling"), 400, ErrorClass::Throttled),
            (Some("ThrottlingException"), 400, ErrorClass::Throttled),
            (Some("PriorRequestNotComplete"), 429, ErrorClass::Throttled),
            (Some("AccessDenied"), 403, ErrorClass::Denied),
            (Some("ExpiredToken"), 403, ErrorClass::Denied),
            (Some("TargetGroupNotFound"), 400, ErrorClass::GroupGone),
            (Some("HealthUnavailable"), 500, ErrorClass::Unavailable),
            (Some("InternalFailure"), 500, ErrorClass::Unavailable),
            (None, 503, ErrorClass::Unavailable),
            (Some("ValidationError"), 400, ErrorClass::TargetRefused),
            (Some("InvalidTarget"), 400, ErrorClass::TargetRefused),
            (Some("TooManyTargets"), 400, ErrorClass::Quota),
        ] {
            assert_eq!(classify(code, status), class, "{code:?} {status}");
        }
    }
}
