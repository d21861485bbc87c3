//! Helm, built from its Go module as Kubernetes is: what installs a chart in a test is what installs it for users.

use std::path::PathBuf;

use crate::{
    cache::Cache,
    compile::{Build, CompileError},
};

const SOURCES: [(&str, &str); 2] =
    [("go.mod", include_str!("../../helm/go.mod")), ("go.sum", include_str!("../../helm/go.sum"))];

/// The program `helm`, which is built if it never was. `report` is told, in a sentence, what takes long.
pub(crate) async fn find(cache: &Cache, report: &dyn Fn(&str)) -> Result<PathBuf, CompileError> {
    let fixed =
        ["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", "../helm"];
    let arguments = fixed.iter().chain(&["helm.sh/helm/v3/cmd/helm"]);
    let build = Build {
        what: "helm v3.19.0".to_owned(),
        estimate: "about two minutes on two cores",
        packages: None,
        label: "helm".to_owned(),
        sources: &SOURCES,
        arguments: arguments.map(|&argument| argument.to_owned()).collect(),
    };
    Ok(build.folder(&cache.tools(), report).await?.join("helm"))
}
