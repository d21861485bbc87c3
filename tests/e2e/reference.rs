//! The pages of `docs/reference` that are generated from files and tables of the code. `make docs` writes them.
//!
//! Tests of other crates generate the pages about metrics and the command line.

use std::{fmt::Write, fs};

use headgate_core::model::limits;
use headgate_harness::root;
use serde_json::Value;

const BEGIN: &str = "<!-- generated from the code: make docs -->\n";
const END: &str = "<!-- end -->\n";

/// Compares the text between the markers of a page with the expected one, or writes it.
fn compare(page: &str, wanted: &str) {
    let path = root().join("docs/reference").join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap_or_else(|| panic!("{page} has no line {BEGIN}"));
    let (written, after) = rest.split_once(END).unwrap_or_else(|| panic!("{page} has no line {END}"));
    if std::env::var_os("HEADGATE_WRITE_DOCS").is_some() {
        fs::write(&path, [before, BEGIN, wanted, END, after].concat()).unwrap();
        return;
    }
    assert!(
        written == wanted,
        "docs/reference/{page} is out of date: run `make docs` and commit what it writes. Expected:\n{wanted}"
    );
}

/// A text as a table cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}

/// A field of a kind.
struct Field<'a> {
    path: String,
    schema: &'a Value,
    is_required: bool,
}

/// Fields whose parts belong to Kubernetes' own kinds.
const NOT_OURS: [&str; 3] = ["spec.template.spec", "status.conditions", "spec.namespaces.selector"];

/// All fields of a schema, each followed by its parts.
fn fields<'a>(path: &str, schema: &'a Value, found: &mut Vec<Field<'a>>) {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let is_required = required.contains(&&**name);
        if path != "spec" && path != "status" {
            found.push(Field { path: path.clone(), schema, is_required });
        }
        if NOT_OURS.contains(&&*path) {
            continue;
        }
        fields(&path, schema, found);
        fields(&format!("{path}[]"), &schema["items"], found);
    }
}

/// The type of a field, with its limits.
fn kind(schema: &Value) -> String {
    let text = |name: &str| schema[name].as_str();
    let name = match (text("type"), text("format")) {
        _ if schema["x-kubernetes-int-or-string"] == true => "integer or string",
        (Some("array"), _) => match schema["items"]["type"].as_str() {
            Some("object") => "list of objects",
            _ => "list of strings",
        },
        (Some("object"), _) if schema["additionalProperties"].is_object() => "map of strings",
        (Some("string"), Some("byte")) => "bytes (base64)",
        (Some("string"), Some("date-time")) => "time",
        (Some(name), _) => name,
        (None, _) => "object",
    };
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> =
            values.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return values.join(", ");
    }
    let number = |name: &str| schema[name].as_f64();
    let range = match (number("minimum"), number("maximum"), number("maxItems")) {
        (Some(least), Some(most), _) => format!(", {least} to {most}"),
        (_, _, Some(most)) => format!(", at most {most}"),
        _ => String::new(),
    };
    format!("{name}{range}")
}

/// A default in the form of a manifest. The default of an object follows from its fields.
fn default(schema: &Value) -> String {
    match &schema["default"] {
        Value::Null | Value::Object(_) => String::new(),
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}

/// The section of a kind.
fn section(definition: &Value) -> String {
    let names = &definition["spec"]["names"];
    let version = &definition["spec"]["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    let mut text = format!("\n## {}\n\n", names["kind"].as_str().unwrap());
    writeln!(text, "{}\n", cell(schema["description"].as_str().unwrap())).unwrap();
    let scope = if definition["spec"]["scope"] == "Cluster" { "cluster-scoped" } else { "namespaced" };
    writeln!(
        text,
        "`{}/{}`, {scope}, short name `{}`.",
        definition["spec"]["group"].as_str().unwrap(),
        version["name"].as_str().unwrap(),
        names["shortNames"][0].as_str().unwrap()
    )
    .unwrap();
    let mut found = Vec::new();
    fields("", schema, &mut found);
    for part in ["spec", "status"] {
        let its: Vec<&Field> = found.iter().filter(|field| field.path.starts_with(part)).collect();
        if its.is_empty() {
            continue;
        }
        writeln!(text, "\n| field | type | default | description |\n|---|---|---|---|").unwrap();
        for Field { path, schema, is_required } in its {
            let default = if *is_required { "required".to_owned() } else { default(schema) };
            let said = cell(schema["description"].as_str().unwrap_or_default());
            writeln!(text, "| `{path}` | {} | {default} | {said} |", kind(schema)).unwrap();
        }
    }
    text
}

#[test]
fn the_api_reference_lists_every_field_as_the_definitions_describe_it() {
    let text = fs::read_to_string(root().join("config/crd/headgate.dev.yaml")).unwrap();
    let definitions: Vec<Value> =
        text.split("\n---\n").skip(1).map(|document| serde_saphyr::from_str(document).unwrap()).collect();
    assert_eq!(definitions.len(), 4, "the kinds of Headgate");
    let sections: String = definitions.iter().map(section).collect();
    assert!(sections.contains("| `spec.targetGroup` | object | required |"), "{sections}");
    compare("api.md", &format!("{sections}\n"));
}

#[test]
fn the_page_on_limits_lists_every_limit() {
    let mut table = String::from("\n| what | at most | beyond the limit |\n|---|---|---|\n");
    for limits::Limit { what, most, unit, effect, .. } in limits::ALL {
        let what: Vec<String> = what
            .split(' ')
            .map(|word| if word.contains('/') { format!("`{word}`") } else { word.to_owned() })
            .collect();
        writeln!(table, "| {} | {most}{unit} | {effect} |", what.join(" ")).unwrap();
    }
    table.push('\n');
    compare("limits.md", &table);
}

#[test]
fn a_field_is_shown_with_its_type_its_bounds_and_its_default() {
    let schema = serde_json::json!({"required": ["spec"], "properties": {"spec": {
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "description": "The name | of it."},
            "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "parts": {"type": "array", "maxItems": 3, "items": {"type": "object", "properties": {
                "size": {"type": "integer", "minimum": 1.0, "maximum": 9.0, "default": 2},
            }}},
        },
    }}});
    let mut found = Vec::new();
    fields("", &schema, &mut found);
    let shown: Vec<_> = found
        .iter()
        .map(|field| (&*field.path, kind(field.schema), default(field.schema), field.is_required))
        .collect();
    let expected = [
        ("spec.mode", "`a`, `b`", "`a`", false),
        ("spec.name", "string", "", true),
        ("spec.parts", "list of objects, at most 3", "", false),
        ("spec.parts[].size", "integer, 1 to 9", "`2`", false),
    ];
    assert_eq!(
        shown,
        expected.map(|(path, kind, default, is)| (path, kind.to_owned(), default.to_owned(), is))
    );
    assert_eq!(cell("The name | of\n it <x>."), "The name \\| of it &lt;x>.");
}
