//! The engine has few fields. Each part has a small interface, defined in its own folder.

use std::collections::{BTreeMap, BTreeSet};

use headgate_harness::root;
use syn::{Fields, ImplItem, Item, ItemImpl, Type, Visibility};

use super::{Module, is_for_tests, is_test, modules};

/// The engine, and the types that contain its parts.
const HOLDERS: [&str; 3] = ["Engine", "Knowledge", "Leader"];
/// The maximum number of fields of each of these.
const FIELDS: usize = 12;
/// The maximum number of public methods of a part, without its constructor.
const METHODS: usize = 8;

/// The maximum numbers of fields and methods of other deciding types. Facts in `model` have no limit.
const STATE: (usize, usize) = (12, 30);
/// Larger types, by folder, with their maximum numbers of fields and methods. These may only decrease.
const LARGE: [(&str, usize, usize); 9] = [
    ("engine/Engine", 12, 112),
    ("eviction/Departure", 13, 30),
    ("gate/Gates", 13, 30),
    ("gate/Waiting", 14, 30),
    ("leadership/Lease", 13, 30),
    ("services/Services", 14, 30),
    ("targets/Entry", 20, 39),
    ("targets/Group", 14, 48),
    ("targets/Registrations", 14, 115),
];

/// The name of a type without its generic arguments.
fn name(of: &Type) -> Option<String> {
    let Type::Path(path) = of else { return None };
    path.path.segments.last().map(|segment| segment.ident.to_string())
}

/// The structs and enums of a crate, each with the folder of its definition. A name with several definitions is left
/// out.
fn made_in(modules: &[Module]) -> BTreeMap<String, Option<&str>> {
    let mut all: BTreeMap<String, Option<&str>> = BTreeMap::new();
    for module in modules {
        let here = module.path.first().map_or("", String::as_str);
        for item in module.syntax.items.iter().filter(|item| !is_for_tests(item)) {
            let made = match item {
                Item::Struct(made) => made.ident.to_string(),
                Item::Enum(made) => made.ident.to_string(),
                _ => continue,
            };
            let twice = all.contains_key(&made);
            all.insert(made, Some(here).filter(|_| !twice));
        }
    }
    all
}

/// The inherent impls of types, each with its module.
fn own_impls(modules: &[Module]) -> impl Iterator<Item = (&Module, String, &ItemImpl)> {
    modules.iter().flat_map(|module| {
        module.syntax.items.iter().filter(|item| !is_for_tests(item)).filter_map(move |item| match item {
            Item::Impl(block) if block.trait_.is_none() => Some((module, name(&block.self_ty)?, block)),
            _ => None,
        })
    })
}

fn core() -> Vec<Module> {
    modules(&root().join("src/core/src/lib.rs"))
}

/// The deciding crates.
fn deciding() -> [Vec<Module>; 2] {
    [core(), modules(&root().join("src/daemonset/src/lib.rs"))]
}

/// The types of the fields of one of these.
fn fields(core: &[Module], of: &str) -> Vec<String> {
    let here = |module: &&Module| module.path.first().is_some_and(|name| name == "engine");
    let items = core.iter().filter(here).flat_map(|module| &module.syntax.items);
    let mut holders = items.filter_map(|item| match item {
        Item::Struct(made) if made.ident == of => Some(&made.fields),
        _ => None,
    });
    let Some(Fields::Named(fields)) = holders.next() else { panic!("there is no {of} with fields") };
    let fields = fields.named.iter().filter(|field| !field.attrs.iter().any(is_test));
    fields.filter_map(|field| name(&field.ty)).collect()
}

/// The public methods with a receiver of a type.
fn methods(core: &[Module], of: &str) -> BTreeSet<String> {
    let blocks = own_impls(core).filter(|(_, name, _)| name == of);
    let items = blocks.flat_map(|(_, _, block)| &block.items);
    let methods = items.filter_map(|item| match item {
        ImplItem::Fn(method)
            if matches!(method.vis, Visibility::Public(_))
                && method.sig.receiver().is_some()
                && !method.attrs.iter().any(is_test) =>
        {
            Some(method.sig.ident.to_string())
        }
        _ => None,
    });
    methods.collect()
}

#[test]
fn the_engine_has_few_fields_and_its_machines_small_faces() {
    let core = core();
    let mut machines = BTreeSet::new();
    for holder in HOLDERS {
        let fields = fields(&core, holder);
        println!("fields of {holder}: {}", fields.len());
        assert!(fields.len() <= FIELDS, "expected at most {FIELDS} fields in {holder}, found {fields:?}");
        machines.extend(fields);
    }
    let lines = core.iter().map(|module| {
        let end = module.text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(module.text.len());
        module.text[..end].lines().count()
    });
    println!("lines of the core without tests: {}", lines.sum::<usize>());
    let mut wrong = Vec::new();
    let is_none = |name: &String| name == "Settings" || name == "Option" || HOLDERS.contains(&&**name);
    for machine in machines.iter().filter(|name| !is_none(name)) {
        let methods = methods(&core, machine);
        println!("public methods of {machine}: {}", methods.len());
        assert!(!methods.is_empty(), "nothing can be asked of {machine}");
        if methods.len() > METHODS {
            wrong.push((machine, methods.len(), methods));
        }
    }
    assert!(wrong.is_empty(), "expected at most {METHODS}: {wrong:#?}");
}

/// The numbers of fields and methods of each deciding type, by its folder.
fn sizes(core: &[Module]) -> BTreeMap<String, (usize, usize)> {
    let mut all: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let folder = |module: &Module| module.path.first().cloned().filter(|name| name != "model");
    for module in core {
        let Some(here) = folder(module) else { continue };
        for item in module.syntax.items.iter().filter(|item| !is_for_tests(item)) {
            if let Item::Struct(made) = item {
                let size = all.entry(format!("{here}/{}", made.ident)).or_default();
                size.0 = size.0.max(made.fields.len());
            }
        }
    }
    for (module, name, block) in own_impls(core) {
        let Some(here) = folder(module) else { continue };
        let is_method =
            |item: &&ImplItem| matches!(item, ImplItem::Fn(method) if method.sig.receiver().is_some());
        all.entry(format!("{here}/{name}")).or_default().1 += block.items.iter().filter(is_method).count();
    }
    all
}

#[test]
fn what_decides_is_small_and_what_is_not_only_shrinks() {
    let sizes = sizes(&core());
    assert!(sizes.len() > 50, "{} types were read", sizes.len());
    let mut wrong = Vec::new();
    for (name, (fields, methods)) in &sizes {
        let large = LARGE.iter().find(|(large, ..)| large == name);
        let (most_fields, most_methods) = large.map_or(STATE, |(_, fields, methods)| (*fields, *methods));
        if *fields > most_fields || *methods > most_methods {
            wrong.push(format!(
                "{name}: {fields} fields of {most_fields}, {methods} methods of {most_methods}"
            ));
        } else if large.is_some() && *fields <= STATE.0 && *methods <= STATE.1 {
            wrong.push(format!("{name}: it is small; take it out of LARGE"));
        }
    }
    assert!(wrong.is_empty(), "expected at most {STATE:?}, or what LARGE says: {wrong:#?}");
}

/// The public fields of the structs of a module.
fn public_fields(module: &Module) -> impl Iterator<Item = String> {
    let structs = module.syntax.items.iter().filter_map(|item| match item {
        Item::Struct(made) if !is_for_tests(item) => Some(made),
        _ => None,
    });
    structs.flat_map(|made| {
        let public = made.fields.iter().filter(|field| matches!(field.vis, Visibility::Public(_)));
        public.map(|field| {
            format!("{}.{}", made.ident, field.ident.as_ref().map_or("0".into(), ToString::to_string))
        })
    })
}

#[test]
fn what_has_public_fields_is_in_the_model() {
    for modules in deciding() {
        let (model, others): (Vec<&Module>, _) =
            modules.iter().partition(|module| module.path.first().is_some_and(|name| name == "model"));
        let in_model = model.into_iter().flat_map(public_fields).count();
        println!("public fields in the model: {in_model}");
        assert!(in_model > 0, "nothing was read");
        let outside: Vec<String> = others.into_iter().flat_map(public_fields).collect();
        assert!(outside.is_empty(), "move public fields to the folder model of the crate: {outside:#?}");
    }
}

#[test]
fn methods_of_a_type_are_in_the_folder_that_it_is_made_in() {
    for modules in deciding() {
        let made_in = made_in(&modules);
        let strangers: Vec<String> = own_impls(&modules)
            .filter_map(|(module, name, _)| {
                let home = (*made_in.get(&name)?)?;
                let here = module.path.first().map_or("", String::as_str);
                (home != here).then(|| format!("{name} of {home}/ in {}", module.path.join("/")))
            })
            .collect();
        assert!(strangers.is_empty(), "these are methods of another folder's type: {strangers:#?}");
    }
}
