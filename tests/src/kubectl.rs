//! The real `kubectl`, in one namespace.

use std::{path::PathBuf, process::Stdio};

use localstack_world::Facts;
use tokio::process::Command;

/// `kubectl` as an administrator of a world.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    namespace: String,
}

impl Kubectl {
    /// For this namespace.
    pub fn new(facts: &Facts, namespace: &str) -> Self {
        let (program, kubeconfig) = (facts.kubectl.clone(), facts.kubeconfig.clone());
        Self { program, kubeconfig, namespace: namespace.into() }
    }

    /// Runs it; panics with what it said if it fails.
    pub async fn run(&self, arguments: &[&str]) -> String {
        match self.try_run(arguments).await {
            Ok(said) => said,
            Err(complained) => panic!("kubectl {}: {complained}", arguments.join(" ")),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// What it said, if it fails.
    pub async fn try_run(&self, arguments: &[&str]) -> Result<String, String> {
        let output = Command::new(&self.program)
            .args(["--namespace", &self.namespace])
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(said) } else { Err(said + &String::from_utf8_lossy(&output.stderr)) }
    }
}
