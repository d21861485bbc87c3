//! The paths of the Kubernetes programs. Decides whether the programs must be built first.
//!
//! The module uses the programs in `KUBEBUILDER_ASSETS`, or a build by [`crate::compile`]. The module never downloads
//! programs, and never changes `KUBEBUILDER_ASSETS`.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use crate::{
    cache::Cache,
    compile::{Build, CompileError},
    minor::Minor,
    options::Nodes,
};

/// The programs that a local cluster links into its folder.
pub const PROGRAMS: [&str; 5] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];

/// The additional programs of real nodes.
const NODE_PROGRAMS: [&str; 2] = ["kubelet", "kube-proxy"];

/// Returns the programs of a local cluster with this type of nodes.
fn programs(nodes: Nodes) -> Vec<&'static str> {
    let more: &[&str] = if nodes == Nodes::Real { &NODE_PROGRAMS } else { &[] };
    PROGRAMS.iter().chain(more).copied().collect()
}

/// The Kubernetes programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kubernetes {
    /// One executable that contains all programs.
    Built(PathBuf),
    /// A folder with one executable per program.
    Assets(PathBuf),
}

impl Kubernetes {
    /// Finds the programs. Builds the programs first if this version was never built. `report` receives a sentence
    /// before and after a long step.
    pub async fn find(
        cache: &Cache,
        nodes: Nodes,
        minor: Minor,
        report: &dyn Fn(&str),
    ) -> Result<Self, KubernetesError> {
        match std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty()) {
            Some(folder) => Self::in_assets(folder, nodes),
            None => Self::built(cache, minor, report).await,
        }
    }

    fn in_assets(folder: OsString, nodes: Nodes) -> Result<Self, KubernetesError> {
        let folder = PathBuf::from(folder);
        let missing: Vec<&str> =
            programs(nodes).into_iter().filter(|program| !folder.join(program).is_file()).collect();
        if missing.is_empty() {
            Ok(Self::Assets(folder))
        } else {
            Err(KubernetesError::IncompleteAssets { folder, missing: missing.join(", ") })
        }
    }

    /// Returns the build of a minor version, for any value of `KUBEBUILDER_ASSETS`. Builds the programs first if
    /// necessary.
    pub(crate) async fn built(
        cache: &Cache,
        minor: Minor,
        report: &dyn Fn(&str),
    ) -> Result<Self, KubernetesError> {
        let folder = build(minor).folder(&cache.kubernetes(), report).await?;
        Ok(Self::Built(folder.join("kubernetes")))
    }

    /// Returns the path of a program's executable.
    pub fn executable(&self, program: &str) -> PathBuf {
        match self {
            Self::Built(executable) => executable.clone(),
            Self::Assets(folder) => folder.join(program),
        }
    }

    /// Links every program into a folder under its own name.
    pub fn link_into(&self, folder: &Path, nodes: Nodes) -> io::Result<()> {
        for program in programs(nodes) {
            std::os::unix::fs::symlink(self.executable(program), folder.join(program))?;
        }
        Ok(())
    }
}

fn build(minor: Minor) -> Build {
    let version = minor.version();
    Build {
        what: format!("Kubernetes {version}"),
        estimate: "about five minutes on two cores, half a minute if Go still has its own cache",
        packages: Some(2_840),
        label: version.to_owned(),
        sources: minor.sources(),
        arguments: go_arguments(version),
    }
}

fn go_arguments(version: &str) -> Vec<String> {
    let package = "k8s.io/component-base/version";
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or("1"), numbers.next().unwrap_or("0"));
    // Without a version, kubectl prints a warning, and the API server reports v0.0.0.
    let link = format!(
        "-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
    );
    let fixed = [
        "build",
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        "-gcflags=all=-dwarf=false",
        "-o",
        "../kubernetes",
        "-ldflags",
    ];
    fixed.into_iter().map(str::to_owned).chain([link, ".".to_owned()]).collect()
}

/// The reason why the Kubernetes programs are not available.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    /// `KUBEBUILDER_ASSETS` lacks programs.
    #[error(
        "KUBEBUILDER_ASSETS is {folder}, which has no {missing}: add what is missing, or unset the variable \
         to use a build of our own",
        folder = folder.display()
    )]
    IncompleteAssets {
        /// The value of `KUBEBUILDER_ASSETS`.
        folder: PathBuf,
        /// The missing programs, separated by commas.
        missing: String,
    },
    /// The build failed.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::scratch_folder;

    #[test]
    fn each_minor_is_built_and_kept_for_itself() {
        let builds: Vec<Build> = Minor::all().iter().map(|minor| build(*minor)).collect();
        for (position, build) in builds.iter().enumerate() {
            assert!(build.arguments.iter().any(|argument| argument.contains(&build.label)), "{build:?}");
            for other in &builds[..position] {
                assert_ne!(build.key(), other.key());
            }
        }
    }

    #[test]
    fn the_programs_are_told_their_version() {
        let link = go_arguments("v1.36.3").into_iter().find(|argument| argument.contains("-X")).unwrap();
        assert!(link.contains("gitVersion=v1.36.3"), "{link}");
        assert!(link.contains("gitMajor=1") && link.contains("gitMinor=36"), "{link}");
    }

    #[test]
    fn assets_that_lack_programs_are_refused_with_a_list() {
        let folder = scratch_folder();
        for program in ["etcd", "kube-apiserver", "kubectl"] {
            fs::write(folder.path().join(program), "").unwrap();
        }
        let error = Kubernetes::in_assets(folder.path().into(), Nodes::Simulated).unwrap_err().to_string();
        assert!(error.contains("has no kube-controller-manager, kube-scheduler:"), "{error}");
        assert!(error.contains(folder.path().to_str().unwrap()), "{error}");
    }

    #[test]
    fn complete_assets_are_linked_under_their_own_names() {
        let (assets, bin) = (scratch_folder(), scratch_folder());
        for program in PROGRAMS {
            fs::write(assets.path().join(program), program).unwrap();
        }
        let kubernetes = Kubernetes::in_assets(assets.path().into(), Nodes::Simulated).unwrap();
        kubernetes.link_into(bin.path(), Nodes::Simulated).unwrap();
        for program in PROGRAMS {
            assert_eq!(fs::read_to_string(bin.path().join(program)).unwrap(), program);
        }
    }
}
