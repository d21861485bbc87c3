//! Objects as earlier versions of the program have stored them: `tests/fixtures/COMMIT`, made by `make fixtures`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// What one earlier version has stored.
pub struct Earlier(PathBuf);

impl Earlier {
    /// Of each version that there is something of.
    pub fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
        let versions = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let all: Vec<Self> = versions.filter(|path| path.is_dir()).map(Self).collect();
        assert!(!all.is_empty());
        all
    }

    /// An object, or what the world said at that time.
    pub fn get(&self, name: &str) -> Value {
        let path = self.0.join(name).with_extension("json");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap()
    }

    /// The same, read as this.
    pub fn read<T: serde::de::DeserializeOwned>(&self, name: &str) -> T {
        serde_json::from_value(self.get(name)).unwrap()
    }
}
