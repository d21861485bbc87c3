//! Reads all IngressDaemonSets, including sets without a binding. If no controller runs, a set has no pods that could
//! be targets.

use std::collections::BTreeSet;

use headgate::{
    api::IngressDaemonSet,
    kube::{installation::Serves, words::plain},
};
use kube::{Api, Client, api::ListParams};

use super::{API, PAGE};
use crate::{doctor::facts::Looked, explain::reach::Holder};

const KIND: &str = "ingressdaemonsets";

/// Returns the IngressDaemonSets of this namespace, or of all namespaces that the leader manages. If the caller may not
/// list the managed namespaces, returns the IngressDaemonSets in namespaces with bindings.
pub async fn look(
    client: &Client,
    only: Option<&str>,
    leader: Option<&Holder>,
    bound: &BTreeSet<&str>,
) -> Looked<Vec<IngressDaemonSet>> {
    let served = match only {
        Some(only) => Ok(Some(vec![only.to_owned()])),
        None => {
            leader
                .and_then(|leader| Serves::read(leader.serves.as_deref()?))
                .unwrap_or_default()
                .names(client)
                .await
        }
    };
    let listed = match served {
        Ok(None) => list(&Api::all(client.clone())).await,
        Ok(Some(names)) => list_each(client, names.iter().map(String::as_str)).await,
        Err(error) => Err(error),
    };
    let listed = match listed {
        Err(error) if is_forbidden(&error) => list_each(client, bound.iter().copied()).await,
        listed => listed,
    };
    match listed {
        Ok(sets) => Ok(sets),
        // RBAC denies the request before the API server checks whether the CRD exists.
        Err(error) if is_forbidden(&error) && !is_there(client).await => Ok(Vec::new()),
        Err(error) => Err(format!("cannot list {KIND} ({}). Grant yourself list on {KIND}", plain(&error))),
    }
}

async fn list_each(
    client: &Client,
    namespaces: impl Iterator<Item = &str>,
) -> kube::Result<Vec<IngressDaemonSet>> {
    let mut all = Vec::new();
    for namespace in namespaces {
        all.extend(list(&Api::namespaced(client.clone(), namespace)).await?);
    }
    Ok(all)
}

/// Lists IngressDaemonSets. Empty if the CRD is not installed.
async fn list(api: &Api<IngressDaemonSet>) -> kube::Result<Vec<IngressDaemonSet>> {
    let (mut all, mut page) = (Vec::new(), ListParams::default().limit(PAGE));
    loop {
        let listed = match api.list(&page).await {
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(all),
            listed => listed?,
        };
        let next = listed.metadata.continue_.clone().filter(|next| !next.is_empty());
        all.extend(listed);
        let Some(next) = next else { return Ok(all) };
        page = page.continue_token(&next);
    }
}

async fn is_there(client: &Client) -> bool {
    let known = client.list_api_group_resources(API).await;
    known.is_ok_and(|known| known.resources.iter().any(|resource| resource.name == KIND))
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}
