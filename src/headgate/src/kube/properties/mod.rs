//! Properties of the readers of objects. No content of an object stops its list, and every value is within its range.

mod grants;
mod ledger;
mod marks;
mod slim;
mod written;

use kube::core::ObjectList;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// These objects in a list of the API server.
fn listed<K: DeserializeOwned + Clone>(objects: &[Value]) -> Result<Vec<K>, String> {
    let list =
        json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": objects});
    // Through text, like over the network.
    let list: ObjectList<K> = serde_json::from_str(&list.to_string()).map_err(|error| error.to_string())?;
    Ok(list.items)
}
