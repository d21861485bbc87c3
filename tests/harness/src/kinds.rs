//! Headgate's CRDs in a local world, and its own namespace, like with `kubectl apply -f config/crd` and
//! `kubectl create namespace headgate`.

use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, ResourceExt, api::PostParams, runtime::wait::conditions::is_crd_established};
use localstack_world::Facts;
use serde_json::json;

use crate::{cluster, wait};

/// The file that users apply.
const DEFINITIONS: &str = include_str!("../../../config/crd/headgate.dev.yaml");

/// Creates the CRDs, and waits until the API server serves them.
pub async fn install(facts: &Facts) {
    install_as(facts, DEFINITIONS).await;
}

/// The same, with the CRDs of another version.
pub async fn install_as(facts: &Facts, definitions: &str) {
    let client = cluster::client(facts).await;
    let own = serde_json::from_value(json!({"metadata": {"name": "headgate"}})).unwrap();
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &own).await.unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(client);
    for definition in definitions.split("---\n").skip(1) {
        let definition: CustomResourceDefinition = serde_saphyr::from_str(definition).unwrap();
        let name = definition.name_any();
        api.create(&PostParams::default(), &definition).await.unwrap();
        wait::until(&format!("{name} is served"), || async {
            let now = api.get(&name).await.unwrap();
            let served = kube::runtime::wait::Condition::matches_object(&is_crd_established(), Some(&now));
            if served { Ok(()) } else { Err(now.status) }
        })
        .await;
    }
}
