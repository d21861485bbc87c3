//! Property tests of the code that reads objects. No object content makes a list fail, and every resulting value is
//! within its range.

mod grants;
mod ledger;
mod marks;
mod slim;
mod written;

use kube::core::ObjectList;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Reads the objects from a list as the API server returns it.
fn listed<K: DeserializeOwned + Clone>(objects: &[Value]) -> Result<Vec<K>, String> {
    let list =
        json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": objects});
    // The list is converted to text and parsed, as if it came over the network.
    let list: ObjectList<K> = serde_json::from_str(&list.to_string()).map_err(|error| error.to_string())?;
    Ok(list.items)
}
