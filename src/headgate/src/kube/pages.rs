//! Lists objects page by page.

use std::fmt::Debug;

use anyhow::Context;
use kube::{Api, Client, Resource, api::ListParams};
use serde::de::DeserializeOwned;

/// The maximum number of objects in a page.
const PAGE: u32 = 500;

/// Returns one API for each namespace, or one API for all namespaces.
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

/// Passes all objects to `take`, one page at a time, because all objects together may exceed the memory of a small pod.
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
