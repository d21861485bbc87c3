//! Makes the copy of the core.

#[path = "../bugs.rs"]
mod bugs;
#[path = "../plant.rs"]
mod plant;

use std::{env, path::Path};

fn main() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../src/core/src");
    for watched in [&sources, Path::new("../bugs.rs"), Path::new("../plant.rs"), Path::new("build.rs")] {
        println!("cargo::rerun-if-changed={}", watched.display());
    }
    let to = env::var_os("OUT_DIR").map(|out| Path::new(&out).join("core"));
    let Some(to) = to else { return println!("cargo::error=cargo has not said where the copy goes") };
    if let Err(wrong) = plant::plant(&bugs::ALL, "core", &sources, &to) {
        println!("cargo::error=planted bugs, tests/simulation/planted/bugs.rs: {wrong:#}");
    }
}
