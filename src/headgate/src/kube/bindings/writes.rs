//! The writes to a TargetBinding.

use std::sync::Arc;

use headgate_core::model::object::ObjectKey;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};

use super::key_of;
use crate::{
    api::{TargetBinding, TargetBindingStatus},
    kube::written::AnyBinding,
};

const MANAGER: &str = "headgate";

/// A write that is due.
#[derive(Debug)]
pub(super) enum Write {
    /// Create a generated TargetBinding, or restore its content.
    Make(Box<TargetBinding>),
    /// Delete a generated TargetBinding, because it binds no port.
    Unmake(Arc<TargetBinding>),
    /// Set the object's finalizers.
    Finalizers(Arc<TargetBinding>, Vec<String>),
    /// Write the last status and then set the finalizers of a TargetBinding that is no longer managed.
    Part(Arc<TargetBinding>, Box<TargetBindingStatus>, Vec<String>),
    /// Write the object's status.
    Status(Arc<TargetBinding>, Box<TargetBindingStatus>),
}

impl Write {
    pub(super) const fn verb(&self) -> &'static str {
        match self {
            Self::Make(_) => "make",
            Self::Unmake(_) => "remove",
            Self::Finalizers(..) => "set the finalizers of",
            Self::Status(..) => "write the status of",
            Self::Part(..) => "part from",
        }
    }

    /// Whether Kubernetes removes a deleted TargetBinding after this write.
    pub(super) fn lets_go(&self) -> bool {
        match self {
            Self::Finalizers(object, _) | Self::Part(object, _, _) => {
                object.meta().deletion_timestamp.is_some()
            }
            Self::Make(_) | Self::Unmake(_) | Self::Status(..) => false,
        }
    }

    pub(super) fn key(&self) -> Option<ObjectKey> {
        match self {
            Self::Make(object) => key_of(object),
            Self::Unmake(object)
            | Self::Finalizers(object, _)
            | Self::Part(object, _, _)
            | Self::Status(object, _) => key_of(object),
        }
    }

    /// Executes the write, unless another object has replaced the observed object.
    pub(super) async fn carry_out(self, client: &Client) -> Result<(), kube::Error> {
        let api = |object: &TargetBinding| -> Api<AnyBinding> {
            Api::namespaced(client.clone(), &object.namespace().unwrap_or_default())
        };
        let plain = PatchParams::default();
        match self {
            Self::Make(object) => {
                let parameters = PatchParams::apply(MANAGER).force();
                api(&object).patch(&object.name_any(), &parameters, &Patch::Apply(&object)).await?;
            }
            Self::Unmake(object) => {
                let preconditions = Preconditions { uid: object.uid(), resource_version: None };
                let parameters =
                    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                api(&object).delete(&object.name_any(), &parameters).await?;
            }
            Self::Finalizers(object, finalizers) => {
                // The patch contains the observed resource version, so that it does not overwrite other finalizers.
                let patch = versioned(&*object, json!({ "finalizers": finalizers }));
                api(&object).patch_metadata(&object.name_any(), &plain, &Patch::Merge(&patch)).await?;
            }
            Self::Part(object, status, finalizers) => {
                let patch = Patch::Merge(status_patch(&object, &status));
                let written = api(&object).patch_status(&object.name_any(), &plain, &patch).await?;
                let patch = versioned(&written, json!({ "finalizers": finalizers }));
                api(&object).patch_metadata(&object.name_any(), &plain, &Patch::Merge(&patch)).await?;
            }
            Self::Status(object, status) => {
                let patch = Patch::Merge(status_patch(&object, &status));
                api(&object).patch_status(&object.name_any(), &plain, &patch).await?;
            }
        }
        Ok(())
    }
}

fn status_patch(object: &TargetBinding, status: &TargetBindingStatus) -> Value {
    let mut patch = versioned(object, json!({}));
    patch["status"] = json!(status);
    // A merge patch does not remove fields that it omits.
    for field in ["observedGeneration", "targetGroup", "targetGroupARN", "lastRead"] {
        if patch["status"][field].is_null() {
            patch["status"][field] = Value::Null;
        }
    }
    patch
}

/// Creates a patch that the API server rejects if the object was replaced or changed.
fn versioned(object: &impl ResourceExt, mut metadata: Value) -> Value {
    metadata["uid"] = json!(object.uid());
    metadata["resourceVersion"] = json!(object.resource_version());
    json!({ "metadata": metadata })
}
