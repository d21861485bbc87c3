//! The sources of the webhook's certificate in the chart.

use std::collections::BTreeSet;

use headgate::webhook::path::FIXED;
use headgate_harness::helm::{block, deployment, of_kind, pod_of, rendered};
use serde_json::{Value, json};

#[test]
fn the_certificate_is_kept_by_one_pod_with_a_serviceaccount_of_its_own_and_no_port() {
    block(async {
        let all = rendered(&["--set=monitoring.podMonitor.enabled=true"]).await.unwrap();
        let name = "headgate-certificates";
        let of_it = |object: &&Value| object["metadata"]["name"] == name;
        let kinds: BTreeSet<&str> =
            all.iter().filter(of_it).map(|object| object["kind"].as_str().unwrap()).collect();
        let wanted = [
            "ClusterRole",
            "ClusterRoleBinding",
            "Deployment",
            "NetworkPolicy",
            "Role",
            "RoleBinding",
            "ServiceAccount",
        ];
        assert_eq!(kinds, BTreeSet::from(wanted));
        let its = &deployment(&all, "certificates")["spec"];
        let pod = &its["template"]["spec"];
        assert_eq!((&its["replicas"], &its["strategy"]["type"]), (&json!(1), &json!("Recreate")));
        assert_eq!(pod["serviceAccountName"], name);
        assert!(pod["containers"][0]["ports"].is_null() && pod["volumes"].is_null());
        for binding in of_kind(&all, "ClusterRoleBinding").into_iter().chain(of_kind(&all, "RoleBinding")) {
            let is_its =
                binding["subjects"].as_array().unwrap().iter().any(|subject| subject["name"] == name);
            assert_eq!(is_its, binding["roleRef"]["name"] == name, "{binding}");
        }
        // The selector of the other replicas does not match it.
        let labels = &its["template"]["metadata"]["labels"];
        for object in all.iter().filter(|object| !of_it(object)) {
            let spec = &object["spec"];
            let selector = match object["kind"].as_str().unwrap() {
                "Service" => &spec["selector"],
                "NetworkPolicy" => &spec["podSelector"]["matchLabels"],
                "PodDisruptionBudget" | "Deployment" | "PodMonitor" => &spec["selector"]["matchLabels"],
                _ => continue,
            };
            let selector = selector.as_object().unwrap();
            assert!(!selector.iter().all(|(key, value)| labels[key] == *value), "{object}");
        }
        // The Secret is empty, so that another `kubectl apply` removes nothing.
        let secret = of_kind(&all, "Secret")[0];
        assert_eq!(secret["metadata"]["name"], "headgate-webhook-tls");
        assert!(secret["data"].is_null() && secret["stringData"].is_null());
        let (_, pod) = pod_of(&all);
        let mounted = &pod["volumes"][0]["secret"];
        assert_eq!(
            (&mounted["secretName"], &mounted["optional"]),
            (&secret["metadata"]["name"], &json!(true))
        );
        let keys: Vec<&Value> =
            mounted["items"].as_array().unwrap().iter().map(|item| &item["key"]).collect();
        assert_eq!(keys, ["tls.crt", "tls.key", "path"], "and not the next key");
    });
}

#[test]
fn the_webhooks_certificate_may_come_from_a_secret_whose_ca_is_given_or_filled_in_by_others() {
    block(async {
        let secret = "--set=webhook.certSecret=hook-tls";
        let pem = "--set=webhook.caBundle=-----BEGIN CERTIFICATE-----";
        let all = rendered(&[secret, pem]).await.unwrap();
        let (container, pod) = pod_of(&all);
        let mount = &container["volumeMounts"][0];
        assert_eq!(mount["mountPath"], "/etc/headgate/webhook");
        assert_eq!(mount["name"], pod["volumes"][0]["name"]);
        let is_its = |object: &&Value| object["metadata"]["name"] == "headgate-certificates";
        assert!(of_kind(&all, "Secret").is_empty() && !all.iter().any(|object| is_its(&object)));
        assert_eq!(pod["volumes"][0]["secret"]["secretName"], "hook-tls");
        let mut entries = Vec::new();
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            entries.extend(of_kind(&all, kind)[0]["webhooks"].as_array().unwrap().clone());
        }
        assert_eq!(entries.len(), 3);
        for entry in entries {
            // "-----BEGIN CERTIFICATE-----" in base64.
            assert_eq!(entry["clientConfig"]["caBundle"], "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t");
            assert_eq!(entry["clientConfig"]["service"]["name"], "headgate-webhook");
            assert_eq!(entry["clientConfig"]["service"]["path"], FIXED);
        }

        let injected = r"--set=webhook.annotations.cert-manager\.io/inject-ca-from=own/hook";
        let all = rendered(&[secret, injected]).await.unwrap();
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            let configuration = of_kind(&all, kind)[0];
            let annotation = &configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
            assert_eq!(annotation, "own/hook");
            assert!(configuration["webhooks"][0]["clientConfig"]["caBundle"].is_null());
        }
    });
}
