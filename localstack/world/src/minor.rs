//! The minor versions of Kubernetes that a local cluster can run, with the sources of their builds.
//!
//! `make kubernetes-module` writes `go.mod` and `go.sum` of each minor version. All minor versions have the same
//! `main.go`.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A source file of a build, as a pair of name and content.
pub(crate) type Source = (&'static str, &'static str);

/// The main program, which is the same for all minor versions.
const MAIN: Source = ("main.go", include_str!("../../kubernetes/main.go"));

const V33: [Source; 3] = [
    ("go.mod", include_str!("../../kubernetes/1.33/go.mod")),
    ("go.sum", include_str!("../../kubernetes/1.33/go.sum")),
    MAIN,
];
const V34: [Source; 3] = [
    ("go.mod", include_str!("../../kubernetes/1.34/go.mod")),
    ("go.sum", include_str!("../../kubernetes/1.34/go.sum")),
    MAIN,
];
const V35: [Source; 3] = [
    ("go.mod", include_str!("../../kubernetes/1.35/go.mod")),
    ("go.sum", include_str!("../../kubernetes/1.35/go.sum")),
    MAIN,
];
const V36: [Source; 3] = [
    ("go.mod", include_str!("../../kubernetes/go.mod")),
    ("go.sum", include_str!("../../kubernetes/go.sum")),
    MAIN,
];
const V37: [Source; 3] = [
    ("go.mod", include_str!("../../kubernetes/1.37/go.mod")),
    ("go.sum", include_str!("../../kubernetes/1.37/go.sum")),
    MAIN,
];

/// A minor version of Kubernetes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize,
)]
pub enum Minor {
    /// Kubernetes 1.33.
    #[value(name = "1.33")]
    #[serde(rename = "1.33")]
    V33,
    /// Kubernetes 1.34.
    #[value(name = "1.34")]
    #[serde(rename = "1.34")]
    V34,
    /// Kubernetes 1.35.
    #[value(name = "1.35")]
    #[serde(rename = "1.35")]
    V35,
    /// Kubernetes 1.36.
    #[default]
    #[value(name = "1.36")]
    #[serde(rename = "1.36")]
    V36,
    /// Kubernetes 1.37.
    #[value(name = "1.37")]
    #[serde(rename = "1.37")]
    V37,
}

impl Minor {
    /// Returns all minor versions, oldest first.
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// Returns the name, such as `1.36`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V33 => "1.33",
            Self::V34 => "1.34",
            Self::V35 => "1.35",
            Self::V36 => "1.36",
            Self::V37 => "1.37",
        }
    }

    /// Returns the version to build, such as `v1.36.3`. The version comes from `go.mod`.
    pub fn version(self) -> &'static str {
        let [(_, go_mod), ..] = self.sources();
        let line = go_mod.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
        line.and_then(|rest| rest.split_whitespace().next()).unwrap_or("unknown")
    }

    /// Returns the sources of the build.
    pub(crate) fn sources(self) -> &'static [Source; 3] {
        match self {
            Self::V33 => &V33,
            Self::V34 => &V34,
            Self::V35 => &V35,
            Self::V36 => &V36,
            Self::V37 => &V37,
        }
    }
}

impl std::fmt::Display for Minor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_go_mod_of_each_minor_asks_for_a_version_of_it() {
        for minor in Minor::all() {
            let version = minor.version();
            assert!(version.starts_with(&format!("v{minor}.")), "{minor}: {version}");
            let staging = format!("k8s.io/api => k8s.io/api {}", version.replacen("v1.", "v0.", 1));
            assert!(minor.sources()[0].1.contains(&staging), "{minor} has no {staging}");
        }
    }

    #[test]
    fn each_minor_has_one_name_wherever_it_is_written() {
        for minor in Minor::all() {
            let flag = minor.to_possible_value().unwrap();
            assert_eq!(flag.get_name(), minor.name());
            assert_eq!(serde_json::to_value(minor).unwrap(), minor.name());
        }
        assert!(Minor::all().is_sorted());
    }
}
