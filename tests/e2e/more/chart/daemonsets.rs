//! The controller of IngressDaemonSets in the chart.

use headgate_harness::{
    helm::{block, of_kind, rendered},
    root,
};
use serde_json::{Value, json};

const ON: &str = "--set=daemonsets.enabled=true,daemonsets.namespaces={edge}";

#[test]
fn the_controller_of_sets_has_a_serviceaccount_and_rights_of_its_own() {
    block(async {
        let without = rendered(&[]).await.unwrap();
        let with = rendered(&[ON]).await.unwrap();
        let about_sets =
            |object: &&Value| object["metadata"]["labels"]["app.kubernetes.io/name"] == "headgate-daemonsets";
        assert_eq!(without.iter().filter(about_sets).count(), 0, "it is off unless asked for");
        let rest: Vec<&Value> = with.iter().filter(|object| !about_sets(object)).collect();
        let without_flag = |object: &Value| {
            let mut object = object.clone();
            let arguments = object.pointer_mut("/spec/template/spec/containers/0/args");
            let arguments = arguments.and_then(Value::as_array_mut);
            let is_shown = arguments.is_some_and(|all| {
                let before = all.len();
                all.retain(|argument| argument != "--show-daemonsets");
                all.len() < before
            });
            (object, is_shown)
        };
        let shown = rest.iter().filter(|object| without_flag(object).1).count();
        assert_eq!(shown, 1, "it shows the sets");
        let rest: Vec<Value> = rest.into_iter().map(|object| without_flag(object).0).collect();
        assert_eq!(rest, without, "the rest of Headgate is as it was");

        let text = std::fs::read_to_string(root().join("config/rbac/daemonsets.yaml")).unwrap();
        let files: Vec<Value> =
            text.split("\n---\n").map(|file| serde_saphyr::from_str(file).unwrap()).collect();
        let roles = |objects: &[Value], kind: &str| -> Vec<(String, Value)> {
            let roles = of_kind(objects, kind).into_iter().filter(about_sets);
            let named = |role: &Value| role["metadata"]["name"].as_str().unwrap().to_owned();
            roles.map(|role| (named(role), role["rules"].clone())).collect()
        };
        let named = [("", 0), ("-nodes", 1), ("-own-namespace", 2), ("-shown", 3)];
        let [edge, nodes, own, shown] =
            named.map(|(suffix, at)| (format!("headgate-daemonsets{suffix}"), files[at]["rules"].clone()));
        assert_eq!(roles(&with, "ClusterRole"), [nodes.clone(), shown.clone()]);
        assert_eq!(roles(&with, "Role"), [edge.clone(), own.clone()]);
        let where_is = |objects: &[Value], name: &str| -> Vec<String> {
            let roles = of_kind(objects, "Role").into_iter().filter(|role| role["metadata"]["name"] == *name);
            roles.map(|role| role["metadata"]["namespace"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(where_is(&with, "headgate-daemonsets"), ["edge"]);

        let both = rendered(&[ON, "--set=namespaces={a,b}"]).await.unwrap();
        assert_eq!(roles(&both, "ClusterRole"), std::slice::from_ref(&nodes));
        assert_eq!(roles(&both, "Role"), [edge, shown.clone(), shown, own]);
        assert_eq!(where_is(&both, "headgate-daemonsets"), ["edge"]);
        assert_eq!(where_is(&both, "headgate-daemonsets-shown"), ["a", "b"]);

        let bindings = of_kind(&with, "ClusterRoleBinding").into_iter().chain(of_kind(&with, "RoleBinding"));
        for binding in bindings {
            let is_about_sets = about_sets(&binding);
            let subjects = binding["subjects"].as_array().unwrap();
            let is_shown = binding["metadata"]["name"] == "headgate-daemonsets-shown";
            let is_its = |subject: &Value| subject["name"] == "headgate-daemonsets";
            let is_for_it = is_about_sets && !is_shown;
            assert!(subjects.iter().all(|subject| is_its(subject) == is_for_it), "{binding}");
        }
    });
}

#[test]
fn nothing_of_the_rest_selects_the_pods_of_that_controller() {
    block(async {
        let all = rendered(&[ON, "--set=monitoring.podMonitor.enabled=true"]).await.unwrap();
        let deployments = of_kind(&all, "Deployment");
        let its = deployments.iter().find(|it| it["metadata"]["name"] == "headgate-daemonsets").unwrap();
        let labels = &its["spec"]["template"]["metadata"]["labels"];
        let selectors = all.iter().filter_map(|object| {
            let spec = &object["spec"];
            let selector = match object["kind"].as_str()? {
                "Service" => &spec["selector"],
                "NetworkPolicy" => &spec["podSelector"]["matchLabels"],
                "PodDisruptionBudget" | "Deployment" | "PodMonitor" => &spec["selector"]["matchLabels"],
                _ => return None,
            };
            Some((object, selector.as_object()?))
        });
        let mut own = 0;
        for (object, selector) in selectors {
            let selects = selector.iter().all(|(key, value)| labels[key] == *value);
            assert_eq!(selects, object["metadata"]["name"] == "headgate-daemonsets", "{object}");
            own += usize::from(selects);
        }
        assert_eq!(own, 4, "Deployment, budget, NetworkPolicy and PodMonitor");
        let container = &its["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["args"][0], "daemonsets");
        let has = |name: &str, value: &str| {
            container["env"].as_array().unwrap().contains(&json!({"name": name, "value": value}))
        };
        assert!(has("HEADGATE_LEASE_NAME", "headgate-daemonsets"), "a Lease of its own");
    });
}

#[test]
fn sets_are_served_in_named_namespaces_only() {
    block(async {
        let error = rendered(&["--set=daemonsets.enabled=true"]).await.unwrap_err();
        assert!(error.contains("daemonsets.enabled needs daemonsets.namespaces"), "{error}");
        let all = rendered(&["--set=daemonsets.enabled=true,namespaces={a,b}"]).await.unwrap();
        let deployments = of_kind(&all, "Deployment");
        let its = deployments.iter().find(|it| it["metadata"]["name"] == "headgate-daemonsets").unwrap();
        let env = its["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
        assert!(env.contains(&json!({"name": "HEADGATE_NAMESPACES", "value": "a,b"})), "{env:?}");
    });
}
