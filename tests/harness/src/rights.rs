//! Permissions: those of `config/rbac`, granted to the ServiceAccount `headgate` of a test.

use std::path::PathBuf;

use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use crate::{accounts, cluster::Cluster, scenario::Scenario};

/// The rules of a file in `config/rbac`, which users apply.
pub fn rules_of(file: &str) -> Value {
    let role: Value = serde_saphyr::from_str(file).unwrap();
    role["rules"].clone()
}

/// Headgate's permissions in the namespaces that it manages.
pub const ROLE: &str = include_str!("../../../config/rbac/role.yaml");
/// Its permissions in its own namespace.
pub const OWN_NAMESPACE: &str = include_str!("../../../config/rbac/own-namespace.yaml");
/// Its permissions in the whole cluster if it manages named namespaces: read grants.
const GRANTS: &str = include_str!("../../../config/rbac/grants.yaml");
/// The permissions to manage the webhook's certificate: in the cluster, and in Headgate's own namespace.
pub const CERTIFICATES: &str = include_str!("../../../config/rbac/certificates.yaml");
const EXPLAIN: &str = include_str!("../../../config/rbac/explain.yaml");
const DOCTOR: &str = include_str!("../../../config/rbac/doctor.yaml");
const MIGRATE: &str = include_str!("../../../config/rbac/migrate.yaml");
/// The permissions of the controller of IngressDaemonSets: for sets and pods, for nodes, and in its own namespace.
const DAEMONSETS: &str = include_str!("../../../config/rbac/daemonsets.yaml");
/// Its permissions if it manages all namespaces.
pub const CLUSTER_ROLE: &str = include_str!("../../../config/rbac/clusterrole.yaml");

/// Grants the ServiceAccount a Role with these rules in this test's namespace, which is also Headgate's own.
pub async fn grant(s: &Scenario, role: &str, rules: &Value) {
    grant_within(s, &s.cluster, role, rules).await;
}

/// The same in another namespace.
pub async fn grant_within(s: &Scenario, within: &Cluster, role: &str, rules: &Value) {
    within.create::<Role>(json!({"metadata": {"name": role}, "rules": rules})).await;
    within
        .create::<RoleBinding>(json!({
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "headgate", "namespace": s.cluster.namespace}],
        }))
        .await;
}

/// Grants the ServiceAccount a ClusterRole with these rules.
pub async fn grant_in_all(s: &Scenario, rules: &Value) {
    grant_in_all_as(s, &s.cluster.namespace, rules).await;
}

/// Lets the ServiceAccount read grants, which a Headgate for named namespaces needs.
pub async fn let_read_grants(s: &Scenario) {
    grant_in_all_as(s, &format!("{}-grants", s.cluster.namespace), &rules_of(GRANTS)).await;
}

async fn grant_in_all_as(s: &Scenario, name: &str, rules: &Value) {
    let (client, namespace) = (s.cluster.client.clone(), &s.cluster.namespace);
    let role = serde_json::from_value(json!({"metadata": {"name": name}, "rules": rules})).unwrap();
    Api::<ClusterRole>::all(client.clone()).create(&PostParams::default(), &role).await.unwrap();
    let binding = serde_json::from_value(json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "headgate", "namespace": namespace}],
    }))
    .unwrap();
    Api::<ClusterRoleBinding>::all(client).create(&PostParams::default(), &binding).await.unwrap();
}

/// Grants the ServiceAccount all permissions that Headgate needs for this test's namespace.
pub async fn every_right(s: &Scenario) {
    grant(s, "headgate", &rules_of(ROLE)).await;
    grant(s, "headgate-own-namespace", &rules_of(OWN_NAMESPACE)).await;
    let_read_grants(s).await;
}

/// A kubeconfig with only the permissions that people need for `headgate explain` and `headgate doctor`, for a Headgate
/// in the namespace `own` whose Lease has this name.
pub async fn peoples_rights(s: &Scenario, own: &Cluster, lease: &str) -> PathBuf {
    let (in_own, pods) = EXPLAIN.split_once("\n---\n").unwrap();
    let in_own = in_own.replace("resourceNames: [headgate]", &format!("resourceNames: [{lease}]"));
    grant_within(s, own, "explain-own", &rules_of(&in_own)).await;
    grant(s, "explain-pods", &rules_of(pods)).await;
    let (in_own, cluster) = DOCTOR.split_once("\n---\n").unwrap();
    grant_within(s, own, "doctor-own", &rules_of(in_own)).await;
    grant_in_all(s, &rules_of(cluster)).await;
    service_account(s).await
}

/// A kubeconfig with only the permissions that people need for `headgate migrate lbc`. Headgate is in the namespace
/// `own`, and LBC is in another one, with webhook configurations of this name.
pub async fn of_movers(s: &Scenario, own: &Cluster, lbc: &Cluster, webhook: &str) -> PathBuf {
    let (in_own, pods) = EXPLAIN.split_once("\n---\n").unwrap();
    grant_within(s, own, "explain-own", &rules_of(in_own)).await;
    grant(s, "explain-pods", &rules_of(pods)).await;
    let parts: Vec<&str> = MIGRATE.split("\n---\n").collect();
    let [bindings, cluster, in_lbc, in_own] = parts[..] else { panic!("expected four parts") };
    grant(s, "migrate", &rules_of(bindings)).await;
    grant_in_all(s, &rules_of(&cluster.replace("[aws-load-balancer-webhook]", &format!("[{webhook}]"))))
        .await;
    grant_within(s, lbc, "migrate-lbc", &rules_of(in_lbc)).await;
    grant_within(s, own, "migrate-own", &rules_of(in_own)).await;
    service_account(s).await
}

/// A kubeconfig for a ServiceAccount with only the permissions that the controller of IngressDaemonSets needs for this
/// test's namespace, which is also its own.
pub async fn of_daemonsets(s: &Scenario) -> PathBuf {
    let parts: Vec<&str> = DAEMONSETS.split("\n---\n").collect();
    let [sets, nodes, in_own, _, _] = parts[..] else { panic!("expected five parts") };
    grant(s, "daemonsets", &rules_of(sets)).await;
    grant_in_all(s, &rules_of(nodes)).await;
    grant(s, "daemonsets-own-namespace", &rules_of(in_own)).await;
    service_account(s).await
}

/// The kubeconfig of the ServiceAccount.
pub async fn service_account(s: &Scenario) -> PathBuf {
    s.cluster.create::<ServiceAccount>(json!({"metadata": {"name": "headgate"}})).await;
    accounts::kubeconfig(s.facts(), &s.cluster, "headgate").await
}
