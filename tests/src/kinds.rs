//! The kinds of Headgate in a world: what a user does once with `kubectl apply -f config/crd`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, ResourceExt, api::PostParams, runtime::wait::conditions::is_crd_established};
use localstack_world::Facts;

use crate::{cluster, wait};

/// The file that users apply.
const DEFINITIONS: &str = include_str!("../../config/crd/headgate.dev.yaml");

/// Creates the kinds, and waits until the API server serves them.
pub async fn install(facts: &Facts) {
    let api: Api<CustomResourceDefinition> = Api::all(cluster::client(facts).await);
    for definition in DEFINITIONS.split("---\n").skip(1) {
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
