//! What proves that a replica has terminated, so that no replica need wait for its Lease to expire.
//!
//! A container cannot know its own ID, but it can write a file. At its start, a replica writes its identity to its
//! termination log, which is one file for each container instance. When the container has terminated, also after
//! SIGKILL, the kubelet puts the content into the pod's status. No other replica ever has that identity, so the content
//! proves that this very process has terminated.
//!
//! Nothing else proves it. A deleted pod may have been deleted by force while its container still runs. For a container
//! that it cannot find, a kubelet writes `ContainerStatusUnknown`. Without a proof, replicas wait until the Lease
//! expires.

use crate::model::lease::EndedContainer;

/// The kubelet does not know what happened to the container.
const UNKNOWN: &str = "ContainerStatusUnknown";
/// Separates the pod's name from the part that no other process has.
const SEPARATOR: char = '_';

/// The replica that has provably terminated with this container. `None`: there is no proof.
pub(super) fn of(ended: &EndedContainer) -> Option<&str> {
    let EndedContainer { pod, reason, message } = ended;
    let (named, own) = message.split_once(SEPARATOR)?;
    // A container proves only the end of a replica in its own pod.
    (**reason != *UNKNOWN && named == &**pod && !own.is_empty()).then_some(&**message)
}

/// The name of the pod in which the replica of this identity runs. `None`: no pod can have that name.
pub fn pod_of(identity: &str) -> Option<&str> {
    let (pod, _) = identity.split_once(SEPARATOR)?;
    let may_be =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    (!pod.is_empty() && pod.bytes().all(may_be)).then_some(pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(pod: &str, reason: &str, message: &str) -> EndedContainer {
        EndedContainer { pod: pod.into(), reason: reason.into(), message: message.into() }
    }

    #[test]
    fn the_identity_in_the_termination_log_of_its_own_pod_proves_that_the_replica_is_dead() {
        for reason in ["Error", "OOMKilled", "Completed", ""] {
            assert_eq!(of(&ended("headgate-a", reason, "headgate-a_07")), Some("headgate-a_07"), "{reason}");
        }
    }

    #[test]
    fn nothing_else_proves_it() {
        for (pod, reason, message) in [
            ("headgate-a", "ContainerStatusUnknown", "headgate-a_07"),
            ("headgate-a", "Error", ""),
            ("headgate-a", "Error", "headgate-a"),
            ("headgate-a", "Error", "headgate-a_"),
            ("headgate-b", "Error", "headgate-a_07"),
            ("headgate", "Error", "headgate-a_07"),
            ("headgate-a", "Error", "last words: headgate-a_07"),
        ] {
            assert_eq!(of(&ended(pod, reason, message)), None, "{pod} {reason} {message}");
        }
    }

    #[test]
    fn an_identity_names_its_pod_if_a_pod_can_have_that_name() {
        assert_eq!(pod_of("headgate-5d9.x_07"), Some("headgate-5d9.x"));
        for identity in ["headgate", "_07", "a,metadata.name=b_07", "Laptop_07", "a b_07"] {
            assert_eq!(pod_of(identity), None, "{identity}");
        }
    }
}
