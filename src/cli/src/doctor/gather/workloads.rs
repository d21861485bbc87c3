//! Reads the workloads and PodDisruptionBudgets of the pods that are targets.

use std::{collections::BTreeSet, fmt::Debug};

use headgate::kube::words::plain;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::{DaemonSet, Deployment, StatefulSet},
        policy::v1::PodDisruptionBudget,
    },
};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
};
use serde::de::DeserializeOwned;

use super::PAGE;
use crate::doctor::facts::{Looked, Workloads};

/// Reads the workloads in these namespaces.
pub async fn look(client: &Client, namespaces: &BTreeSet<&str>) -> Looked<Workloads> {
    let mut all = Workloads::default();
    for namespace in namespaces {
        all.deployments.extend(list::<Deployment>(client, namespace).await?);
        all.stateful_sets.extend(list::<StatefulSet>(client, namespace).await?);
        all.daemon_sets.extend(list::<DaemonSet>(client, namespace).await?);
        all.budgets.extend(list::<PodDisruptionBudget>(client, namespace).await?);
        all.rollouts.extend(rollouts(client, namespace).await?);
    }
    Ok(all)
}

/// Reads the Rollouts of Argo Rollouts. Empty if the CRD is not installed. If the CRD is not installed and the caller
/// has no permission, the API server returns 403 instead of 404.
async fn rollouts(client: &Client, namespace: &str) -> Looked<Vec<DynamicObject>> {
    let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "Rollout");
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind));
    match api.list(&ListParams::default()).await {
        Ok(listed) => Ok(listed.items),
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(Vec::new()),
        Err(error) => {
            Err(format!("cannot list the rollouts of namespace {namespace} ({}). Try again", plain(&error)))
        }
    }
}

async fn list<K>(client: &Client, namespace: &str) -> Looked<Vec<K>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let (mut all, mut page) = (Vec::new(), ListParams::default().limit(PAGE));
    loop {
        let listed = api.list(&page).await.map_err(|error| {
            let kinds = K::plural(&());
            format!(
                "cannot list the {kinds} of namespace {namespace} ({}). Grant yourself list on {kinds}",
                plain(&error)
            )
        })?;
        let next = listed.metadata.continue_.clone().filter(|next| !next.is_empty());
        all.extend(listed);
        let Some(next) = next else { return Ok(all) };
        page = page.continue_token(&next);
    }
}
