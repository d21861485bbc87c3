//! Helm, built from its Go module, so that tests install a chart with the same program as users.

use std::path::PathBuf;

use crate::{
    cache::Cache,
    compile::{Build, CompileError},
};

const SOURCES: [(&str, &str); 2] =
    [("go.mod", include_str!("../../helm/go.mod")), ("go.sum", include_str!("../../helm/go.sum"))];

/// Returns the path of `helm`. Builds the program first if necessary. `report` receives a sentence before a long step.
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
