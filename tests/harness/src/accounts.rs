//! ServiceAccounts, with their real tokens.

use std::path::{Path, PathBuf};

use k8s_openapi::api::{authentication::v1::TokenRequest, core::v1::ServiceAccount};
use kube::{
    Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use localstack_world::Facts;
use serde_json::{Value, json};

use crate::cluster::Cluster;

/// A kubeconfig for a ServiceAccount of this namespace.
pub async fn kubeconfig(facts: &Facts, cluster: &Cluster, account: &str) -> PathBuf {
    let request: TokenRequest = serde_json::from_value(json!({"spec": {"audiences": []}})).unwrap();
    let accounts = cluster.api::<ServiceAccount>();
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await.unwrap();
    let token = answer.status.unwrap().token;
    let admin: Value = serde_saphyr::from_str(&std::fs::read_to_string(&facts.kubeconfig).unwrap()).unwrap();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "role",
        "clusters": [{"name": "world", "cluster": admin["clusters"][0]["cluster"]}],
        "users": [{"name": "headgate", "user": {"token": token}}],
        "contexts": [{"name": "role", "context": {"cluster": "world", "user": "headgate"}}],
    });
    let path = facts.folder.join(format!("{}.{account}.kubeconfig", cluster.namespace));
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

/// A client with this kubeconfig that returns every answer of the API server, without retries.
pub async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}
