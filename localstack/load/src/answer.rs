//! Checks whether answers are correct.

use serde::Deserialize;

use crate::failure::Failure;
use crate::plan::Answer;

/// A complete answer of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The HTTP status.
    pub status: u16,
    /// Whether the answer has a content-length.
    pub has_length: bool,
    /// The value of the header `x-pod`.
    pub pod: Option<String>,
    pub body: Vec<u8>,
}

/// The fields of a simulated pod's answer that identify the request.
#[derive(Deserialize)]
struct PodAnswer {
    pod: String,
    path: String,
}

/// Checks the answer to a request for `path`, which has no query.
pub fn check(received: &Received, path: &str, wanted: Answer) -> Result<(), Failure> {
    if received.status != 200 {
        return Err(Failure::Status(received.status));
    }
    if !received.has_length {
        return Err(Failure::NoLength);
    }
    match wanted {
        Answer::Any => Ok(()),
        Answer::Pod => {
            let answer: Option<PodAnswer> = serde_json::from_slice(&received.body).ok();
            let right = answer.is_some_and(|answer| {
                answer.path == path && received.pod.as_deref() == Some(answer.pod.as_str())
            });
            if right { Ok(()) } else { Err(Failure::WrongBody) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right() -> Received {
        let body = br#"{"ip":"127.0.0.1","path":"/load/7","pod":"web-0","port":80,"uid":"u"}"#.to_vec();
        Received { status: 200, has_length: true, pod: Some("web-0".into()), body }
    }

    fn verdict(received: &Received) -> Result<(), Failure> {
        check(received, "/load/7", Answer::Pod)
    }

    #[test]
    fn a_pods_answer_to_this_request_is_right() {
        assert_eq!(verdict(&right()), Ok(()));
    }

    #[test]
    fn the_answer_to_another_request_is_wrong() {
        assert_eq!(check(&right(), "/load/8", Answer::Pod), Err(Failure::WrongBody));
    }

    #[test]
    fn the_answer_of_another_pod_than_the_header_says_is_wrong() {
        assert_eq!(verdict(&Received { pod: Some("web-1".into()), ..right() }), Err(Failure::WrongBody));
        assert_eq!(verdict(&Received { pod: None, ..right() }), Err(Failure::WrongBody));
    }

    #[test]
    fn only_200_is_right() {
        for status in [201, 204, 302, 404, 500, 502, 503, 504] {
            assert_eq!(verdict(&Received { status, ..right() }), Err(Failure::Status(status)));
        }
    }

    #[test]
    fn a_body_of_unknown_length_is_wrong_even_if_any_body_will_do() {
        let received = Received { has_length: false, ..right() };
        assert_eq!(check(&received, "/load/7", Answer::Any), Err(Failure::NoLength));
    }

    #[test]
    fn any_body_will_do_if_asked_for() {
        let received = Received { body: b"hello".to_vec(), pod: None, ..right() };
        assert_eq!(check(&received, "/load/7", Answer::Any), Ok(()));
        assert_eq!(verdict(&received), Err(Failure::WrongBody));
    }
}
