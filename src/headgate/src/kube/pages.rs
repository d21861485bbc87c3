//! Lists objects page by page.

use std::fmt::Debug;

use anyhow::Context;
use kube::{Api, Client, Resource, api::ListParams};
use serde::de::DeserializeOwned;

/// Objects in a page of a list.
const PAGE: u32 = 500;

/// One API per namespace, or one for all.
pub fn apis<K>(client: &Client, namespaces: Option<&[String]>) -> Vec<Api<K>>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    match namespaces {
        None => vec![Api::all(client.clone())],
        Some(named) => named.iter().map(|name| Api::namespaced(client.clone(), name)).collect(),
    }
}

/// Lists in pages: all objects at once may be too much for the memory of a small pod.
pub async fn each<K>(api: &Api<K>, mut take: impl FnMut(K)) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let listed = api.list(&page).await.with_context(|| format!("cannot list {}", K::plural(&())))?;
        let next = listed.metadata.continue_.clone().filter(|next| !next.is_empty());
        listed.into_iter().for_each(&mut take);
        let Some(next) = next else { return Ok(()) };
        page = page.continue_token(&next);
    }
}
