//! Images of real ingresses for real nodes. A local cluster has no such image at its start.
//!
//! The module defines the files of each image. Skipper and Traefik are built from their Go modules. nginx and HAProxy
//! come from Debian packages, which are unpacked without installation. The images of nginx and HAProxy also contain a
//! shell. The cache keeps all files. The module downloads packages, so the caller must be outside of a cluster's
//! network. `localstack_nodes` packs and imports the images.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use tokio::process::Command;

use crate::{
    cache::{Cache, CacheError},
    compile::CompileError,
    debian::{self, DebianError},
    images,
};

/// An ingress that has an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ingress {
    /// Skipper, built from its Go module.
    Skipper,
    /// Traefik, built from its Go module.
    Traefik,
    /// nginx from the Debian package.
    Nginx,
    /// HAProxy from the Debian package.
    HaProxy,
}

/// The contents of an image.
#[derive(Clone, Debug)]
pub struct Image {
    /// The name of the image on the nodes.
    pub name: String,
    /// The default program of the image.
    pub program: PathBuf,
    /// Other files in the image. The key is the path in the image, and the value is a file on this machine.
    pub files: BTreeMap<String, PathBuf>,
    /// The signal that stops the containers of the image. The value matches the official image of the ingress. `None`:
    /// SIGTERM.
    pub stop_signal: Option<&'static str>,
}

impl Ingress {
    /// All ingresses.
    pub const ALL: [Self; 4] = [Self::Skipper, Self::Traefik, Self::Nginx, Self::HaProxy];

    /// Returns the name of the ingress.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Skipper => "skipper",
            Self::Traefik => "traefik",
            Self::Nginx => "nginx",
            Self::HaProxy => "haproxy",
        }
    }

    /// Returns the name of the ingress's image on the nodes.
    #[must_use]
    pub fn image_name(self) -> String {
        format!("headgate.local/{}:proxy", self.name())
    }

    /// Returns the image of the ingress. Creates the image first if necessary. `report` receives a sentence before and
    /// after a long step.
    ///
    /// # Errors
    /// The image cannot be built, downloaded or unpacked.
    pub async fn image(self, report: &dyn Fn(&str)) -> Result<Image, IngressError> {
        let cache = Cache::from_environment()?;
        let builds = cache.images();
        let plain =
            |program| Image { name: self.image_name(), program, files: BTreeMap::new(), stop_signal: None };
        Ok(match self {
            Self::Skipper => {
                let program = images::skipper(&builds, report).await?;
                let files = BTreeMap::from([("/usr/bin/skipper".to_owned(), program.clone())]);
                // No container runs the default program of this image.
                Image { files, ..plain(PathBuf::from("/bin/true")) }
            }
            Self::Traefik => plain(images::traefik(&builds, report).await?),
            Self::Nginx => {
                let files = debian(&builds, "nginx", &["libpcre2-8-0", "libssl3", "zlib1g"], report).await?;
                Image { files, stop_signal: Some("SIGQUIT"), ..plain(PathBuf::from("/bin/true")) }
            }
            Self::HaProxy => {
                let more = [
                    "liblua5.3-0",
                    "libopentracing-c-wrapper0",
                    "libopentracing1",
                    "libpcre2-8-0",
                    "libssl3",
                ];
                let files = debian(&builds, "haproxy", &more, report).await?;
                Image { files, stop_signal: Some("SIGUSR1"), ..plain(PathBuf::from("/bin/true")) }
            }
        })
    }
}

/// Returns the files of a program from `/usr/sbin`, its libraries and a shell, by their paths in the image. `more`:
/// other packages that the machine may lack.
async fn debian(
    builds: &Path,
    package: &str,
    more: &[&str],
    report: &dyn Fn(&str),
) -> Result<BTreeMap<String, PathBuf>, IngressError> {
    let folder = debian::unpacked_in(builds, package, more, report).await?;
    let mut files = BTreeMap::new();
    let program = folder.join("usr/sbin").join(package);
    files.extend(libraries(&program, &folder).await?);
    files.insert(format!("/usr/sbin/{package}"), program);
    for program in ["/bin/sh", "/bin/sleep"] {
        let file = fs::canonicalize(program).map_err(IngressError::at(program))?;
        files.extend(libraries(&file, &folder).await?);
        files.insert(program.to_owned(), file);
    }
    Ok(files)
}

/// Returns the libraries that a program needs, by their paths in the image. Unpacked libraries take precedence.
async fn libraries(program: &Path, folder: &Path) -> Result<BTreeMap<String, PathBuf>, IngressError> {
    let mut unpacked = Vec::new();
    for below in ["usr/lib", "lib"] {
        let entries = fs::read_dir(folder.join(below)).into_iter().flatten().flatten();
        unpacked.extend(entries.map(|entry| entry.path()).filter(|path| path.is_dir()));
    }
    let search =
        std::env::join_paths(unpacked).map_err(|error| IngressError::at("ldd")(io::Error::other(error)))?;
    let said = Command::new("ldd").arg(program).env("LD_LIBRARY_PATH", search).output().await;
    let said = said.map_err(IngressError::at("ldd"))?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    if let Some(missing) = said.lines().find(|line| line.contains("not found")) {
        return Err(IngressError::Failed(format!("ldd {}", program.display()), missing.trim().to_owned()));
    }
    let paths = said.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
    let placed = paths.map(|path| {
        let at = path.strip_prefix(folder).map_or_else(|_| path.clone(), |below| Path::new("/").join(below));
        (at.to_string_lossy().into_owned(), path)
    });
    Ok(placed.collect())
}

/// The reason why the image of an ingress is not available.
#[derive(Debug, thiserror::Error)]
pub enum IngressError {
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The ingress cannot be built.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A Debian package is not available.
    #[error(transparent)]
    Debian(#[from] DebianError),
    /// A library of a program is missing.
    #[error("`{0}` says: {1}; expected a Debian with what its packages need")]
    Failed(String, String),
    /// A file or a program cannot be used.
    #[error("cannot use {path}: {source}; expected a Debian with apt-get, dpkg-deb and ldd", path = path.display())]
    Io {
        /// The path of the file or program.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl IngressError {
    fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scratch_folder;

    #[tokio::test]
    async fn a_program_has_its_libraries_where_its_loader_looks_for_them() {
        let folder = scratch_folder();
        let files = libraries(Path::new("/bin/sh"), folder.path()).await.unwrap();
        assert!(files.keys().any(|path| path.contains("libc.so")), "{files:?}");
        assert!(files.iter().all(|(at, file)| Path::new(at) == file), "nothing was unpacked: {files:?}");
    }
}
