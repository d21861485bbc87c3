//! The programs that pods of real nodes run, built from Go modules as Kubernetes is.
//!
//! Owns which images there are and their names. Packing and importing are `localstack_nodes`'s.

use std::path::{Path, PathBuf};

use crate::compile::{Build, CompileError};

/// The programs of our own: what holds a pod's network, and a server that misbehaves on request.
const OWN: [(&str, &str); 3] = [
    ("go.mod", include_str!("../../nodes/images/go.mod")),
    ("pause/main.go", include_str!("../../nodes/images/pause/main.go")),
    ("web/main.go", include_str!("../../nodes/images/web/main.go")),
];

/// The ingress Skipper, from its published module.
const SKIPPER: [(&str, &str); 2] = [
    ("go.mod", include_str!("../../nodes/images/skipper/go.mod")),
    ("go.sum", include_str!("../../nodes/images/skipper/go.sum")),
];

/// The ingress Traefik, from its published module.
const TRAEFIK: [(&str, &str); 2] = [
    ("go.mod", include_str!("../../nodes/images/traefik/go.mod")),
    ("go.sum", include_str!("../../nodes/images/traefik/go.sum")),
];

/// The names of all images and their programs, which are built if they never were.
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

/// Skipper's program, which is built if it never was.
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

/// Traefik's, in the same way.
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
