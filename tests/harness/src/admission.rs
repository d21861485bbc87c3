//! Headgate's admission policy about eviction annotations in a local world, like `kubectl apply -f config/admission`.
//! All tests run with it. The tests of `trust` cover the policies about Headgate's own account.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::{Api, api::PostParams};
use localstack_world::Facts;

use crate::cluster;

/// The file that users apply.
const MARKS: &str = include_str!("../../../config/admission/marks.yaml");

/// Creates the policy and its binding.
pub async fn install(facts: &Facts) {
    let client = cluster::client(facts).await;
    let (policy, binding) = MARKS.split_once("\n---\n").unwrap();
    let policy: ValidatingAdmissionPolicy = serde_saphyr::from_str(policy).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &policy).await.unwrap();
    let binding: ValidatingAdmissionPolicyBinding = serde_saphyr::from_str(binding).unwrap();
    Api::all(client).create(&PostParams::default(), &binding).await.unwrap();
}
