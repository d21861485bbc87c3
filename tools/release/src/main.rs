//! `make image` and `make release`: the licence texts of everything that is linked into the programs, and the same as a
//! list for programs.
//!
//! ```text
//!  crates   what is linked into the programs, as cargo resolves it
//!  notices  the licence texts of all that
//!  sbom     the list: CycloneDX
//! ```
//!
//! Asks cargo, and reads the sources that cargo has fetched; nothing else. What is missing is an error, never left out.

mod crates;
mod notices;
mod sbom;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::{Args, Parser};

use crate::crates::{Linked, Target};

/// Lists what is linked into the programs of Headgate.
#[derive(Parser)]
#[command(name = "release")]
enum Command {
    /// Write the licence texts of everything that is linked into the programs
    Notices(Of),
    /// Write the list of what is linked into `headgate`, as CycloneDX
    Sbom(Of),
}

#[derive(Args)]
struct Of {
    /// The file to write
    #[arg(long)]
    out: PathBuf,
    /// The processor of the programs; may be given more than once
    #[arg(long, value_enum, required = true)]
    arch: Vec<Target>,
}

fn main() -> ExitCode {
    match run(&Command::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("release: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> anyhow::Result<()> {
    let (Command::Notices(of) | Command::Sbom(of)) = command;
    let linked = Linked::find(root(), &of.arch)?;
    let text = match command {
        Command::Notices(_) => notices::text(&linked)?,
        Command::Sbom(_) => {
            serde_json::to_string_pretty(&sbom::sbom(&linked, "headgate-cli", of.arch[0].name()))? + "\n"
        }
    };
    if let Some(folder) = of.out.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::write(&of.out, text).with_context(|| format!("cannot write {}", of.out.display()))
}

/// The folder of the repository.
fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}
