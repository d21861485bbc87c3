//! A release of the chart in a test's namespace: its ServiceAccount, roles and admission policies, without any
//! workload.

use std::path::PathBuf;

use crate::{accounts, helm, scenario::Scenario, wait};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind, TypeMeta},
};
use serde_json::{Value, json};

/// The installed kinds of objects. The others run a program, or exist already.
const KINDS: [&str; 7] = [
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// The release of one test.
pub struct Release {
    /// The name of the release, and so of the Lease, the webhook configurations and the ServiceAccount.
    pub name: String,
    /// The kubeconfig of the ServiceAccount.
    pub kubeconfig: PathBuf,
    /// A client with the ServiceAccount's own token.
    pub client: Client,
    admin: Client,
    made: Vec<DynamicObject>,
}

fn api(client: &Client, object: &DynamicObject) -> Api<DynamicObject> {
    let TypeMeta { api_version, kind } = object.types.clone().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

impl Release {
    /// Installs it for this namespace and its pods, and waits until the API server enforces its policies.
    pub async fn install(s: &Scenario) -> Self {
        let only = format!("--set=namespaces={{{}}}", s.cluster.namespace);
        Self::install_with(s, &[&only]).await
    }

    /// The same with these values: for all namespaces, and for nodes.
    pub async fn install_with(s: &Scenario, values: &[&str]) -> Self {
        let (name, admin) = (s.name("release"), s.cluster.client.clone());
        let chart = helm::chart();
        let own = format!("--namespace={}", s.cluster.namespace);
        let mut arguments = vec![
            "template",
            &*name,
            chart.to_str().unwrap(),
            &own,
            "--kube-version=1.36",
            "--set=image.repository=x.io/headgate",
        ];
        let called = format!("--set=fullnameOverride={name}");
        arguments.push(&called);
        arguments.extend(values);
        let text = helm::run(None, &arguments).await.unwrap();
        let documents = text.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
        let mut made = Vec::new();
        for document in documents {
            let hook = &document["metadata"]["annotations"]["helm.sh/hook"];
            if !KINDS.iter().any(|kind| document["kind"] == *kind) || !hook.is_null() {
                continue;
            }
            let object: DynamicObject = serde_json::from_value(document).unwrap();
            api(&admin, &object).create(&PostParams::default(), &object).await.unwrap();
            made.push(object);
        }
        let kubeconfig = accounts::kubeconfig(s.facts(), &s.cluster, &name).await;
        let client = accounts::client(&kubeconfig).await;
        let release = Self { name, kubeconfig, client, admin, made };
        release.wait_in_force(s).await;
        release
    }

    /// The API server learns of roles and policies by watches, so this waits for them.
    async fn wait_in_force(&self, s: &Scenario) {
        let pod = json!({"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "web", "image": "x.io/a"}]}});
        s.cluster.create::<Pod>(pod).await;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &s.cluster.namespace);
        for (what, patch) in [
            ("its own writes are fenced", json!({"metadata": {"labels": {"a": "b"}}})),
            ("it may write marks", json!({"metadata": {"annotations": {"headgate.dev/may-go": "x"}}})),
        ] {
            wait::until(what, || async {
                let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
                match api.patch("probe", &dry_run, &Patch::Merge(&patch)).await {
                    Ok(_) if patch["metadata"]["labels"].is_null() => Ok(()),
                    Err(kube::Error::Api(status))
                        if status.code == 403
                            && status.message.contains("Headgate may not change labels") =>
                    {
                        Ok(())
                    }
                    other => Err(format!("{:?}", other.map(|pod| pod.metadata))),
                }
            })
            .await;
        }
        s.cluster.delete_pod("probe", 0).await;
    }

    /// Deletes its cluster-scoped objects.
    pub async fn remove(self) {
        for object in self.made.iter().filter(|object| object.namespace().is_none()) {
            let name = object.name_any();
            api(&self.admin, object).delete(&name, &DeleteParams::default()).await.unwrap();
        }
    }
}

/// The message of an admission policy that rejected a request.
///
/// # Errors The actual answer.
pub fn by_policy<T: std::fmt::Debug>(answer: kube::Result<T>) -> Result<String, String> {
    match answer {
        Err(kube::Error::Api(status))
            if status.code == 403 && status.message.contains("ValidatingAdmissionPolicy") =>
        {
            Ok(status.message)
        }
        other => Err(format!("{other:?}")),
    }
}
