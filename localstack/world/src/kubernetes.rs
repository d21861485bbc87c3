//! The Kubernetes programs: where they are, and whether they must be built first.
//!
//! Owns the choice between the programs of `KUBEBUILDER_ASSETS` and our own build, the key under
//! which a build is kept, and the rule that a build is there wholly or not at all. Compiling is
//! [`crate::compile`]'s. Never downloads programs, and never changes `KUBEBUILDER_ASSETS`.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::{
    cache::{Cache, CacheError, FileLock},
    compile::{self, CompileError},
};

/// The programs that a world links into its folder.
pub const PROGRAMS: [&str; 5] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];

/// The sources of our own build, as (file name, content).
pub(crate) const SOURCES: [(&str, &str); 3] = [
    ("go.mod", include_str!("../../kubernetes/go.mod")),
    ("go.sum", include_str!("../../kubernetes/go.sum")),
    ("main.go", include_str!("../../kubernetes/main.go")),
];

/// Where the Kubernetes programs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kubernetes {
    /// One executable that is all of them.
    Built(PathBuf),
    /// A folder with one executable for each.
    Assets(PathBuf),
}

impl Kubernetes {
    /// Finds the programs, and builds them if this version was never built before. `report` is
    /// told, in a sentence, before and after something that takes long.
    pub async fn find(cache: &Cache, report: &dyn Fn(&str)) -> Result<Self, KubernetesError> {
        match std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty()) {
            Some(folder) => Self::in_assets(folder),
            None => Self::built(cache, report).await,
        }
    }

    fn in_assets(folder: OsString) -> Result<Self, KubernetesError> {
        let folder = PathBuf::from(folder);
        let missing: Vec<&str> =
            PROGRAMS.into_iter().filter(|program| !folder.join(program).is_file()).collect();
        if missing.is_empty() {
            Ok(Self::Assets(folder))
        } else {
            Err(KubernetesError::IncompleteAssets { folder, missing: missing.join(", ") })
        }
    }

    async fn built(cache: &Cache, report: &dyn Fn(&str)) -> Result<Self, KubernetesError> {
        let builds = cache.kubernetes();
        let key = key();
        let program = builds.join(&key).join("kubernetes");
        if program.is_file() {
            return Ok(Self::Built(program));
        }
        let _lock = wait_for_lock(&builds.join("build.lock"), report).await?;
        // Another world may have built it while this one waited.
        if !program.is_file() {
            compile::compile(&builds, &key, version(), report).await?;
        }
        Ok(Self::Built(program))
    }

    /// What a link of this name has to point to.
    pub fn executable(&self, program: &str) -> PathBuf {
        match self {
            Self::Built(executable) => executable.clone(),
            Self::Assets(folder) => folder.join(program),
        }
    }

    /// Links every program into a folder, under its own name.
    pub fn link_into(&self, folder: &Path) -> io::Result<()> {
        for program in PROGRAMS {
            std::os::unix::fs::symlink(self.executable(program), folder.join(program))?;
        }
        Ok(())
    }
}

/// The version of Kubernetes that `go.mod` asks for, such as `v1.36.3`.
pub fn version() -> &'static str {
    SOURCES[0]
        .1
        .lines()
        .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "))
        .map_or("unknown", |rest| rest.split_whitespace().next().unwrap_or("unknown"))
}

/// The name of the folder of a build: another version or other sources have another one.
fn key() -> String {
    key_of(version(), &SOURCES)
}

fn key_of(version: &str, sources: &[(&str, &str)]) -> String {
    let mut hash = Sha256::new();
    for (name, content) in sources {
        // Lengths keep ("ab", "c") apart from ("a", "bc").
        for part in [name, content] {
            hash.update(part.len().to_le_bytes());
            hash.update(part.as_bytes());
        }
    }
    let digest = hash.finalize();
    digest.iter().take(6).fold(format!("{version}-"), |name, byte| format!("{name}{byte:02x}"))
}

async fn wait_for_lock(path: &Path, report: &dyn Fn(&str)) -> Result<FileLock, KubernetesError> {
    let mut told = false;
    loop {
        if let Some(lock) = FileLock::try_take(path)? {
            return Ok(lock);
        }
        if !told {
            report("Another world is building Kubernetes at this moment; waiting for it.");
            told = true;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

/// Removes what an interrupted build left. Only for the holder of the build lock.
pub(crate) fn remove_leftovers(builds: &Path, prefix: &str) -> io::Result<()> {
    for entry in fs::read_dir(builds)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Why there are no Kubernetes programs.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    /// The folder of the user lacks programs.
    #[error(
        "KUBEBUILDER_ASSETS is {folder}, which has no {missing}: add what is missing, or unset the variable \
         to use a build of our own",
        folder = folder.display()
    )]
    IncompleteAssets {
        /// The value of the variable.
        folder: PathBuf,
        /// The missing programs, separated by commas.
        missing: String,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The build failed.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scratch_folder;

    #[test]
    fn the_version_is_the_one_that_go_mod_requires() {
        assert!(version().starts_with("v1."), "{}", version());
        assert!(SOURCES[0].1.contains(&format!("k8s.io/kubernetes {}", version())));
    }

    #[test]
    fn a_build_is_kept_under_its_version_and_the_hash_of_every_source() {
        let sources = [("go.mod", "a"), ("main.go", "b")];
        let original = key_of("v1.2.3", &sources);
        assert!(original.starts_with("v1.2.3-"), "{original}");
        assert_eq!(original, key_of("v1.2.3", &sources));
        assert_ne!(original, key_of("v1.2.4", &sources));
        assert_ne!(original, key_of("v1.2.3", &[("go.mod", "a"), ("main.go", "c")]));
        assert_ne!(original, key_of("v1.2.3", &[("go.mod", "ab"), ("main.go", "")]));
    }

    #[test]
    fn assets_that_lack_programs_are_refused_with_a_list() {
        let folder = scratch_folder();
        for program in ["etcd", "kube-apiserver", "kubectl"] {
            fs::write(folder.path().join(program), "").unwrap();
        }
        let error = Kubernetes::in_assets(folder.path().into()).unwrap_err().to_string();
        assert!(error.contains("has no kube-controller-manager, kube-scheduler:"), "{error}");
        assert!(error.contains(folder.path().to_str().unwrap()), "{error}");
    }

    #[test]
    fn complete_assets_are_linked_under_their_own_names() {
        let (assets, bin) = (scratch_folder(), scratch_folder());
        for program in PROGRAMS {
            fs::write(assets.path().join(program), program).unwrap();
        }
        Kubernetes::in_assets(assets.path().into()).unwrap().link_into(bin.path()).unwrap();
        for program in PROGRAMS {
            assert_eq!(fs::read_to_string(bin.path().join(program)).unwrap(), program);
        }
    }
}
