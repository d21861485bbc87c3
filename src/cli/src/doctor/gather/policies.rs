//! Reads the admission policies from `config/admission`. In the chart, the name of the Lease is the prefix of each
//! policy's name.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::{Api, Client, api::ListParams};

use crate::doctor::facts::{Fence, Policy, Reserved, Unseen};

/// The action that makes a policy binding reject requests.
const DENY: &str = "Deny";

/// Returns the policies that Headgate needs. `sees_nodes`: Headgate may watch the whole cluster.
pub async fn look(client: &Client, lease: &str, sees_nodes: bool) -> Reserved<Vec<Policy>> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    let bindings = match bindings.list(&ListParams::default()).await {
        Ok(list) => list.items,
        // Old versions of Kubernetes do not have the kind ValidatingAdmissionPolicyBinding.
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(Unseen::because(&error)),
    };
    let denies = |name: &str| {
        let mut all = bindings.iter().filter_map(|binding| binding.spec.as_ref());
        all.any(|spec| {
            let mut actions = spec.validation_actions.iter().flatten();
            spec.policy_name.as_deref() == Some(name) && actions.any(|action| action == DENY)
        })
    };
    let mut looked = Vec::new();
    let on_nodes = sees_nodes.then_some(Fence::OwnWritesOnNodes);
    for fence in [Fence::OwnWrites, Fence::Marks].into_iter().chain(on_nodes) {
        let name = format!("{lease}-{}", fence.name());
        let is_there = policies.get_opt(&name).await.map_err(|error| Unseen::because(&error))?.is_some();
        looked.push(Policy { fence, is_there, denies: denies(&name), name });
    }
    Ok(looked)
}
