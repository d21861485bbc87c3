//! The path of the `world` program, for other programs.

use std::path::{Path, PathBuf};

/// Returns the program in `HEADGATE_WORLD_BIN`, or the `world` next to this program.
///
/// # Errors
/// The program was not found. The error lists the searched folders, separated by commas.
pub(crate) fn find() -> Result<PathBuf, String> {
    if let Some(program) = std::env::var_os("HEADGATE_WORLD_BIN").filter(|value| !value.is_empty()) {
        return Ok(PathBuf::from(program));
    }
    let myself = std::env::current_exe().map_err(|error| format!("the folder of this program ({error})"))?;
    find_beside(&myself)
}

/// Searches for `world` in a program's folder and in the parent folder, because Cargo puts tests into `deps`.
fn find_beside(program: &Path) -> Result<PathBuf, String> {
    let folders: Vec<&Path> = program.ancestors().skip(1).take(2).collect();
    folders.iter().map(|folder| folder.join("world")).find(|candidate| candidate.is_file()).ok_or_else(|| {
        let looked_in: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        looked_in.join(", ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scratch_folder;

    #[test]
    fn the_program_is_found_beside_a_program_and_above_a_test() {
        let folder = scratch_folder();
        let deps = folder.path().join("deps");
        std::fs::create_dir_all(&deps).unwrap();
        let test = deps.join("e2e-0123");
        let looked_in = find_beside(&test).unwrap_err();
        assert!(looked_in.contains("deps, "), "{looked_in}");
        let program = folder.path().join("world");
        std::fs::write(&program, "").unwrap();
        assert_eq!(find_beside(&test).unwrap(), program);
        assert_eq!(find_beside(&folder.path().join("headgate")).unwrap(), program);
    }
}
