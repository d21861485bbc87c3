//! The real `kubectl`, in one namespace or in the namespaces of the objects.

use std::{path::PathBuf, process::Stdio};

use localstack_world::Facts;
use tokio::process::Command;

/// `kubectl` as an administrator of a local world.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    /// `None`: the namespaces in the objects, or the default.
    namespace: Option<String>,
}

impl Kubectl {
    /// Uses this namespace.
    pub fn new(facts: &Facts, namespace: &str) -> Self {
        let (program, kubeconfig) = (facts.kubectl.clone(), facts.kubeconfig.clone());
        Self { program, kubeconfig, namespace: Some(namespace.into()) }
    }

    /// Uses the namespaces in the objects.
    pub fn of_objects(facts: &Facts) -> Self {
        Self { namespace: None, ..Self::new(facts, "") }
    }

    /// Runs it. Panics with its output if it fails.
    pub async fn run(&self, arguments: &[&str]) -> String {
        match self.try_run(arguments).await {
            Ok(said) => said,
            Err(complained) => panic!("kubectl {}: {complained}", arguments.join(" ")),
        }
    }

    /// Runs it.
    ///
    /// # Errors Its output, if it fails.
    pub async fn try_run(&self, arguments: &[&str]) -> Result<String, String> {
        Ok(self.both(arguments).await?.0)
    }

    /// Runs it and returns standard output and standard error. Panics with them if it fails.
    pub async fn transcript(&self, arguments: &[&str]) -> String {
        match self.both(arguments).await {
            Ok((said, complained)) => said + &complained,
            Err(complained) => panic!("kubectl {}: {complained}", arguments.join(" ")),
        }
    }

    async fn both(&self, arguments: &[&str]) -> Result<(String, String), String> {
        let output = Command::new(&self.program)
            .args(self.namespace.iter().flat_map(|namespace| ["--namespace", namespace]))
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let [said, complained] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        if output.status.success() { Ok((said, complained)) } else { Err(said + &complained) }
    }
}
