//! Helpers for the unit tests of this crate.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// A folder for one test. Dropping the value removes the folder.
pub(crate) struct ScratchFolder(PathBuf);

impl ScratchFolder {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn scratch_folder() -> ScratchFolder {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("headgate-world-unit-{}-{number}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    ScratchFolder(path)
}
