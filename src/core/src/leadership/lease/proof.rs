//! Proves that a replica has terminated, so that other replicas need not wait until its Lease expires.
//!
//! A container cannot know its own ID, but a container can write a file. At startup, a replica writes its identity to
//! its termination log, which is one file for each container instance. When the container has terminated, even after
//! SIGKILL, the kubelet copies the content to the pod's status. No other replica ever has the same identity, so the
//! content proves that this process has terminated.
//!
//! No other observation is a proof. The container of a force-deleted pod may still run. A kubelet reports
//! `ContainerStatusUnknown` for a container that the kubelet cannot find. Without a proof, replicas wait until the
//! Lease expires.

use crate::model::lease::EndedContainer;

/// The reason that the kubelet reports if the kubelet does not know what happened to the container.
const UNKNOWN: &str = "ContainerStatusUnknown";
/// Separates the pod's name from the unique part of the identity.
const SEPARATOR: char = '_';

/// Returns the identity of the replica that has provably terminated with this container. `None`: the container proves
/// nothing.
pub(super) fn of(ended: &EndedContainer) -> Option<&str> {
    let EndedContainer { pod, reason, message } = ended;
    let (named, own) = message.split_once(SEPARATOR)?;
    // A container is a proof only for a replica in the same pod.
    (**reason != *UNKNOWN && named == &**pod && !own.is_empty()).then_some(&**message)
}

/// The name of the pod in which the replica with this identity runs. `None`: no pod can have such a name.
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
