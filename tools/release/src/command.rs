//! The command line of `release`.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::{Parser, Subcommand};

use crate::{
    crates::{Linked, Target},
    files::{self, Built},
    notices, root,
};

/// Makes what a release carries besides its programs.
#[derive(Parser)]
#[command(name = "release")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the licence texts of everything that is linked into the programs
    Notices {
        /// The file to write
        #[arg(long)]
        out: PathBuf,
        /// The processor of the programs; may be given more than once
        #[arg(long, value_enum, required = true)]
        arch: Vec<Target>,
    },
    /// Write the archives, their checksums, SBOMs and licence texts, and the manifest for krew
    Files {
        /// The folder to write to; it is made anew
        #[arg(long)]
        out: PathBuf,
        /// Where the archives will be found
        #[arg(long, value_name = "URL")]
        downloads: String,
        /// A processor, and the folder of the programs that were built for it; once for each that there is
        #[arg(long, required = true, value_name = "ARCH=FOLDER")]
        built: Vec<Built>,
    },
}

/// Parses the command line and does what it says. Exit codes: 0 done, 1 failed, 2 wrong usage.
pub fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("release: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Notices { out, arch } => {
            let text = notices::text(&Linked::find(root(), &arch)?)?;
            if let Some(folder) = out.parent() {
                fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            }
            fs::write(&out, text).with_context(|| format!("cannot write {}", out.display()))
        }
        Command::Files { out, downloads, built } => {
            for path in files::write(&out, &downloads, &built)? {
                println!("{}", path.display());
            }
            Ok(())
        }
    }
}
