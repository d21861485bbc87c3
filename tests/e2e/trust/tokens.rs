//! What a stolen token allows, with the chart's own roles.

use std::collections::BTreeSet;

use headgate_harness::{accounts, release::Release, scenario::Scenario, shared_world::beside_others, wait};
use k8s_openapi::api::{
    admissionregistration::v1::MutatingWebhookConfiguration,
    authorization::v1::{SelfSubjectAccessReview, SelfSubjectRulesReview},
    core::v1::{Secret, ServiceAccount},
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

async fn may(client: &Client, attributes: Value) -> bool {
    let review = serde_json::from_value(json!({"spec": {"resourceAttributes": attributes}})).unwrap();
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed
}

/// All permissions of a token in a namespace and in the cluster, rule by rule.
async fn rules(client: &Client, namespace: &str) -> BTreeSet<String> {
    let review = serde_json::from_value(json!({"spec": {"namespace": namespace}})).unwrap();
    let reviews: Api<SelfSubjectRulesReview> = Api::all(client.clone());
    let status = reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap();
    let rules = status.resource_rules.iter().map(|rule| {
        let names = rule.resource_names.clone().unwrap_or_default().join(",");
        let resources = rule.resources.clone().unwrap_or_default().join(",");
        format!("{} {resources} {names}", rule.verbs.join(","))
    });
    rules.collect()
}

#[test]
fn with_headgates_token_nobody_reads_a_secret_or_changes_what_the_api_server_asks_or_creates_a_pod() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "token").await;
        let release = Release::install_with(&s, &[]).await;
        let (client, own) = (&release.client, &*s.cluster.namespace);
        let list_pods = json!({"resource": "pods", "verb": "list"});
        assert!(may(client, list_pods).await, "it is Headgate's own token");
        let secret = format!("{}-webhook-tls", release.name);
        let admission = "admissionregistration.k8s.io";
        for (group, resource, namespaces, names) in [
            ("", "secrets", &[own, "kube-system", ""][..], &[&*secret, "other", ""][..]),
            (admission, "mutatingwebhookconfigurations", &[""], &[&*release.name, ""]),
            (admission, "validatingwebhookconfigurations", &[""], &[&*release.name, ""]),
        ] {
            for (verb, namespace) in
                VERBS.iter().flat_map(|verb| namespaces.iter().map(move |one| (verb, one)))
            {
                for name in names {
                    let asked = json!({"group": group, "resource": resource, "verb": verb, "namespace": namespace, "name": name});
                    assert!(!may(client, asked.clone()).await, "{asked}");
                }
            }
        }
        for (resource, subresource, verb) in [
            ("pods", "", "create"),
            ("pods", "", "delete"),
            ("pods", "exec", "create"),
            ("pods", "ephemeralcontainers", "patch"),
            ("serviceaccounts", "token", "create"),
        ] {
            for namespace in [own, "kube-system"] {
                let asked = json!({"resource": resource, "subresource": subresource, "verb": verb, "namespace": namespace});
                assert!(!may(client, asked.clone()).await, "{asked}");
            }
        }
        release.remove().await;
    });
}

#[test]
fn the_token_that_keeps_the_certificate_is_for_one_secret_and_two_configurations_and_nothing_else() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "keeper-token").await;
        let release = Release::install_with(&s, &[]).await;
        s.cluster.create::<ServiceAccount>(json!({"metadata": {"name": "nobody"}})).await;
        let of = async |account: &str| {
            accounts::client(&accounts::kubeconfig(s.facts(), &s.cluster, account).await).await
        };
        let (client, nobody) = (of(&format!("{}-certificates", release.name)).await, of("nobody").await);
        let secret = format!("{}-webhook-tls", release.name);
        let configurations = format!(
            "get,patch,watch mutatingwebhookconfigurations,validatingwebhookconfigurations {}",
            release.name
        );
        let of_secret = format!("get,update,watch secrets {secret}");
        for (namespace, more) in [
            (&*s.cluster.namespace, vec![&configurations, &of_secret]),
            ("kube-system", vec![&configurations]),
        ] {
            let wanted: BTreeSet<String> = more.into_iter().cloned().collect();
            wait::until("its rules are these, besides those of everybody", || async {
                let (its, everybodys) = (rules(&client, namespace).await, rules(&nobody, namespace).await);
                let its: BTreeSet<String> = its.difference(&everybodys).cloned().collect();
                if its == wanted { Ok(()) } else { Err(its) }
            })
            .await;
        }

        for name in [&*secret, "other"] {
            s.cluster.create::<Secret>(json!({"metadata": {"name": name}})).await;
        }
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &s.cluster.namespace);
        let mine = secrets.get(&secret).await.unwrap();
        secrets.replace(&secret, &PostParams::default(), &mine).await.unwrap();
        let all: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let (dry_run, none) =
            (PatchParams { dry_run: true, ..PatchParams::default() }, json!({"webhooks": []}));
        let token = json!({"metadata": {"name": "token"}, "type": "kubernetes.io/service-account-token"});
        let token: Secret = serde_json::from_value(token).unwrap();
        for (what, refused) in [
            ("another Secret", secrets.get("other").await.map(|_| ())),
            ("a new Secret", secrets.create(&PostParams::default(), &token).await.map(|_| ())),
            ("its own Secret, deleted", secrets.delete(&secret, &DeleteParams::default()).await.map(|_| ())),
            ("other configurations", all.patch("other", &dry_run, &Patch::Merge(&none)).await.map(|_| ())),
        ] {
            match refused {
                Err(kube::Error::Api(status)) if status.code == 403 => {}
                other => panic!("{what}: {other:?}"),
            }
        }
        release.remove().await;
    });
}
