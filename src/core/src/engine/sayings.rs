//! What users are told: the sentences of Events and log lines, each with what was expected and what to do.

use crate::{
    annotation,
    binding::Binding,
    input::{CallItem, ErrorClass, Failure},
    reason::Reason,
    service::TargetPort,
    target::Target,
    target_group::TargetGroupArn,
};

/// What a user is told about pods of a binding that cannot be targets.
pub fn pod_trouble(binding: &Binding, reason: Reason, pod: &str) -> String {
    let group = binding.key.group.name();
    match (reason, &binding.port.target_port) {
        (Reason::NoSuchPort, TargetPort::Name(name)) => format!(
            "pod {pod} has no container port named \"{name}\" of protocol {}, which targetPort of port {} asks for; \
             expected an entry in the pod's spec.containers[].ports; such pods are not registered in target group \
             {group}",
            binding.port.protocol.as_str(),
            binding.key.port,
        ),
        _ => format!(
            "target group {group} takes {} addresses, and pod {pod} has none; expected a target group of the pods' \
             address family in {} for port {}; such pods are not registered",
            binding.family.as_str(),
            annotation::TARGET_GROUPS,
            binding.key.port,
        ),
    }
}

/// What users are told when targets should go, and nothing may be written.
pub fn removals_paused(arn: &TargetGroupArn) -> String {
    format!(
        "targets of target group {} should be deregistered and stay, because headgate.dev/paused is \"true\" on a \
         Service bound to it, or spec.paused in a TargetBinding, or Headgate runs with --read-only; the load balancer may go on sending to pods that are \
         gone; end the pause, and they are deregistered at once",
        arn.name()
    )
}

/// What users are told when targets stay for a while because they are being replaced as a whole.
pub fn removal_held(arn: &TargetGroupArn) -> String {
    format!(
        "all targets of target group {} are being replaced, and none of the new ones is healthy yet: the old ones, \
         whose pods live, stay until one is, or until --replacement-grace after AWS has taken the first; if that \
         takes long, look at the port and the health check of the new ones; a pod that is deleted goes at once",
        arn.name()
    )
}

/// What users are told when AWS refuses a call for a reason that does not pass by itself; `item` is the one target it
/// is about.
pub fn refusal(
    arn: &TargetGroupArn,
    action: &str,
    failure: &Failure,
    item: Option<&CallItem>,
) -> Option<(Reason, String)> {
    let (group, code, message) = (arn.name(), &failure.code, &failure.message);
    let said = match failure.class {
        ErrorClass::Throttled | ErrorClass::Unavailable => return None,
        ErrorClass::Denied => format!(
            "Headgate may not call {action} for target group {group} ({code}: {message}); expected its IAM policy to \
             allow elasticloadbalancing:{action}; tried again by itself"
        ),
        ErrorClass::GroupGone => format!(
            "target group {group} does not exist any more ({code}: {message}); create it again, or take it out of \
             the annotation"
        ),
        ErrorClass::Quota => format!(
            "target group {group} takes no more targets ({code}: {message}); ask AWS for a higher quota, or bind \
             fewer pods; tried again by itself"
        ),
        ErrorClass::TargetRefused => {
            let about =
                item.map(|item| format!(", {} of pod {}", item.target, item.pod.name)).unwrap_or_default();
            format!(
                "AWS refuses {action} for target group {group}{about} ({code}: {message}); the others are not held \
                 up; tried again by itself"
            )
        }
    };
    Some((failure.class.reason(), said))
}

/// What users are told of targets that may have become another cluster's.
pub fn suspect(arn: &TargetGroupArn, first: &Target) -> String {
    format!(
        "target {first} of target group {} was registered from here, its pod is gone, and it is healthy: another \
         cluster may have got the address, so it stays; deregister it by hand if nobody needs it",
        arn.name()
    )
}
