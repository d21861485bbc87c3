//! The structure of the sources: imports, and the size of the engine and its parts. Test code does not count.

mod circles;
mod machines;
mod threats;

use std::{
    fs,
    path::{Path, PathBuf},
};

use syn::{Attribute, Item};

/// A file of a crate.
struct Module {
    /// Its path in the crate.
    path: Vec<String>,
    text: String,
    syntax: syn::File,
}

/// All modules of the crate with this root file.
fn modules(file: &Path) -> Vec<Module> {
    let mut all = Vec::new();
    read(file, Vec::new(), &mut all);
    assert!(!all.is_empty(), "{}", file.display());
    all
}

fn read(file: &Path, path: Vec<String>, all: &mut Vec<Module>) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let syntax = syn::parse_file(&text).unwrap();
    let folder: PathBuf = match file.file_stem().and_then(|stem| stem.to_str()) {
        Some("lib" | "main" | "mod") => file.parent().unwrap().to_path_buf(),
        Some(stem) => file.with_file_name(stem),
        None => unreachable!("{}", file.display()),
    };
    let declared = syntax.items.iter().filter_map(|item| match item {
        Item::Mod(module) if module.content.is_none() && !is_for_tests(item) => {
            Some(module.ident.to_string())
        }
        _ => None,
    });
    for name in declared {
        let alone = folder.join(format!("{name}.rs"));
        let file = if alone.exists() { alone } else { folder.join(&name).join("mod.rs") };
        read(&file, [&path[..], &[name]].concat(), all);
    }
    all.push(Module { path, text, syntax });
}

fn is_for_tests(item: &Item) -> bool {
    let attributes = match item {
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(is_test)
}

/// Whether this is `#[cfg(test)]`.
fn is_test(attribute: &Attribute) -> bool {
    let Ok(list) = attribute.meta.require_list() else { return false };
    attribute.path().is_ident("cfg") && list.tokens.to_string() == "test"
}
