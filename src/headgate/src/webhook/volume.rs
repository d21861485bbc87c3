//! The image volume that mounts `headgate-hold` from Headgate's own image, unchanged and read-only.
//!
//! An image volume counts neither toward a quota nor toward the QoS class, and the restricted Pod Security Standard
//! allows it. Unlike an `emptyDir`, an image volume blocks neither `kubectl drain` nor the cluster-autoscaler.

use headgate_core::model::lifespan::HOLD_PROGRAM;
use serde_json::{Value, json};

/// The name of the volume.
const NAME: &str = HOLD_PROGRAM;
/// The mount path of the image in a container.
const PLACE: &str = "/.headgate";

/// The path of the program in a container.
pub fn program() -> String {
    format!("{PLACE}/{HOLD_PROGRAM}")
}

/// Whether a pod already has the volume.
pub fn is_in(pod: &Value) -> bool {
    volumes(pod).any(|volume| volume["name"] == NAME && volume["image"].is_object())
}

/// Whether no other volume of the pod has the name, and no other mount of the container has the path.
pub fn has_room(pod: &Value, container: &Value) -> bool {
    let is_other = |volume: &Value| volume["name"] == NAME && !volume["image"].is_object();
    let is_in_the_way = |mount: &Value| {
        let place = mount["mountPath"].as_str().unwrap_or_default().trim_end_matches('/');
        mount["name"] == NAME || place == PLACE || place.starts_with(&format!("{PLACE}/"))
    };
    let mounts = container["volumeMounts"].as_array().into_iter().flatten();
    !volumes(pod).any(is_other) && !mounts.into_iter().any(is_in_the_way)
}

fn volumes(pod: &Value) -> impl Iterator<Item = &Value> {
    pod["spec"]["volumes"].as_array().into_iter().flatten()
}

/// The image volume for a pod.
pub fn volume(image: &str) -> Value {
    json!({"name": NAME, "image": {"reference": image, "pullPolicy": "IfNotPresent"}})
}

/// The volume mount for a container.
pub fn mount() -> Value {
    json!({"name": NAME, "mountPath": PLACE, "readOnly": true})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_unless_something_else_has_the_name_or_the_place() {
        let pod = |volumes: Value| json!({"spec": {"volumes": volumes}});
        let container = |mounts: Value| json!({"name": "web", "volumeMounts": mounts});
        let ours = volume("x.io/headgate:1");
        for (volumes, mounts, room) in [
            (json!(null), json!(null), true),
            (json!([]), json!([]), true),
            (
                json!([{"name": "data", "emptyDir": {}}]),
                json!([{"name": "data", "mountPath": "/.headgated"}]),
                true,
            ),
            (json!([ours]), json!([]), true),
            (json!([{"name": NAME, "emptyDir": {}}]), json!([]), false),
            (json!([ours]), json!([mount()]), false),
            (json!([]), json!([{"name": "data", "mountPath": "/.headgate/"}]), false),
            (json!([]), json!([{"name": "data", "mountPath": "/.headgate/x"}]), false),
            (json!(7), json!("odd"), true),
        ] {
            assert_eq!(
                has_room(&pod(volumes.clone()), &container(mounts.clone())),
                room,
                "{volumes} {mounts}"
            );
        }
        assert!(is_in(&pod(json!([ours]))) && !is_in(&pod(json!([{"name": NAME}]))));
        assert_eq!(program(), "/.headgate/headgate-hold");
    }
}
