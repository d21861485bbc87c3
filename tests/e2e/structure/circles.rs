//! No folder imports in a circle, so each can be read and changed without the folders that import it.
//!
//! Of any two files or folders in the same folder, at most one imports the other, directly or indirectly. Test code
//! does not count. No file of end-to-end tests imports another one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use headgate_harness::root;
use syn::{
    Item, ItemUse, UseTree,
    visit::{self, Visit},
};

use super::{Module, is_for_tests, modules};

/// The modules of a crate by path, each with the paths in its file.
type Modules = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// The imports between modules, by their folder.
type Arrows = BTreeMap<Vec<String>, BTreeMap<String, BTreeSet<String>>>;

/// Reads the paths in a file.
struct File<'a> {
    module: &'a [String],
    names: BTreeSet<Vec<String>>,
}

impl File<'_> {
    /// Records a path that begins with `crate`, `self` or `super`. Other paths refer to imported names.
    fn note(&mut self, path: &[String]) {
        let Some(first) = path.first() else { return };
        let mut from: Vec<String> = match first.as_str() {
            "crate" => Vec::new(),
            "self" => self.module.to_vec(),
            "super" => self.module[..self.module.len().saturating_sub(1)].to_vec(),
            _ => return,
        };
        for segment in &path[1..] {
            if segment == "super" {
                from.pop();
            } else {
                from.push(segment.clone());
            }
        }
        self.names.insert(from);
    }

    fn note_tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(path) => self.note_tree(&path.tree, &with(path.ident.to_string())),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.note_tree(tree, before)),
            UseTree::Name(name) => self.note(&with(name.ident.to_string())),
            UseTree::Rename(rename) => self.note(&with(rename.ident.to_string())),
            UseTree::Glob(_) => self.note(before),
        }
    }
}

impl<'ast> Visit<'ast> for File<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.note_tree(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.note(&segments);
        visit::visit_path(self, path);
    }
}

/// The paths in a file.
fn names(module: &Module) -> BTreeSet<Vec<String>> {
    let mut file = File { module: &module.path, names: BTreeSet::new() };
    file.visit_file(&module.syntax);
    file.names
}

/// The imports between modules in the same folder.
fn arrows(modules: &Modules) -> Arrows {
    let mut arrows = Arrows::new();
    for (module, names) in modules {
        for name in names {
            let together = module.iter().zip(name).take_while(|(a, b)| a == b).count();
            let (Some(from), Some(to)) = (module.get(together), name.get(together)) else { continue };
            let beside = [&name[..together], std::slice::from_ref(to)].concat();
            if modules.contains_key(&beside) {
                let here = arrows.entry(name[..together].to_vec()).or_default();
                here.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    arrows
}

/// The modules of a circle.
fn circle(arrows: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let reaches = |from: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            for next in arrows.get(module).into_iter().flatten() {
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
        seen
    };
    arrows.keys().filter(|module| reaches(module).contains(module)).cloned().collect()
}

/// The folders with a circle, by crate.
fn circles() -> BTreeMap<String, Vec<String>> {
    let root = root();
    let folders = ["src", "localstack", "tests", "tools"];
    let crates = folders.map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let crates = crates.into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut all = BTreeMap::new();
    for folder in crates {
        let Some(file) =
            ["src/lib.rs", "src/main.rs"].iter().map(|file| folder.join(file)).find(|file| file.exists())
        else {
            continue;
        };
        let modules_found: Modules =
            modules(&file).into_iter().map(|module| (module.path.clone(), names(&module))).collect();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        for (at, arrows) in arrows(&modules_found) {
            let circle = circle(&arrows);
            if !circle.is_empty() {
                all.insert([std::slice::from_ref(&name), &at[..]].concat().join("/"), circle);
            }
        }
    }
    all
}

#[test]
fn nothing_imports_in_a_circle() {
    let found = circles();
    assert!(found.is_empty(), "these import each other in a circle: {found:#?}");
}

/// Code that test files share belongs to `tests/harness`.
#[test]
fn no_test_file_imports_another() {
    let all = modules(&root().join("tests/e2e/main.rs"));
    let has_tests =
        |file: &Module| ["#[test]", "on_both_kinds_of_nodes! {"].iter().any(|mark| file.text.contains(mark));
    let mut wrong = Vec::new();
    for file in &all {
        for name in names(file) {
            let named = all.iter().filter(|other| name.starts_with(&other.path));
            let other = named.max_by_key(|other| other.path.len());
            if let Some(other) = other.filter(|other| other.path != file.path && has_tests(other)) {
                wrong.push(format!("{} imports {}", file.path.join("/"), other.path.join("/")));
            }
        }
    }
    assert!(all.len() > 40, "expected the end-to-end tests, found {} files", all.len());
    assert!(wrong.is_empty(), "move what they share to tests/harness: {wrong:#?}");
}

#[test]
fn a_circle_is_found_whoever_lies_between_and_what_only_imports_is_in_none() {
    let arrows = |pairs: &[(&str, &str)]| {
        let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in pairs {
            arrows.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        circle(&arrows)
    };
    assert_eq!(arrows(&[("a", "b"), ("b", "c"), ("a", "c")]), [""; 0]);
    assert_eq!(arrows(&[("x", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "y")]), ["a", "b", "c"]);
}

#[test]
fn what_is_only_for_tests_does_not_count_and_what_a_path_names_does() {
    let module: Vec<String> = vec!["gate".into(), "judge".into()];
    let mut file = File { module: &module, names: BTreeSet::new() };
    let text = "use crate::{index::{Index, verdict::*}, time::Moment as At}; use super::Waiting; \
                #[cfg(test)] mod tests { use crate::testing::pod; } #[cfg(test)] use crate::planted; \
                fn f() -> crate::health::Health { super::super::lease::now(At::START, self::g()) }";
    file.visit_file(&syn::parse_file(text).unwrap());
    let names: Vec<String> = file.names.iter().map(|name| name.join("::")).collect();
    let expected = [
        "gate::Waiting",
        "gate::judge::g",
        "health::Health",
        "index::Index",
        "index::verdict",
        "lease::now",
        "time::Moment",
    ];
    assert_eq!(names, expected);
}
