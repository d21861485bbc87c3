//! The controller of IngressDaemonSets in the chart.

use headgate_harness::{
    helm::{block, of_kind, rendered},
    root,
};
use serde_json::{Value, json};

const ON: &str = "--set=daemonsets.enabled=true";

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
        let wanted =
            [("headgate-daemonsets", 0), ("headgate-daemonsets-nodes", 1), ("headgate-daemonsets-shown", 3)];
        let wanted = wanted.map(|(name, at)| (name.to_owned(), files[at]["rules"].clone()));
        assert_eq!(roles(&with, "ClusterRole"), wanted);
        let own = ("headgate-daemonsets-own-namespace".to_owned(), files[2]["rules"].clone());
        assert_eq!(roles(&with, "Role"), std::slice::from_ref(&own));

        let named = rendered(&[ON, "--set=namespaces={a,b}"]).await.unwrap();
        assert_eq!(roles(&named, "ClusterRole"), [wanted[1].clone()]);
        let [all, _, shown] = &wanted;
        assert_eq!(roles(&named, "Role"), [all, shown, all, shown, &own].map(Clone::clone));

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
fn sets_are_looked_after_in_named_namespaces_or_in_all() {
    block(async {
        let error = rendered(&[ON, "--set=namespaceSelector=a=b"]).await.unwrap_err();
        assert!(error.contains("expected `namespaces`, or neither"), "{error}");
    });
}
