//! The programs of pods on real nodes, built from Go modules.
//!
//! The module defines the images and their names. `localstack_nodes` packs and imports the images.

use std::path::{Path, PathBuf};

use crate::compile::{Build, CompileError};

/// The programs of this project: the sandbox of a pod, and a server that fails on request.
const OWN: [(&str, &str); 3] = [
    ("go.mod", include_str!("../../nodes/images/go.mod")),
    ("pause/main.go", include_str!("../../nodes/images/pause/main.go")),
    ("web/main.go", include_str!("../../nodes/images/web/main.go")),
];

/// The Skipper ingress, built from its Go module.
const SKIPPER: [(&str, &str); 2] = [
    ("go.mod", include_str!("../../nodes/images/skipper/go.mod")),
    ("go.sum", include_str!("../../nodes/images/skipper/go.sum")),
];

/// The Traefik ingress, built from its Go module.
const TRAEFIK: [(&str, &str); 2] = [
    ("go.mod", include_str!("../../nodes/images/traefik/go.mod")),
    ("go.sum", include_str!("../../nodes/images/traefik/go.sum")),
];

/// Returns the names of all images and the paths of their programs. Builds the programs first if necessary.
pub(crate) async fn find(
    builds: &Path,
    report: &dyn Fn(&str),
) -> Result<Vec<(String, PathBuf)>, CompileError> {
    let own = own().folder(builds, report).await?;
    let skipper = skipper(builds, report).await?;
    Ok(vec![
        (localstack_nodes::config::PAUSE.to_owned(), own.join("pause")),
        ("headgate.local/web:1".to_owned(), own.join("web")),
        ("headgate.local/skipper:1".to_owned(), skipper),
    ])
}

fn own() -> Build {
    Build {
        what: "the images pause and web".to_owned(),
        estimate: "some seconds",
        packages: None,
        label: "own".to_owned(),
        sources: &OWN,
        arguments: arguments("../", &["./pause", "./web"]),
    }
}

/// Returns the path of Skipper's program. Builds the program first if necessary.
pub(crate) async fn skipper(builds: &Path, report: &dyn Fn(&str)) -> Result<PathBuf, CompileError> {
    let build = Build {
        what: "the image skipper".to_owned(),
        estimate: "about two minutes on two cores",
        packages: None,
        label: "skipper".to_owned(),
        sources: &SKIPPER,
        arguments: arguments("../skipper", &["github.com/zalando/skipper/cmd/skipper"]),
    };
    Ok(build.folder(builds, report).await?.join("skipper"))
}

/// Returns the path of Traefik's program. Builds the program first if necessary.
pub(crate) async fn traefik(builds: &Path, report: &dyn Fn(&str)) -> Result<PathBuf, CompileError> {
    let build = Build {
        what: "the image traefik".to_owned(),
        estimate: "about six minutes on two cores",
        packages: None,
        label: "traefik".to_owned(),
        sources: &TRAEFIK,
        arguments: arguments("../traefik", &["github.com/traefik/traefik/v3/cmd/traefik"]),
    };
    Ok(build.folder(builds, report).await?.join("traefik"))
}

fn arguments(into: &str, packages: &[&str]) -> Vec<String> {
    let fixed = ["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", into];
    fixed.iter().chain(packages).map(|&argument| argument.to_owned()).collect()
}
