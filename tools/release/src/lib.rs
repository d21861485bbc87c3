//! What a release carries.
//!
//! ```text
//!  crates   what is linked into the programs, as cargo resolves it
//!  notices  the licence texts of all that
//!  sbom     the same as a list for programs: CycloneDX
//!  archive  a .tar.gz that is the same whenever it is made
//!  krew     the manifest by which krew installs `kubectl headgate`
//!  files    all of them together
//! ```
//!
//! Asks cargo, and reads the sources that cargo has fetched; nothing else. What is missing is an error, never left out.

pub mod archive;
pub mod command;
pub mod crates;
pub mod files;
pub mod krew;
pub mod notices;
pub mod sbom;

use std::path::Path;

/// The folder of the repository.
///
/// # Panics
/// Never: this crate is two folders deep in it.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}
