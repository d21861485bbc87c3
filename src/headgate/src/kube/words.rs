//! Formats errors of the Kubernetes client as short texts.
//!
//! The client's own messages contain a dump of the whole response, or only the name of the failed layer.

use std::error::Error;

/// The API server's error message, or the reason why there was no response.
pub fn plain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("the API server returns {} {}", status.code, status.reason),
        error => innermost(error),
    }
}

/// The messages of a chain of errors, up to the first error of the Kubernetes client.
pub fn plain_chain(error: &anyhow::Error) -> String {
    let mut words: Vec<String> = Vec::new();
    for cause in error.chain() {
        if let Some(error) = cause.downcast_ref::<kube::Error>() {
            words.push(plain(error));
            break;
        }
        words.push(cause.to_string());
    }
    words.join(": ")
}

/// The message of the innermost error, which the outer errors only wrap.
pub fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use serde_json::json;

    use super::*;

    fn forbidden() -> kube::Error {
        let status = json!({"status": "Failure", "code": 403, "reason": "Forbidden", "message": "may not"});
        kube::Error::Api(serde_json::from_value(status).unwrap())
    }

    #[test]
    fn an_answer_is_its_message_and_a_failed_connection_its_cause() {
        assert_eq!(plain(&forbidden()), "may not");
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(plain(&kube::Error::ReadEvents(refused)), "connection refused");
    }

    #[test]
    fn a_chain_ends_in_plain_words() {
        let error = Err::<(), _>(forbidden()).context("cannot read the Lease").unwrap_err();
        assert_eq!(plain_chain(&error), "cannot read the Lease: may not");
        assert_eq!(plain_chain(&anyhow::anyhow!("b").context("a")), "a: b");
    }
}
